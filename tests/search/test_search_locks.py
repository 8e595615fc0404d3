"""Searches of an index in memory run side by side, and never beside a change."""

import threading
import time

import numpy as np
import pytest

from sen2pro import Sen2Pro
from sen2pro.search import Index
from sen2pro.search.locks import ReadersAndWriter

PATIENCE = 10  # seconds until a thread that should go on is taken for stuck


def started(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_readers_hold_it_at_once():
    lock, both = ReadersAndWriter(), threading.Barrier(2, timeout=PATIENCE)

    def read():
        with lock.reading:
            both.wait()  # passes only if the other one reads, too

    threads = [started(read), started(read)]
    for thread in threads:
        thread.join(PATIENCE)
    assert not both.broken
    assert not any(thread.is_alive() for thread in threads)


def test_a_writer_waits_for_readers_and_later_readers_wait_for_it():
    lock, steps, reading, may_end = ReadersAndWriter(), [], threading.Event(), threading.Event()

    def first():
        with lock.reading:
            reading.set()
            may_end.wait(PATIENCE)
            steps.append("first reader")

    def write():
        with lock.writing:
            steps.append("writer")

    def second():
        with lock.reading:
            steps.append("second reader")

    threads = [started(first)]
    assert reading.wait(PATIENCE)
    threads.append(started(write))
    while not lock.writing._state.waiting:
        time.sleep(0.001)
    threads.append(started(second))
    time.sleep(0.05)
    assert steps == []
    may_end.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert steps == ["first reader", "writer", "second reader"]


def test_an_error_inside_frees_it():
    lock = ReadersAndWriter()
    for held in (lock.reading, lock.writing):
        with pytest.raises(ValueError, match="oops"), held:
            raise ValueError("oops")
    with lock.writing:
        pass


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_rows_may_be_added_and_saved_while_others_search(bert, tokenizer, kind, tmp_path):
    """Searches never see a half-written batch, and a folder that was written meanwhile can be opened."""
    model = Sen2Pro(bert, tokenizer=tokenizer)
    index = Index.build(model, [f"the dog runs {n}" for n in range(50)], kind=kind)
    queries, wrong, done = model.encode_plain(["the cat eats"]), [], threading.Event()
    queries = queries / np.linalg.norm(queries)

    def search():
        while not done.is_set():
            (found,) = index.store.nearest(queries, 10_000, {}, with_vectors=True)
            whole = kind == "hnsw" or len(found.ids) % 50 == 0  # a graph may find fewer
            if not whole or len({len(column) for column in (found.ids, found.texts, found.vectors)}) > 1:
                wrong.append(len(found.ids))

    threads = [started(search) for _ in range(3)]
    for batch in range(1, 20):
        index.add([f"the cat eats {batch} {n}" for n in range(50)], ids=[f"{batch}-{n}" for n in range(50)])
        index.save(tmp_path / "index", overwrite=True)
    done.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert wrong == []
    assert len(Index.open(tmp_path / "index", model)) == 1000
