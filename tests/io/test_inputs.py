"""Reading sentences: every kind of file gives the same ones, and a fault is one clear error that says where."""

import csv
import gzip
import io
import json
import lzma
import os
import threading
import tracemalloc
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sen2pro import Sen2ProError
from sen2pro.io.inputs import Reader, Record, labelled, sentences
from sen2pro.io.rows import lines, open_binary

TEXTS = ["plain", 'with "quotes", and commas', "ünïcödé"]
JSON_LINES = "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(TEXTS)).encode()
TABS = ("id\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS))).encode()
CONTENT = {
    "txt": "\n".join([*TEXTS, ""]).encode(),
    "csv": b'id,text\n0,plain\n1,"with ""quotes"", and commas"\n2,' + TEXTS[2].encode(),
    "tsv": TABS, "tsv.gz": gzip.compress(TABS), "jsonl": JSON_LINES, "ndjson.xz": lzma.compress(JSON_LINES),
}  # fmt: skip


def in_file(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def parquet(path, column, **options):
    pq.write_table(pa.table({"id": list(range(len(column))), "text": column}), path, **options)
    return path


def read_all(source):
    return [record.text for record in source]


@pytest.mark.parametrize("kind", [*CONTENT, "parquet"])
def test_every_kind_gives_the_same_sentences(tmp_path, kind):
    path = tmp_path / f"in.{kind}"
    in_file(path, CONTENT[kind]) if kind in CONTENT else parquet(path, TEXTS)
    source = sentences(path)
    assert read_all(source) == TEXTS
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
    assert read_all(source) == ["one", "two"]


@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_what_pythons_csv_writes_is_read_back(tmp_path, kind, delimiter):
    texts = ["one\ntwo", '"Yes," he said', 'a "b" c', "two  spaces", "a\ttab", "plain"]
    with (tmp_path / f"in.{kind}").open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([["text"], *([text] for text in texts)])
    records = list(sentences(str(tmp_path / f"in.{kind}")))
    assert [record.text for record in records] == texts
    assert [record.place for record in records[:3]] == ["line 2", "line 4", "line 5"]


def object_with(id):
    return f'{{"text": "a", "id": {id}}}\n'


WITH_ID = {"id_column": "id"}


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("in.txt", "one\n\nthree\n", {}, "line 2: the sentence is empty or blank"),
        ("in.txt", b"one\ntw\xff\xfeo\n", {}, r"line 2: not UTF-8 \(byte 3"),
        ("in.txt", "one\n", {"column": "text"}, "has no columns"),
        ("in.csv", "id,text\n1,a\n2,\n", {}, "line 3: the sentence is empty or blank"),
        ("in.csv", "id,text\n1,a\n2\n", {}, "line 3: 1 field, but the header has 2"),
        ("in.csv", "id,body\n1,a\n", {}, "which column .* column=... is one of: id, body"),
        ("in.csv", "id,body\n1,a\n", {"column": "bdy"}, "did you mean 'body'"),
        ("in.csv", "id,text\n1,a\n", {"id_column": "ident"}, "in.csv: unknown id_column 'ident'"),
        ("in.csv", 'id,text\n1,"a\nb"\n2,"a\n \nb",3\n', {}, "line 4: 3 fields, but the header has 2"),
        ("in.csv", 'id,text\n1,"a\nb"\n2," \n "\n', {}, "line 4: the sentence is empty or blank"),
        ("in.csv", "id,text\n", {"column": "nope"}, "in.csv: unknown column 'nope'"),
        ("in.csv", "text,text\na,b\n", {}, "column 'text' occurs more than once"),
        ("in.csv", "id;text\n1;a\n", {}, "separated by commas"),
        ("in.csv", 'text\n"open\n' + "more\n" * 1000, {"longest_line": 1000}, "line 2: field larger than field limit"),
        ("in.tsv", b"id\ttext\n1\ta\xff\n", {}, "line 2: not UTF-8"),
        ("in.tsv", 'id\ttext\n1\t"Yes," he said\n', {}, "line 2: .* a quote in it is written in quotes"),
        ("in.tsv", 'id\ttext\n1\t"Yes\n2\tno\n', {}, "line 2: unexpected end of data; .* in quotes"),
        ("in.jsonl", '{"text": "a"}\n{"text": null}\n', {}, "line 2: the sentence is not a text but None"),
        ("in.jsonl", '{"text": "a"}\n{"text": NaN}\n', {}, "line 2: the sentence is not a text but nan"),
        ("in.jsonl", '{"text": "a"}\n{"tex\n', {}, "line 2: not JSON"),
        ("in.jsonl", '["a"]\n', {}, "line 1: not a JSON object"),
        ("in.jsonl", '{"text": "a"}\n{"txt": "b"}\n', {"column": "text"}, "line 2: this row has no 'text', only: txt"),
        ("in.jsonl", '{"text": "a"}\n{"a": "b", "c": "d"}\n', {}, "line 2: which column holds the sentences"),
        ("in.jsonl", '{"text": "a \\ud800 b"}\n', {}, "line 1: the sentence holds half a surrogate pair"),
        ("in.jsonl", '{"text": "a\\u0000"}\n', {}, "line 1: a NUL byte"),
        ("in.jsonl", '{"text": "\\u200b"}\n', {}, "line 1: the sentence is empty or blank"),
        ("in.jsonl", object_with("null"), WITH_ID, "line 1: there is no id"),
        ("in.jsonl", object_with('"\\ud800"'), WITH_ID, "line 1: column 'id' holds a NUL or half a surrogate pair"),
        ("in.jsonl", object_with('"x\\u0000"'), WITH_ID, "line 1: column 'id' holds a NUL"),
        ("in.jsonl", object_with("1" * 5000), WITH_ID, "line 1: not JSON"),
        ("in.jsonl", object_with("[" * 100_000), WITH_ID, "line 1: not JSON that can be read: too many brackets"),
        ("in.xlsx", b"PK\x03\x04\x14\x00\x00", {}, "line 1: a NUL byte"),
        ("in.json", '[{"text": "a"}]', {}, "JSONL"),
        ("in.parquet", b"PAR1 nothing", {}, "not a whole Parquet file"),
        ("in.txt.gz", b"not gzip", {}, "not a whole gzip file"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, name, content, options, message):
    path = in_file(tmp_path / name, content)
    with pytest.raises(Sen2ProError, match=message):
        sentences(path, **options).count()


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ('"\\ud800"', "half a surrogate pair"),
        ('"a\\u0000"', "holds a NUL"),
        ("1" * 30, "neither a text nor a whole number of 64 bits"),
        ("1.5", "neither a text nor a whole number"),
        ("[1]", "neither a text nor a whole number"),
        ("NaN", "neither a text nor a whole number"),
    ],
)
def test_hostile_labels(tmp_path, label, message):
    path = in_file(tmp_path / "in.jsonl", f'{{"text": "a", "label": {label}}}\n')
    with pytest.raises(Sen2ProError, match=message):
        list(labelled(path, None, "label"))


