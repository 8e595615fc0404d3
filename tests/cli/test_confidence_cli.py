"""`sen2pro calibrate` and `sen2pro match`, and what they say of bad files, folders and labels."""

import csv
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sen2pro import Sen2Pro
from sen2pro.calibration import MatchConfidence
from sen2pro.cli.app import app

FILE = f"{MatchConfidence.FILE}.json"
THINGS = "chess cards golf jazz tennis football drums rugby darts poker hockey piano cello bridge squash polo".split()
MATCHES = [
    pair
    for thing in THINGS
    for pair in (
        (f"A man plays {thing}.", f"A man is playing {thing}."),
        (f"They love {thing}.", f"They really like {thing}."),
        (f"A girl tried {thing} today.", f"Today a girl tried {thing}."),
    )
]
OTHERS = [
    pair
    for thing in THINGS
    for pair in (
        (f"A man plays {thing}.", "The market fell again."),
        (f"They love {thing}.", "It rained all night in Leeds."),
        (f"A girl tried {thing} today.", "The bank closed two offices."),
    )
]
LABELLED = [(*pair, 1) for pair in MATCHES] + [(*pair, 0) for pair in OTHERS]
NEW = [
    ("He plays the flute.", "He is playing the flute."),
    ("He plays the flute.", "Shares rose on Monday."),
    ("They love swimming.", "They really like swimming."),
]


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def table(path, rows, header=("first", "second", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
    return path


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The folder of a confidence of the default model, and what was printed."""
    place = tmp_path_factory.mktemp("calibrated")
    code, said = run("calibrate", table(place / "pairs.csv", LABELLED), place / "folder")
    assert code == 0, said
    return place / "folder", said


@pytest.fixture
def new(tmp_path):
    return table(tmp_path / "new.csv", NEW, ("first", "second"))


def refused(*arguments):
    code, said = run(*arguments)
    assert code == 2, said
    return said


def test_calibrate_reports_with_and_without_the_distribution_and_says_what_can_be_promised(calibrated):
    folder, said = calibrated
    assert "96 pairs ->" in said
    assert "without the distribution" in said
    assert "gain in log-loss" in said
    assert "96 pairs, 48 of them a match" in said
    assert "0.8 match from a probability of" in said
    assert re.search(r"0\.95 none: 9[46] labels are too few to be sure; about", said)  # those that the head knows
    assert "estimator:one-pass" in said
    assert (folder / "reliability.png").read_bytes()[:4] == b"\x89PNG"


def test_match_says_yes_where_the_precision_can_be_promised(calibrated, new, tmp_path):
    code, said = run("match", new, tmp_path / "out.csv", "--confidence", calibrated[0], "--precision", "0.8")
    assert code == 0, said
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["first", "second", "probability", "match"]
    assert [(row["first"], row["second"]) for row in rows] == NEW
    assert [row["match"] for row in rows] == ["yes", "no", "yes"]
    assert "2 yes, 0 unsure, 1 no" in said
    assert "At least 80 % of the yes are a match, with a confidence level of 95 %" in said
    fitted = MatchConfidence.load(calibrated[0], model=Sen2Pro(method="one-pass"))
    expected = fitted.probability(*map(list, zip(*NEW, strict=True)))
    assert [float(row["probability"]) for row in rows] == pytest.approx(expected.tolist(), abs=1e-5)


def test_pairs_that_it_was_fitted_on_are_counted_and_said(calibrated, tmp_path):
    first, second, _ = LABELLED[0]  # the order does not matter
    data = table(tmp_path / "new.csv", [*NEW, (second, first), LABELLED[1][:2]], ("first", "second"))
    code, said = run("match", data, tmp_path / "out.csv", "--confidence", calibrated[0], "--precision", "0.8")
    assert code == 0, said
    assert "note: 2 of 5 pairs were among those of sen2pro calibrate" in said
    assert "The guarantee does not hold for them" in said


def test_where_nothing_can_be_promised_there_are_probabilities_and_how_many_labels_would_do(calibrated, new, tmp_path):
    folder, _ = calibrated
    code, said = run("match", new, tmp_path / "out.tsv", "--confidence", folder, "--precision", "0.999")
    assert code == 0, said
    assert "3 pairs ->" in said
    assert "probabilities without a verdict" in said
    assert "no precision of 0.999 can be promised" in said
    assert [row["match"] for row in rows_of(tmp_path / "out.tsv")] == ["", "", ""]
    assert all(0 < float(row["probability"]) < 1 for row in rows_of(tmp_path / "out.tsv"))


def test_an_output_is_replaced_only_if_asked(calibrated, new, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    assert "pass --overwrite" in refused("match", new, output, "--confidence", calibrated[0])
    code, said = run("match", new, output, "--confidence", calibrated[0], "--precision", "0.8", "--overwrite")
    assert code == 0, said
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["match"] for row in found] == ["yes", "no", "yes"]
    assert isinstance(found[0]["probability"], float)


def test_pairs_come_from_every_kind_of_table(tmp_path):
    from sen2pro.io.inputs import pairs

    rows = [{"first": a, "second": b, "label": label} for a, b, label in (("a", "b", True), ("c", "d", False))]
    tables = [table(tmp_path / f"pairs{suffix}", [row.values() for row in rows]) for suffix in (".csv", ".tsv")]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pairs.parquet")
    for path in (*tables, tmp_path / "pairs.jsonl", tmp_path / "pairs.parquet"):
        found = [(pair.text, pair.second, pair.label) for pair in pairs(path, with_labels=True)]
        assert found == [("a", "b", 1.0), ("c", "d", 0.0)]


def test_graded_labels_must_be_asked_for(tmp_path):
    graded = [(*pair, 4.5) for pair in MATCHES[:15]] + [(*pair, 1.2) for pair in OTHERS[:14]] + [(*OTHERS[20], 2)]
    data = table(tmp_path / "pairs.csv", graded)
    said = refused("calibrate", data, tmp_path / "folder")
    assert "there are 3 kinds: [1.2, 2.0, 4.5]" in said
    assert "for instance --match-from 4" in said
    assert not (tmp_path / "folder").exists()
    code, said = run("calibrate", data, tmp_path / "folder", "--match-from", "4")
    assert code == 0, said
    assert "30 pairs, 15 of them a match" in said


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "0 labelled pairs are too few"),
        ([("a", "b", "maybe")], "line 2: the label is 'maybe'; it is 1 for a match and 0 for none, or a grade"),
        ([("a", "b", "")], "line 2: there is no label"),
        ([("a", "b", "nan")], "line 2: the label is 'nan'"),
        ([("a", " ", "1")], "line 2: a sentence of the pair is empty or blank; leave the row out"),
    ],
)
def test_labels_that_cannot_teach_are_refused(tmp_path, rows, message):
    assert message in refused("calibrate", table(tmp_path / "pairs.csv", rows), tmp_path / "folder")


def test_a_file_without_the_columns_says_which(calibrated, tmp_path):
    said = refused("calibrate", table(tmp_path / "a.csv", [], ("first", "other")), tmp_path / "folder")
    assert "there is no column 'second', only: first, other" in said
    (tmp_path / "a.txt").write_text("a\tb\n")
    said = refused("match", tmp_path / "a.txt", tmp_path / "o.csv", "--confidence", calibrated[0])
    assert "a.txt is read as plain text; pairs are in the columns first, second of a .csv" in said
    said = refused("match", table(tmp_path / "b.csv", [], ("first", "second")), tmp_path / "o.csv", "--confidence", "x")
    assert "there are no pairs in" in said


def test_a_folder_that_holds_something_is_refused_before_the_work(calibrated, tmp_path):
    data = table(tmp_path / "pairs.csv", LABELLED)
    assert "is not an empty folder; name a new one" in refused("calibrate", data, calibrated[0])


def test_another_model_or_other_settings_are_named(calibrated, new, shared_folder, tmp_path):
    arguments = "match", new, tmp_path / "out.csv", "--confidence", calibrated[0]
    said = refused(*arguments, "--model", shared_folder, "--samples", "3")
    assert "this confidence was fitted with another model or other settings: hash" in said
    said = refused(*arguments, "--uncertainty", "data")
    assert "uncertainty 'both' when it was fitted, but 'data' now" in said
    assert not (tmp_path / "out.csv").exists()


def test_a_model_without_a_head_is_sampled_and_this_is_said(shared_folder, tmp_path):
    rows = LABELLED[:20] + LABELLED[-20:]
    data = table(tmp_path / "pairs.csv", rows)
    code, said = run("calibrate", data, tmp_path / "folder", "--model", shared_folder)
    assert code == 0, said
    assert "so sentences are sampled, which takes many passes; fit one with sen2pro distill" in said
    assert "samples:15+15" in said


def test_what_cannot_be_promised_or_read_is_refused(calibrated, new, tmp_path):
    said = refused("match", new, tmp_path / "out.csv", "--confidence", calibrated[0], "--precision", "1.5")
    assert "precision must be between 0 and 1 (both excluded), not 1.5" in said
    said = refused("match", new, tmp_path / "out.csv", "--confidence", tmp_path)
    assert f"{tmp_path} does not contain a MatchConfidence" in said


def test_text_that_the_head_does_not_know_gets_no_yes_unless_asked_for(calibrated, tmp_path):
    pair = "Η γάτα κοιμάται στον καναπέ.", "Η γάτα κοιμάται στον καναπέ!"
    data = table(tmp_path / "new.csv", [*NEW, pair], ("first", "second"))
    arguments = "match", data, tmp_path / "out.csv", "--confidence", calibrated[0], "--precision", "0.8"
    code, said = run(*arguments)
    assert code == 0, said
    assert [row["match"] for row in rows_of(tmp_path / "out.csv")] == ["yes", "no", "yes", "unsure"]
    assert "2 yes, 1 unsure (1 of text that the head does not know), 1 no" in said
    assert "note: 1 of 4 pairs have a sentence far from the text that the head was fitted on" in said
    assert "so none of them is a yes (--uncovered allows it)" in said
    code, said = run(*arguments, "--uncovered", "--overwrite")
    assert (code, "3 yes, 0 unsure, 1 no" in said) == (0, True), said


def test_without_matplotlib_there_is_no_picture_and_this_is_said(tmp_path, monkeypatch):
    from sen2pro.cli import pairs

    monkeypatch.setattr(pairs, "find_spec", lambda name: None)
    data = table(tmp_path / "pairs.csv", LABELLED[:12] + LABELLED[-12:])
    code, said = run("calibrate", data, tmp_path / "folder")
    assert code == 0, said
    assert "no reliability diagram: it needs matplotlib" in said
    assert [path.name for path in (tmp_path / "folder").iterdir()] == [FILE]
