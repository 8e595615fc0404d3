"""Several processes save to one place, some are killed, others read: there is always one whole index."""

import fcntl
import importlib.util
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import msgspec
import pytest
import saving_process

from sen2pro import Gaussian, Sen2ProError
from sen2pro.estimation import head as heads
from sen2pro.io import atomic
from sen2pro.search.stores import faiss as folders

ROUNDS = 20


class Process:
    """A process of saving_process.py."""

    def __init__(self, role, name):
        command = [sys.executable, saving_process.__file__, role, name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, number, folder):
        self.process.stdin.write(f"{number} {folder}\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()


@contextmanager
def processes(*roles):
    started = [Process(role, f"name{number}") for number, role in enumerate(roles)]
    try:
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.communicate()


def together(*jobs):
    """Run jobs in threads; each gets an event that tells that the first has ended. Raise what went wrong."""
    ended, errors = threading.Event(), []

    def run(job):
        try:
            job(ended)
        except BaseException as error:
            errors.append(error)
        finally:
            if job is jobs[0]:
                ended.set()

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_two_processes_save_to_one_folder_while_others_read(tmp_path):
    folder, seen, errors = tmp_path / "index", set(), []
    folders.save(saving_process.index("first", 0), folder)

    def read(_):
        try:
            seen.add(saving_process.read(folder))
        except (Sen2ProError, OSError, AssertionError) as error:  # the last: texts of one save and vectors of another
            errors.append(error)

    def save(_):
        with processes("writer", "writer") as both:
            for number in range(ROUNDS):
                for each in both:
                    each.tell(number, folder)
                errors.extend(answer for answer in [each.answer() for each in both] if answer != "saved")
                read(_)  # now that both have ended

    def read_on(ended):
        while not ended.is_set():
            read(ended)

    together(save, read_on)
    assert errors == []
    assert {name for name, _ in seen} == {"first", "name0", "name1"}
    assert len(list(folder.iterdir())) == 3  # nothing is left of the other indexes


@pytest.fixture(scope="module")
def kill():
    """Save to a folder in a process that is killed before its nth change; tell whether it came that far."""
    with processes("killed") as (process,):

        def kill(number, folder):
            process.tell(number, folder)
            return process.answer() == "killed"

        yield kill


def test_a_save_that_is_killed_leaves_the_old_index_or_the_new_one(tmp_path, kill):
    """It is killed before each of its changes in turn, also where it holds the lock."""
    folder, left = tmp_path / "index", set()
    for number in count():
        folders.save(saving_process.index("old", 0), folder, overwrite=True)  # no lock is left, and no file
        assert len(list(folder.iterdir())) == 3
        if not kill(number, folder):
            break
        left.add(saving_process.read(folder)[0])
    assert left == {"old", "name0"}  # some were killed before the new index was there, and some after
    assert number > 20
    assert saving_process.read(folder) == ("name0", number)


def test_a_first_save_that_is_killed_does_not_block_the_next_one(tmp_path, kill):
    for number in count():
        folder = tmp_path / str(number)
        if not kill(number, folder):
            break
        if folders.exists(folder):
            assert saving_process.read(folder) == ("name0", number)
        else:
            folders.save(saving_process.index("next", 0), folder)  # not "is not an empty folder"
            assert len(list(folder.iterdir())) == 3
    assert number > 20


@contextmanager
def held(folder):
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def test_a_save_waits_for_another_one_and_gives_up_in_the_end(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    folders.save(saving_process.index("old", 0), folder)
    saving = threading.Thread(
        target=folders.save, args=(saving_process.index("new", 0), folder), kwargs={"overwrite": True}
    )
    with held(folder):
        saving.start()
        saving.join(0.3)
        assert saving.is_alive()
        assert saving_process.read(folder) == ("old", 0)  # readers do not wait
    saving.join()
    assert saving_process.read(folder) == ("new", 0)
    monkeypatch.setattr(atomic, "WAIT", 0.1)
    with held(folder), pytest.raises(Sen2ProError, match="another process has been saving to .*index or reading it"):
        folders.save(saving_process.index("newer", 0), folder, overwrite=True)
    assert saving_process.read(folder) == ("new", 0)
    assert len(list(folder.iterdir())) == 3


def test_without_overwrite_an_index_that_was_saved_meanwhile_stays(tmp_path):
    folder = tmp_path / "index"
    late = saving_process.index("late", 0)
    original = late.held

    @contextmanager
    def slowly():
        with original() as content:
            folders.save(saving_process.index("early", 0), folder)
            yield content

    late.held = slowly
    with pytest.raises(Sen2ProError, match="there is an index in .*overwrite=True"):
        folders.save(late, folder)
    assert saving_process.read(folder) == ("early", 0)
    assert len(list(folder.iterdir())) == 3


def test_files_of_others_in_the_folder_of_an_index_stay(tmp_path):
    folders.save(saving_process.index("old", 0), tmp_path)
    mine = [tmp_path / name for name in ("texts-of-mine.parquet", "vectors.safetensors", "notes.txt")]
    for path in mine:
        path.write_text("mine")
    folders.save(saving_process.index("new", 0), tmp_path, overwrite=True)
    assert all(path.read_text() == "mine" for path in mine)


def test_a_new_folder_that_was_made_meanwhile_stays(tmp_path):
    with pytest.raises(Sen2ProError, match="written by another process"), atomic.new_folder(tmp_path / "new") as late:
        (late / "a").write_text("late")
        with atomic.new_folder(tmp_path / "new") as early:
            (early / "a").write_text("early")
    assert (tmp_path / "new" / "a").read_text() == "early"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def another_container():
    """Return the module as a process in another container has it: with the same process id, and no more of ours."""
    found = importlib.util.find_spec(atomic.__name__)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_two_containers_that_write_to_one_place_do_not_take_each_others_file(tmp_path):
    """Process ids are the same there: the first process of a container has the id 1."""
    path, one, other = tmp_path / "a.txt", another_container(), another_container()
    with one.replacing(path) as first:
        first.write_text("first")
        with other.replacing(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_heads_are_saved_to_one_folder_while_they_are_read(tmp_path):
    """Locks of a folder hold between threads as they do between processes."""
    (shipped,) = [heads.Head.load(path.parent) for path in sorted(heads.SHIPPED.glob(f"*/{heads.CONFIG}"))[:1]]
    arrays = {**shipped.arrays, "coverage.centre": shipped.arrays["coverage.centre"] + 1}
    config = msgspec.structs.replace(shipped.config, hash=heads.hash_of(arrays, str(shipped.config.lengths or "")))
    other = replace(shipped, config=config, arrays=arrays, specificity=None)
    hashes = {shipped.hash, other.hash}
    assert len(hashes) == 2
    shipped.save(tmp_path)

    def save(head):
        for _ in range(10):
            head.save(tmp_path)

    def read(ended):
        while not ended.is_set():
            assert heads.Head.load(tmp_path).hash in hashes

    together(lambda _: save(shipped), lambda _: save(other), read)
    assert heads.Head.load(tmp_path).hash in hashes


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_file_is_read_while_it_is_replaced(tmp_path, suffix):
    """A file is opened more than once to be read."""
    path = tmp_path / f"g.{suffix}"
    all_of_them = [Gaussian([[float(rows)]] * rows, [[1.0]] * rows) for rows in (1, 2, 3)]
    all_of_them[0].save(path)

    def save(_):
        for number in range(40):
            all_of_them[number % 3].save(path, overwrite=True)

    def read(ended):
        while not ended.is_set():
            assert Gaussian.load(path) in all_of_them

    together(save, read)
