"""One hostile call does not hold up its neighbours: real processes, asked for the most while a short call comes by."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import WORDS
from labelled_texts import LABELS, TEXTS

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
from search_stores import Server
from server_process import running

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.search import Index
from sen2pro.search.stores.protocol import Document, Rows

pytestmark = pytest.mark.slow

LIMIT = 4  # seconds that a call may take on the servers here
ROWS = 100_000
TEXT = "the man plays the guitar"
SHORT = (("/embed", {"inputs": TEXT}), ("/v1/search", {"queries": TEXT}))


@pytest.fixture(scope="module")
def server(shared_folder, tmp_path_factory):
    """A server with an index of many rows, and with a classifier that takes two hundred passes for a text."""
    folder = tmp_path_factory.mktemp("deadlines")
    index, rng = Index.build(Sen2Pro(str(shared_folder))), np.random.default_rng(0)
    documents = [Document(f"{number}", TEXT, {"number": number}) for number in range(ROWS)]
    rows = Rows(documents, rng.normal(size=(ROWS, 32)).astype(np.float32), np.zeros((ROWS, 3), np.float32))
    index.store.write(rows, replace=False)
    index.save(folder / "index")
    Sen2ProClassifier(str(shared_folder), samples=100).fit(TEXTS, LABELS).save(folder / "classifier")
    options = ("--model", shared_folder, "--index", folder / "index", "--classifier", folder / "classifier")
    with running(folder / "server", *options, "--time-limit", LIMIT) as started:
        yield started


def answered_in_time(server, path, body):
    """Ask, and return the answer; it must come in the time that the server promises."""
    began = time.monotonic()
    answer = server.post(path, body)
    assert time.monotonic() - began < LIMIT, path
    assert answer.status_code == 200, (path, answer.text)


@contextmanager
def neighbours(server, short=SHORT):
    """Make short calls again and again while a hostile one runs, and once after it."""
    with ThreadPoolExecutor(1) as pool:

        def ask(path, body):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            with server.client() as client:
                return client.post(path, content=content, headers={"content-type": "application/json"})

        def watch(path, body):
            hostile = pool.submit(ask, path, body)
            is_over = False
            while not is_over:
                is_over = hostile.done()
                for call in short:
                    answered_in_time(server, *call)
            return hostile.result()

        yield watch


def filled(head, unit, tail, size=16 << 20):
    """Return a body as large as one may be, of one value again and again."""
    return head + (unit * ((size - len(head) - len(tail)) // len(unit)))[:-1] + tail


MANY = [f"{TEXT} {n}" for n in range(2000)]
HOSTILE = {
    "a filter of a million values": (
        "/v1/search", {"queries": TEXT, "where": {"number": [-n for n in range(1_000_000)]}}, {400},
    ),
    "a filter of very many keys": (
        "/v1/search", {"queries": TEXT, "where": {f"k{n}": 0 for n in range(200_000)}}, {400, 413},
    ),
    "the largest filter": ("/v1/search", {"queries": TEXT, "where": {"number": [-n for n in range(1, 1001)]}}, {200}),
    "the most keys": ("/v1/search", {"queries": TEXT, "where": {f"k{n}": 0 for n in range(1000)}}, {200}),
    "the most hits": ("/v1/search", {"queries": MANY[:10], "k": 10_000}, {200, 504}),
    "the most queries": ("/v1/search", {"queries": MANY, "k": 50, "where": {"number": [5, 6]}}, {200, 504}),
    "token ids of very long texts": ("/v1/embeddings", {"input": [[4 + WORDS.index("tomorrow")] * 10_000] * 50}, {413}),
    "a body of empty lists": ("/v1/embeddings", filled(b'{"input":[', b"[],", b"]}"), {413}),
    "a body of numbers": ("/v1/embeddings", filled(b'{"input":[', b"1,", b"]}"), {413}),
    "a body of fields": (
        "/v1/embeddings", b'{"input":{' + b",".join(b'"f%d":1' % n for n in range(1_000_000)) + b"}}", {413},
    ),
    "texts for a slow classifier": ("/v1/classify", {"input": MANY}, {504}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_short_calls_are_answered_in_time_beside(server, name):
    path, body, statuses = HOSTILE[name]
    with neighbours(server) as watch:
        answer = watch(path, body)
    assert answer.status_code in statuses, answer.text[:500]


def test_a_database_that_does_not_answer_holds_up_nobody_but_searches(shared_folder, tmp_path):
    psycopg, database = pytest.importorskip("psycopg"), Server()
    try:
        Index.build(Sen2Pro(str(shared_folder)), [TEXT], store=database.address).close()
        options = ("--model", shared_folder, "--index", database.address, "--time-limit", LIMIT)
        with running(tmp_path, *options) as server:
            with psycopg.connect(database.address) as holder, neighbours(server, SHORT[:1]) as watch:
                holder.execute("LOCK TABLE sen2pro IN ACCESS EXCLUSIVE MODE")
                assert watch(*SHORT[1]).status_code == 504
            answered_in_time(server, *SHORT[1])
    finally:
        database.close()
