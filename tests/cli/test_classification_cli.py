"""`sen2pro classify train`, `predict` and `evaluate`, and what they say of bad files."""

import csv
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from labelled_texts import MONEY, SPORT
from sklearn.metrics import precision_recall_fscore_support
from typer.testing import CliRunner

from sen2pro.classification import Sen2ProClassifier
from sen2pro.cli import classify
from sen2pro.cli.app import app
from sen2pro.io.inputs import labelled, sentences

ROWS = [(text, "sport") for text in SPORT] + [(text, "money") for text in MONEY]


def run(*arguments):
    """Run a command; a classifier of another model than the default is given that model, as its error asks."""
    config = Path(arguments[1]) / "sen2pro_classifier.json"
    if arguments[0] != "train" and config.is_file() and "--model" not in arguments:
        about = json.loads(config.read_text())
        arguments = (*arguments, *(() if about["encoder"] else ("--model", about["model"])))
    return run_as_it_is(*arguments)


def run_as_it_is(*arguments):
    result = CliRunner().invoke(app, ["classify", *map(str, arguments)])
    return result.exit_code, result.output


def table(path, rows, header=("text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
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


def test_a_folder_may_not_choose_its_encoder(trained, encoder, tmp_path):
    (tmp_path / "new.txt").write_text("the price fell today\n")
    code, output = run_as_it_is("predict", trained, tmp_path / "new.txt", tmp_path / "out.csv")
    said = " ".join(output.split())
    assert code == 2
    assert f"was trained with the model '{encoder.resolve()}', which is not in its folder" in said
    assert f"pass --model {encoder.resolve()}" in said


def test_blank_sentences_are_refused_or_left_out(trained, tmp_path):
    data = table(tmp_path / "new.csv", [("7", "a man"), ("8", " "), ("x", "the price")], ("id", "text"))
    code, output = run("predict", trained, data, tmp_path / "out.csv", "--id-column", "id")
    assert code == 2
    assert "new.csv, line 3: the sentence is empty or blank (--skip-blank passes over it)" in output
    code, output = run("predict", trained, data, tmp_path / "out.csv", "--id-column", "id", "--skip-blank")
    assert code == 0, output
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["id", "text", "label", "probability"]
    assert [row[:2] for row in rows[1:]] == [["7", "a man"], ["x", "the price"]]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_what_is_predicted_can_be_read_again(trained, tmp_path, suffix):
    texts = ['He said "no"  to it', '"no"', "a\ttab", "two\nlines, one comma"]
    data = table(tmp_path / f"new.{suffix}", [(text,) for text in texts], ("text",))
    code, output = run("predict", trained, data, tmp_path / f"out.{suffix}")
    assert code == 0, output
    assert [record.text for record in sentences(tmp_path / f"out.{suffix}")] == texts


def test_a_file_without_sentences_is_an_error(trained, encoder, tmp_path):
    (tmp_path / "empty.csv").write_text("text,label\n")
    for command in (["predict", trained, tmp_path / "empty.csv", tmp_path / "out.csv"], ["evaluate", trained]):
        code, output = run(*command, *([tmp_path / "empty.csv"] if command[0] == "evaluate" else []))
        assert code == 2
        assert "there are no sentences in" in output
    command = ["classify", "predict", str(trained), "-", str(tmp_path / "out.csv"), "--model", str(encoder)]
    result = CliRunner().invoke(app, command, input="")
    assert result.exit_code == 2
    assert "there are no sentences in standard input" in result.output
    assert not (tmp_path / "out.csv").exists()


def test_an_evaluation_prints_the_measures_of_each_class(trained, tmp_path):
    data = table(tmp_path / "test.csv", ROWS)
    code, output = run("evaluate", trained, data)
    assert code == 0, output
    cells = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in output.splitlines() if "│" in line}
    assert run("predict", trained, data, tmp_path / "out.csv")[0] == 0
    truth = [label for _, label in ROWS]
    predicted = [row["label"] for row in csv.DictReader((tmp_path / "out.csv").open())]
    right = sum(a == b for a, b in zip(truth, predicted, strict=True)) / len(truth)
    assert float(cells["accuracy"][0]) == pytest.approx(right, abs=1e-4)
    expected = precision_recall_fscore_support(truth, predicted, labels=["money", "sport"], zero_division=0)
    for name, precision, recall, f1, n in zip(("money", "sport"), *expected, strict=True):
        assert [float(cell) for cell in cells[name]] == pytest.approx([n, recall, precision, f1], abs=1e-3)


def test_an_evaluation_goes_by_chunks_and_reads_pipes(trained, tmp_path, monkeypatch):
    data = table(tmp_path / "test.csv", [*ROWS, (" ".join(["the dog"] * 40), "sport"), ("a man " * 40, "sport")])
    whole = run("evaluate", trained, data)[1]
    assert "2 of 10 sentences are longer" in " ".join(whole.split())
    sizes = []
    inside = Sen2ProClassifier.predict_proba

    def predict_proba(self, X, **options):
        sizes.append(len(X))
        return inside(self, X, **options)

    monkeypatch.setattr(classify, "_CHUNK", 3)
    monkeypatch.setattr(Sen2ProClassifier, "predict_proba", predict_proba)
    assert run("evaluate", trained, data)[1] == whole
    assert sizes == [3, 3, 3, 1]
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(data.read_text(),))
    writer.start()
    assert run("evaluate", trained, pipe)[1] == whole
    writer.join()