def not_utf8():
    return pa.array([b"fine", b"caf\xe9"], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (["a", None], {}, "row 2: the sentence is not a text"),
        ([1.0, float("nan")], {}, "row 1: the sentence is not a text"),
        (["same"] * 4999 + [None] + ["same"] * 1000, {}, "row 5000: the sentence is not a text"),
        (["same"] * 4999 + [" "] + ["same"] * 1000, {}, "row 5000: the sentence is empty"),
        (["short", "a" * 5000], {"longest_line": 4000}, "rows 1 to 2: a text is longer than 4,000 bytes"),
        (not_utf8(), {}, "in.parquet.*not UTF-8|'utf-8' codec"),
        (not_utf8(), {"skip_blank": True}, "in.parquet.*not UTF-8|'utf-8' codec"),
    ],
)
@pytest.mark.parametrize("read", [Reader.count, read_all])
def test_what_is_wrong_in_parquet_is_said_with_its_row(tmp_path, column, options, message, read):
    with pytest.raises(Sen2ProError, match=message):
        read(sentences(parquet(tmp_path / "in.parquet", column), "text", **options))


def test_a_schema_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a"], "strange": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"strange", b"str\xffnge"))
    with pytest.raises(Sen2ProError, match="is not a whole Parquet file"):
        read_all(sentences(str(path), "text"))


def test_a_small_parquet_file_of_many_rows_is_counted_without_filling_the_memory(tmp_path):
    """A file of some kilobytes can hold millions of rows: texts that repeat are decoded once."""
    rows = 50_000
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["the same " * 10_000]))
    pq.write_table(pa.table({"text": text}), tmp_path / "in.parquet")
    assert (tmp_path / "in.parquet").stat().st_size < 30_000
    tracemalloc.start()
    assert sentences(tmp_path / "in.parquet").count() == rows
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_flipped_byte_in_compressed_data_is_told(tmp_path, suffix, pack):
    def read_lines(path):
        with open_binary(path) as file:
            return list(lines(file, str(path)))

    content = pack("\n".join(f"sentence number {i * i}" for i in range(500)).encode())
    told = 0
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0x10
        path = in_file(tmp_path / f"in.txt{suffix}", bytes(changed))
        for read in (lambda p: read_all(sentences(p)), read_lines):
            with suppress(Sen2ProError):
                read(path)
                told -= 1
            told += 1
    assert told > len(content) / 7


def test_a_line_that_would_fill_the_memory_is_refused_with_its_number(tmp_path):
    path = in_file(tmp_path / "in.txt.gz", gzip.compress(b"fine\n" + b"a" * 20_000_000, 1))
    with pytest.raises(Sen2ProError, match=r"in.txt.gz, line 2: longer than 10,000,000 bytes.*longest_line="):
        sentences(path).count()
    with pytest.raises(Sen2ProError, match="line 1: longer than 3 bytes"):
        sentences(path, longest_line=3).count()
    assert sentences(path, longest_line=30_000_000).count() == 2


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("one\ntwo\n"))
    writer.start()
    source = sentences(str(pipe))
    assert source.count() is None
    assert read_all(source) == ["one", "two"]
    writer.join()


def test_blank_sentences_can_be_passed_over(tmp_path):
    path = in_file(tmp_path / "in.csv", "id,text\n1,one\n2, \n3,three\n")
    source = sentences(path, "text", "id", skip_blank=True)
    assert list(source) == [Record("1", "one"), Record("3", "three")]
    assert source.count() == 2


def test_a_missing_file_and_a_folder(tmp_path):
    for path, message in ((tmp_path / "nothing.txt", "there is no file"), (tmp_path, "is a folder")):
        with pytest.raises(Sen2ProError, match=message):
            sentences(path)
