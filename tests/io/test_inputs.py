"""Reading sentences, and saying where something is wrong."""

import csv
import gzip
import io
import json
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sen2pro import Sen2ProError
from sen2pro.io.inputs import Record, sentences

TEXTS = ["plain", 'with "quotes", and commas', "ünïcödé"]


def write(tmp_path, kind):
    path = tmp_path / f"in.{kind}"
    if kind == "txt":
        path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    elif kind == "csv":
        quoted = ('"' + t.replace('"', '""') + '"' for t in TEXTS)
        path.write_text("id,text\n" + "".join(f"{i},{t}\n" for i, t in enumerate(quoted)), encoding="utf-8")
    elif kind == "tsv":
        path.write_text("id\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)), encoding="utf-8")
    elif kind == "tsv.gz":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write("id\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(TEXTS)))
    else:
        pq.write_table(pa.table({"id": [0, 1, 2], "text": TEXTS, "other": [1.0, 2.0, 3.0]}), path)
    return str(path)


@pytest.mark.parametrize("kind", ["txt", "csv", "tsv", "tsv.gz", "jsonl", "parquet"])
def test_every_kind_gives_the_same_sentences(tmp_path, kind):
    path = write(tmp_path, kind)
    source = sentences(path)
    assert [record.text for record in source] == TEXTS
    assert source.count() == 3
    assert [len(chunk) for chunk in source.chunks(2)] == [2, 1]
    if kind != "txt":
        assert list(sentences(path, "text", "id")) == [Record(str(i), t) for i, t in enumerate(TEXTS)]


def test_standard_input_and_windows_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\ufeffone\r\ntwo".encode())))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("a file of that name is not meant\n")
    source = sentences("-")
    assert source.count() is None
    assert [record.text for record in source] == ["one", "two"]


@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_what_pythons_csv_writes_is_read_back(tmp_path, kind, delimiter):
    texts = ["one\ntwo", '"Yes," he said', 'a "b" c', "two  spaces", "a\ttab", "plain"]
    with (tmp_path / f"in.{kind}").open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([["text"], *([text] for text in texts)])
    records = list(sentences(str(tmp_path / f"in.{kind}")))
    assert [record.text for record in records] == texts
    assert [record.place for record in records[:3]] == ["line 2", "line 4", "line 5"]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("in.txt", b"one\n\nthree\n", {}, "line 2: the sentence is empty or blank"),
        ("in.txt", b"one\ntw\xff\xfeo\n", {}, r"line 2: not UTF-8 \(byte 3"),
        ("in.txt", b"one\n", {"column": "text"}, "has no columns"),
        ("in.csv", b"id,text\n1,a\n2,\n", {}, "line 3: the sentence is empty or blank"),
        ("in.csv", b"id,text\n1,a\n2\n", {}, "line 3: 1 field, but the header has 2"),
        ("in.csv", b"id,body\n1,a\n", {}, "which column .* column=... is one of: id, body"),
        ("in.csv", b"id,body\n1,a\n", {"column": "bdy"}, "did you mean 'body'"),
        ("in.csv", b"id,text\n1,a\n", {"id_column": "ident"}, "in.csv: unknown id_column 'ident'"),
        ("in.tsv", b"id\ttext\n1\ta\xff\n", {}, "line 2: not UTF-8"),
        ("in.jsonl", b'{"text": "a"}\n{"text": null}\n', {}, "line 2: the sentence is not a text but None"),
        ("in.jsonl", b'{"text": "a"}\n{"text": NaN}\n', {}, "line 2: the sentence is not a text but nan"),
        ("in.jsonl", b'{"text": "a"}\n{"tex\n', {}, "line 2: not JSON"),
        ("in.jsonl", b'["a"]\n', {}, "line 1: not a JSON object"),
        ("in.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', {"column": "text"}, "line 2: this row has no 'text', only: txt"),
        ("in.jsonl", b'{"text": "a"}\n{"a": "b", "c": "d"}\n', {}, "line 2: which column holds the sentences"),
        ("in.csv", b'id,text\n1,"a\nb"\n2,"a\n \nb",3\n', {}, "line 4: 3 fields, but the header has 2"),
        ("in.csv", b'id,text\n1,"a\nb"\n2," \n "\n', {}, "line 4: the sentence is empty or blank"),
        ("in.tsv", b'id\ttext\n1\t"Yes," he said\n', {}, "line 2: .* a quote in it is written in quotes"),
        ("in.tsv", b'id\ttext\n1\t"Yes\n2\tno\n', {}, "line 2: unexpected end of data; .* in quotes"),
        ("in.jsonl", b'{"text": "a \\ud800 b"}\n', {}, "line 1: the sentence holds half a surrogate pair"),
        ("in.jsonl", b'{"text": "a", "id": null}\n', {"id_column": "id"}, "line 1: there is no id"),
        ("in.csv", b"id,text\n", {"column": "nope"}, "in.csv: unknown column 'nope'"),
        ("in.csv", b"text,text\na,b\n", {}, "column 'text' occurs more than once"),
        ("in.csv", b"id;text\n1;a\n", {}, "separated by commas"),
        ("in.xlsx", b"PK\x03\x04\x14\x00\x00", {}, "line 1: a NUL byte"),
        ("in.json", b'[{"text": "a"}]', {}, "JSONL"),
        ("in.parquet", b"PAR1 nothing", {}, "not a whole Parquet file"),
        ("in.txt.gz", b"not gzip", {}, "not a whole gzip file"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, name, content, options, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Sen2ProError, match=message):
        sentences(str(path), **options).count()


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_in_parquet_are_named_by_row(tmp_path, missing):
    column = pa.array(["a", None]) if missing is None else pa.array([1.0, missing])
    pq.write_table(pa.table({"text": column}), tmp_path / "in.parquet")
    with pytest.raises(Sen2ProError, match="row [12]: the sentence is not a text"):
        sentences(str(tmp_path / "in.parquet")).count()


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("one\ntwo\n"))
    writer.start()
    source = sentences(str(pipe))
    assert source.count() is None
    assert [record.text for record in source] == ["one", "two"]
    writer.join()


def test_blank_sentences_can_be_passed_over(tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n1,one\n2, \n3,three\n")
    source = sentences(str(tmp_path / "in.csv"), "text", "id", skip_blank=True)
    assert list(source) == [Record("1", "one"), Record("3", "three")]
    assert source.count() == 2


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(Sen2ProError, match="there is no file"):
        sentences(str(tmp_path / "nothing.txt"))
    with pytest.raises(Sen2ProError, match="is a folder"):
        sentences(str(tmp_path))
