"""An index in memory, by FAISS: every row compared (flat), or a graph of neighbours (hnsw).

Rows are only appended. A row that was replaced or deleted is dead: it stays until the rest is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.search.locks import ReadersAndWriter
from sen2pro.search.rows import ABOUT, Document, Found, Rows, Where, matcher
from sen2pro.search.store import About, DuplicateIds, missing
from sen2pro.validation import Array

NEIGHBOURS, _BUILD_DEPTH = 32, 128  # of each row in the graph; rows looked at to place a new one
_DEPTH = 128  # rows looked at in a search of a graph, at least
_FEW = 0.1  # share of the rows a filter leaves, below which these are compared one by one
_MOST_DEAD = 0.25  # share of dead rows above which the rest is copied
_GROWTH = 1.5


def library() -> Any:
    """Return FAISS, which is an extra."""
    try:
        import faiss
    except ImportError:
        raise missing("faiss-cpu", "search") from None
    return faiss


class FaissStore:
    """Rows in memory; `Index.save` writes them to a folder."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.confidence: dict[str, Any] | None = None
        self._lock = ReadersAndWriter()
        self._engine = self._new_engine()
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._metadata: list[dict[str, Any]] = []
        self._about = np.empty((0, len(ABOUT)), np.float32)  # with room to grow
        self._live: dict[str, int] = {}  # id -> row: what is not here is dead
        self._mask: NDArray[np.bool_] | None = None  # of living rows, as far as it is known

    def _new_engine(self) -> Any:
        """Make an engine by its constructor: no text of a user's reaches FAISS's factory, where some abort Python."""
        faiss = library()
        metric = {"dot": faiss.METRIC_INNER_PRODUCT, "l1": faiss.METRIC_L1, "l2": faiss.METRIC_L2}[self.about.metric]
        if self.about.kind == "flat":
            return faiss.IndexFlat(self.about.dimensions, metric)
        engine = faiss.IndexHNSWFlat(self.about.dimensions, NEIGHBOURS, metric)
        engine.hnsw.efConstruction, engine.hnsw.efSearch = _BUILD_DEPTH, _DEPTH
        return engine

    def __len__(self) -> int:
        return len(self._live)

    def existing(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids that are there."""
        with self._lock.reading:
            return [id for id in ids if id in self._live]

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return those of some documents that are there."""
        with self._lock.reading:
            rows = [self._live[id] for id in ids if id in self._live]
            return [Document(self._ids[row], self._texts[row], self._metadata[row]) for row in rows]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows; they are there from the last step on, which cannot be interrupted."""
        with self._lock.writing:
            there = [id for id in rows.ids if id in self._live]
            if there and not replace:
                raise DuplicateIds(there)
            self._heal()
            first = len(self._ids)
            self._engine.add(np.ascontiguousarray(rows.vectors, np.float32))
            self._grow(first + len(rows))
            self._about[first : first + len(rows)] = rows.about
            self._texts += rows.texts
            self._metadata += rows.metadata
            self._ids += rows.ids
            self._mask = None
            self._live.update(zip(rows.ids, range(first, first + len(rows)), strict=True))
            self._compact()

    def _heal(self) -> None:
        """Make all columns of one length again, after an add that was interrupted: the rows it left are dead."""
        total = int(self._engine.ntotal)
        columns: list[tuple[list[Any], Any]] = [(self._texts, ""), (self._ids, ""), (self._metadata, {})]
        for column, empty in columns:
            column += [empty] * (total - len(column))
            del column[total:]
        self._grow(total)

    def _grow(self, rows: int) -> None:
        if rows > len(self._about):
            more = np.zeros((max(rows, int(_GROWTH * len(self._about))), len(ABOUT)), np.float32)
            more[: len(self._about)] = self._about
            self._about = more

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows; return how many there were."""
        with self._lock.writing:
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
        rows = self._rows()
        fresh = FaissStore(self.about)
        if len(rows):
            fresh.write(rows, replace=False)
        vars(self).update({name: value for name, value in vars(fresh).items() if name not in ("_lock", "confidence")})

    def vectors(self) -> Array:
        """Return a view of all vectors (rows, d), dead ones too."""
        faiss = library()
        flat = self._engine if self.about.kind == "flat" else faiss.downcast_index(self._engine.storage)
        count = int(flat.ntotal) * self.about.dimensions
        if not count:
            return np.empty((0, self.about.dimensions), np.float32)
        return np.asarray(faiss.rev_swig_ptr(flat.get_xb(), count).reshape(-1, self.about.dimensions))

    @contextmanager
    def held(self) -> Iterator[tuple[Rows, Any]]:
        """Give all living rows, and the graph or None, while nothing can change; they are views, not copies."""
        with self._lock.reading:
            yield self._rows(), self._graph()

    def _rows(self) -> Rows:
        """Return the living rows in the order in which they were added; nothing is copied if none is dead."""
        count = len(self._live)
        if count == int(self._engine.ntotal) == len(self._ids):
            return Rows(self._ids, self._texts, self.vectors(), self._about[:count], self._metadata)
        order = np.array(sorted(self._live.values()), np.int64)
        return Rows(
            [self._ids[row] for row in order], [self._texts[row] for row in order], self.vectors()[order],
            self._about[order], [self._metadata[row] for row in order],
        )  # fmt: skip

    def _graph(self) -> Any:
        """Return the graph of an engine that has one and no dead rows, else None."""
        whole = self.about.kind == "hnsw" and len(self._live) == int(self._engine.ntotal)
        return self._engine.hnsw if whole else None

    def fill(self, rows: Rows, place_graph: Any = None) -> None:
        """Put rows into an empty store, with a graph that was built before if there is one."""
        if place_graph is None or not len(rows):
            if len(rows):
                self.write(rows, replace=False)
            return
        faiss = library()
        faiss.downcast_index(self._engine.storage).add(np.ascontiguousarray(rows.vectors, np.float32))
        self._engine.ntotal = len(rows)
        place_graph(self._engine.hnsw)
        self._ids, self._texts, self._metadata = list(rows.ids), list(rows.texts), list(rows.metadata)
        self._about = rows.about
        self._live = {id: row for row, id in enumerate(rows.ids)}

    def sizes(self) -> NDArray[np.int64]:
        """Return how many neighbours a row has in the graph, up to each level."""
        return np.asarray(library().vector_to_array(self._engine.hnsw.cum_nneighbor_per_level), np.int64)

    def nearest(self, vectors: Array, k: int, where: Where, *, with_vectors: bool) -> list[Found]:
        """Return the k nearest rows for each vector (n, d)."""
        with self._lock.reading:
            total = int(self._engine.ntotal)
            mask = None if len(self._live) == total else self._alive(total)
            if where:
                fits = matcher(where)
                wanted = [row for row in self._live.values() if fits(self._metadata[row])]
                mask = np.zeros(total, bool)
                mask[wanted] = True
            allowed = int(mask.sum()) if mask is not None else total
            if not allowed or not len(vectors):
                return [Found.nothing() for _ in vectors]
            queries = np.ascontiguousarray(vectors, np.float32)
            scores, found = self._search(queries, min(k, allowed), mask, allowed)
            pairs = zip(found.tolist(), self._as_scores(scores).tolist(), strict=True)
            return [self._found(*pair, with_vectors) for pair in pairs]

    def _found(self, rows: list[int], scores: list[float], with_vectors: bool) -> Found:
        if rows[-1] < 0:  # a graph may find fewer than there are
            rows = rows[: rows.index(-1)]
        ids, texts, metadata, about = self._ids, self._texts, self._metadata, self._about
        return Found(
            [ids[row] for row in rows], [texts[row] for row in rows], scores[: len(rows)],
            lambda place: about[rows[place]].tolist(), [metadata[row] for row in rows],
            self.vectors()[rows] if with_vectors else None,
        )  # fmt: skip

    def has_key(self, key: str) -> bool:
        """Tell whether a row has this key in its metadata."""
        with self._lock.reading:
            return any(key in self._metadata[row] for row in self._live.values())

    def keys(self) -> list[str]:
        """Return the keys of the metadata of all rows."""
        with self._lock.reading:
            return sorted({key for row in self._live.values() for key in self._metadata[row]})

    def keep_confidence(self, content: dict[str, Any] | None) -> None:
        """Keep the confidence; a folder has it from the next `Index.save` on."""
        self.confidence = content

    def _alive(self, total: int) -> NDArray[np.bool_]:
        """Return a mask of the living rows."""
        if self._mask is None or len(self._mask) != total:
            mask = np.zeros(total, bool)
            mask[list(self._live.values())] = True
            self._mask = mask
        return self._mask

    def _search(
        self, queries: Array, k: int, mask: NDArray[np.bool_] | None, allowed: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        graph = self.about.kind == "hnsw"
        if mask is None and (not graph or 2 * k <= _DEPTH):
            return tuple(self._engine.search(queries, k))
        faiss = library()
        if mask is not None and (graph or allowed < _FEW * len(mask)):
            rows = np.flatnonzero(mask)
            if len(rows) <= max(_FEW * len(mask), 10 * k):  # a graph finds few of few
                chosen = np.ascontiguousarray(self.vectors()[rows])
                scores, found = faiss.knn(queries, chosen, k, metric=self._engine.metric_type)
                return scores, np.where(found >= 0, rows[found], -1)
        options: dict[str, Any] = {"efSearch": max(_DEPTH, 2 * k)} if graph else {}
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")  # FAISS does not keep it, so it must live until the end
            options["sel"] = faiss.IDSelectorBitmap(bits)
        kind = faiss.SearchParametersHNSW if graph else faiss.SearchParameters
        return tuple(self._engine.search(queries, k, params=kind(**options)))

    def _as_scores(self, scores: NDArray[Any]) -> NDArray[Any]:
        if self.about.metric == "dot":
            return scores
        exact = scores.astype(np.float64)
        return -np.sqrt(np.maximum(exact, 0)) if self.about.metric == "l2" else -exact

    def finish(self) -> None:
        """Do nothing: what was added can be searched."""

    def close(self) -> None:
        """Do nothing: memory is freed with the last reference."""
