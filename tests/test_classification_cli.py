"""`sen2pro classify train`, `predict` and `evaluate`, and what they say of bad files."""

import csv
import json

import pytest
from typer.testing import CliRunner

from sen2pro.cli.app import app

SPORT = ["the man plays the ball", "a woman runs in the park", "the dog runs slowly", "a man runs quickly"]
MONEY = ["the market fell today", "the price rose tomorrow", "the market rose and the price fell", "a big price today"]
ROWS = [(text, "sport") for text in SPORT] + [(text, "money") for text in MONEY]


def run(*arguments):
    result = CliRunner().invoke(app, ["classify", *map(str, arguments)])
    return result.exit_code, result.output


def table(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def objects(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def encoder(shared_folder):
    return shared_folder


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    data = table(place / "train.csv", ROWS)
    code, output = run("train", data, place / "model", "--model", encoder, "--samples", "3")
    assert code == 0, output
    assert "8 sentences, 2 classes" in output
    assert "signature: model:" in output
    return place / "model"


def test_predictions_come_as_a_table_or_as_jsonl(trained, tmp_path):
    sentences = tmp_path / "new.txt"
    sentences.write_text("the price fell today\na man plays\n")
    code, output = run("predict", trained, sentences, tmp_path / "out.csv")
    assert code == 0, output
    assert "2 sentences ->" in output
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["text"] for row in rows] == ["the price fell today", "a man plays"]
    assert {row["label"] for row in rows} <= {"sport", "money"}
    assert run("predict", trained, sentences, tmp_path / "out.jsonl")[0] == 0
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["label"] for row in found] == [row["label"] for row in rows]
    for row in found:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert row["probability"] == max(row["probabilities"].values())


def test_an_evaluation_prints_measures_and_writes_a_report_with_pictures(trained, tmp_path):
    data = table(tmp_path / "test.csv", ROWS)
    code, output = run("evaluate", trained, data, "--output", tmp_path / "report")
    assert code == 0, output
    for words in ("accuracy", "log-loss", "expected calibration error", "surest 80 %", "signature: model:"):
        assert words in output
    names = {path.name for path in (tmp_path / "report").iterdir()}
    pictures = {f"classification-{kind}.{suffix}" for kind in ("confusion", "reliability") for suffix in ("png", "svg")}
    assert names == {"classification.json", "classification.md", *pictures}
    numbers = json.loads((tmp_path / "report/classification.json").read_text())["numbers"][0]
    assert sum(map(sum, numbers["confusion"])) == numbers["n"] == 8
    assert numbers["accuracy"] == sum(numbers["confusion"][i][i] for i in range(2)) / 8


def test_labels_may_be_numbers_in_other_columns_and_a_validation_file_may_be_given(encoder, tmp_path):
    rows = [{"sentence": text, "class": int(label == "sport")} for text, label in ROWS]
    data = objects(tmp_path / "train.jsonl", rows)
    model = tmp_path / "model"
    code, output = run(
        "train", data, model, "--model", encoder, "--samples", "3", "--label-column", "class", "--validation", data,
        "--features", "mean", "--head", "expected", "--C", "0.1",
    )  # fmt: skip
    assert code == 0, output
    assert "features mean, head expected, C 0.1" in output
    assert "accuracy on the validation set" in output
    assert run("evaluate", model, data, "-l", "class")[0] == 0


def test_fine_tuning_from_the_command_line(encoder, tmp_path):
    data = table(tmp_path / "train.csv", ROWS)
    code, output = run("train", data, tmp_path / "model", "--model", encoder, "--samples", "2", "--finetune")
    assert code == 0, output
    assert (tmp_path / "model.checkpoints").is_dir()
    assert run("evaluate", tmp_path / "model", data)[0] == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a man", "label": None}], "line 1: there is no label in column 'label'"),
        ([{"text": "a man", "label": "a"}, {"text": "a dog", "label": 1}], "line 2: labels of mixed types: 1 is int"),
        ([{"text": "a man", "label": 0.5}], "line 1: the label is neither a text nor a whole number"),
        ([{"text": " ", "label": "a"}], "line 1: the sentence is empty or blank; leave the row out"),
        ([{"text": "a man", "class": "a"}], "unknown column"),
        ([{"text": "a man", "label": "a"}] * 3, "all 3 labels are 'a'"),
        ([{"text": "a man", "label": "a"}, {"text": "a dog", "label": "b"}], "class 'a' has one example"),
        ([], "there are no sentences"),
    ],
)
def test_bad_training_files_are_refused(encoder, tmp_path, rows, message):
    data = objects(tmp_path / "train.jsonl", rows)
    code, output = run("train", data, tmp_path / "model", "--model", encoder)
    assert code == 2
    assert message in output
    assert not (tmp_path / "model").exists()


def test_a_folder_that_is_in_use_is_not_written_to(trained, tmp_path):
    code, output = run("train", table(tmp_path / "train.csv", ROWS), trained)
    assert code == 2
    assert "is not an empty folder" in output


def test_a_label_that_was_never_trained_on_is_named_with_its_row(trained, tmp_path):
    data = table(tmp_path / "test.csv", [*ROWS[:1], ("a cat", "animals")])
    code, output = run("evaluate", trained, data)
    assert code == 2
    assert "label 'animals' of row 1 was never seen in training; the classes are: money, sport" in output


def test_outputs_that_cannot_be_are_refused(trained, tmp_path):
    sentences = tmp_path / "new.csv"
    sentences.write_text("text\na man\n")
    for output, message in (
        (tmp_path / "out.xlsx", "unknown file suffix"),
        (tmp_path / "nowhere/out.csv", "there is no folder"),
        (sentences, "is the file to be read"),
    ):
        code, said = run("predict", trained, sentences, output)
        assert code == 2
        assert message in said
    code, said = run("predict", tmp_path, sentences, tmp_path / "out.csv")
    assert code == 2
    assert "there is no classifier in" in said
