"""Runs that are stopped or killed: no half file, the right exit code, and nothing left for ever."""

import gc
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from labelled_texts import LABELS, TEXTS
from scale_runs import names, some_texts, write_lines
from test_cli import run, spawn

from sen2pro import Sen2ProError
from sen2pro.cli.app import main
from sen2pro.gaussian import read
from sen2pro.io.atomic import new_folder, remove_abandoned, replacing, write_text
from sen2pro.jobs import workers

pytestmark = pytest.mark.slow

ROWS, UNIT = 3000, 512
SENTENCE = "the dog runs in the park"


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(workers, "UNIT", UNIT)


class Forked:
    """A command in a fork of this process, which need not import torch again."""

    def __init__(self, *arguments, setup=lambda: None):
        self.arguments, self.setup = arguments, setup
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = multiprocessing.get_context("fork").Process(target=self._run)
        self.process.start()
        self.pid = self.process.pid

    def _run(self):
        for number in (1, 2):
            os.dup2(self.log.fileno(), number)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        sys.argv = ["sen2pro", *map(str, self.arguments)]
        logging.getLogger().handlers.clear()  # those of pytest
        gc.callbacks.clear()  # of hypothesis: an exit that a signal raises inside of one is lost
        sys.unraisablehook = sys.__unraisablehook__
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # signals as in a new process, whatever this one ignores
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.setup()
        main()

    def end(self, how=None):
        """Send a signal if one is given, and wait; return the exit code and what was printed, as one line."""
        if how is not None:
            os.kill(self.pid, how)
        self.process.join(120)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.log.seek(0)
        return self.process.exitcode, " ".join(self.log.read().split())

    def wait_for(self, happened):
        deadline = time.monotonic() + 120
        while not happened() and time.monotonic() < deadline and self.process.is_alive():
            time.sleep(0.01)
        assert self.process.is_alive(), self.end()


def units(folder):
    return list(folder.glob("*.parts/shard-*.parquet"))


def partials(folder):
    return [path for path in folder.rglob("*") if ".partial" in path.name]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_prediction_leaves_nothing(fitted, shared_folder, tmp_path_factory, tmp_path, how, code):
    fitted.save(classifier := tmp_path_factory.mktemp("killed") / "classifier")
    (tmp_path / "in.txt").write_text(f"{SENTENCE}\n" * 100_000)
    process = Forked("classify", "predict", classifier, tmp_path / "in.txt", tmp_path / "out.csv", "-m", shared_folder)
    process.wait_for(lambda: any(path.stat().st_size for path in partials(tmp_path)))
    found, told = process.end(how)
    assert (found, "Traceback" in told) == (code, False), told
    assert names(tmp_path) == ["in.txt"]


def test_a_stopped_training_leaves_nothing(shared_folder, tmp_path):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS * 4, LABELS * 4, strict=True)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("--model", shared_folder, "--finetune", "--samples", "2", "--epochs", "2000")
    hook = "lambda *_: print('step', flush=True)"
    first = f"from torch.optim import optimizer as o; o.register_optimizer_step_post_hook({hook}); "
    process = spawn("classify", "train", tmp_path / "train.jsonl", tmp_path / "out", *arguments, first=first)
    assert "step" in process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in errors) == (143, False), errors
    assert names(tmp_path) == ["train.jsonl"]


def test_a_signal_that_is_ignored_stays_ignored(shared_folder, tmp_path):
    source = write_lines(tmp_path / "in.txt", [SENTENCE] * ROWS)
    arguments = ("encode", source, tmp_path / "out.parquet", "-m", shared_folder, "--samples", "2")
    process = Forked(*arguments, setup=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # as nohup does
    process.wait_for(lambda: units(tmp_path))
    code, told = process.end(signal.SIGHUP)
    assert code == 0, told
    assert len(read(tmp_path / "out.parquet").gaussian) == ROWS


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_the_next_run_removes_what_a_killed_one_left(shared_folder, tmp_path, suffix):
    output, options = tmp_path / f"out.{suffix}", ("-m", shared_folder, "--samples", "2")
    process = Forked("encode", write_lines(tmp_path / "in.txt", [SENTENCE] * 20_000), output, *options)
    process.wait_for(lambda: units(tmp_path))
    process.end(signal.SIGKILL)
    number = len(units(tmp_path))
    (tmp_path / f"{output.name}.parts" / f".shard-{number:06d}.parquet.{process.pid}.partial").write_text("half")
    assert not output.exists()
    other = tmp_path / f".elsewhere.{suffix}.{process.pid}.partial"
    other.touch()  # of another target: not ours to delete
    arguments = ("encode", write_lines(tmp_path / "two.txt", [SENTENCE, "rain"]), output, *options)
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
    process = subprocess.Popen(["true"])
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
    assert names(tmp_path) == [mine.name, f"{mine.name}.mean"]


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
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("half")
        1 / 0  # noqa: B018
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
    assert names(tmp_path) == ["b"]


# Large jobs.


@pytest.fixture(scope="module")
def job(shared_folder, tmp_path_factory):
    """Arguments of a job, and the bytes that it writes undisturbed."""
    folder = tmp_path_factory.mktemp("job")
    source, arguments = write_lines(folder / "in.txt", some_texts(ROWS)), ("-m", shared_folder, "--samples", "2")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers, "UNIT", UNIT)
        assert run("encode", source, folder / "out.parquet", *arguments).exit_code == 0
    return source, arguments, (folder / "out.parquet").read_bytes()


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def worker_processes(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(each) for each in children if "spawn_main" in Path(f"/proc/{each}/cmdline").read_text()]


