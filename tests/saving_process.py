"""A process that saves or reads a folder over and over, or is killed in the middle; started by test_saving_together.py.

`python saving_process.py ROLE FOLDER NAME`; the roles are the functions below.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from sen2pro.search import folder as folders
from sen2pro.search.faiss_store import FaissStore
from sen2pro.search.rows import ABOUT, Rows
from sen2pro.search.store import About
from sen2pro.signature import Signature

_FIELDS = dict.fromkeys(Signature.__dataclass_fields__, "none")
_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "fcntl.flock")


def index(name, number):
    """Return a tiny index, unlike that of any other name or number; every text says to which it belongs."""
    rows = 3 + number % 4
    store = FaissStore(About(Signature(**_FIELDS), "mean-cosine", "ratio", "dot", 2, "flat"))
    texts = [f"{name} {number} {rows}"] * rows
    vectors = np.random.default_rng([number, *name.encode()]).normal(size=(rows, 2)).astype(np.float32)
    ids = [str(row) for row in range(rows)]
    store.write(Rows(ids, texts, vectors, np.zeros((rows, len(ABOUT)), np.float32), [{}] * rows), replace=False)
    return store


def read(folder):
    """Return name and number of the index in a folder, all of which must be there and of one save."""
    with folders.load(folder).held() as (rows, _):
        (text,) = set(rows.texts)
        name, number, count = text.split()
        with index(name, int(number)).held() as (expected, _):
            np.testing.assert_array_equal(rows.vectors, expected.vectors)
        assert len(rows) == int(count)
    return name, int(number)


def writer(folder, name):
    """Save an index with each number that comes on standard input."""
    for line in sys.stdin:
        try:
            folders.save(index(name, int(line)), folder, overwrite=True)
            print("saved", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def reader(folder, _):
    """Read until standard input ends; then tell how often, and what went wrong."""
    ended, reads, errors, seen = threading.Event(), 0, [], set()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    while not ended.is_set():
        try:
            seen.add(read(folder))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        reads += 1
    print(json.dumps({"reads": reads, "seen": len(seen), "errors": errors}), flush=True)


def killed(folder, name):
    """For each number on standard input, save in a child that is killed before that change of the disk; tell how."""
    for line in sys.stdin:
        store, child = index(name, int(line)), os.fork()
        if not child:
            _die_before(int(line))
            folders.save(store, folder, overwrite=True)
            os._exit(0)
        print("killed" if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else "saved", flush=True)


def _die_before(number):
    """Kill this process as `kill -9` would, before it opens, makes, renames or deletes something for the nth time."""
    left = number

    def count(event, arguments):
        nonlocal left
        if event in _CHANGES:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    {"writer": writer, "reader": reader, "killed": killed}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
