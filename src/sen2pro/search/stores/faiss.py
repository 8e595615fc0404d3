"""An index in memory, by FAISS: every row compared (flat), or a graph of neighbours (hnsw); and its folder.

Rows are only appended. A row that was replaced or deleted is dead. Dead rows stay until there are many; then the living
rows are copied.

A folder holds numbers as safetensors, texts as Parquet, and their list, which is written last. FAISS's own format is
not read, because an untrusted file can crash the process. A graph is kept as plain numbers, which are checked before
FAISS gets them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, is_temporary, read_unchanged, replacing_folder
from sen2pro.io.bundle import Expected
from sen2pro.io.rows import file_digest, open_parquet, parquet_batches
from sen2pro.search.documents import check_ids, check_metadata, matcher
from sen2pro.search.stores.protocol import (
    FIELDS,
    KEPT,
    Candidates,
    Document,
    DuplicateIds,
    IndexInfo,
    Json,
    Rows,
    Where,
    from_json,
    missing,
    to_json,
)
from sen2pro.validation import Array

NAME = "sen2pro_index"
FILE = f"{NAME}.json"
_NEIGHBOURS, _BUILD_DEPTH = 32, 128  # of each row in the graph; rows looked at to place a new one
_DEPTH = 128  # rows looked at in a search of a graph, at least
_FEW = 0.1  # share of the rows that pass a filter, below which these are compared one by one
_MOST_DEAD = 0.25  # share of dead rows above which the others are copied
_GROWTH = 1.5
_BATCH, _GROUP = 8192, 1 << 16  # rows of a table that are decoded at once, and written at once
_SUFFIXES = {"texts": ".parquet", "numbers": ".safetensors"}
_PART = re.compile(r"(texts|numbers|vectors|graph)(-[0-9a-f]{16}|\.new)\.(parquet|safetensors)")  # some: up to 0.11
_GRAPH = {"levels": Expected("I32", "rows"), "neighbours": Expected("I32", 1), "entry": Expected("I64", "1")}


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
        self._entrance, self._inside = threading.Lock(), threading.Condition()
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._entrance, self._inside:
            self._readers += 1
        try:
            yield
        finally:
            with self._inside:
                self._readers -= 1
                self._inside.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone; who comes later waits at the entrance."""
        with self._entrance, self._inside:
            self._inside.wait_for(lambda: not self._readers)
            yield


