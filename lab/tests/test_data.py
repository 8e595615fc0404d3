"""Evaluation data: found, read, checked, and the errors when it is missing or malformed."""

import gzip
import hashlib
import json
import lzma
import time
from collections import Counter

import numpy as np
import pytest

from sen2pro import Sen2ProError
from sen2pro_lab.cli.data import list_sets
from sen2pro_lab.metrics.sts import Pairs
from sen2pro_lab.paper import catalogue, data
from sen2pro_lab.paper.data import DataMissing, EvalRank, Quadruple, Response

STS = "subtask\tscore\tsentence1\tsentence2\n"
PAIR = "news\t2.5\tA cat sleeps.\tA cat naps.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and no hub."""
    from huggingface_hub import constants

    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.fixture
def real(monkeypatch):
    found = catalogue.folder()
    if found is None:
        pytest.skip("no evaluation data here; SEN2PRO_DATA names a folder, and sen2pro data list says how to fill it")
    monkeypatch.setenv("SEN2PRO_DATA", str(found))
    return found


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    openers = {".gz": gzip.open, ".xz": lzma.open}
    with openers.get(path.suffix, open)(path, "wt", encoding="utf-8", newline="\n") as file:
        file.write(text)


def write_objects(path, *rows):
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


# ---- where the data is


def test_the_folder_is_the_one_the_variable_names(folder):
    assert catalogue.folder() == folder


def test_a_variable_that_names_no_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(Sen2ProError, match="SEN2PRO_DATA is .*nowhere.* not a folder"):
        catalogue.folder()


def test_without_the_variable_there_is_no_folder_whatever_lies_beside_the_current_one(monkeypatch, tmp_path):
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.delenv("SEN2PRO_DATA", raising=False)
    monkeypatch.chdir(tmp_path / "here")
    assert catalogue.folder() is None


