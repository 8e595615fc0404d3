"""Several metrics at once, from Python and from the command line."""

import json

import numpy as np
import pytest

from sen2pro import Sen2Pro
from sen2pro.errors import Sen2ProError
from sen2pro_lab.cli.score import score as score_command
from sen2pro_lab.metrics import Bleu, metric
from sen2pro_lab.metrics.score import DEFAULT_METRICS, score

run = score_command.__wrapped__  # with the settings as a dict, not as options
CANDIDATES, REFERENCES = ["the dog runs", "a cat eats slowly"], ["the big dog runs", "a cat eats slowly"]


# From Python


def test_scores_come_in_the_order_asked_for_and_are_those_of_the_metrics(tiny):
    names = ("chrf", "sen2vec", "ter")
    found = score(CANDIDATES, REFERENCES, metrics=names, model=tiny)
    assert tuple(one.metric for one in found) == names
    for one in found:
        alone = metric(one.metric, model=tiny)
        assert one.corpus == pytest.approx(alone.corpus(CANDIDATES, REFERENCES), rel=1e-5)
        np.testing.assert_allclose(one.segments, alone.segments(CANDIDATES, REFERENCES), rtol=1e-5, atol=1e-7)
        assert (one.signature, one.higher_is_better) == (alone.signature, alone.higher_is_better)


def test_a_metric_with_options_of_its_own_is_taken_as_it_is():
    assert "tok:intl" in score(CANDIDATES, REFERENCES, metrics=[Bleu(tokenize="intl")])[0].signature


def test_a_model_is_loaded_only_where_one_is_needed(tiny_folder):
    score(CANDIDATES, REFERENCES, metrics=["cder"], model="there is no such model")
    found = score(CANDIDATES, REFERENCES, metrics=["sen2vec"], model=str(tiny_folder))
    assert found[0].signature == str(Sen2Pro(str(tiny_folder)).signature())


def test_the_default_model_tells_a_paraphrase_from_another_text():
    candidates = ["A man is playing a guitar.", "The market fell today."]
    references = ["Someone plays the guitar.", "A cat sleeps on the sofa."]
    found = score(candidates, references)
    assert tuple(one.metric for one in found) == DEFAULT_METRICS
    assert all(one.segments[0] > one.segments[1] for one in found)
    assert "model:all-MiniLM-L6-v2|" in found[0].signature


@pytest.mark.parametrize(
    ("metrics", "message"),
    [("bleu", "a list of at least one name"), ([], "a list of at least one name"), (["blue"], "did you mean 'bleu'")],
)
def test_metrics_that_cannot_be_used_are_said(metrics, message):
    with pytest.raises(Sen2ProError, match=message):
        score(CANDIDATES, REFERENCES, metrics=metrics)


def test_texts_are_checked_before_a_model_is_loaded():
    with pytest.raises(Sen2ProError, match="2 candidates but 1 reference"):
        score(CANDIDATES, REFERENCES[:1], metrics=["sen2pro"], model="there is no such model")


# From the command line


@pytest.fixture
def files(tmp_path):
    """Return a function that writes references and candidates and scores them."""

    def run_on(references, candidates, metrics="cder,ter", suffix=".txt", **changes):
        paths = [tmp_path / f"references{suffix}", tmp_path / f"candidates{suffix}"]
        for path, text in zip(paths, (references, candidates), strict=True):
            path.write_text(text, encoding="utf-8")
        options = {"column": None, "output": None, "as_json": False, "settings": {"model": "nowhere"}, **changes}
        run(references=str(paths[0]), candidates=str(paths[1]), metrics=metrics, **options)

    return run_on


# Distances 1 of 4 words and 0 of 2, for both metrics.
TEXTS = ("a b c d\ne f\n", "a x c d\ne f\n")


def test_the_table_has_scores_directions_and_signatures(files, capsys):
    files(*TEXTS)
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "is better" in line]
    assert rows == [["cder", "0.8333", "higher is better"], ["ter", "16.6667", "lower is better"]]
    assert "2 pairs" in printed
    assert "  cder: sen2pro:" in printed
    assert "  ter: sacrebleu|nrefs:1|" in printed


def test_json_is_one_object_with_the_same(files, capsys):
    files(*TEXTS, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["pairs"], printed["notes"]) == (2, [])
    assert [(one["metric"], one["higher_is_better"]) for one in printed["scores"]] == [("cder", True), ("ter", False)]
    assert printed["scores"][0]["corpus"] == pytest.approx(5 / 6)
    assert printed["scores"][1]["signature"] == metric("ter").signature


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_segments_are_written_whole(files, tmp_path, suffix):
    output = tmp_path / f"scores{suffix}"
    files(*TEXTS, output=str(output))
    lines = output.read_text().splitlines()
    if suffix == ".tsv":
        assert lines == ["segment\tcder\tter", "1\t0.75\t25.0", "2\t1.0\t0.0"]
    else:
        assert [json.loads(line) for line in lines] == [
            {"segment": 1, "cder": 0.75, "ter": 25.0},
            {"segment": 2, "cder": 1.0, "ter": 0.0},
        ]
    assert not list(tmp_path.glob(".*"))


def test_a_column_of_a_table_is_read(files, capsys):
    references, candidates = "id\ttext\n1\ta b c d\n2\te f\n", "id\ttext\n1\ta x c d\n2\te f\n"
    files(references, candidates, suffix=".tsv", column="text", as_json=True)
    assert json.loads(capsys.readouterr().out)["scores"][0]["corpus"] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("references", "candidates", "changes", "message"),
    [
        ("a\nb\n", "a\n", {}, r"references.txt has 2 sentences but .*candidates.txt has 1"),
        (
            "a\n\nb\n",
            "a\nb\n",
            {},
            "references.txt, line 2: the sentence is empty or blank; leave the pair out of both files",
        ),
        ("a\nb\n", "a\nb\n \n", {}, "candidates.txt, line 3: the sentence is empty or blank"),
        ("", "", {}, "nothing to score"),
        ("a\n", "a\n", {"metrics": "cder,blue"}, "did you mean 'bleu'"),
        ("a\n", "a\n", {"metrics": " ,"}, "at least one name"),
        ("a\n", "a\n", {"output": "scores.csv"}, "unknown file suffix '.csv'"),
        ("a\n", "a\n", {"output": "no/folder/scores.tsv"}, "there is no folder no/folder"),
        ("a\n", "a\n", {"metrics": "sen2vec"}, "nowhere"),
    ],
)
def test_what_cannot_be_scored_is_said(files, references, candidates, changes, message):
    with pytest.raises(Sen2ProError, match=message):
        files(references, candidates, **changes)


def test_the_scores_do_not_replace_what_was_scored(files, tmp_path):
    references = "text\na b\n"
    with pytest.raises(Sen2ProError, match="is a file to be read"):
        files(references, references, suffix=".tsv", output=str(tmp_path / "candidates.tsv"))
    assert (tmp_path / "candidates.tsv").read_text() == references


def test_two_files_cannot_both_be_standard_input():
    with pytest.raises(Sen2ProError, match="standard input"):
        run({}, "-", "-", metrics="cder")


def test_what_the_model_warns_of_is_said_once_with_the_result(files, tiny_folder, capsys):
    long = "the dog runs " * 30
    settings = {"model": str(tiny_folder), "samples": 2}
    files(f"{long}\na cat\n", f"{long}\na dog\n", metrics="sen2pro,sen2vec", settings=settings)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("longer than the 32 tokens") == 1
    assert "sen2pro: model:tiny-bert|" in printed
