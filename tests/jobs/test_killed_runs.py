"""Runs that are stopped or killed: no half file, the right exit code, and nothing left for ever."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import WORDS
from labelled_texts import LABELS, TEXTS
from scale_runs import names, some_texts, write_lines
from test_cli import run
from test_cli import spawn as start

from sen2pro import Gaussian, Sen2ProError
from sen2pro.gaussian import read
from sen2pro.io.atomic import new_folder, remove_abandoned, replacing, write_text
from sen2pro.jobs import workers

pytestmark = pytest.mark.slow

ROWS, UNIT = 6000, 1024
SENTENCE = "the dog runs in the park"


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(workers, "UNIT", UNIT)


def spawn(*arguments, **options):
    """Start a command whose units are small too."""
    return start(*arguments, first=f"from sen2pro.jobs import workers; workers.UNIT = {UNIT}; ", **options)


def units(folder):
    return list(folder.glob("*.parts/shard-*.parquet"))


@pytest.fixture(scope="module")
def classifier(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "classifier"
    fitted.save(folder)
    return folder


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(f"{SENTENCE}\n" * 20_000)
    return path


def wait_for(process, happened):
    deadline = time.monotonic() + 120
    while not happened() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()


def partials(folder):
    return [path for path in folder.rglob("*") if ".partial" in path.name]


def stop(process, how):
    process.send_signal(how)
    try:
        return process.communicate(timeout=60)
    finally:
        process.kill()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_prediction_leaves_nothing(classifier, shared_folder, sentences, tmp_path, how, code):
    process = spawn("classify", "predict", classifier, sentences, tmp_path / "out.csv", "--model", shared_folder)
    wait_for(process, lambda: any(path.stat().st_size for path in partials(tmp_path)))
    _, errors = stop(process, how)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_stopped_training_leaves_nothing(shared_folder, tmp_path):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS * 4, LABELS * 4, strict=True)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("--model", shared_folder, "--finetune", "--samples", "2", "--epochs", "2000")
    process = spawn("classify", "train", tmp_path / "train.jsonl", tmp_path / "out", *arguments)
    time.sleep(8)  # it trains
    assert process.poll() is None
    _, errors = stop(process, signal.SIGTERM)
    assert (process.returncode, "Traceback" in errors) == (143, False), errors
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_signal_that_is_ignored_stays_ignored(tiny_folder, tmp_path):
    (tmp_path / "in.txt").write_text(f"{SENTENCE}\n" * 2000)
    arguments = ("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", tiny_folder, "--samples", "2")
    process = spawn(*arguments, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # as nohup does
    wait_for(process, lambda: partials(tmp_path))
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert len(Gaussian.load(tmp_path / "out.parquet")) == 2000


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_the_next_run_removes_what_a_killed_one_left(tiny_folder, sentences, tmp_path, suffix):
    output = tmp_path / f"out.{suffix}"
    process = spawn("encode", sentences, output, "-m", tiny_folder, "--samples", "2")
    wait_for(process, lambda: units(tmp_path))
    stop(process, signal.SIGKILL)
    number = len(units(tmp_path))
    (tmp_path / f"{output.name}.parts" / f".shard-{number:06d}.parquet.{process.pid}.partial").write_text("half")
    assert list(tmp_path.glob("*.parts"))
    assert not output.exists()
    other = tmp_path / f".elsewhere.{suffix}.{process.pid}.partial"
    other.touch()  # of another target: not ours to delete
    (tmp_path / "two.txt").write_text(f"{SENTENCE}\nrain\n")
    arguments = ("encode", tmp_path / "two.txt", output, "-m", tiny_folder, "--samples", "2")
    assert run(*arguments).exit_code == 2  # the unfinished run is one of another input
    result = run(*arguments, "--restart")
    assert result.exit_code == 0, result.output
    assert not list(tmp_path.glob("*.parts"))
    assert partials(tmp_path) == [other]


def abandoned(target, *, pid):
    """Leave what a killed process would have left."""
    path = target.with_name(f".{target.name}.{pid}.partial")
    path.write_text("half")
    path.with_name(path.name + ".mean").write_text("half")
    return path


def gone():
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    target = tmp_path / "a.txt"
    mine = abandoned(target, pid=os.getppid())
    remove_abandoned(target)
    assert mine.exists()
    dead = abandoned(target, pid=gone())
    remove_abandoned(target)
    assert not dead.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, f"{mine.name}.mean"]


def test_a_lock_counts_where_the_number_of_a_process_means_nothing(tmp_path):
    """In another container, or on another machine, the writing process has a number that is unknown here."""
    target = tmp_path / "a.txt"
    path = abandoned(target, pid=gone())
    code = f"import fcntl, time; f = open({str(path)!r}); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); " \
           "time.sleep(60)"  # fmt: skip
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        remove_abandoned(target)
        assert path.exists()
    finally:
        holder.kill()
        holder.communicate()
    remove_abandoned(target)
    assert not path.exists()


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    class Stop(Exception):
        pass

    with pytest.raises(Stop), new_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("half")
        raise Stop
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("all")
    assert (tmp_path / "new" / "a").read_text() == "all"
    with pytest.raises(Sen2ProError, match="not an empty folder"), new_folder(tmp_path / "new"):
        pass


def test_two_writers_in_one_process_do_not_meet(tmp_path):
    with pytest.raises(RuntimeError, match="first"), replacing(tmp_path / "a") as first:
        first.write_text("1")
        write_text(tmp_path / "b", "2")
        raise RuntimeError("first")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_full_disk_is_reported_with_the_name_of_the_file(tiny_folder, tmp_path, suffix):
    draw = random.Random(0)
    (tmp_path / "in.txt").write_text("".join(" ".join(draw.sample(WORDS, 5)) + "\n" for _ in range(1000)))
    limit = 100_000  # bytes that a file may have, which the disk answers like a full one

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    output = tmp_path / f"out.{suffix}"
    process = spawn("encode", tmp_path / "in.txt", output, "-m", tiny_folder, "--samples", "2", preexec_fn=small)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert f"error: {output}: File too large" in errors.replace("\n", "")
    assert not partials(tmp_path)


# Large jobs.


@pytest.fixture(scope="module")
def job(shared_folder, tmp_path_factory):
    """Arguments of a job, and the bytes that it writes undisturbed."""
    return make_job(shared_folder, tmp_path_factory.mktemp("job"), ROWS)


def make_job(shared_folder, folder, rows):
    source = write_lines(folder / "in.txt", some_texts(rows))
    arguments = ("-m", shared_folder, "--samples", "2")
    process = spawn("encode", source, folder / "out.parquet", *arguments)
    assert process.wait(300) == 0, process.communicate()
    return source, arguments, (folder / "out.parquet").read_bytes()


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def worker_processes(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(each) for each in children if "spawn_main" in Path(f"/proc/{each}/cmdline").read_text()]


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
    pool = worker_processes(process)
    assert len(pool) == 2
    _, errors = stop(process, how)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    deadline = time.monotonic() + 20
    while any(map(is_alive, pool)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, pool))
    if how == signal.SIGINT:
        assert "Run the same command again to resume." in " ".join(errors.split())
        assert not partials(tmp_path)
    assert run("encode", source, tmp_path / "out.parquet", *arguments).exit_code == 0
    assert (tmp_path / "out.parquet").read_bytes() == expected
    assert names(tmp_path) == ["out.parquet"]


def test_a_killed_worker_ends_the_run_and_the_same_command_resumes(job, tmp_path):
    source, arguments, expected = job
    process = spawn("encode", source, tmp_path / "out.parquet", *arguments, "--workers", "2")
    wait_for(process, lambda: units(tmp_path))
    os.kill(worker_processes(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    told = " ".join(errors.split())
    assert (process.returncode, "Traceback" in told) == (2, False), errors
    assert "a worker process was killed" in told
    assert "run the same command again to resume" in told
    assert not partials(tmp_path)
    assert run("encode", source, tmp_path / "out.parquet", *arguments, "--workers", "2").exit_code == 0
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_script_without_a_main_guard_is_told_so(tmp_path, shared_folder):
    write_lines(tmp_path / "in.txt", some_texts(5000))
    (tmp_path / "script.py").write_text(
        "from sen2pro import Sen2Pro\nfrom sen2pro.jobs import encode_files\n"
        f"encode_files(Sen2Pro({str(shared_folder)!r}, samples=2), 'in.txt', 'out.parquet', workers=2)\n"
    )
    ended = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1
    assert 'does the script call encode_files under `if __name__ == "__main__":`' in ended.stderr


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