def test_a_folder_can_be_chosen_for_a_while_and_goes_before_the_variable(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    with catalogue.reading_from(str(other)):
        assert catalogue.folder() == other
    assert catalogue.folder() == folder
    with catalogue.reading_from(str(tmp_path / "nowhere")):
        with pytest.raises(Sen2ProError, match="--data is .*nowhere.* not a folder"):
            catalogue.folder()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_file_is_read_plain_gzipped_or_xz(folder, suffix):
    write(folder / f"sts/sts16.tsv{suffix}", STS + PAIR)
    assert data.read_sts("sts16").left == ("A cat sleeps.",)


def test_missing_data_names_the_file_its_source_and_the_import(folder):
    with pytest.raises(DataMissing) as error:
        data.read_sts("sick_test")
    for part in (
        "sts/sick_test.tsv",
        "github.com/facebookresearch/SentEval",
        "sen2pro_lab.paper.import_data senteval SOURCE",
    ):
        assert part in str(error.value)


def test_missing_data_that_no_import_makes_says_its_columns(folder):
    with pytest.raises(DataMissing, match="rali-udem/sats-sentence-analogy.*relation, a, b"):
        data.read_analogy("sats")


def test_an_unknown_set_names_the_nearest():
    with pytest.raises(Sen2ProError, match="did you mean 'stsb_test'"):
        data.read_sts("stsb-test")


# ---- the readers


def test_sts_has_sentences_scores_and_subtasks(folder):
    write(folder / "sts/sts16.tsv", STS + PAIR + 'forum\t5\tHe said "no.\tHe said no.\n')
    pairs = data.read_sts("sts16")
    assert pairs.subtasks == ("news", "forum")
    assert pairs.left == ("A cat sleeps.", 'He said "no.')  # a quotation mark is a character like any other
    assert pairs.right == ("A cat naps.", "He said no.")
    np.testing.assert_array_equal(pairs.gold, [2.5, 5.0])
    assert len(pairs) == 2


def test_sts_without_a_subtask_column_has_empty_labels(folder):
    write(folder / "sts/stsb_dev.tsv", "score\tsentence1\tsentence2\n0\ta\tb\n")
    assert data.read_sts("stsb_dev").subtasks == ("",)


def test_evalrank_has_pairs_and_background(folder):
    write(folder / "evalrank/pos_pair.tsv", "sentence1\tsentence2\na\tb\nb\ta\n")
    write(folder / "evalrank/background_sent.tsv", "sentence\na\nb\nc\n")
    assert data.read_evalrank() == EvalRank((("a", "b"), ("b", "a")), ("a", "b", "c"))


def test_evalrank_refuses_a_pair_whose_sentence_is_not_in_the_background(folder):
    write(folder / "evalrank/pos_pair.tsv", "sentence1\tsentence2\na\tb\na\tz\n")
    write(folder / "evalrank/background_sent.tsv", "sentence\na\nb\n")
    with pytest.raises(Sen2ProError, match="pos_pair.tsv, line 3, column 'sentence2': 'z' is not in background_sent"):
        data.read_evalrank()


def test_sats_joins_neighbouring_pairs_of_a_relation_in_a_ring(folder):
    rows = ["x\ta1\tb1", "y\tp1\tq1", "x\ta2\tb2", "x\ta3\tb3", "y\tp2\tq2"]
    write(folder / "analogy/sats_pairs.tsv", "relation\ta\tb\n" + "\n".join(rows) + "\n")
    assert data.read_analogy("sats") == [
        Quadruple("x", "a1", "b1", "a2", "b2"),
        Quadruple("x", "a2", "b2", "a3", "b3"),
        Quadruple("x", "a3", "b3", "a1", "b1"),
        Quadruple("y", "p1", "q1", "p2", "q2"),
        Quadruple("y", "p2", "q2", "p1", "q1"),
    ]


def test_sats_refuses_a_relation_of_one_pair(folder):
    write(folder / "analogy/sats_pairs.tsv", "relation\ta\tb\nalone\ta\tb\n")
    with pytest.raises(Sen2ProError, match="'alone' has one pair"):
        data.read_analogy("sats")


def test_dialogue_takes_the_mean_of_criteria_and_the_system_as_origin(folder):
    row = {"item": 3, "system": "s", "reference": "yes", "response": "no", "human": [1, 2, 4.5]}
    write_objects(folder / "dialogue/extra_daily_z.jsonl", row, {**row, "human": 2, "origin": "t"})
    assert data.read_dialogue("extra_daily_z") == [
        Response(3, "s", "yes", "no", 2.5, "s"),  # (1 + 2 + 4.5) / 3
        Response(3, "s", "yes", "no", 2.0, "t"),
    ]


def test_wmt_keeps_the_systems_that_have_both_a_score_and_an_output(folder):
    write(folder / "wmt17/zh-en.tsv", "sid\tsource\treference\tone\ttwo\n1\tx\tr1\to1\tt1\n2\ty\tr2\t\tt2\n")
    write(folder / "wmt17/da_sys.tsv", "lp\tsystem\thuman\nzh-en\tone\t-0.5\nzh-en\tghost\t1\ncs-en\ttwo\t1\n")
    systems = data.read_wmt_systems("zh-en")
    assert systems.references == ("r1", "r2")
    assert systems.outputs == {"one": ("o1", "")}  # a system may say nothing
    assert systems.human == {"one": -0.5}


def test_wmt_without_any_scored_system_is_missing_data(folder):
    write(folder / "wmt17/zh-en.tsv", "sid\treference\tone\n1\tr\to\n")
    write(folder / "wmt17/da_sys.tsv", "lp\tsystem\thuman\ncs-en\tone\t1\n")
    with pytest.raises(DataMissing, match="no system of wmt17/zh-en.tsv has a human score"):
        data.read_wmt_systems("zh-en")


def test_wmt_segments_are_those_of_the_pair(folder):
    row = {"lp": "ru-en", "reference": "r", "hypothesis": "h", "human": -1.25}
    write_objects(folder / "wmt17/da_seg.jsonl.gz", row, {**row, "lp": "cs-en"})
    assert data.read_wmt_segments("ru-en") == [data.Segment("r", "h", -1.25)]
    with pytest.raises(DataMissing, match="no segments of tr-en"):
        data.read_wmt_segments("tr-en")


def test_classification_puts_the_title_before_the_text(folder):
    write_objects(
        folder / "textcls/ag_news_val.jsonl.xz", {"label": 3, "title": "T", "text": "x"}, {"label": 0, "text": "y"}
    )
    labelled = data.read_classification("ag_news", "val")
    assert labelled.texts == ("T x", "y")
    assert labelled.labels.tolist() == [3, 0]
    assert labelled.names == ("World", "Sports", "Business", "Sci/Tech")


# ---- a part of a set


def test_head_keeps_the_share_of_every_subtask_and_the_order():
    # 30 of a and 30 of b by turns: of 6, three come from each, though every tenth of all would be a b each time.
    subtasks = tuple("ab" * 30)
    texts = tuple(map(str, range(60)))
    pairs = Pairs("toy", subtasks, texts, texts, np.arange(60.0))
    part = pairs.head(6)
    assert Counter(part.subtasks) == {"a": 3, "b": 3}
    assert part.gold.tolist() == sorted(part.gold.tolist())
    assert part.left == part.right == tuple(str(int(gold)) for gold in part.gold)
    assert pairs.head(6).left == part.left
    assert pairs.head(100).left == texts


def test_head_of_evalrank_keeps_the_sentences_of_its_pairs():
    background = tuple(f"s{i}" for i in range(100))
    evalrank = EvalRank(tuple((f"s{i}", f"s{i + 50}") for i in range(10)), background)
    part = evalrank.head(2)  # the middles of 0-4 and 5-9: pairs 2 and 7
    assert part.pairs == (("s2", "s52"), ("s7", "s57"))
    assert len(part.background) == 4 + 20
    assert part.background == (*background[:22], "s52", "s57")  # s2, s7 and 20 others come first


def test_a_part_of_nothing_is_refused():
    with pytest.raises(Sen2ProError, match="limit is 0"):
        Pairs("toy", ("",), ("a",), ("b",), np.zeros(1)).head(0)


# ---- malformed files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("score\tsentence1\n1\ta\n", "line 1: there is no column 'sentence2'"),
        ("score\tscore\tsentence1\tsentence2\n", "line 1: a column occurs more than once"),
        (STS + PAIR + "news\t1\tA cat.\n", "line 3: 3 fields, but the header has 4"),
        (STS + "news\thigh\ta\tb\n", "line 2, column 'score': 'high' is not a number"),
        (STS + "news\tnan\ta\tb\n", "line 2, column 'score': 'nan' is not a number"),
        (STS + "news\t5.1\ta\tb\n", "line 2, column 'score': 5.1 is not within 0 and 5"),
        (STS + "news\t1\t \tb\n", "line 2, column 'sentence1': is blank"),
        (STS, "sts/sts16.tsv is empty"),
        ("", "line 1: there is no column 'score'"),
    ],
)
def test_a_malformed_table_is_refused_with_file_line_and_column(folder, text, said):
    write(folder / "sts/sts16.tsv", text)
    with pytest.raises(Sen2ProError) as error:
        data.read_sts("sts16")
    assert "sts16.tsv" in str(error.value)
    assert said in str(error.value)


