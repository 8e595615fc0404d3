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


def test_predictions_keep_ids_and_may_pass_over_blank_sentences(trained, tmp_path):
    data = table(tmp_path / "new.csv", [("7", "a man"), ("8", " "), ("x", "the price")], ("id", "text"))
    code, output = run("predict", trained, data, tmp_path / "out.csv", "--id-column", "id")
    assert code == 2
    assert "new.csv, line 3: the sentence is empty or blank (--skip-blank passes over it)" in output
    for suffix in ("csv", "jsonl"):
        found = tmp_path / f"out.{suffix}"
        code, output = run("predict", trained, data, found, "--id-column", "id", "--skip-blank")
        assert code == 0, output
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["id", "text", "label", "probability"]
    assert [row[:2] for row in rows[1:]] == [["7", "a man"], ["x", "the price"]]
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [list(row)[:2] for row in objects] == [["id", "text"]] * 2
    assert [row["id"] for row in objects] == ["7", "x"]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_what_is_predicted_can_be_read_again(trained, tmp_path, suffix):
    texts = ['He said "no"  to it', '"no"', "a\ttab", "two\nlines, one comma"]
    data = table(tmp_path / f"new.{suffix}", [(text,) for text in texts], ("text",))
    code, output = run("predict", trained, data, tmp_path / f"out.{suffix}")
    assert code == 0, output
    assert [record.text for record in sentences(tmp_path / f"out.{suffix}")] == texts


def test_files_are_replaced_only_if_asked_for(trained, tmp_path):
    data = table(tmp_path / "data.csv", ROWS)
    output = tmp_path / "out.csv"
    output.write_text("mine")
    code, said = run("predict", trained, data, output)
    assert code == 2
    assert "out.csv exists; pass --overwrite" in said
    assert output.read_text() == "mine"
    assert run("predict", trained, data, output, "--overwrite")[0] == 0
    assert output.read_text() != "mine"


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


def test_an_evaluation_prints_the_measures_and_each_class(trained, tmp_path):
    data = table(tmp_path / "test.csv", ROWS)
    code, output = run("evaluate", trained, data)
    assert code == 0, output
    for words in (
        "8 sentences, 2 classes",
        "log-loss",
        "expected calibration error",
        "surest 80 %",
        "signature: model:",
    ):
        assert words in output
    cells = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in output.splitlines() if "│" in line}
    truth = [label for _, label in ROWS]
    code, output = run("predict", trained, data, tmp_path / "out.csv")
    assert code == 0, output
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
    for content, expected in ((data.read_text(), whole), ("text,label\na man,cats\n", "line 2: label 'cats'")):
        pipe = tmp_path / f"pipe{len(content)}.csv"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(content,))
        writer.start()
        assert expected in run("evaluate", trained, pipe)[1]
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


def test_fine_tuning_from_the_command_line(encoder, tmp_path, monkeypatch):
    data = table(tmp_path / "train.csv", ROWS)
    settings = []
    inside = Sen2ProClassifier.save

    def save(self, folder):
        settings.append(self.finetune)
        inside(self, folder)

    monkeypatch.setattr(Sen2ProClassifier, "save", save)
    code, output = run(
        "train", data, tmp_path / "model", "--model", encoder, "--samples", "2", "--finetune", "--epochs", "2"
    )
    assert code == 0, output
    assert settings[0].epochs == 2
    assert (
        "chosen on a part of the sentences where not given (from fewer than 40 sentences, only the temperature"
        in output
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "train.csv"]
    assert run("evaluate", tmp_path / "model", data)[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--C", "0"], "--C is a number above 0, not 0; leave it out to have it chosen"),
        (["--C", "nan"], "--C is a number above 0, not nan"),
        (["--epochs", "3"], "--epochs is for the training of the encoder; pass --finetune too"),
        (["-l", "class"], "{data}: unknown --label-column 'class'. It is one of: text, label"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_command_line_and_at_once(tmp_path, options, message):
    data = table(tmp_path / "train.csv", ROWS)
    code = "import sys; from sen2pro.cli.app import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    command = [sys.executable, "-c", code, "classify", "train", data, tmp_path / "model", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert message.format(data=data) in result.stderr
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
        ([{"text": "a man", "label": "a"}] * 3, "train.jsonl: all 3 labels are 'a'"),
        (
            [{"text": "a man", "label": name} for name in "aab"],
            "line 3: class 'b' has one example; settings are chosen by cross-validation, which takes at least 2 of "
            "each class: add one, leave the class out, or pass a file to choose by with --validation",
        ),
        ([{"text": "a man", "label": name} for name in "aabc"], "line 3: class 'b' has one example (also: 'c')"),
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
    sentences = tmp_path / "new.csv"
    sentences.write_text("text\na man\n")
    for output, message in (
        (tmp_path / "out.xlsx", "unknown file suffix"),
        (tmp_path / "nowhere/out.csv", "there is no folder"),
        (sentences, "is a file to be read"),
    ):
        code, said = run("predict", trained, sentences, output)
        assert code == 2
        assert message in said
    code, said = run("predict", tmp_path, sentences, tmp_path / "out.csv")
    assert code == 2
    assert "there is no classifier in" in said
