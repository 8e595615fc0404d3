"""An index in memory, by FAISS: every row compared (flat), or a graph of neighbours (hnsw).

Rows are only appended. A row that was replaced or deleted is dead. Dead rows stay until there are many; then the living
rows are copied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.search.documents import Document, Where, matcher
from sen2pro.search.stores.protocol import Candidates, DuplicateIds, IndexInfo, Json, Rows, missing
from sen2pro.validation import Array

_NEIGHBOURS, _BUILD_DEPTH = 32, 128  # of each row in the graph; rows looked at to place a new one
_DEPTH = 128  # rows looked at in a search of a graph, at least
_FEW = 0.1  # share of the rows that pass a filter, below which these are compared one by one
_MOST_DEAD = 0.25  # share of dead rows above which the others are copied
_GROWTH = 1.5


def library() -> ModuleType:
    """Return FAISS, which is an extra."""
    try:
        import faiss
    except ImportError:
        raise missing("faiss-cpu", "search") from None
    found: ModuleType = faiss
    return found


class ReadWriteLock:
    """Searches run side by side; a change waits for them to end, and later searches wait for the change.

    A thread that holds the lock may not take it again.

    >>> lock, rows = ReadWriteLock(), [1, 2]
    >>> with lock.writing():
    ...     rows.append(3)
    >>> with lock.reading():
    ...     print(rows)
    [1, 2, 3]
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = self._waiting = 0
        self._writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._writing and not self._readers)
                self._writing = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()


