"""Importing: the layouts of the authors become ours, and are read back."""

import gzip

import pytest

from sen2pro import Sen2ProError
from sen2pro_lab.paper import data
from sen2pro_lab.paper.data import EvalRank, Response, Segment
from sen2pro_lab.paper.import_data import SUBTASKS, import_data, main


@pytest.fixture
def source(tmp_path):
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SEN2PRO_DATA", str(folder))
    return folder


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# ---- SentEval


def senteval(source, year=16):
    """Two pairs a sub-task, the second without a gold score in the first sub-task."""
    folder = source / "STS" / f"STS{year}-en-test"
    for number, subtask in enumerate(SUBTASKS[year]):
        write(folder / f"STS.input.{subtask}.txt", f"{subtask} one\tleft and right", f'{subtask} "two\tü')
        write(folder / f"STS.gs.{subtask}.txt", "4.200", "" if number == 0 else "0")
    return folder


def test_sts_pairs_without_a_gold_score_are_dropped(source, target):
    senteval(source)
    assert import_data("senteval", source) == [target / "sts/sts16.tsv.gz"]
    pairs = data.read_sts("sts16")
    assert len(pairs) == 2 * 5 - 1
    assert pairs.subtasks[:3] == ("answer-answer", "headlines", "headlines")
    assert pairs.left[:3] == ("answer-answer one", "headlines one", 'headlines "two')
    assert pairs.right[:3] == ("left and right", "left and right", "ü")
    assert pairs.gold[:3].tolist() == [4.2, 4.2, 0.0]


def test_the_line_of_the_original_is_kept(source, target):
    folder = senteval(source, 13)
    write(folder / "STS.gs.FNWN.txt", "", "3")
    import_data("senteval", source)
    with gzip.open(target / "sts/sts13.tsv.gz", "rt", encoding="utf-8") as file:
        assert file.readlines()[:2] == ["subtask\tline\tscore\tsentence1\tsentence2\n", 'FNWN\t1\t3.0\tFNWN "two\tü\n']


def test_sts13_is_read_without_its_licensed_subtask(source, target):
    folder = senteval(source, 13)
    write(folder / "STS.input.SMT.txt", "a\tb")
    write(folder / "STS.gs.SMT.txt", "1")
    import_data("senteval", source)
    assert set(data.read_sts("sts13").subtasks) == {"FNWN", "headlines", "OnWN"}


def test_an_incomplete_year_is_refused_and_nothing_is_written(source, target):
    (senteval(source) / "STS.gs.plagiarism.txt").unlink()
    senteval(source, 13)
    with pytest.raises(Sen2ProError, match="there is no STS.gs.plagiarism.txt"):
        import_data("senteval", source)
    assert list(target.rglob("*")) == []


def test_scores_that_do_not_pair_up_are_refused_with_both_counts(source, target):
    write(senteval(source) / "STS.gs.headlines.txt", "1", "2", "3")
    with pytest.raises(Sen2ProError, match="input.headlines.txt has 2 lines, but .*gs.headlines.txt has 3"):
        import_data("senteval", source)


def test_a_score_out_of_range_is_refused_with_its_line(source, target):
    write(senteval(source) / "STS.gs.headlines.txt", "1", "6")
    with pytest.raises(Sen2ProError, match="STS.gs.headlines.txt, line 2, column 'score': 6 is not within 0 and 5"):
        import_data("senteval", source)


def test_the_sts_benchmark_has_no_header_and_may_have_more_columns(source, target):
    folder = source / "STS" / "STSBenchmark"
    write(folder / "sts-dev.csv", "main-news\tMSRpar\t2012test\t0001\t2.500\tA cat.\tA dog.\textra\tcolumns")
    write(folder / "sts-test.csv", "main-news\tMSRpar\t2012test\t0002\t0\tE.\tF.")
    written = import_data("senteval", source)
    assert [path.name for path in written] == ["stsb_dev.tsv.gz", "stsb_test.tsv.gz"]
    pairs = data.read_sts("stsb_dev")
    assert (pairs.left, pairs.right, pairs.gold.tolist()) == (("A cat.",), ("A dog.",), [2.5])
    assert data.read_sts("stsb_test").gold.tolist() == [0.0]


def test_sick_is_read_below_its_header(source, target):
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    write(source / "SICK" / "SICK_test_annotated.txt", header, "7\tA cat.\tA dog.\t1\tNEUTRAL")
    write(source / "SICK" / "SICK_trial.txt", header, "8\tA.\tB.\t4.7\tENTAILMENT")
    import_data("senteval", source)
    pairs = data.read_sts("sick_test")
    assert (pairs.left, pairs.right, pairs.gold.tolist()) == (("A cat.",), ("A dog.",), [1.0])
    assert data.read_sts("sick_trial").gold.tolist() == [4.7]


