"""What large jobs read: many files as one, columns to keep, and what is no input."""

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scale_runs import model, names, small_units, some_texts, stopped, texts, undisturbed, write_lines
from test_cli import run

from sen2pro import Sen2ProError
from sen2pro.io.gaussians import read
from sen2pro.io.inputs import Inputs, expand
from sen2pro.jobs import encode_files, plan


def test_many_files_are_read_as_one(model, texts, tmp_path):
    expected = undisturbed(model, write_lines(tmp_path / "all.txt", texts), tmp_path / "undisturbed")
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(200):
        write_lines(folder / f"{number:03d}.txt", texts[5 * number : 5 * number + 5])
    (folder / "notes.md").write_text("not a sentence")
    for given in (folder, f"{folder}/*.txt", sorted(folder.glob("*.txt"))):
        encode_files(model, given, tmp_path / "out.parquet", overwrite=True)
        assert (tmp_path / "out.parquet").read_bytes() == expected
    stopped(model, folder, tmp_path / "half.parquet")
    encode_files(model, folder, tmp_path / "half.parquet")
    assert (tmp_path / "half.parquet").read_bytes() == expected


def test_every_format_gives_the_same_bytes(model, texts, tmp_path):
    expected = undisturbed(model, write_lines(tmp_path / "a.txt", texts), tmp_path / "undisturbed")
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f'1,"{text}"\n' for text in texts))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes()))
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=77)
    for name in ("a.csv", "a.jsonl", "a.txt.gz", "a.parquet"):
        output = tmp_path / f"{name}.out.parquet"
        stopped(model, tmp_path / name, output, 3)  # so that reading begins in the middle of the file
        encode_files(model, tmp_path / name, output)
        assert output.read_bytes() == expected, name


def test_ids_and_other_columns_are_kept(model, tmp_path):
    rows = [{"key": f"k{n}", "text": text, "n": n, "x": n / 2, "ok": n % 2 == 0, "note": None if n % 3 else "a"}
            for n, text in enumerate(some_texts(600))]  # fmt: skip
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"id_column": "key", "keep": ["n", "x", "ok", "note"]}
    expected = undisturbed(model, tmp_path / "in.jsonl", tmp_path / "undisturbed", **options)
    output = tmp_path / "out.parquet"
    stopped(model, tmp_path / "in.jsonl", output, **options)
    encode_files(model, tmp_path / "in.jsonl", output, **options)
    assert output.read_bytes() == expected
    table = pq.read_table(output, columns=["id", "text", "n", "x", "ok", "note"])
    assert table.to_pylist() == [
        {"id": row["key"], **{n: row[n] for n in ("text", "n", "x", "ok", "note")}} for row in rows
    ]
    assert read(output).ids == [row["key"] for row in rows]


@pytest.mark.parametrize(
    ("columns", "keep", "message"),
    [
        ([{"a": 1}, {"a": "x"}], ["a"], "one type in all files"),
        ([{"a": [1]}], ["a"], "metadata must be a text, number or boolean"),
        ([{"a": 2**70}], ["a"], "more than 64 bits"),
        ([{"mean": 1}], ["mean"], "the output has one of its own"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(model, tmp_path, columns, keep, message):
    lines = [json.dumps({"text": "the dog", **row}) for row in columns]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    with pytest.raises(Sen2ProError, match=message):
        encode_files(model, tmp_path / "in.jsonl", tmp_path / "out.parquet", keep=keep)
    assert names(tmp_path) == ["in.jsonl"]


@pytest.mark.parametrize("shards", [False, True])
def test_the_name_of_a_file_need_not_be_utf8(model, texts, tmp_path, shards):
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.jsonl"))
    try:
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:600]) + "{\n")
    except OSError:
        pytest.skip("this file system has no such names")
    output = tmp_path / ("out" if shards else "out.parquet")
    stopped(model, source, output, 3, on_error="skip", shards=shards)
    summary = encode_files(model, source, output, on_error="skip", shards=shards)
    assert (summary.resumed, summary.report.rows, summary.report.skipped_rows) == (600, 600, 1)
    assert summary.report.skipped[0][0].endswith("a?.jsonl, line 601")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "at least one file"),
        (["-", "{dir}/a.txt"], "together with other files"),
        (["{dir}/a.txt", "{dir}/*.txt"], "is given twice"),
        (["{dir}/*.csv"], "no file fits the pattern"),
        (["{dir}/empty"], "there is no file of sentences"),
        (["{dir}/nothing.txt"], "there is no file"),
    ],
)
def test_inputs_that_are_none(model, tmp_path, inputs, message):
    write_lines(tmp_path / "a.txt", ["rain"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(Sen2ProError, match=message):
        encode_files(model, [each.format(dir=tmp_path) for each in inputs], tmp_path / "out.parquet")


def test_the_order_of_files_is_that_of_their_names(tmp_path):
    for name in ("b.txt", "a.jsonl", ".hidden.txt", "c.parquet.gz", "d.bin"):
        (tmp_path / name).touch()
    assert [Path(path).name for path in expand(tmp_path)] == ["a.jsonl", "b.txt", "c.parquet.gz"]


def test_the_output_may_not_be_an_input(model, tmp_path):
    pq.write_table(pa.table({"text": ["rain"]}), tmp_path / "a.parquet")
    with pytest.raises(Sen2ProError, match="is a file to be read"):
        encode_files(model, tmp_path, tmp_path / "a.parquet", overwrite=True)


@pytest.mark.parametrize("given", ["{dir}", "{dir}/*.parquet", "{dir}/**/*.parquet"])
def test_what_a_run_writes_is_not_its_input(model, texts, tmp_path, given):
    """The output stands in the folder that is read: it can be written again, and a stopped run goes on."""
    source, output = tmp_path / "a.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"text": texts}), source)
    stopped(model, given.format(dir=tmp_path), output)
    assert encode_files(model, given.format(dir=tmp_path), output).resumed == 512
    encode_files(model, given.format(dir=tmp_path), output, overwrite=True)
    assert read(output).texts == texts


def test_an_input_that_is_gone_is_not_taken_for_a_pipe(tmp_path):
    inputs = Inputs([str(write_lines(tmp_path / "a.txt", ["rain"]))])
    (tmp_path / "a.txt").unlink()
    assert inputs.lasting
    with pytest.raises(FileNotFoundError, match="a.txt"):
        inputs.scan(skip_faults=False)


def test_blank_rows_are_passed_over_wherever_they_stand(model, texts, tmp_path):
    expected = undisturbed(model, write_lines(tmp_path / "in.txt", ["", *texts[:700], "", ""]), tmp_path / "a",
                           skip_blank=True)  # fmt: skip
    stopped(model, tmp_path / "in.txt", tmp_path / "out.parquet", skip_blank=True)
    assert encode_files(model, tmp_path / "in.txt", tmp_path / "out.parquet", skip_blank=True).report.rows == 700
    assert (tmp_path / "out.parquet").read_bytes() == expected


@pytest.mark.parametrize("options", [["--workers", "2"], ["--shards"]])
def test_standard_input_cannot_be_resumed(model, tmp_path, options):
    result = run("encode", "-", tmp_path / "out.parquet", "-m", model.settings.model, *options, input="rain\n")
    assert result.exit_code == 2
    assert "can be read only once" in " ".join(result.output.split())