class FaissStore:
    """Documents in memory; `save` writes them to a folder."""

    def __init__(self, info: IndexInfo) -> None:
        self.info = info
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
        vars(self).update({name: value for name, value in vars(fresh).items() if name != "_lock"})

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
            whole = self.info.kind == "hnsw" and 0 < len(self) == int(self._engine.ntotal)
            yield self._rows(), self._engine.hnsw if whole else None

    def _rows(self) -> Rows:
        """Return the living rows in the order in which they were added; they are copied only if a row is dead."""
        count = len(self)
        if count == int(self._engine.ntotal) == len(self._documents):
            return Rows(self._documents, self._vectors(), self._details[:count])
        order = sorted(self._live.values())
        return Rows([self._documents[row] for row in order], self._vectors()[order], self._details[order])

    def fill(self, rows: Rows, graph: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Put rows into an empty store, and a saved graph of them into its engine. An unsound graph is a ValueError."""
        if graph is None:
            if len(rows):
                self.write(rows, replace=False)
            return
        _place_graph(self._engine.hnsw, len(rows), **graph)
        library().downcast_index(self._engine.storage).add(np.ascontiguousarray(rows.vectors, np.float32))
        self._engine.ntotal = len(rows)
        self._documents, self._details = list(rows.documents), rows.details
        self._live = {id: row for row, id in enumerate(rows.ids)}

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

    def describe(self, info: IndexInfo) -> None:
        """Keep another description; the next `Index.save` writes it."""
        self.info = info

    def finish(self) -> None:
        """Do nothing: the engine is always ready."""

    def close(self) -> None:
        """Do nothing: memory is freed with the last reference."""


class IndexFile(bundle.Config, frozen=True):
    """A file of an index."""

    name: str
    digest: str


class Contents(bundle.Config, frozen=True):
    """The parts of an index in a folder; `about` is what `to_json` gives."""

    about: Json
    rows: bundle.Count
    files: dict[str, IndexFile]
    confidence: Json | None = None  # up to version 0.11


def exists(folder: str | Path) -> bool:
    """Tell whether a folder holds an index."""
    return (Path(folder) / FILE).is_file()


def check_target(folder: str | Path, *, overwrite: bool) -> None:
    """Raise if an index may not be saved to a folder: it holds something else, or an index and no `overwrite`."""
    path = check_path(folder)
    if exists(path):
        if not overwrite:
            raise Sen2ProError(f"there is an index in {path}; pass overwrite=True to replace it")
        return
    names = [place.name for place in path.iterdir()] if path.is_dir() else []
    # A save that runs or was killed leaves names of ours in a folder without an index.
    if (path.exists() and not path.is_dir()) or not all(is_temporary(name) or _PART.fullmatch(name) for name in names):
        raise Sen2ProError(f"{path} is not an empty folder; name a new one")


def save(store: FaissStore, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write an index to a folder. An index that is there is replaced at the last step, or stays as it is."""
    path = check_path(folder)
    with replacing_folder(path, FILE, _PART, lambda: check_target(path, overwrite=overwrite)) as temporary:
        texts, numbers = (temporary / f"{name}{suffix}" for name, suffix in _SUFFIXES.items())
        with store.held() as (rows, graph):
            _write_texts(texts, rows.documents)
            arrays = {"vectors": rows.vectors, "details": rows.details}
            bundle.write_arrays(numbers, arrays | (_graph_arrays(graph) if graph is not None else {}))
        files = {place.stem: _with_digest(place) for place in (texts, numbers)}
        contents = Contents(about=to_json(store.info), rows=len(rows), files=files)
        bundle.save(temporary, NAME, contents)


def _with_digest(path: Path) -> IndexFile:
    """Give a file its digest as a part of its name, so that different contents have different names."""
    digest = file_digest(path)
    place = path.rename(path.with_stem(f"{path.stem}-{digest.split(':')[1][:16]}"))
    return IndexFile(name=place.name, digest=digest)


def load(folder: str | Path) -> FaissStore:
    """Read an index that `save` wrote; a changed file is an error."""
    path = check_path(folder)
    return read_unchanged(path / FILE, partial(_load, path))


def _load(path: Path) -> FaissStore:
    if not exists(path):
        raise Sen2ProError(f"there is no index in {path}: {FILE} is missing")
    contents, _ = bundle.load(path, NAME, Contents)
    info = from_json(contents.about, f"the index in {path}")
    texts, place = (_checked(path, name, contents.files) for name in _SUFFIXES)
    graph = {name: each for name, each in _GRAPH.items() if name in bundle.read_header(place).arrays}
    sizes = {"vectors": info.dimensions, "details": info.details}
    expected = {name: Expected("F32", f"{contents.rows} {size}") for name, size in sizes.items()}
    numbers = bundle.read_arrays(place, expected | graph)
    vectors, details = numbers.pop("vectors"), numbers.pop("details")
    if (details[:, :KEPT] < 0).any() or (details[:, KEPT + info.dimensions :] < 0).any():
        raise Sen2ProError(f"{place}: variances and lengths cannot be negative")
    store, rows = FaissStore(info), Rows(_read_texts(texts, contents.rows), vectors, details)
    try:
        store.fill(rows, numbers if info.kind == "hnsw" and len(graph) == len(_GRAPH) else None)
    except ValueError as error:
        raise Sen2ProError(f"{place} {error}; build the index again") from None
    return store


def _checked(folder: Path, name: str, files: dict[str, IndexFile]) -> Path:
    """Return the path of a part of an index, after a check of its name and its digest."""
    if name not in files:
        raise Sen2ProError(f"{folder / FILE}: 'files' has no {name!r}")
    path = folder / files[name].name
    if path.name != files[name].name or not path.name.startswith(f"{name}-") or path.suffix != _SUFFIXES[name]:
        raise Sen2ProError(f"{folder / FILE}: {files[name].name!r} cannot be the name of a part of an index")
    if not path.is_file():
        raise Sen2ProError(f"a part of the index is missing: {path}")
    if file_digest(path) != files[name].digest:
        raise Sen2ProError(f"{path} was changed or damaged since it was written; build the index again")
    return path


def _write_texts(path: Path, documents: list[Document]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in FIELDS])
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
        for start in range(0, len(documents), _GROUP):
            rows = [(id, text, json.dumps(metadata)) for id, text, metadata in documents[start : start + _GROUP]]
            file.write_table(pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], schema))