def check_resumed(job, folder, *more):
    """Run the same command again: nothing is lost."""
    source, arguments, expected = job
    result = run("encode", source, folder / "out.parquet", *arguments, *more)
    assert result.exit_code == 0, result.output
    assert (folder / "out.parquet").read_bytes() == expected
    assert names(folder) == ["out.parquet"]
    return " ".join(result.output.split())


def test_sigkill_at_random_moments_loses_nothing(job, tmp_path):
    (source, arguments, _), draw = job, random.Random(0)
    for _ in range(3):
        before = len(units(tmp_path))
        process = Forked("encode", source, tmp_path / "out.parquet", *arguments)
        process.wait_for(lambda before=before: len(units(tmp_path)) > before)
        time.sleep(draw.uniform(0, 0.1))
        process.end(signal.SIGKILL)
        assert units(tmp_path)
        assert not (tmp_path / "out.parquet").exists()
    assert "by an earlier run" in check_resumed(job, tmp_path)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_workers_end_with_the_process_that_started_them(job, tmp_path, how, code):
    source, arguments, _ = job
    process = Forked("encode", source, tmp_path / "out.parquet", *arguments, "--workers", "2")
    process.wait_for(lambda: units(tmp_path))
    pool = worker_processes(process)
    assert len(pool) == 2
    found, told = process.end(how)
    assert (found, "Traceback" in told) == (code, False), told
    deadline = time.monotonic() + 20
    while any(map(is_alive, pool)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, pool))
    if how == signal.SIGINT:
        assert "Run the same command again to resume." in told
        assert not partials(tmp_path)
    check_resumed(job, tmp_path)


def test_a_killed_worker_ends_the_run_and_the_same_command_resumes(job, tmp_path):
    source, arguments, _ = job
    process = Forked("encode", source, tmp_path / "out.parquet", *arguments, "--workers", "2")
    process.wait_for(lambda: units(tmp_path))
    os.kill(worker_processes(process)[0], signal.SIGKILL)
    code, told = process.end()
    assert (code, "Traceback" in told) == (2, False), told
    assert "a worker process was killed" in told
    assert "run the same command again to resume" in told
    assert not partials(tmp_path)
    check_resumed(job, tmp_path)


def test_a_script_without_a_main_guard_is_told_so(tmp_path, shared_folder):
    write_lines(tmp_path / "in.txt", some_texts(5000))
    (tmp_path / "script.py").write_text(
        "from sen2pro import Sen2Pro\nfrom sen2pro.jobs import encode_files\n"
        f"encode_files(Sen2Pro({str(shared_folder)!r}, samples=2), 'in.txt', 'out.parquet', workers=2)\n"
    )
    ended = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1
    assert 'does the script call encode_files under `if __name__ == "__main__":`' in ended.stderr


# Of one unit, which is written at once; a unit does not fit; all units do, their union does not.
@pytest.mark.parametrize(("rows", "limit", "done"), [(UNIT, 50_000, 0), (ROWS, 50_000, 0), (ROWS, 200_000, 6)])
@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_full_disk_names_the_file_and_the_run_goes_on_later(job, tmp_path, rows, limit, done, suffix):
    source, arguments, expected = job

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # which the disk answers like a full one

    source = write_lines(tmp_path / "in.txt", source.read_text().splitlines()[:rows])
    output = tmp_path / f"out.{suffix}"
    code, told = Forked("encode", source, output, *arguments, setup=small).end()
    assert code == 1, told
    assert f"error: {output}: File too large" in told.replace(" .", ".")
    assert (f"{done and ROWS:,} of {ROWS:,} rows are kept in" in told) == (rows > UNIT)
    assert not partials(tmp_path)
    assert len(units(tmp_path)) == done
    assert run("encode", source, output, *arguments).exit_code == 0
    assert rows < ROWS or suffix != "parquet" or output.read_bytes() == expected


def test_a_killed_run_with_shards_goes_on(job, tmp_path):
    source, arguments, expected = job
    process = Forked("encode", source, tmp_path / "out", *arguments, "--shards")
    process.wait_for(lambda: len(units(tmp_path)) > 1)
    process.end(signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    assert run("encode", source, tmp_path / "out", *arguments, "--shards").exit_code == 0
    (tmp_path / "one.parquet").write_bytes(expected)
    assert read(tmp_path / "out").gaussian == read(tmp_path / "one.parquet").gaussian
    assert names(tmp_path) == ["one.parquet", "out"]