def test_whole_numbers_stay_whole_numbers(encoder, tmp_path):
    rows = [{"sentence": text, "class": int(label == "sport")} for text, label in ROWS]
    data = objects(tmp_path / "train.jsonl", rows)
    as_texts = table(tmp_path / "test.csv", [(row["sentence"], f"{row['class']} ") for row in rows], ("text", "class"))
    model = tmp_path / "model"
    code, output = run(
        "train", data, model, "--model", encoder, "--samples", "3", "--label-column", "class", "--validation", as_texts,
        "--features", "mean", "--loss", "expected", "--C", "0.1",
    )  # fmt: skip
    assert code == 0, output
    said = " ".join(output.split())
    assert "chosen on the validation file where not given: features mean the centre" in said
    assert "loss expected trained on average" in said
    assert "C 0.1 smaller values regularise more" in said
    assert "(guessing has 0.50 and 0.6931)" in said
    assert Sen2ProClassifier.load(model, model=encoder).classes_.tolist() == [0, 1]
    for test in (data, as_texts):
        assert run("evaluate", model, test, "-l", "class")[0] == 0
    assert run("predict", model, data, tmp_path / "out.jsonl")[0] == 0
    found = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert found["label"] in (0, 1)
    assert list(found["probabilities"]) == ["0", "1"]


def test_space_around_labels_does_not_count(tmp_path):
    source = labelled(table(tmp_path / "in.csv", [("a man", "a"), ("a dog", " a ")]), None, "label")
    assert [record.label for record in source] == ["a", "a"]


def test_fine_tuning_from_the_command_line(encoder, tmp_path):
    data = table(tmp_path / "train.csv", ROWS)
    options = ("--samples", "2", "--finetune", "--epochs", "2")
    code, output = run("train", data, tmp_path / "model", "--model", encoder, *options)
    assert code == 0, output
    few = "chosen on a part of the sentences where not given (from fewer than 40 sentences, only the temperature"
    assert few in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "train.csv"]
    assert run("evaluate", tmp_path / "model", data)[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--C", "0"], "--C is a number above 0, not 0; leave it out to have it chosen"),
        (["--C", "nan"], "--C is a number above 0, not nan"),
        (["--epochs", "3"], "--epochs is for the training of the encoder; pass --finetune too"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, options, message):
    code, output = run("train", table(tmp_path / "train.csv", ROWS), tmp_path / "model", *options)
    assert (code, message in output) == (2, True)


def test_a_wrong_column_is_told_by_the_name_of_its_option_before_torch_is_loaded(tmp_path):
    data = table(tmp_path / "train.csv", ROWS)
    code = "import sys; from sen2pro.cli.app import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    command = [sys.executable, "-c", code, "classify", "train", data, tmp_path / "model", "-l", "class"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{data}: unknown --label-column 'class'. It is one of: text, label" in result.stderr
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a man", "label": None}], "line 1: there is no label in column 'label'"),
        (
            [{"text": "a man", "label": "a"}, {"text": "a dog", "label": 1}],
            "line 2: labels of mixed types: 1 here, 'a' on",
        ),
        ([{"text": "a man", "label": 0.5}], "line 1: the label is neither a text nor a whole number"),
        ([{"text": " ", "label": "a"}], "line 1: the sentence is empty or blank; leave the row out"),
        ([{"text": "a man", "class": "a"}], "line 1: this row has no 'label', only: text, class"),
        ([{"text": "a man", "label": "a"}, {"text": "a dog"}], "line 2: this row has no 'label', only: text"),
        ([{"text": "a man", "label": "a"}] * 3, "all 3 labels are 'a'"),
        (
            [{"text": "a man", "label": name} for name in "aab"],
            "class 'b' has one example; settings are chosen by cross-validation, which takes at least 2 of each class: "
            "add one, leave the class out, or pass --validation",
        ),
        ([], "there are no sentences"),
    ],
)
def test_bad_training_files_are_refused(encoder, tmp_path, rows, message):
    data = objects(tmp_path / "train.jsonl", rows)
    code, output = run("train", data, tmp_path / "model", "--model", encoder)
    assert code == 2
    assert message in output
    assert not (tmp_path / "model").exists()


def test_a_label_that_was_never_trained_on_is_named_with_its_line(trained, tmp_path):
    rows = [("two\nlines", "sport"), ("a cat", "animals"), ("a dog", "animals"), ("a tree", "plants")]
    data = table(tmp_path / "test.csv", rows)
    message = "test.csv, line 4: label 'animals' was never seen in training (also: 'plants'); the classes are:"
    code, output = run("evaluate", trained, data)
    assert code == 2
    assert f"{message} 'money', 'sport'. Correct it, leave such rows out, or train with examples of it" in output
    train = table(tmp_path / "train.csv", ROWS)
    code, output = run("train", train, tmp_path / "model", "--validation", data)
    assert code == 2
    assert f"{message} 'sport', 'money'." in output


def test_outputs_that_cannot_be_are_refused(trained, tmp_path):
    sentences, there = tmp_path / "new.csv", tmp_path / "there.csv"
    sentences.write_text("text\na man\n")
    there.write_text("mine")
    for output, message in (
        (tmp_path / "out.xlsx", "unknown file suffix"),
        (tmp_path / "nowhere/out.csv", "there is no folder"),
        (sentences, "is a file to be read"),
        (there, "there.csv exists; pass --overwrite"),
    ):
        code, said = run("predict", trained, sentences, output)
        assert (code, message in said) == (2, True)
    assert there.read_text() == "mine"
    code, said = run("train", table(tmp_path / "train.csv", ROWS), trained)
    assert (code, "is not an empty folder" in said) == (2, True)
