"""Large jobs on one machine: many inputs, units, shards, workers; the same bytes however they are run."""

import errno
import gzip
import json
import logging
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import WORDS
from scale_runs import SAMPLES, names, some_texts, tiny_model, undisturbed, write_lines
from test_cli import run

from sen2pro import Gaussian, Sen2Pro, Sen2ProError
from sen2pro.files import shards
from sen2pro.files.atomic import replacing
from sen2pro.files.gaussians import read, stream
from sen2pro.files.inputs import Inputs, expand
from sen2pro.scale import InProcess, Processes, Summary, encode_files, plan
from sen2pro.scale.engines import _died
from sen2pro.scale.units import Report

ROWS = 1000


@pytest.fixture(scope="module")
def model(shared_folder):
    return tiny_model(shared_folder)


@pytest.fixture(scope="module")
def texts():
    return some_texts(ROWS)


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(plan, "UNIT", 1024)  # of one pass a row; of four, it makes units of 256 rows


@pytest.fixture
def source(tmp_path, texts):
    return write_lines(tmp_path / "in.txt", texts)


class Stops(InProcess):
    """An engine whose process is stopped after some units, as by Ctrl-C."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def run(self, units, place, how, advance):
        for number, done in enumerate(super().run(units, place, how, advance)):
            yield done
            if number + 1 == self.after:
                raise KeyboardInterrupt


def stopped(model, inputs, output, after=2, **options):
    with pytest.raises(KeyboardInterrupt):
        encode_files(model, inputs, output, engine=Stops(after), **options)


def test_the_result_is_what_the_model_gives(model, source, texts, tmp_path):
    summary = encode_files(model, source, tmp_path / "out.parquet")
    stored = read(tmp_path / "out.parquet")
    assert stored.texts == texts
    expected = model.encode(texts)
    np.testing.assert_allclose(stored.gaussian.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(stored.gaussian.variance, expected.variance, atol=1e-5)
    assert (summary.report.rows, summary.resumed, summary.signature) == (ROWS, 0, model.signature())
    assert names(tmp_path) == ["in.txt", "out.parquet"]


def test_a_stopped_run_goes_on_and_writes_the_same_bytes(model, source, tmp_path, caplog):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output = tmp_path / "out.parquet"
    with caplog.at_level(logging.INFO, "sen2pro"):
        stopped(model, source, output)
        assert f"stopped: 512 of {ROWS:,} rows are done and kept in {output}.parts" in caplog.text
        summary = encode_files(model, source, output)
    assert f"going on with {output}.parts: 512 of {ROWS:,} rows are done" in caplog.text
    assert summary.resumed == 512
    assert output.read_bytes() == expected
    assert names(tmp_path) == ["in.txt", "out.parquet", "undisturbed"]


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_parts_and_no_parts_give_the_same_bytes(model, texts, tmp_path, suffix):
    """A unit alone is written straight away; the same rows by way of the folder of a run are the same file."""
    source = write_lines(tmp_path / "in.txt", texts[:200])
    encode_files(model, source, tmp_path / f"straight.{suffix}")
    output = tmp_path / f"out.{suffix}"
    folder = tmp_path / f"out.{suffix}.parts"
    stopped(model, write_lines(tmp_path / "in.txt", texts), output, 1)
    assert folder.is_dir()
    write_lines(tmp_path / "in.txt", texts[:200])
    with pytest.raises(Sen2ProError, match="another input"):
        encode_files(model, source, output)
    encode_files(model, source, output, restart=True)
    assert output.read_bytes() == (tmp_path / f"straight.{suffix}").read_bytes()


@pytest.mark.slow
def test_one_and_two_workers_write_the_same_bytes(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    seen = []
    encode_files(model, source, tmp_path / "out.parquet", workers=2, show_progress_bar=seen.append)
    assert (tmp_path / "out.parquet").read_bytes() == expected
    assert sum(seen) == pytest.approx(2 * ROWS)  # all rows encoded, and all joined


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")

    class Killing(Processes):
        killed = 0

        def run(self, units, place, how, advance):
            for done in super().run(units, place, how, advance):
                if not self.killed:
                    victim = next(each for each in self._running if not each.is_idle)
                    victim._process.kill()
                    self.killed = victim._process.pid
                yield done

    engine = Killing(2)
    stopped(model, source, tmp_path / "out.parquet", 1)  # what one process began, two can finish
    assert encode_files(model, source, tmp_path / "out.parquet", engine=engine).resumed == 256
    assert engine.killed
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_threads_do_not_change_the_bytes_of_our_own_forward_pass(texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", texts[:300])
    minilm = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    expected = undisturbed(minilm, source, tmp_path / "one")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert undisturbed(minilm, source, tmp_path / "two") == expected
    finally:
        torch.set_num_threads(before)


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
        ([{"a": [1]}], ["a"], "metadata is text, number or truth"),
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


def test_other_settings_or_another_input_refuse_and_say_what_differs(model, shared_folder, source, texts, tmp_path):
    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    other = Sen2Pro(str(shared_folder), samples=SAMPLES, seed=1)
    with pytest.raises(Sen2ProError, match="other settings: signature.seed '0' there, '1' here.*restart=True"):
        encode_files(other, source, output)
    with pytest.raises(Sen2ProError, match="texts True there, False here"):
        encode_files(model, source, output, text=False)
    with pytest.raises(Sen2ProError, match="batch_size None there, 7 here"):
        encode_files(model, source, output, batch_size=7)
    with pytest.raises(Sen2ProError, match="1 input files there, 2 here"):
        encode_files(model, [source, write_lines(tmp_path / "more.txt", ["rain"])], output)
    write_lines(source, [*texts[:-1], "another sentence"])
    with pytest.raises(Sen2ProError, match=f"another input: the content of {source}"):
        encode_files(model, source, output)
    write_lines(source, texts)
    os.utime(source)  # the content counts, not the time
    expected = undisturbed(other, source, tmp_path / "undisturbed")
    encode_files(other, source, output, restart=True)
    assert output.read_bytes() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "none"}, "this row has no 'none'"),
        ({"model": "no model"}, "must be a Sen2Pro"),
        ({"inputs": "nothing.txt"}, "there is no file"),
        ({"exists": True}, "exists; pass overwrite=True"),
    ],
)
def test_a_restart_that_cannot_begin_leaves_the_old_run(model, tmp_path, options, message):
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in some_texts(ROWS)))
    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    if options.get("exists"):
        output.write_text("precious")
    with pytest.raises(Sen2ProError, match=message):
        encode_files(
            options.get("model", model), options.get("inputs", source), output, column=options.get("column"),
            restart=True,
        )  # fmt: skip
    output.unlink(missing_ok=True)
    assert encode_files(model, source, output).resumed == 512


def test_a_restart_throws_the_old_parts_away(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed", text=False)
    output = tmp_path / "out.parquet"
    stopped(model, source, output, 3)
    stopped(model, source, output, 1, restart=True, text=False)
    assert encode_files(model, source, output, text=False).resumed == 256
    assert output.read_bytes() == expected


def test_the_same_bytes_read_in_another_way_are_another_input(model, texts, tmp_path):
    source, output = write_lines(tmp_path / "in.txt", ["text", *texts]), tmp_path / "out.parquet"
    stopped(model, source, output)
    with pytest.raises(Sen2ProError, match="another input: .*in.csv was read as text there, and is as csv here"):
        encode_files(model, source.rename(tmp_path / "in.csv"), output)


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


def test_two_runs_of_one_output_do_not_meet(model, source, tmp_path):
    output = tmp_path / "out.parquet"

    class Meets(InProcess):
        def run(self, units, place, how, advance):
            with pytest.raises(Sen2ProError, match="another process is writing"):
                encode_files(model, source, output)
            yield from super().run(units, place, how, advance)

    encode_files(model, source, output, engine=Meets())
    assert len(Gaussian.load(output)) == ROWS


def test_a_folder_that_cannot_be_locked_is_not_said_to_be_in_use(model, source, tmp_path, monkeypatch):
    def without_locks(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", without_locks)
    with pytest.raises(OSError, match="cannot be locked: No locks available") as caught:
        encode_files(model, source, tmp_path / "out.parquet")
    assert caught.value.errno == errno.ENOLCK


def test_what_a_killed_run_of_the_same_process_id_left_is_deleted(model, tmp_path):
    """In a container, the first process always has the id 1."""
    source, output = write_lines(tmp_path / "in.txt", ["rain"]), tmp_path / "out.parquet"
    (tmp_path / f".out.parquet.{os.getpid()}-123456789.partial").write_text("half")
    with replacing(output) as ours:  # another thread writes it
        encode_files(model, source, output)
        assert names(tmp_path) == sorted([ours.name, "in.txt", "out.parquet"])


def test_an_input_that_changes_while_it_is_read_is_noticed(model, source, texts, tmp_path):
    class Changes(InProcess):
        def run(self, units, place, how, advance):
            for done in super().run(units, place, how, advance):
                write_lines(source, [*texts, "one more"])
                yield done

    with pytest.raises(Sen2ProError, match="the input was changed while it was read"):
        encode_files(model, source, tmp_path / "out.parquet", engine=Changes())
    assert not (tmp_path / "out.parquet").exists()


def test_a_damaged_part_is_encoded_anew(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output = tmp_path / "out.parquet"
    stopped(model, source, output, 3)
    units = sorted((tmp_path / "out.parquet.parts").rglob("unit-*.parquet"))
    units[0].write_bytes(units[0].read_bytes()[:-9])  # its end is gone: seen at once
    data = bytearray(units[1].read_bytes())
    data[len(data) // 3] ^= 1  # a number is another one: seen by the digest
    units[1].write_bytes(bytes(data))
    with pytest.raises(Sen2ProError, match="damaged on the disk and is deleted; start again"):
        encode_files(model, source, output)
    encode_files(model, source, output)
    assert output.read_bytes() == expected


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), MemoryError("malloc of size 9 failed")])
def test_a_part_that_the_machine_cannot_read_now_is_kept(model, source, tmp_path, monkeypatch, fault):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output = tmp_path / "out.parquet"
    stopped(model, source, output, 3)
    units = sorted((tmp_path / "out.parquet.parts").rglob("unit-*.parquet"))
    whole = pq.ParquetFile

    def failing(path, **options):
        if Path(path) == units[1]:
            raise fault
        return whole(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetFile", failing)
        with pytest.raises(Sen2ProError, match="unit-000000001.parquet, a part of the run, cannot be read now: .*kept"):
            encode_files(model, source, output)
    assert all(unit.exists() for unit in units)
    assert encode_files(model, source, output).resumed == 768
    assert output.read_bytes() == expected


def test_a_part_of_another_number_or_size_is_thrown_away(model, source, texts, tmp_path, caplog):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output, other = tmp_path / "out.parquet", tmp_path / "other.parquet"
    stopped(model, source, output)
    stopped(model, write_lines(tmp_path / "other.txt", texts[:900]), other, 4)  # whose last unit is shorter
    units = tmp_path / "out.parquet.parts" / "units" / "0000000"
    short = (tmp_path / "other.parquet.parts" / "units" / "0000000" / "unit-000000003.parquet").read_bytes()
    (units / "unit-000000002.parquet").write_bytes(short)
    (units / "unit-000000004.parquet").write_bytes((units / "unit-000000000.parquet").read_bytes())
    with caplog.at_level(logging.WARNING, "sen2pro"):
        assert encode_files(model, source, output).resumed == 512
    assert "2 damaged or foreign parts are thrown away" in caplog.text
    assert output.read_bytes() == expected


def test_parts_that_lie_elsewhere_are_refused(model, source, tmp_path):
    output, units = tmp_path / "out.parquet", tmp_path / "out.parquet.parts" / "units"
    stopped(model, source, output)
    units.rename(tmp_path / "elsewhere")
    units.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Sen2ProError, match="units is a link"):
        encode_files(model, source, output)
    assert len(list((tmp_path / "elsewhere").rglob("unit-*.parquet"))) == 2


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_run_that_was_killed_when_all_was_done_is_done(model, source, tmp_path, monkeypatch, suffix):
    """The output is there, its parts are too: nothing is encoded, and the parts go."""
    output = tmp_path / f"out.{suffix}"
    with monkeypatch.context() as patched:
        patched.setattr("sen2pro.scale.folder.RunFolder.remove", lambda self: None)
        encode_files(model, source, output)
    before = output.read_bytes()
    assert names(tmp_path) == ["in.txt", output.name, f"{output.name}.parts"]
    assert encode_files(model, source, output).resumed == ROWS
    assert (names(tmp_path), output.read_bytes()) == (["in.txt", output.name], before)


def test_an_output_with_other_ids_or_columns_is_not_taken_for_the_result(model, tmp_path, monkeypatch):
    """The numbers are the same, and yet it is another result: it is neither replaced nor are the parts thrown away."""
    source = tmp_path / "in.jsonl"
    rows = [{"text": text, "a": f"a{n}", "b": f"b{n}"} for n, text in enumerate(some_texts(600))]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / "out.parquet"
    wanted = {"id_column": "a", "keep": ["b"]}
    with monkeypatch.context() as patched:
        patched.setattr("sen2pro.scale.folder.RunFolder.remove", lambda self: None)
        encode_files(model, source, output, **wanted)
    for number, other in enumerate(({"id_column": "b", "keep": ["b"]}, {"id_column": "a", "keep": ["a"]},
                                    {"id_column": "a"}, {**wanted, "text": False})):  # fmt: skip
        undisturbed(model, source, tmp_path / f"undisturbed-{number}", **other)
        output.write_bytes((tmp_path / f"undisturbed-{number}" / "out.parquet").read_bytes())
        with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
            encode_files(model, source, output, **wanted)
    encode_files(model, source, output, overwrite=True, **wanted)
    assert read(output).ids == [row["a"] for row in rows]


def test_an_output_that_is_in_the_way_is_said_before_the_work(model, source, tmp_path):
    class Idle(InProcess):
        def run(self, units, place, how, advance):
            raise AssertionError("nothing may be encoded")

    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    output.write_text("precious")
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output, engine=Idle())


def test_somebody_elses_output_is_not_replaced(model, source, tmp_path):
    output = tmp_path / "out.parquet"
    stopped(model, source, output)
    output.write_text("precious")
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output)
    assert output.read_text() == "precious"
    encode_files(model, source, output, overwrite=True)
    assert len(Gaussian.load(output)) == ROWS


# Shards.


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(plan, "SHARD", 512)


def shard_bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.usefixtures("small_shards")
def test_a_folder_of_shards_is_read_like_a_file(model, source, texts, tmp_path):
    encode_files(model, source, tmp_path / "shards", shards=True)
    encode_files(model, source, tmp_path / "one.parquet")
    assert names(tmp_path / "shards") == [shards.MANIFEST, "shard-000000.parquet", "shard-000001.parquet"]
    whole, parts = read(tmp_path / "one.parquet"), read(tmp_path / "shards")
    assert (parts.gaussian, parts.texts) == (whole.gaussian, whole.texts)
    assert Gaussian.load(tmp_path / "shards") == whole.gaussian
    assert sum(len(piece.gaussian) for piece in stream(tmp_path / "shards", 100)) == ROWS
    assert len(read(tmp_path / "shards" / "shard-000001.parquet").gaussian) == ROWS - 512  # each is a file of its own
    result = run("show", tmp_path / "shards", "-n", "2")
    assert result.exit_code == 0, result.output
    assert f"{ROWS} Gaussians" in " ".join(result.output.split())
    assert "data variance" in " ".join(result.output.split())


@pytest.mark.usefixtures("small_shards")
def test_shards_resume_with_the_same_bytes(model, source, tmp_path):
    encode_files(model, source, tmp_path / "undisturbed", shards=True)
    for after in (1, 2, 3):
        output = tmp_path / f"stopped-{after}"
        stopped(model, source, output, after, shards=True)
        encode_files(model, source, output, shards=True)
        assert shard_bytes(output) == shard_bytes(tmp_path / "undisturbed")
        assert not list(tmp_path.glob("*.parts"))
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output, shards=True)
    write_lines(source, ["rain", "sun"])
    encode_files(model, source, output, shards=True, overwrite=True)
    assert read(output).texts == ["rain", "sun"]


@pytest.mark.usefixtures("small_shards")
def test_a_folder_that_appears_during_a_run_of_shards_is_not_replaced(model, source, tmp_path):
    output = tmp_path / "shards"

    class Appears(InProcess):
        def run(self, units, place, how, advance):
            yield from super().run(units, place, how, advance)
            output.mkdir()
            (output / "mine.txt").write_text("precious")

    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True.*kept in .*shards.parts"):
        encode_files(model, source, output, shards=True, engine=Appears())
    assert names(output) == ["mine.txt"]
    (output / "mine.txt").unlink()
    assert encode_files(model, source, output, shards=True).resumed == ROWS  # its parts were kept


@pytest.mark.usefixtures("small_shards")
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


@pytest.mark.usefixtures("small_shards")
def test_overwriting_shards_deletes_no_input_and_nothing_of_others(model, source, tmp_path):
    output = tmp_path / "shards"
    encode_files(model, source, output, shards=True)
    before = shard_bytes(output)
    with pytest.raises(Sen2ProError, match="is to be read and lies in"):
        encode_files(model, output / shards.name(0), output, column="text", shards=True, overwrite=True)
    (output / "mine.txt").write_text("precious")
    with pytest.raises(Sen2ProError, match="also holds 'mine.txt'"):
        encode_files(model, source, output, shards=True, overwrite=True)
    assert shard_bytes(output) == {**before, "mine.txt": b"precious"}


def test_shards_need_the_name_of_a_folder(model, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for output in (".", ".."):
        with pytest.raises(Sen2ProError, match="give the name of a new file or folder"):
            encode_files(model, source, output, shards=True)


@pytest.mark.usefixtures("small_shards")
def test_a_folder_that_lost_or_mixed_up_shards_is_refused(model, source, tmp_path):
    encode_files(model, source, tmp_path / "a", shards=True)
    first, second = tmp_path / "a" / shards.name(0), tmp_path / "a" / shards.name(1)
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(Sen2ProError, match="1 shards are missing in .*shard-000001"):
        read(tmp_path / "a")
    second.write_bytes(first.read_bytes())
    with pytest.raises(Sen2ProError, match="shard-000001.parquet is not the file"):
        read(tmp_path / "a")
    damaged = bytearray(kept)
    damaged[len(damaged) // 3] ^= 1
    second.write_bytes(bytes(damaged))
    with pytest.raises(Sen2ProError, match="shard-000001"):
        read(tmp_path / "a")
    (tmp_path / "a" / shards.MANIFEST).unlink()
    with pytest.raises(Sen2ProError, match="a folder without"):
        read(tmp_path / "a")


@pytest.mark.slow
def test_index_and_classify_take_a_folder_of_shards(tmp_path):
    texts = ["The bank raised its rates.", "A dog barks.", "Rain is expected.", "The cat sleeps."]
    source = write_lines(tmp_path / "in.txt", texts)
    assert run("encode", source, tmp_path / "g", "--shards", "--method", "one-pass").exit_code == 0
    result = run("index", tmp_path / "g", tmp_path / "index", "--encoded")
    assert result.exit_code == 0, result.output
    assert "The bank raised" in run("search", tmp_path / "index", "Did the bank raise interest rates?").output
    labelled = "text,label\n" + "".join(
        f"{a} {b}.,{label}\n" for a in ("the", "my", "one", "a", "this") for b, label in (("dog", "x"), ("bank", "y"))
    )
    (tmp_path / "train.csv").write_text(labelled)
    trained = run("classify", "train", tmp_path / "train.csv", tmp_path / "classifier", "--method", "one-pass")
    assert trained.exit_code == 0, trained.output
    assert run("classify", "predict", tmp_path / "classifier", source, tmp_path / "a.csv").exit_code == 0
    result = run("classify", "predict", tmp_path / "classifier", tmp_path / "g", tmp_path / "b.csv", "--encoded")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()


# Rows that are wrong.


@pytest.fixture(scope="module")
def poisoned(bert, tokenizer, tmp_path_factory):
    """A model whose vector for one word is not finite: a text with it cannot be encoded."""
    import copy

    network = copy.deepcopy(bert)
    with torch.no_grad():
        network.embeddings.word_embeddings.weight[tokenizer.convert_tokens_to_ids("rain")] = float("nan")
    folder = tmp_path_factory.mktemp("poisoned") / "model"
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Sen2Pro(str(folder), samples=4, uncertainty="model")  # without edits, which could put the word anywhere


def poison(texts):
    """Return texts of which the rows 301 and 302 cannot be encoded, and those that can be."""
    dry = [text.replace("rain", "sun") for text in texts]
    return [*dry[:300], "the rain today", "rain", *dry[300:]], dry


def test_a_row_that_the_model_fails_on_is_named(poisoned, texts, tmp_path):
    source = write_lines(tmp_path / "in.txt", poison(texts)[0])
    with pytest.raises(Sen2ProError, match=f"{source}, line 301: this row cannot be encoded.*on_error='skip'"):
        encode_files(poisoned, source, tmp_path / "out.parquet")
    summary = encode_files(poisoned, source, tmp_path / "out.parquet", on_error="skip")  # it goes on
    assert summary.resumed == 256
    assert [place for place, _ in summary.report.skipped] == [f"{source}, line 301", f"{source}, line 302"]
    assert read(tmp_path / "out.parquet").texts == poison(texts)[1]
    assert Report.of_file(tmp_path / "out.parquet").skipped == summary.report.skipped


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
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "597 sentences" in output
    assert "4 rows skipped" in output
    for number in (11, 301, 302, 601):
        assert f"skipped: {source}, line {number}: " in output
    stored = shards.manifest(tmp_path / "g")
    assert [place for place, _ in stored["skipped"]] == [f"{source}, line {n}" for n in (11, 301, 302, 601)]
    assert read(tmp_path / "g").texts == [text for n, text in enumerate(texts[:600]) if n not in (10, 300, 301)]


@pytest.mark.parametrize("options", [{}, {"shards": True}, {"engine": Stops(-1)}])
def test_many_skipped_rows_are_counted_and_the_first_are_named(model, texts, tmp_path, monkeypatch, options):
    for place in ("sen2pro.scale.units.MOST_SKIPPED", "sen2pro.files.shards.MOST_SKIPPED"):
        monkeypatch.setattr(place, 3)
    monkeypatch.setattr("sen2pro.scale.run.MOST_NAMED", 4)
    monkeypatch.setattr(plan, "SHARD", 512)
    lines = [json.dumps({"text": text}) if n % 10 else "{" for n, text in enumerate(texts)]
    source = write_lines(tmp_path / "in.jsonl", lines if options else lines[:200])
    output = tmp_path / ("out" if "shards" in options else "out.parquet")
    summary = encode_files(model, source, output, on_error="skip", **options)
    count = 100 if options else 20
    first = [f"{source}, line {number}" for number in (1, 11, 21)]
    assert f", {count} rows skipped, " in str(summary)
    assert summary.report.skipped_rows == count
    assert [place for place, _ in summary.report.skipped] == first
    if "shards" in options:
        assert shards.manifest(output)["skipped_rows"] == count
        assert [place for place, _ in shards.manifest(output)["skipped"]] == first
        second = Report.of_file(output / shards.name(1))
        assert [place for place, _ in second.skipped] == [f"{source}, line {number}" for number in (521, 531, 541)]
        assert second.skipped_rows == 48
    else:
        assert Report.of_file(output) == summary.report


def test_an_input_of_faults_alone_is_an_error(model, tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n[]\n")
    with pytest.raises(Sen2ProError, match="every row is faulty, the first one so: .*line 1"):
        encode_files(model, tmp_path / "in.jsonl", tmp_path / "out.parquet", on_error="skip")


def test_a_model_that_fails_on_every_row_is_not_skipped_over(bert, tokenizer, tmp_path):
    import copy

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


def test_blank_rows_are_passed_over_wherever_they_stand(model, texts, tmp_path):
    expected = undisturbed(model, write_lines(tmp_path / "in.txt", ["", *texts[:700], "", ""]), tmp_path / "a",
                           skip_blank=True)  # fmt: skip
    stopped(model, tmp_path / "in.txt", tmp_path / "out.parquet", skip_blank=True)
    assert encode_files(model, tmp_path / "in.txt", tmp_path / "out.parquet", skip_blank=True).report.rows == 700
    assert (tmp_path / "out.parquet").read_bytes() == expected


# What is said.


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


def test_a_folder_that_is_not_of_a_run_is_not_touched(model, source, tmp_path):
    (tmp_path / "out.parquet.parts").mkdir()
    (tmp_path / "out.parquet.parts" / "mine.txt").write_text("precious")
    for restart in (False, True):
        with pytest.raises(Sen2ProError, match="is not the folder of a run"):
            encode_files(model, source, tmp_path / "out.parquet", restart=restart)
    assert (tmp_path / "out.parquet.parts" / "mine.txt").read_text() == "precious"


def test_a_run_that_was_killed_before_it_began_leaves_nothing(model, tmp_path):
    (tmp_path / "out.parquet.parts").mkdir()
    encode_files(model, write_lines(tmp_path / "in.txt", ["rain"]), tmp_path / "out.parquet")
    assert names(tmp_path) == ["in.txt", "out.parquet"]


@pytest.mark.parametrize(("options", "wanted"), [([], None), (["--workers", "3"], 3)])
def test_ray_uses_all_cpus_unless_a_number_is_given(model, source, tmp_path, monkeypatch, options, wanted):
    engine = pytest.importorskip("sen2pro.integrations.ray").RayEngine
    seen = []

    def start(self, model):
        seen.append(self.workers)
        raise Sen2ProError("no cluster is needed to see this")

    monkeypatch.setattr(engine, "start", start)
    run("encode", source, tmp_path / "out.parquet", "-m", model.settings.model, "--engine", "ray", *options)
    assert seen == [wanted]


def test_workers_that_never_begin_say_what_a_script_needs():
    assert '`if __name__ == "__main__":`' in _died(None, 1)
    assert "enough memory" in _died(None, -9)


@pytest.mark.parametrize("options", [["--workers", "2"], ["--shards"]])
def test_standard_input_cannot_be_resumed(model, tmp_path, options):
    result = run("encode", "-", tmp_path / "out.parquet", "-m", model.settings.model, *options, input="rain\n")
    assert result.exit_code == 2
    assert "can be read only once" in " ".join(result.output.split())


def test_the_summary_tells_skipped_rows_from_those_of_an_earlier_run(model):
    summary = Summary(Path("a"), Report(10, skipped_rows=3), model.signature(), 8, 1.0, 4)
    assert "10 sentences -> a (8 dimensions), 4 of them by an earlier run, 3 rows skipped" in str(summary)


def test_the_summary_says_what_was_done(model, tmp_path):
    source = write_lines(tmp_path / "in.txt", [*some_texts(598), "the dog runs " * 30, " ".join(WORDS)])
    result = run("encode", source, tmp_path / "out.parquet", "-m", model.settings.model, "--samples", SAMPLES)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "600 sentences -> " in output
    assert "seconds" in output
    assert "2 of 600 sentences are longer than the 32 tokens" in output
    assert "signature: model:tiny-bert|" in output
