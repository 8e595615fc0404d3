"""Runs that are stopped or killed: no half file, the right exit code, and nothing left for ever."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import WORDS
from labelled_texts import LABELS, TEXTS
from test_cli import run, spawn

from sen2pro import Gaussian, Sen2ProError
from sen2pro.io.atomic import new_folder, remove_abandoned, replacing, write_text

pytestmark = pytest.mark.slow

SENTENCE = "the dog runs in the park"


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


def test_a_stopped_training_leaves_its_checkpoint_and_no_half_file(shared_folder, tmp_path):
    data = tmp_path / "train.jsonl"
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS * 4, LABELS * 4, strict=True)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = ("classify", "train", data, tmp_path / "out", "--model", shared_folder, "--finetune", "--samples", "2")
    process = spawn(*common, "--epochs", "2000")
    state = tmp_path / "out.checkpoints"
    wait_for(process, lambda: state.is_dir() and list(state.glob("*.safetensors")))
    _, errors = stop(process, signal.SIGTERM)
    assert process.returncode == 143, errors
    assert "Traceback" not in errors
    assert not partials(tmp_path)
    assert not (tmp_path / "out").exists()
    assert list(state.iterdir())
    result = run(*common, "--epochs", "1")  # with other settings, which begin anew
    assert result.exit_code == 0, result.output
    assert not state.exists()  # the classifier is saved, so no checkpoint is needed any more


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
    wait_for(process, lambda: list(tmp_path.rglob("unit-*.parquet")))
    wait_for(process, lambda: [path for path in partials(tmp_path) if ".unit-" in path.name])
    stop(process, signal.SIGKILL)
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
