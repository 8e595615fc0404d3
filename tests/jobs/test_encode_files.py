"""Large jobs: units, shards and workers give the same bytes; many files are read as one; faulty rows are named."""

import copy
import errno
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import WORDS
from scale_runs import (
    ROWS,
    SAMPLES,
    model,
    names,
    small_units,
    some_texts,
    stopped,
    texts,
    tiny_model,
    undisturbed,
    write_lines,
)
from test_cli import run

from sen2pro import Gaussian, Sen2Pro, Sen2ProError, Sen2ProWarning
from sen2pro.gaussian import read
from sen2pro.io import shards
from sen2pro.io.gaussians import stream
from sen2pro.io.inputs import Inputs
from sen2pro.jobs import Summary, encode_files, workers
from sen2pro.jobs.workers import RowsReport


@pytest.fixture
def source(tmp_path, texts):
    return write_lines(tmp_path / "in.txt", texts)


def shard_bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_result_is_what_the_model_gives(model, source, texts, tmp_path, monkeypatch):
    """The file is read once to check it and once to encode it."""
    reads, real = [], Inputs.rows
    monkeypatch.setattr("sen2pro.io.inputs.file_digest", lambda _: pytest.fail("the check makes the digest too"))
    monkeypatch.setattr(Inputs, "rows", lambda *given: reads.append(given[1:]) or real(*given))
    summary = encode_files(model, source, tmp_path / "out.parquet")
    assert len(reads) == 1
    stored, expected = read(tmp_path / "out.parquet"), model.encode(texts)
    assert stored.texts == texts
    np.testing.assert_allclose(stored.gaussian.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(stored.gaussian.variance, expected.variance, atol=1e-5)
    assert (summary.report.rows, summary.resumed, summary.signature) == (ROWS, 0, model.signature())
    assert names(tmp_path) == ["in.txt", "out.parquet"]


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_parts_and_no_parts_give_the_same_bytes(model, texts, tmp_path, monkeypatch, suffix):
    """One unit is written straight away; a run with parts writes the same file for the same rows."""
    source, output = write_lines(tmp_path / "in.txt", texts[:200]), tmp_path / f"out.{suffix}"
    encode_files(model, source, tmp_path / f"straight.{suffix}")
    stopped(model, write_lines(tmp_path / "in.txt", texts), output, 1)
    assert (tmp_path / f"out.{suffix}.parts").is_dir()
    write_lines(source, texts[:200])
    with pytest.raises(Sen2ProError, match="another input"):
        encode_files(model, source, output)
    encode_files(model, source, output, restart=True)
    assert output.read_bytes() == (tmp_path / f"straight.{suffix}").read_bytes()


@pytest.mark.slow
def test_one_and_two_workers_write_the_same_bytes(model, source, tmp_path):
    expected, seen = undisturbed(model, source, tmp_path / "undisturbed"), []
    stopped(model, source, tmp_path / "out.parquet", 1)  # what one process began, two can finish
    summary = encode_files(model, source, tmp_path / "out.parquet", workers=2, show_progress_bar=seen.append)
    assert (summary.resumed, (tmp_path / "out.parquet").read_bytes() == expected) == (256, True)
    assert sum(seen) == pytest.approx(2 * ROWS - 256)  # all rows encoded, and all joined


def test_threads_do_not_change_the_bytes_of_our_own_forward_pass(texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", texts[:300])
    minilm, before = Sen2Pro("all-MiniLM-L6-v2", method="one-pass"), torch.get_num_threads()
    expected = undisturbed(minilm, source, tmp_path / "one")
    torch.set_num_threads(2)
    try:
        assert undisturbed(minilm, source, tmp_path / "two") == expected
    finally:
        torch.set_num_threads(before)


def test_an_output_that_is_in_the_way_is_not_replaced_and_said_before_the_work(model, source, tmp_path, monkeypatch):
    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    output.write_text("precious")
    with monkeypatch.context() as patched:
        patched.setattr(workers, "write_unit", lambda *_: pytest.fail("nothing may be encoded"))
        with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
            encode_files(model, source, output)
    assert output.read_text() == "precious"
    encode_files(model, source, output, overwrite=True)
    assert len(Gaussian.load(output)) == ROWS


def test_ids_that_occur_twice_are_named_with_the_output(model, tmp_path):
    rows = [{"id": n % 599, "text": text} for n, text in enumerate(some_texts(600))]
    with pytest.warns(Sen2ProWarning, match=r"1 of 600 ids in .*/out.parquet "):
        encode_files(model, write_rows(tmp_path / "a.jsonl", rows), tmp_path / "out.parquet", id_column="id")


# Shards.


def test_a_folder_of_shards_is_read_like_a_file(model, source, texts, tmp_path):
    encode_files(model, source, tmp_path / "shards", shards=True)
    encode_files(model, source, tmp_path / "one.parquet")
    assert names(tmp_path / "shards") == [shards.MANIFEST, *(f"shard-00000{number}.parquet" for number in range(4))]
    whole, parts = read(tmp_path / "one.parquet"), read(tmp_path / "shards")
    assert (parts.gaussian, parts.texts) == (whole.gaussian, whole.texts)
    assert Gaussian.load(tmp_path / "shards") == whole.gaussian
    assert sum(len(piece) for piece in stream(tmp_path / "shards", 100)) == ROWS
    assert len(read(tmp_path / "shards" / "shard-000003.parquet").gaussian) == ROWS - 768  # each is a file of its own
    result = run("show", tmp_path / "shards", "-n", "2")
    output = " ".join(result.output.split())
    assert (result.exit_code, f"{ROWS} Gaussians" in output, "data variance" in output) == (0, True, True)


def test_a_folder_that_appears_during_a_run_of_shards_is_not_replaced(model, source, tmp_path):
    output = tmp_path / "shards"

    def appears(_):
        output.mkdir(exist_ok=True)
        (output / "mine.txt").write_text("precious")

    with pytest.raises(Sen2ProError, match=r"exists; pass overwrite=True.*kept in .*shards.parts"):
        encode_files(model, source, output, shards=True, show_progress_bar=appears)
    assert names(output) == ["mine.txt"]
    (output / "mine.txt").unlink()
    assert encode_files(model, source, output, shards=True).resumed == ROWS  # its parts were kept


def test_shards_that_could_not_be_replaced_stay(model, source, tmp_path, monkeypatch):
    output = tmp_path / "shards"
    encode_files(model, source, output, shards=True)
    before, rename = shard_bytes(output), Path.rename

    def failing(self, target):
        if self.suffix == ".parts":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="Input/output error"):
            encode_files(model, source, output, shards=True, overwrite=True, text=False)
    assert shard_bytes(output) == before


def test_overwriting_shards_deletes_no_input_and_nothing_of_others(model, source, tmp_path):
    for output in (".", ".."):
        with pytest.raises(Sen2ProError, match="give the name of a new file or folder"):
            encode_files(model, source, output, shards=True)
    output = tmp_path / "shards"
    encode_files(model, source, output, shards=True)
    before = shard_bytes(output)
    with pytest.raises(Sen2ProError, match="is to be read and lies in"):
        encode_files(model, output / shards.name(0), output, column="text", shards=True, overwrite=True)
    (output / "mine.txt").write_text("precious")
    with pytest.raises(Sen2ProError, match=r"also holds 'mine.txt'"):
        encode_files(model, source, output, shards=True, overwrite=True)
    assert shard_bytes(output) == {**before, "mine.txt": b"precious"}


def test_a_folder_that_lost_or_mixed_up_shards_is_refused(model, source, tmp_path):
    encode_files(model, source, tmp_path / "a", shards=True)
    first, second = tmp_path / "a" / shards.name(0), tmp_path / "a" / shards.name(1)
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(Sen2ProError, match=r"1 shards are missing in .*shard-000001"):
        read(tmp_path / "a")
    second.write_bytes(first.read_bytes())
    with pytest.raises(Sen2ProError, match=r"shard-000001.parquet is not the file"):
        read(tmp_path / "a")
    damaged = bytearray(kept)
    damaged[len(damaged) // 3] ^= 1
    second.write_bytes(bytes(damaged))
    with pytest.raises(Sen2ProError, match="shard-000001"):
        read(tmp_path / "a")
    (tmp_path / "a" / shards.MANIFEST).unlink()
    with pytest.raises(Sen2ProError, match="a folder without"):
        read(tmp_path / "a")


# The summary.


def test_the_summary_says_what_was_done(model, tmp_path):
    summary = Summary(Path("a"), RowsReport(rows=10, skipped_rows=3), model.signature(), 8, 1.0, 4)
    assert "10 sentences -> a (8 dimensions), 4 of them by an earlier run, 3 rows skipped" in str(summary)
    source = write_lines(tmp_path / "in.txt", [*some_texts(598), "the dog runs " * 30, " ".join(WORDS)])
    result = run("encode", source, tmp_path / "out.parquet", "-m", model.settings.model, "--samples", SAMPLES)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    for said in ("600 sentences -> ", "seconds", "2 of 600 sentences are longer than the 32 tokens",
                 "signature: model:tiny-bert|"):  # fmt: skip
        assert said in output


# The input.


def test_many_files_are_read_as_one_in_the_order_of_their_names(model, texts, source, tmp_path):
    expected, folder = undisturbed(model, source, tmp_path / "undisturbed"), tmp_path / "in"
    folder.mkdir()
    for number in range(200):
        write_lines(folder / f"{number:03d}.txt", texts[5 * number : 5 * number + 5])
    for name in ("notes.md", ".hidden.jsonl", "d.bin"):
        (folder / name).write_text("not a sentence")
    for given in (folder, f"{folder}/*.txt", sorted(folder.glob("*.txt"))):
        encode_files(model, given, tmp_path / "out.parquet", overwrite=True)
        assert (tmp_path / "out.parquet").read_bytes() == expected
    stopped(model, folder, tmp_path / "half.parquet")
    encode_files(model, folder, tmp_path / "half.parquet")
    assert (tmp_path / "half.parquet").read_bytes() == expected


def test_every_format_gives_the_same_bytes(model, texts, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f'1,"{text}"\n' for text in texts))
    write_rows(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(source.read_bytes()))
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=77)
    for name in ("a.csv", "a.jsonl", "a.txt.gz", "a.parquet"):
        output = tmp_path / f"{name}.out.parquet"
        stopped(model, tmp_path / name, output, 3)  # so that reading begins in the middle of the file
        encode_files(model, tmp_path / name, output)
        assert output.read_bytes() == expected, name