def test_a_line_with_too_few_fields_is_refused_with_its_number(source, target):
    write(source / "STS" / "STSBenchmark" / "sts-dev.csv", "g\tf\ty\t1\t2.5\tA.\tB.", "g\tf\ty\t1\t2.5\tA.")
    with pytest.raises(Sen2ProError, match="sts-dev.csv, line 2: 6 fields"):
        import_data("senteval", source)


# ---- EvalRank


@pytest.mark.parametrize("inside", ["data/sent_evalrank", "."])
def test_evalrank_is_found_in_its_repository_or_alone(source, target, inside):
    write(source / inside / "pos_pair.txt", "a b\tc", "c\ta b")
    write(source / inside / "background_sent.txt", "a b", "c", "d")
    import_data("evalrank", source)
    assert data.read_evalrank() == EvalRank((("a b", "c"), ("c", "a b")), ("a b", "c", "d"))


def test_evalrank_without_its_background_is_refused(source, target):
    write(source / "pos_pair.txt", "a\tb")
    with pytest.raises(Sen2ProError, match="there is no background_sent.txt"):
        import_data("evalrank", source)


# ---- GRADE


def grade(source):
    for system, score in (("ranker", "3.5"), ("generator", "1")):
        texts = source / "evaluation" / "eval_data" / "empatheticdialogues" / system
        write(texts / "human_ctx.txt", "hello |||how are you ?")
        write(texts / "human_hyp.txt", f"i am {system} .")
        write(texts / "human_ref.txt", "fine .")
        write(source / "evaluation" / "human_score" / "empatheticdialogues" / system / "human_score.txt", score)


def test_grade_joins_texts_and_scores_of_every_system(source, target):
    grade(source)
    assert import_data("grade", source) == [target / "dialogue/grade_empatheticdialogues.jsonl.gz"]
    assert data.read_dialogue("grade_empatheticdialogues") == [
        Response(0, "generator", "fine .", "i am generator .", 1.0, "generator"),
        Response(0, "ranker", "fine .", "i am ranker .", 3.5, "ranker"),
    ]
    with gzip.open(target / "dialogue/grade_empatheticdialogues.jsonl.gz", "rt") as file:
        assert '"context": ["hello", "how are you ?"]' in file.readline()


def test_grade_texts_and_scores_of_unequal_length_are_refused(source, target):
    grade(source)
    write(source / "evaluation/human_score/empatheticdialogues/ranker/human_score.txt", "1", "2")
    with pytest.raises(Sen2ProError, match="human_ctx.txt has 1 lines, but .*human_score.txt has 2"):
        import_data("grade", source)


# ---- WMT17


def wmt17(source):
    """The official package, small: two segments, two systems, and a pair we do not read."""
    texts = source / "input" / "wmt17-metrics-task" / "txt"
    write(texts / "references" / "newstest2017-csen-ref.en", "it &apos;s a cat", "dogs &amp; cats")
    write(texts / "sources" / "newstest2017-csen-src.cs", "kočka", "psi")
    write(texts / "system-outputs" / "cs-en" / "newstest2017.online-A.0.cs-en", "a cat", "the same")
    write(texts / "system-outputs" / "cs-en" / "newstest2017.uedin-nmt.4955.cs-en", "", "the same")
    write(texts / "references" / "newstest2017-encs-ref.cs", "kočka", "psi")
    manual = source / "manual-evaluation"
    write(manual / "DA-syslevel.csv", "LP HUMAN SYSTEM", "cs-en 0.181 uedin-nmt.4955", "cs-en -0.5 online-A.0",
          "en-cs 1 online-A.0")  # fmt: skip
    write(manual / "DA-seglevel.csv", "LP DATA SYSTEM SID HUMAN", "en-cs newstest2017 online-A.0 1 1",
          "cs-en newstest2017 online-A.0 1 -0.25", "cs-en newstest2017 online-A.0+uedin-nmt.4955 2 0.75")  # fmt: skip
    return manual


