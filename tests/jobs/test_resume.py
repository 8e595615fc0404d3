"""Large jobs that resume: the same bytes, nothing of others touched, and no mixture of two runs."""

import errno
import json
import logging
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from scale_runs import ROWS, SAMPLES, model, names, small_units, some_texts, stopped, texts, undisturbed, write_lines

from sen2pro import Gaussian, Sen2Pro, Sen2ProError
from sen2pro.gaussian import read
from sen2pro.io.atomic import replacing
from sen2pro.jobs import encode_files, shards_for


@pytest.fixture
def source(tmp_path, texts):
    return write_lines(tmp_path / "in.txt", texts)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards_of(output):
    return sorted(output.with_name(f"{output.name}.parts").glob("shard-*.parquet"))


def test_a_stopped_run_goes_on_and_writes_the_same_bytes(model, source, tmp_path, caplog):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output = tmp_path / "out.parquet"
    with caplog.at_level(logging.INFO, "sen2pro"):
        stopped(model, source, output)
        summary = encode_files(model, source, output)
    kept = f"512 of {ROWS:,} rows are kept in {output}.parts"
    assert f"Stopped. {kept}. Run the same command again to resume." in caplog.text
    assert f"resuming {output}.parts: 512 of {ROWS:,} rows are done" in caplog.text
    assert summary.resumed == 512
    assert output.read_bytes() == expected
    assert names(tmp_path) == ["in.txt", "out.parquet", "undisturbed"]


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
    with pytest.raises(Sen2ProError, match="another input: .*in.csv was read as text there, and is read as csv here"):
        encode_files(model, source.rename(tmp_path / "in.csv"), output)


def test_two_runs_of_one_output_do_not_meet(model, source, tmp_path):
    output = tmp_path / "out.parquet"

    def meets(_):
        with pytest.raises(Sen2ProError, match="another process is writing|exists"):
            encode_files(model, source, output)

    encode_files(model, source, output, show_progress_bar=meets)
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
    def changes(_):
        write_lines(source, [*texts, "one more"])

    with pytest.raises(Sen2ProError, match="the input was changed while it was read"):
        encode_files(model, source, tmp_path / "out.parquet", show_progress_bar=changes)
    assert not (tmp_path / "out.parquet").exists()


def test_a_damaged_part_is_encoded_anew(model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output = tmp_path / "out.parquet"
    stopped(model, source, output, 3)
    units = shards_of(output)
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
    units = shards_of(output)
    whole = pq.ParquetFile

    def failing(path, **options):
        if Path(path) == units[1]:
            raise fault
        return whole(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetFile", failing)
        with pytest.raises(Sen2ProError, match=r"shard-000001.parquet, a part of the run, cannot be read now: .*kept"):
            encode_files(model, source, output)
    assert all(unit.exists() for unit in units)
    assert encode_files(model, source, output).resumed == 768
    assert output.read_bytes() == expected


def test_a_part_of_another_number_or_size_is_thrown_away(model, source, texts, tmp_path, caplog):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    output, other = tmp_path / "out.parquet", tmp_path / "other.parquet"
    stopped(model, source, output)
    with pytest.raises(ZeroDivisionError), shards_for(model, write_lines(tmp_path / "other.txt", texts[:900]), other):
        1 / 0  # noqa: B018  its last unit is shorter
    short, parts = shards_of(other)[3].read_bytes(), tmp_path / "out.parquet.parts"
    (parts / "shard-000002.parquet").write_bytes(short)
    (parts / "shard-000004.parquet").write_bytes((parts / "shard-000000.parquet").read_bytes())
    with caplog.at_level(logging.WARNING, "sen2pro"):
        assert encode_files(model, source, output).resumed == 512
    assert "2 damaged or foreign parts were deleted" in caplog.text
    assert output.read_bytes() == expected


def test_parts_that_lie_elsewhere_are_refused(model, source, tmp_path):
    output, parts = tmp_path / "out.parquet", tmp_path / "out.parquet.parts"
    stopped(model, source, output)
    parts.rename(tmp_path / "elsewhere")
    parts.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Sen2ProError, match="is not a folder"):
        encode_files(model, source, output)
    assert len(list((tmp_path / "elsewhere").glob("shard-*.parquet"))) == 2


def test_a_run_of_another_version_says_so(model, source, tmp_path):
    """Version 0.11 had other parts and another plan."""
    output, plan = tmp_path / "out.parquet", tmp_path / "out.parquet.parts" / "sen2pro_run.json"
    stopped(model, source, output)
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "format": 1}))
    with pytest.raises(Sen2ProError, match="unfinished run of another version of sen2pro.*restart=True"):
        encode_files(model, source, output)
    assert encode_files(model, source, output, restart=True).resumed == 0


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_run_that_was_killed_when_all_was_done_is_done(model, source, tmp_path, monkeypatch, suffix, is_copy):
    """The output is there, its parts are too: nothing is encoded, and the parts go.

    A copy of the result is the file of somebody else: it is not replaced, and the parts stay.
    """
    output = tmp_path / f"out.{suffix}"
    with monkeypatch.context() as patched:
        patched.setattr("sen2pro.jobs.run_folder.RunFolder.remove", lambda self: None)
        encode_files(model, source, output)
    before = output.read_bytes()
    assert names(tmp_path) == ["in.txt", output.name, f"{output.name}.parts"]
    if is_copy:
        (tmp_path / "copy").write_bytes(before)
        (tmp_path / "copy").replace(output)
        with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
            encode_files(model, source, output)
    assert encode_files(model, source, output, overwrite=is_copy).resumed == ROWS
    assert (names(tmp_path), output.read_bytes()) == (["in.txt", output.name], before)


def test_without_links_the_output_is_the_same(model, source, tmp_path, monkeypatch):
    expected = undisturbed(model, source, tmp_path / "undisturbed")

    def without_links(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", without_links)
    assert undisturbed(model, source, tmp_path / "again") == expected


def test_a_folder_that_is_not_of_a_run_is_not_touched(model, source, tmp_path):
    (tmp_path / "a.txt").write_text("rain\n")
    (tmp_path / "out.parquet.parts").mkdir()
    encode_files(model, tmp_path / "a.txt", tmp_path / "out.parquet")
    assert names(tmp_path) == ["a.txt", "in.txt", "out.parquet"]  # an empty folder is of a run killed before it began
    (tmp_path / "out.parquet").unlink()
    (tmp_path / "out.parquet.parts").mkdir()
    (tmp_path / "out.parquet.parts" / "mine.txt").write_text("precious")
    for restart in (False, True):
        with pytest.raises(Sen2ProError, match="is not the folder of a run"):
            encode_files(model, source, tmp_path / "out.parquet", restart=restart)
    assert (tmp_path / "out.parquet.parts" / "mine.txt").read_text() == "precious"


def test_shards_resume_with_the_same_bytes(model, source, tmp_path):
    encode_files(model, source, tmp_path / "undisturbed", shards=True)
    for after in (1, 2, 3):
        output = tmp_path / f"stopped-{after}"
        stopped(model, source, output, after, shards=True)
        encode_files(model, source, output, shards=True)
        assert contents(output) == contents(tmp_path / "undisturbed")
        assert not list(tmp_path.glob("*.parts"))
    with pytest.raises(Sen2ProError, match="exists; pass overwrite=True"):
        encode_files(model, source, output, shards=True)
    write_lines(source, ["rain", "sun"])
    encode_files(model, source, output, shards=True, overwrite=True)
    assert read(output).texts == ["rain", "sun"]