def test_sick_scores_begin_at_one(folder):
    write(folder / "sts/sick_test.tsv", "score\tsentence1\tsentence2\n0.5\ta\tb\n")
    with pytest.raises(Sen2ProError, match="0.5 is not within 1 and 5"):
        data.read_sts("sick_test")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"label": 1', "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('{"label": 1}', "line 2, column 'text': is missing; there are label"),
        ('{"text": "a"}', "line 2, column 'label': is missing"),
        ('{"label": 2, "text": "a"}', "line 2, column 'label': 2 is not within 0 and 1"),
        ('{"label": 0.5, "text": "a"}', "line 2, column 'label': 0.5 is no whole number"),
        ('{"label": true, "text": "a"}', "line 2, column 'label': True is not a number"),
        ('{"label": 1, "text": 7}', "line 2, column 'text': not a text but 7"),
        ('{"label": 1, "text": ""}', "line 2, column 'text': is blank"),
        ('{"label": 1, "text": "\\ud800"}', "line 2, column 'text': holds a NUL or half a surrogate pair"),
    ],
)
def test_malformed_json_lines_are_refused_with_file_line_and_column(folder, line, said):
    write(folder / "textcls/imdb_test.jsonl.gz", '{"label": 0, "text": "fine"}\n' + line + "\n")
    with pytest.raises(Sen2ProError) as error:
        data.read_classification("imdb", "test")
    assert f"imdb_test.jsonl.gz, {said}" in str(error.value)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("damage", ["cut", "not compressed"])
def test_a_damaged_archive_is_refused(folder, suffix, damage):
    path = folder / f"sts/sts16.tsv{suffix}"
    write(path, STS + PAIR * 5000)
    path.write_bytes(path.read_bytes()[:-20] if damage == "cut" else b"score\tsentence1\tsentence2\n")
    with pytest.raises(Sen2ProError, match=f"sts16.tsv.* is not a whole {'gzip' if suffix == '.gz' else 'xz'} file"):
        data.read_sts("sts16")