def _read_texts(path: Path, count: int) -> list[Document]:
    import pyarrow as pa

    documents: list[Document] = []
    with open_parquet(path) as file:
        schema = file.schema_arrow
        if schema.names != list(FIELDS) or set(schema.types) != {pa.string()}:
            raise Sen2ProError(f"{path} must have the columns id, text and metadata, all of texts")
        if file.metadata.num_rows != count:
            raise Sen2ProError(f"{path} has {file.metadata.num_rows} rows, but the index {count}")
        for batch in parquet_batches(file, _BATCH):
            ids, texts, metadata = (column.to_pylist() for column in batch.columns)
            if None in (*ids, *texts, *metadata):
                raise Sen2ProError(f"{path}: a row has no id, text or metadata")
            parsed = [bundle.parse(text, f"{path}: metadata") for text in metadata]
            documents += map(Document, check_ids(ids), texts, check_metadata(parsed, len(parsed)))
    if len(documents) != count or len({document.id for document in documents}) != count:
        raise Sen2ProError(f"{path}: there must be {count} ids, all different, not {len(documents)}")
    return documents


def _graph_arrays(graph: Any) -> dict[str, NDArray[Any]]:
    faiss = library()
    return {
        "levels": faiss.vector_to_array(graph.levels).astype(np.int32),
        "neighbours": faiss.vector_to_array(graph.neighbors).astype(np.int32),
        "entry": np.array([graph.entry_point], np.int64),
    }


def _place_graph(
    graph: Any, rows: int, levels: NDArray[np.int32], neighbours: NDArray[np.int32], entry: NDArray[np.int64]
) -> None:
    """Put a saved graph into an engine; no number may lead out of its arrays.

    A row of `levels` l has neighbours on the levels 0 to l - 1, and each of them must be on that level too.
    """
    faiss, first = library(), int(entry[0])
    starts = np.asarray(faiss.vector_to_array(graph.cum_nneighbor_per_level), np.int64)  # of a row's neighbours
    sound = len(levels) == rows > 0 and levels.min() >= 1 and levels.max() < len(starts)
    sound = sound and 0 <= first < rows and levels[first] == levels.max()
    if sound:
        offsets = np.r_[0, np.cumsum(starts[levels])]
        sound = len(neighbours) == offsets[-1] and neighbours.min() >= -1 and neighbours.max() < rows
        for row in np.flatnonzero(levels > 1) if sound else ():
            own = neighbours[offsets[row] : offsets[row + 1]]
            for level in range(1, levels[row]):
                near = own[starts[level] : starts[level + 1]]
                sound = sound and bool((levels[near[near >= 0]] > level).all())
    if not sound:
        raise ValueError(f"holds no graph of {rows} rows")
    faiss.copy_array_to_vector(levels, graph.levels)
    faiss.copy_array_to_vector(offsets.astype(np.uint64), graph.offsets)
    faiss.copy_array_to_vector(neighbours, graph.neighbors)
    graph.entry_point, graph.max_level = first, int(levels.max()) - 1