def test_wmt17_joins_references_outputs_and_human_scores(source, target):
    wmt17(source)
    names = [path.relative_to(target).as_posix() for path in import_data("wmt17", source)]
    assert names == ["wmt17/cs-en.tsv.gz", "wmt17/da_sys.tsv.gz", "wmt17/da_seg.jsonl.gz"]
    systems = data.read_wmt_systems("cs-en")
    assert systems.references == ("it 's a cat", "dogs & cats")  # the escapes of the tokenizer undone
    assert systems.outputs == {"uedin-nmt.4955": ("", "the same"), "online-A.0": ("a cat", "the same")}
    assert systems.human == {"uedin-nmt.4955": 0.181, "online-A.0": -0.5}
    assert data.read_wmt_segments("cs-en") == [
        Segment("it 's a cat", "a cat", -0.25),
        Segment("dogs & cats", "the same", 0.75),
    ]


def test_wmt17_without_a_systems_output_is_refused(source, target):
    manual = wmt17(source)
    write(manual / "DA-syslevel.csv", "LP HUMAN SYSTEM", "cs-en 1 ghost.1")
    with pytest.raises(Sen2ProError, match="there are 0 files newstest2017.ghost.1.cs-en"):
        import_data("wmt17", source)


def test_wmt17_with_two_copies_of_a_file_is_refused(source, target):
    wmt17(source)
    write(source / "copy" / "DA-syslevel.csv", "LP HUMAN SYSTEM")
    with pytest.raises(Sen2ProError, match="there are 2 files DA-syslevel.csv"):
        import_data("wmt17", source)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["LP SYSTEM HUMAN"], "line 1: there is no column 'SID'"),
        (["LP SYSTEM SID HUMAN", "cs-en online-A.0 1"], "line 2: 3 fields, but the header has 4"),
        (["LP SYSTEM SID HUMAN", "cs-en online-A.0 3 1"], "line 2, column 'SID': 3 is not within 0 and 2"),
        (["LP SYSTEM SID HUMAN", "cs-en online-A.0 0 1"], "line 2, column 'SID': segments are numbered from 1"),
        (["LP SYSTEM SID HUMAN", "cs-en ghost 1 1"], "line 2, column 'SYSTEM': ghost has no score"),
        (["LP SYSTEM SID HUMAN", "cs-en online-A.0 1 x"], "line 2, column 'HUMAN': 'x' is not a number"),
    ],
)
def test_malformed_segment_scores_are_refused_with_their_line(source, target, lines, said):
    write(wmt17(source) / "DA-seglevel.csv", *lines)
    with pytest.raises(Sen2ProError, match=f"DA-seglevel.csv, {said}"):
        import_data("wmt17", source)


# ---- what holds for all


def test_the_target_is_made_and_goes_before_the_variable(source, target, tmp_path):
    senteval(source)
    other = tmp_path / "a" / "b"
    assert import_data("senteval", source, other) == [other / "sts/sts16.tsv.gz"]
    assert list(target.rglob("*")) == []


def test_the_same_source_gives_the_same_bytes_and_no_leftovers(source, target, tmp_path):
    senteval(source)
    first, second = (import_data("senteval", source, tmp_path / name)[0] for name in ("x", "y"))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[4:8] == bytes(4)  # where gzip would note the time (RFC 1952)
    assert [path.name for path in first.parent.iterdir()] == ["sts16.tsv.gz"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_file_that_exists_is_never_replaced(source, target, suffix):
    senteval(source)
    write(target / f"sts/sts16.tsv{suffix}", "mine")
    with pytest.raises(Sen2ProError, match=f"there is sts/sts16.tsv{suffix} in .* already"):
        import_data("senteval", source)
    assert (target / f"sts/sts16.tsv{suffix}").read_text() == "mine\n"


def test_no_target_no_source_no_data_and_no_such_kind_are_errors(source, target, monkeypatch):
    with pytest.raises(Sen2ProError, match="unknown kind of data 'sentval'; did you mean 'senteval'"):
        import_data("sentval", source)
    with pytest.raises(Sen2ProError, match="there is no folder"):
        import_data("senteval", source)
    source.mkdir()
    for kind in ("senteval", "evalrank", "wmt17", "grade"):
        with pytest.raises(Sen2ProError, match=f"no data of {kind}"):
            import_data(kind, source)
    monkeypatch.delenv("SEN2PRO_DATA")
    with pytest.raises(Sen2ProError, match="--to FOLDER"):
        import_data("senteval", source)


def test_the_command_prints_the_files_written(source, target, capsys):
    senteval(source)
    main(["senteval", str(source)])
    assert capsys.readouterr().out == f"-> {target / 'sts' / 'sts16.tsv.gz'}\n"


def test_the_command_says_what_is_wrong_without_a_traceback(source, target, capsys):
    with pytest.raises(SystemExit):
        main(["senteval", str(source)])
    assert capsys.readouterr().err == f"there is no folder {source}; give the one with the data of senteval\n"
