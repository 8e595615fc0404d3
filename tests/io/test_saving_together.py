"""Several processes save to one place, some are killed, others read: there is always one whole index."""

import json
import subprocess
import sys
from contextlib import contextmanager

import saving_process

from sen2pro import Sen2ProError
from sen2pro.search import folder as folders

ROUNDS = 100


class Process:
    """A process of saving_process.py, which is told what to do by lines."""

    def __init__(self, role, folder, name):
        command = [sys.executable, saving_process.__file__, role, str(folder), name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()


@contextmanager
def processes(*roles, folder):
    started = [Process(role, folder, f"name{number}") for number, role in enumerate(roles)]
    try:
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


def readable(folder):
    try:
        return bool(saving_process.read(folder))
    except (Sen2ProError, OSError, AssertionError):  # the last: texts of one save and vectors of another
        return False


def test_two_processes_save_to_one_folder_while_a_third_reads(tmp_path):
    folder = tmp_path / "index"
    folders.save(saving_process.index("first", 0), folder)
    with processes("writer", "writer", "reader", folder=folder) as (one, two, reader):
        assert reader.answer() == "ready"
        unreadable, failed = 0, []
        for number in range(ROUNDS):
            one.tell(number)
            two.tell(number)
            failed += [answer for answer in (one.answer(), two.answer()) if answer != "saved"]
            unreadable += not readable(folder)
        reader.end()
        told = json.loads(reader.answer())
    assert (unreadable, failed, told["errors"]) == (0, [], [])
    assert told["seen"] > ROUNDS / 10
    assert len(list(folder.iterdir())) == 3  # nothing is left of the other indexes
