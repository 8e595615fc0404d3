"""A process that saves indexes, or is killed while it does; started by test_saving_together.py, and told by lines.

`python saving_process.py ROLE NAME`; the roles are `writer` and `killed`, and an index tells by whom it was saved.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile

import numpy as np

from sen2pro.search.stores import faiss as folders
from sen2pro.search.stores.faiss import FaissStore
from sen2pro.search.stores.protocol import KEPT, Document, IndexInfo, Rows
from sen2pro.signature import Signature

_FIELDS = dict.fromkeys(Signature.__dataclass_fields__, "none")
_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "fcntl.flock")


def index(name, number):
    """Return a tiny index, unlike that of any other name or number; every text says to which it belongs."""
    rows = 3 + number % 4
    store = FaissStore(
        IndexInfo(signature=Signature(**_FIELDS), ranking="mean-cosine", rerank=None, dimensions=2, kind="flat")
    )
    vectors = np.random.default_rng([number, *name.encode()]).normal(size=(rows, 2)).astype(np.float32)
    documents = [Document(str(row), f"{name} {number} {rows}", {}) for row in range(rows)]
    store.write(Rows(documents, vectors, np.zeros((rows, KEPT), np.float32)), replace=False)
    return store


def read(folder):
    """Return name and number of the index in a folder, all of which must be there and of one save."""
    with folders.load(folder).held() as (rows, _):
        (text,) = {document.text for document in rows.documents}
        name, number, count = text.split()
        with index(name, int(number)).held() as (expected, _):
            np.testing.assert_array_equal(rows.vectors, expected.vectors)
        assert len(rows) == int(count)
    return name, int(number)


def writer(name):
    """For each line, a number and a folder, save; tell what went wrong."""
    for line in sys.stdin:
        number, folder = line.split()
        try:
            folders.save(index(name, int(number)), folder, overwrite=True)
            print("saved", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def killed(name):
    """For each line, a number and a folder, save in a child that is killed before the nth change of the folder."""
    with tempfile.TemporaryDirectory() as other:
        folders.save(index(name, 0), other)  # all modules are imported now, so no child has to
    for line in sys.stdin:
        number, folder = line.split()
        store, child = index(name, int(number)), os.fork()
        if not child:
            _die_before(int(number), folder)
            folders.save(store, folder, overwrite=True)
            os._exit(0)
        print("killed" if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else "saved", flush=True)


def _die_before(number, folder):
    """Kill this process as `kill -9` would, before it changes or locks something in a folder for the nth time."""
    left = number

    def count(event, arguments):
        nonlocal left
        if event in _CHANGES and (event == "fcntl.flock" or str(arguments[0]).startswith(folder)):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    {"writer": writer, "killed": killed}[sys.argv[1]](sys.argv[2])