def test_bytes_that_are_not_utf8_are_refused_with_their_line(folder):
    write(folder / "sts/sts16.tsv", STS)
    with (folder / "sts/sts16.tsv").open("ab") as file:
        file.write(b"news\t1\tcaf\xe9\tb\n")
    with pytest.raises(Sen2ProError, match="sts16.tsv, line 2: not UTF-8"):
        data.read_sts("sts16")


# ---- the hub


@pytest.fixture
def hub(folder, monkeypatch, tmp_path_factory):
    """A folder that `datasets` reads as it reads a repository on the hub, under the name of every set."""
    import datasets

    repository = tmp_path_factory.mktemp("repository")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    for name, (_, split) in list(catalogue.HUB.items()):
        monkeypatch.setitem(catalogue.HUB, name, (str(repository), split))
    return repository


def test_sts_comes_from_the_hub_where_the_folder_has_none(hub):
    rows = [{"sentence1": "a", "sentence2": "b", "score": 4.5}, {"sentence1": "c", "sentence2": "d", "score": 0.0}]
    write_objects(hub / "validation.jsonl", *rows)
    write_objects(hub / "test.jsonl", rows[1])
    pairs = data.read_sts("stsb_dev")
    assert (pairs.left, pairs.right, pairs.subtasks) == (("a", "c"), ("b", "d"), ("", ""))
    assert pairs.gold.tolist() == [4.5, 0.0]


def test_the_folder_goes_before_the_hub(folder, hub):
    write_objects(hub / "test.jsonl", {"sentence1": "hub", "sentence2": "hub", "score": 1.0})
    write(folder / "sts/sts16.tsv", STS + PAIR)
    assert data.read_sts("sts16").left == ("A cat sleeps.",)


def test_a_bad_row_of_the_hub_is_refused_with_its_number(hub):
    write_objects(hub / "test.jsonl", {"sentence1": "a", "sentence2": "b", "score": 7.0})
    with pytest.raises(Sen2ProError, match="on the hub, row 1, column 'score': 7 is not within 0 and 5"):
        data.read_sts("sts16")


def test_texts_of_the_hub_have_the_form_of_ours(hub):
    write_objects(hub / "test.jsonl", {"label": 1, "text": "Good.<br /><br />Very."})
    assert data.read_classification("imdb", "test").texts == ("Good.  Very.",)  # a blank for each break
    write_objects(hub / "test.jsonl", {"label": 13, "title": "Emma", "content": "A novel."})
    assert data.read_classification("dbpedia14", "test").texts == ("Emma A novel.",)


def test_sick_test_is_never_taken_from_the_hub(hub):
    write_objects(hub / "test.jsonl", {"sentence1": "a", "sentence2": "b", "score": 3.0})
    with pytest.raises(DataMissing):
        data.read_sts("sick_test")


def test_a_hub_that_does_not_have_it_is_missing_data(hub):
    with pytest.raises(DataMissing, match="cannot be had from the hub"):
        data.read_sts("sts16")


def test_a_hub_that_cannot_be_reached_is_missing_data_at_once(folder, monkeypatch, capfd):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens on the discard port
    catalogue._reachable.cache_clear()
    start = time.monotonic()
    with pytest.raises(DataMissing, match="the Hugging Face hub cannot be reached"):
        data.read_sts("sts16")
    catalogue._reachable.cache_clear()
    assert time.monotonic() - start < 10  # datasets itself tries for more than 20 seconds
    assert capfd.readouterr().err == ""


# ---- the listing


def test_the_listing_says_what_is_there_and_what_is_not(folder):
    write(folder / "sts/sts16.tsv", STS + PAIR + PAIR)
    write(folder / "evalrank/pos_pair.tsv", "sentence1\tsentence2\na\tb\n")  # without its background
    write_objects(folder / "wmt17/da_seg.jsonl.gz", {"lp": "cs-en"})
    lines = {line.name: line for line in catalogue.listing()}
    digest = hashlib.sha256((STS + PAIR + PAIR).encode()).hexdigest()[:8]
    assert (lines["sts16"].found, lines["sts16"].rows, lines["sts16"].sha256) == ("folder", 2, (digest,))
    assert lines["wmt17 segments"].rows == 1
    assert (lines["evalrank"].found, lines["evalrank"].rows, lines["evalrank"].sha256) == ("-", None, ())
    assert lines["sick_test"].found == "-"