def test_ids_and_other_columns_are_kept(model, tmp_path):
    rows = [{"key": f"k{n}", "text": text, "n": n, "x": n / 2, "ok": n % 2 == 0, "note": None if n % 3 else "a"}
            for n, text in enumerate(some_texts(600))]  # fmt: skip
    source, output = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.parquet"
    options = {"id_column": "key", "keep": ["n", "x", "ok", "note"]}
    expected = undisturbed(model, source, tmp_path / "undisturbed", **options)
    stopped(model, source, output, **options)
    encode_files(model, source, output, **options)
    assert output.read_bytes() == expected
    table = pq.read_table(output, columns=["id", "text", "n", "x", "ok", "note"])
    assert table.to_pylist() == [
        {"id": row["key"], **{n: row[n] for n in ("text", "n", "x", "ok", "note")}} for row in rows
    ]


@pytest.mark.parametrize(
    ("columns", "keep", "message"),
    [
        ([{"a": 1}, {"a": "x"}], ["a"], "one type in all files"),
        ([{"a": [1]}], ["a"], "metadata (is|must be a) text, number or"),
        ([{"a": 2**70}], ["a"], "more than 64 bits"),
        ([{"mean": 1}], ["mean"], "the output has one"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(model, tmp_path, columns, keep, message):
    source = write_rows(tmp_path / "in.jsonl", [{"text": "the dog", **row} for row in columns])
    with pytest.raises(Sen2ProError, match=message):
        encode_files(model, source, tmp_path / "out.parquet", keep=keep)
    assert names(tmp_path) == ["in.jsonl"]


@pytest.mark.parametrize("shards", [False, True])
def test_the_name_of_a_file_need_not_be_utf8(model, texts, tmp_path, shards):
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.jsonl"))
    try:
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:600]) + "{\n")
    except OSError:
        pytest.skip("this file system has no such names")
    output = tmp_path / ("out" if shards else "out.parquet")
    stopped(model, source, output, 2, on_error="skip", shards=shards)
    summary = encode_files(model, source, output, on_error="skip", shards=shards)
    assert (summary.resumed, summary.report.rows, summary.report.skipped_rows) == (512, 600, 1)
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