class FaissStore:
    """Documents in memory; `Index.save` writes them to a folder."""

    def __init__(self, info: IndexInfo) -> None:
        self.info = info
        self.confidence: Json | None = None
        self._lock = ReadWriteLock()
        self._engine = self._new_engine()
        self._documents: list[Document] = []
        self._details = np.empty((0, info.details), np.float32)  # with room to grow
        self._live: dict[str, int] = {}  # id -> row: a row that is not here is dead
        self._mask: NDArray[np.bool_] | None = None  # of living rows; None if it has to be made

    def _new_engine(self) -> Any:
        """Make an engine by its constructor: no text of a user reaches FAISS's factory, where some abort Python."""
        faiss = library()
        if self.info.kind == "flat":
            return faiss.IndexFlatIP(self.info.dimensions)
        engine = faiss.IndexHNSWFlat(self.info.dimensions, _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        engine.hnsw.efConstruction, engine.hnsw.efSearch = _BUILD_DEPTH, _DEPTH
        return engine

    def __len__(self) -> int:
        return len(self._live)

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids; unknown ids are left out."""
        with self._lock.reading():
            return [self._documents[self._live[id]] for id in ids if id in self._live]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows. The last step, which cannot be interrupted, makes them visible."""
        with self._lock.writing():
            ids = rows.ids
            there = [id for id in ids if id in self._live]
            if there and not replace:
                raise DuplicateIds(there)
            self._repair()
            first, end = len(self._documents), len(self._documents) + len(rows)
            self._engine.add(np.ascontiguousarray(rows.vectors, np.float32))
            self._grow(end)
            self._details[first:end] = rows.details
            self._documents += rows.documents
            self._mask = None
            self._live.update(zip(ids, range(first, end), strict=True))
            self._compact()

    def _repair(self) -> None:
        """Make engine, documents and details equally long after an interrupted write, whose rows are dead."""
        total = int(self._engine.ntotal)
        self._documents += [Document("", "", {})] * (total - len(self._documents))
        del self._documents[total:]
        self._grow(total)

    def _grow(self, rows: int) -> None:
        if rows > len(self._details):
            more = np.zeros((max(rows, int(_GROWTH * len(self._details))), self.info.details), np.float32)
            more[: len(self._details)] = self._details
            self._details = more

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents; return how many there were."""
        with self._lock.writing():
            kept = dict(self._live)
            count = sum(kept.pop(id, None) is not None for id in dict.fromkeys(ids))
            self._live, self._mask = kept, None
            self._compact()
            return count

    def _compact(self) -> None:
        """Copy the living rows if many are dead."""
        total = int(self._engine.ntotal)
        if total - len(self._live) <= _MOST_DEAD * total:
            return
        rows, fresh = self._rows(), FaissStore(self.info)
        if len(rows):
            fresh.write(rows, replace=False)
        vars(self).update({name: value for name, value in vars(fresh).items() if name not in ("_lock", "confidence")})

    def _vectors(self) -> Array:
        """Return a view of all vectors (rows, k), of dead rows too."""
        faiss, size = library(), self.info.dimensions
        flat = self._engine if self.info.kind == "flat" else faiss.downcast_index(self._engine.storage)
        if not flat.ntotal:
            return np.empty((0, size), np.float32)
        return np.asarray(faiss.rev_swig_ptr(flat.get_xb(), int(flat.ntotal) * size).reshape(-1, size))

    @contextmanager
    def held(self) -> Iterator[tuple[Rows, Any]]:
        """Give all living rows, and the graph or None; they are views, and nothing changes until the block ends."""
        with self._lock.reading():
            whole = self.info.kind == "hnsw" and len(self) == int(self._engine.ntotal)
            yield self._rows(), self._engine.hnsw if whole else None

    def _rows(self) -> Rows:
        """Return the living rows in the order in which they were added; they are copied only if a row is dead."""
        count = len(self)
        if count == int(self._engine.ntotal) == len(self._documents):
            return Rows(self._documents, self._vectors(), self._details[:count])
        order = sorted(self._live.values())
        return Rows([self._documents[row] for row in order], self._vectors()[order], self._details[order])

    def fill(self, rows: Rows, place_graph: Callable[[Any], None] | None = None) -> None:
        """Put rows into an empty store. `place_graph` puts a saved graph into the engine."""
        if place_graph is None:
            if len(rows):
                self.write(rows, replace=False)
            return
        library().downcast_index(self._engine.storage).add(np.ascontiguousarray(rows.vectors, np.float32))
        self._engine.ntotal = len(rows)
        place_graph(self._engine.hnsw)
        self._documents, self._details = list(rows.documents), rows.details
        self._live = {id: row for row, id in enumerate(rows.ids)}

    def graph_sizes(self) -> NDArray[np.int64]:
        """Return how many neighbours a row has in the graph, up to each level."""
        return np.asarray(library().vector_to_array(self._engine.hnsw.cum_nneighbor_per_level), np.int64)

    def nearest(self, vectors: Array, k: int, where: Where) -> list[Candidates]:
        """Return the k nearest documents for each vector (n, k)."""
        with self._lock.reading():
            total = int(self._engine.ntotal)
            mask = None if len(self) == total else self._living(total)
            if where:
                passes = matcher(where)
                mask = np.zeros(total, bool)
                mask[[row for row in self._live.values() if passes(self._documents[row].metadata)]] = True
            allowed = total if mask is None else int(mask.sum())
            if not allowed or not len(vectors):
                return [Candidates.none() for _ in vectors]
            queries = np.ascontiguousarray(vectors, np.float32)
            cosines, found = self._search(queries, min(k, allowed), mask, allowed)
            return [self._candidates(*each) for each in zip(found.tolist(), cosines.tolist(), strict=True)]

    def _candidates(self, rows: list[int], cosines: list[float]) -> Candidates:
        if rows[-1] < 0:  # a graph may find fewer than there are
            rows = rows[: rows.index(-1)]
        return Candidates([self._documents[row] for row in rows], cosines[: len(rows)], self._details[rows])

    def _living(self, total: int) -> NDArray[np.bool_]:
        """Return a mask of the living rows."""
        if self._mask is None or len(self._mask) != total:
            mask = np.zeros(total, bool)
            mask[list(self._live.values())] = True
            self._mask = mask
        return self._mask

    def _search(
        self, queries: Array, k: int, mask: NDArray[np.bool_] | None, allowed: int
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return cosines (n, k) and rows (n, k) of the nearest; -1 is no row."""
        faiss, graph = library(), self.info.kind == "hnsw"
        if mask is not None and allowed <= max(_FEW * len(mask), 10 * k if graph else 0):  # a graph finds few of few
            rows = np.flatnonzero(mask)
            chosen = np.ascontiguousarray(self._vectors()[rows])
            cosines, found = faiss.knn(queries, chosen, k, metric=faiss.METRIC_INNER_PRODUCT)
            return cosines, np.where(found >= 0, rows[found], -1)
        if mask is None and (not graph or 2 * k <= _DEPTH):
            cosines, found = self._engine.search(queries, k)
            return cosines, found
        options: dict[str, Any] = {"efSearch": max(_DEPTH, 2 * k)} if graph else {}
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")  # FAISS does not keep it, so it must live until the end
            options["sel"] = faiss.IDSelectorBitmap(bits)
        kind = faiss.SearchParametersHNSW if graph else faiss.SearchParameters
        cosines, found = self._engine.search(queries, k, params=kind(**options))
        return cosines, found

    def has_key(self, key: str) -> bool:
        """Tell whether a document has this key in its metadata."""
        with self._lock.reading():
            return any(key in self._documents[row].metadata for row in self._live.values())

    def keys(self) -> list[str]:
        """Return the keys of the metadata of all documents."""
        with self._lock.reading():
            return sorted({key for row in self._live.values() for key in self._documents[row].metadata})

    def keep_confidence(self, content: Json | None) -> None:
        """Keep the JSON of a confidence; the next `Index.save` writes it."""
        self.confidence = content

    def finish(self) -> None:
        """Do nothing: the engine is always ready."""

    def close(self) -> None:
        """Do nothing: memory is freed with the last reference."""