def test_every_set_that_can_be_read_is_listed_with_its_tables():
    tables = {entry.name: entry.tables for entry in catalogue.SETS}
    assert {*catalogue.STS_SETS, *catalogue.DIALOGUE_SETS} <= tables.keys()
    assert set(catalogue.HUB) <= tables.keys()
    assert tables["sts12"] == "T2,T6,T8,T10,F1-F3"
    assert (tables["stsb_test"], tables["sick_test"], tables["stsb_dev"]) == ("T6,T8,T10,F4", "T6,T8,T10", "-")
    assert (tables["evalrank"], tables["paper_convai2"], tables["wmt17 cs-en"]) == ("T3", "T4", "T5")
    assert (tables["wmt17 segments"], tables["sats analogy"], tables["imdb_test"]) == ("T11", "T9", "T1,T7")


def test_the_command_lists_the_sets_and_how_to_get_them(folder, capsys):
    write(folder / "sts/sts16.tsv", STS + PAIR)
    list_sets()
    out = capsys.readouterr().out
    assert f"folder: {folder}" in out
    assert "not in a folder: sts12, sts13" in out
    assert "sen2pro_lab.paper.import_data senteval SOURCE --to FOLDER" in out
    assert sum(str(folder) in line for line in out.splitlines()) == 1


# ---- the real thing


@pytest.mark.parametrize(
    ("name", "rows", "subtasks"),
    [
        # Published counts; the sizes of the sub-tasks are in the order in which they come.
        ("sts12", 3108, [750, 750, 459, 750, 399]),
        ("sts13", 1500, [189, 750, 561]),
        ("sts14", 3750, [450, 300, 750, 750, 750, 750]),
        ("sts15", 3000, [375, 750, 375, 750, 750]),
        ("sts16", 1186, [254, 249, 230, 244, 209]),
        ("stsb_train", 5749, [5749]),
        ("stsb_dev", 1500, [1500]),
        ("stsb_test", 1379, [1379]),
        ("sick_train", 4500, [4500]),
        ("sick_trial", 500, [500]),
        ("sick_test", 4927, [4927]),
    ],
)
def test_the_real_sts_sets_have_the_published_sizes(real, name, rows, subtasks):
    if catalogue.locate(f"sts/{name}.tsv") is None:
        pytest.skip(f"no {name} in the data folder; sen2pro_lab.paper.import_data makes it")
    pairs = data.read_sts(name)
    assert len(pairs) == rows
    assert list(Counter(pairs.subtasks).values()) == subtasks


def test_the_real_evalrank_has_the_published_size(real):
    evalrank = data.read_evalrank()
    assert len(evalrank.pairs) == 6989
    assert len(set(evalrank.background)) == 24957


def test_the_real_analogies_are_balanced(real):
    assert Counter(q.relation for q in data.read_analogy("sick")) == {"not": 500, "there_is_no": 500, "passive": 500}
    assert set(Counter(q.relation for q in data.read_analogy("sats")).values()) == {50}
    assert len(data.read_analogy("sats")) == 32 * 50


def test_the_real_dialogues_have_the_systems_of_the_paper(real):
    convai = data.read_dialogue("paper_convai2")
    assert Counter(r.system for r in convai) == dict.fromkeys(
        ("bert_ranker", "dialogGPT", "transformer_generator", "transformer_ranker"), 150
    )
    daily = data.read_dialogue("paper_daily_h")
    assert len({r.system for r in daily}) == 11
    assert {r.origin for r in daily} == {"transformer_generator", "transformer_ranker"}  # the rest are mixtures


@pytest.mark.parametrize(
    ("pair", "segments", "systems"), [("cs-en", 3005, 4), ("fi-en", 3002, 6), ("ru-en", 3001, 9), ("zh-en", 2001, 16)]
)
def test_the_real_wmt_pairs_have_all_their_systems(real, pair, segments, systems):
    if catalogue.locate(f"wmt17/{pair}.tsv") is None:
        pytest.skip(f"no {pair} in the data folder; sen2pro_lab.paper.import_data makes it")
    read = data.read_wmt_systems(pair)
    assert len(read.references) == segments
    assert len(read.outputs) == len(read.human) == systems
    assert len(data.read_wmt_segments(pair)) == 560


@pytest.mark.parametrize(("name", "split", "rows"), [("ag_news", "test", 7600), ("dbpedia14", "val", 1400)])
def test_the_real_texts_have_every_class(real, name, split, rows):
    labelled = data.read_classification(name, split)
    assert len(labelled.texts) == len(labelled.labels) == rows
    assert set(labelled.labels.tolist()) == set(range(len(labelled.names)))