def test_the_output_may_not_be_an_input(model, tmp_path):
    pq.write_table(pa.table({"text": ["rain"]}), tmp_path / "a.parquet")
    with pytest.raises(Sen2ProError, match="is a file to be read"):
        encode_files(model, tmp_path, tmp_path / "a.parquet", overwrite=True)


@pytest.mark.parametrize("given", ["{dir}", "{dir}/*.parquet", "{dir}/**/*.parquet"])
def test_what_a_run_writes_is_not_its_input(model, texts, tmp_path, given):
    """The output is in the folder that is read: it can be written again, and a stopped run resumes."""
    output, inputs = tmp_path / "out.parquet", given.format(dir=tmp_path)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    stopped(model, inputs, output)
    assert encode_files(model, inputs, output).resumed == 512
    encode_files(model, inputs, output, overwrite=True)
    assert read(output).texts == texts


def test_an_input_that_is_gone_is_not_taken_for_a_pipe(tmp_path):
    inputs = Inputs([str(write_lines(tmp_path / "a.txt", ["rain"]))])
    (tmp_path / "a.txt").unlink()
    assert inputs.lasting
    with pytest.raises(FileNotFoundError, match=r"a.txt"):
        inputs.scan(skip_faults=False)


def test_blank_rows_are_passed_over_wherever_they_stand(model, texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", ["", *texts[:700], "", ""])
    expected = undisturbed(model, source, tmp_path / "a", skip_blank=True)
    stopped(model, source, tmp_path / "out.parquet", skip_blank=True)
    assert encode_files(model, source, tmp_path / "out.parquet", skip_blank=True).report.rows == 700
    assert (tmp_path / "out.parquet").read_bytes() == expected


@pytest.mark.parametrize("options", [{}, {"shards": True}])
def test_units_without_a_sentence_are_left_out(model, texts, tmp_path, options):
    output, lines = tmp_path / ("out" if options else "out.parquet"), [""] * 600
    for rows in (lines, [*lines, "the dog"], ["the dog", *lines]):
        source = write_lines(tmp_path / "in.txt", rows)
        encode_files(model, source, output, skip_blank=True, overwrite=True, **options)
        assert (read(output).texts or []) == ["the dog"] * (len(rows) - 600)


@pytest.mark.parametrize("options", [["--workers", "2"], ["--shards"]])
def test_standard_input_cannot_be_resumed(model, tmp_path, options):
    result = run("encode", "-", tmp_path / "out.parquet", "-m", model.settings.model, *options, input="rain\n")
    assert (result.exit_code, "can be read only once" in " ".join(result.output.split())) == (2, True)


def test_standard_input_of_many_units_gives_the_same_bytes(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    common = ("encode", "-", tmp_path / "out.parquet", "-m", model.settings.model, "--samples", SAMPLES)
    assert run(*common, input=source.read_text()).exit_code == 0
    assert (tmp_path / "out.parquet").read_bytes() == expected


# Rows that are wrong.


@pytest.fixture(scope="module")
def poisoned(bert, tokenizer, tmp_path_factory):
    return poisoned_model(bert, tokenizer, tmp_path_factory.mktemp("poisoned") / "model")


def poisoned_model(bert, tokenizer, folder):
    """Return a model whose vector for one word is not finite: a text with it cannot be encoded."""
    network = copy.deepcopy(bert)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight[tokenizer.convert_tokens_to_ids("rain")] = float("nan")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Sen2Pro(str(folder), samples=4, uncertainty="model")  # without edits, which could put the word anywhere


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_row_that_the_model_fails_on_is_named(poisoned, texts, tmp_path, count):
    """The rows 301 and 302 cannot be encoded."""
    dry = [text.replace("rain", "sun") for text in texts]
    source = write_lines(tmp_path / "in.txt", [*dry[:300], "the rain today", "rain", *dry[300:]])
    output = tmp_path / "out.parquet"
    stopped(poisoned, source, output, 1)
    with pytest.raises(Sen2ProError, match=rf"{source}, line 301: this row cannot be encoded.*on_error='skip'"):
        encode_files(poisoned, source, output, workers=count)
    summary = encode_files(poisoned, source, output, on_error="skip")  # it resumes
    assert summary.resumed >= 256
    assert [place for place, _ in summary.report.skipped] == [f"{source}, line 301", f"{source}, line 302"]
    assert read(output).texts == dry
    assert RowsReport.of_file(output).skipped == summary.report.skipped


def test_rows_that_cannot_be_read_are_skipped_and_listed(model, texts, tmp_path):
    lines = [json.dumps({"text": text}) for text in texts[:600]]
    lines[10], lines[300], lines[301] = '{"text": ', '{"text": null}', '{"a": "x", "b": "y"}'
    source = tmp_path / "in.jsonl"
    source.write_bytes("\n".join(lines).encode() + b'\n{"text": "\xff"}\n')
    with pytest.raises(Sen2ProError, match="line 11"):
        encode_files(model, source, tmp_path / "out.parquet")
    result = run(
        "encode", source, tmp_path / "g", "-m", model.settings.model, "--samples", SAMPLES, "--shards",
        "--on-error", "skip",
    )  # fmt: skip
    output, faulty = " ".join(result.output.split()), (11, 301, 302, 601)
    assert (result.exit_code, "597 sentences" in output, "4 rows skipped" in output) == (0, True, True)
    assert all(f"skipped: {source}, line {number}: " in output for number in faulty)
    assert [place for place, _ in shards.manifest(tmp_path / "g").skipped] == [f"{source}, line {n}" for n in faulty]
    assert read(tmp_path / "g").texts == [text for n, text in enumerate(texts[:600]) if n not in (10, 300, 301)]


@pytest.mark.parametrize("rows", [200, ROWS])
@pytest.mark.parametrize("as_shards", [False, True])
def test_many_skipped_rows_are_counted_and_the_first_are_named(model, texts, tmp_path, monkeypatch, rows, as_shards):
    for place in ("sen2pro.jobs.workers.MOST_SKIPPED", "sen2pro.io.shards.MOST_SKIPPED"):
        monkeypatch.setattr(place, 3)
    lines = [json.dumps({"text": text}) if n % 10 else "{" for n, text in enumerate(texts[:rows])]
    source, output = write_lines(tmp_path / "in.jsonl", lines), tmp_path / ("out" if as_shards else "out.parquet")
    summary = encode_files(model, source, output, on_error="skip", shards=as_shards)
    first = [f"{source}, line {number}" for number in (1, 11, 21)]
    assert f", {rows // 10} rows skipped, " in str(summary)
    assert summary.report.skipped_rows == rows // 10
    assert [place for place, _ in summary.report.skipped] == first
    if not as_shards:
        assert RowsReport.of_file(output) == summary.report
        return
    assert shards.manifest(output).skipped_rows == rows // 10
    assert [place for place, _ in shards.manifest(output).skipped] == first
    if rows == ROWS:
        second = RowsReport.of_file(output / shards.name(1))
        assert [place for place, _ in second.skipped] == [f"{source}, line {number}" for number in (261, 271, 281)]
        assert second.skipped_rows == 26


def test_an_input_of_faults_alone_is_an_error(model, tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n[]\n")
    with pytest.raises(Sen2ProError, match=r"every row is faulty, the first one so: .*line 1"):
        encode_files(model, tmp_path / "in.jsonl", tmp_path / "out.parquet", on_error="skip")


def test_a_model_that_fails_on_every_row_is_not_skipped_over(bert, tokenizer, tmp_path):
    network = copy.deepcopy(bert)
    with torch.no_grad():
        network.embeddings.LayerNorm.weight[:] = float("nan")
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    source = write_lines(tmp_path / "in.txt", some_texts(20))
    try:
        broken = tiny_model(tmp_path / "model")
    except Sen2ProError:
        return  # refused at once: better still
    with pytest.raises(Sen2ProError):
        encode_files(broken, source, tmp_path / "out.parquet", on_error="skip")
