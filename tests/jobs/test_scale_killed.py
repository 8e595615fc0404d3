"""Large jobs that are killed, stopped, or run out of room: nothing lost, nothing twice, the same bytes."""

import random
import resource
import signal
import time
from pathlib import Path

import pytest
from scale_runs import names, some_texts, write_lines
from test_cli import run, spawn
from test_killed_runs import partials, stop, wait_for

from sen2pro.gaussian import read

pytestmark = pytest.mark.slow

ROWS = 6000  # units of 1024, in four passes a row


@pytest.fixture(scope="module")
def job(shared_folder, tmp_path_factory):
    """Arguments of a job, and the bytes that it writes undisturbed."""
    return make_job(shared_folder, tmp_path_factory.mktemp("job"), ROWS)


def make_job(shared_folder, folder, rows):
    source = write_lines(folder / "in.txt", some_texts(rows))
    arguments = ("-m", shared_folder, "--samples", "2")
    result = run("encode", source, folder / "out.parquet", *arguments)
    assert result.exit_code == 0, result.output
    return source, arguments, (folder / "out.parquet").read_bytes()


def units(folder):
    return list(folder.glob("*.parts/units/*/unit-*.parquet"))


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(process):
    return [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_sigkill_at_random_moments_loses_nothing(shared_folder, tmp_path_factory, tmp_path):
    # More rows than a fast machine does between four kills.
    source, arguments, expected = make_job(shared_folder, tmp_path_factory.mktemp("long"), 2 * ROWS)
    output, draw = tmp_path / "out.parquet", random.Random(0)
    for _ in range(4):
        process, before = spawn("encode", source, output, *arguments), len(units(tmp_path))
        wait_for(process, lambda before=before: len(units(tmp_path)) > before)
        time.sleep(draw.uniform(0, 0.2))
        stop(process, signal.SIGKILL)
        assert not output.exists()
        assert units(tmp_path)
    result = run("encode", source, output, *arguments)
    assert result.exit_code == 0, result.output
    assert "by an earlier run" in " ".join(result.output.split())
    assert output.read_bytes() == expected
    assert names(tmp_path) == ["out.parquet"]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_workers_end_with_the_process_that_started_them(job, tmp_path, how, code):
    source, arguments, expected = job
    process = spawn("encode", source, tmp_path / "out.parquet", *arguments, "--workers", "2")
    wait_for(process, lambda: units(tmp_path))
    workers = children(process)
    assert len(workers) >= 2
    _, errors = stop(process, how)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, workers))
    if how == signal.SIGINT:
        assert "the same command goes on from there" in errors
        assert not partials(tmp_path)
    assert run("encode", source, tmp_path / "out.parquet", *arguments).exit_code == 0
    assert (tmp_path / "out.parquet").read_bytes() == expected
    assert names(tmp_path) == ["out.parquet"]


@pytest.mark.parametrize("limit", [100_000, 400_000])  # a unit does not fit; all units do, their union does not
def test_a_full_disk_says_what_is_missing_and_the_run_goes_on_later(job, tmp_path, limit):
    source, arguments, expected = job

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # which the disk answers like a full one

    process = spawn("encode", source, tmp_path / "out.parquet", *arguments, preexec_fn=small)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    told = " ".join(errors.split())
    assert "File too large; about" in told
    assert "MB more are needed" in told
    assert f"of {ROWS:,} rows are kept in" in told
    assert not partials(tmp_path)
    assert len(units(tmp_path)) == (0 if limit < 200_000 else 6)
    assert run("encode", source, tmp_path / "out.parquet", *arguments).exit_code == 0
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_killed_run_with_shards_goes_on(job, tmp_path):
    source, arguments, expected = job
    process = spawn("encode", source, tmp_path / "out", *arguments, "--shards")
    wait_for(process, lambda: len(units(tmp_path)) > 1)
    stop(process, signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    assert run("encode", source, tmp_path / "out", *arguments, "--shards").exit_code == 0
    (tmp_path / "one.parquet").write_bytes(expected)
    assert read(tmp_path / "out").gaussian == read(tmp_path / "one.parquet").gaussian
    assert names(tmp_path) == ["one.parquet", "out"]
