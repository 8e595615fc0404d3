"""An index in memory as a folder: numbers as safetensors, texts as Parquet, and their list, which is written last.

FAISS's own format is not read, because an untrusted file can crash the process. A graph is kept as plain numbers, which
are checked before FAISS gets them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, is_temporary, read_unchanged, replacing_folder
from sen2pro.io.bundle import Expected
from sen2pro.io.rows import open_parquet, parquet_batches
from sen2pro.search.documents import FIELDS, Document, check_ids, check_metadata
from sen2pro.search.stores.faiss import FaissStore, library
from sen2pro.search.stores.protocol import KEPT, Json, Rows, from_json, to_json

NAME = "sen2pro_index"
FILE = f"{NAME}.json"
_PIECE = 1 << 20  # bytes that are read at once
_BATCH = 8192  # rows of a table that are decoded at once
_GROUP = 1 << 16  # rows of a table that are written at once
_FILES = {"texts": ".parquet", "vectors": ".safetensors", "graph": ".safetensors"}
_PART = re.compile(r"(texts|vectors|graph)(-[0-9a-f]{16}|\.new)\.(parquet|safetensors)")  # .new: up to version 0.11.0
_GRAPH = {"levels": Expected("I32", "rows"), "neighbours": Expected("I32", 1), "entry": Expected("I64", "1")}


class IndexFile(bundle.Config, frozen=True):
    """A file of an index."""

    name: str
    digest: str


class Contents(bundle.Config, frozen=True):
    """The parts of an index in a folder; `about` is what `to_json` gives."""

    about: Json
    rows: bundle.Count
    files: dict[str, IndexFile]
    confidence: Json | None = None


def exists(folder: str | Path) -> bool:
    """Tell whether a folder holds an index."""
    return (Path(folder) / FILE).is_file()


def check_target(folder: str | Path, *, overwrite: bool) -> None:
    """Raise if an index may not be saved to a folder: it holds something else, or an index and no `overwrite`."""
    path = check_path(folder)
    if exists(path):
        if not overwrite:
            raise Sen2ProError(f"there is an index in {path}; pass overwrite=True to replace it")
    elif path.exists() and (not path.is_dir() or any(not _is_ours(place.name) for place in path.iterdir())):
        raise Sen2ProError(f"{path} is not an empty folder; name a new one")


def _is_ours(name: str) -> bool:
    """Tell whether a running or killed save has a file of this name in a folder without an index."""
    return is_temporary(name) or bool(_PART.fullmatch(name))


def save(store: FaissStore, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write an index to a folder. An index that is there is replaced at the last step, or stays as it is."""
    path = check_path(folder)
    with replacing_folder(path, FILE, _PART, lambda: check_target(path, overwrite=overwrite)) as temporary:
        with store.held() as (rows, graph):
            files, about = _write_files(temporary, rows, graph), to_json(store.info)
            contents = Contents(about=about, rows=len(rows), files=files, confidence=store.confidence)
        bundle.save(temporary, NAME, contents)


def _write_files(folder: Path, rows: Rows, graph: Any) -> dict[str, IndexFile]:
    """Write the parts of an index. Their names have a digest, so that different contents have different names."""
    writers: dict[str, Callable[[Path], None]] = {
        "texts": lambda place: _write_texts(place, rows.documents),
        "vectors": lambda place: bundle.write_arrays(place, {"vectors": rows.vectors, "details": rows.details}),
    }
    if graph is not None and len(rows):
        writers["graph"] = lambda place: bundle.write_arrays(place, _graph_numbers(graph))
    files = {}
    for name, write in writers.items():
        place = folder / f"{name}{_FILES[name]}"
        write(place)
        digest = digest_of(place)
        final = f"{name}-{digest[:16]}{_FILES[name]}"
        place.rename(folder / final)
        files[name] = IndexFile(name=final, digest=digest)
    return files


def load(folder: str | Path) -> FaissStore:
    """Read an index that `save` wrote; a changed file is an error."""
    path = check_path(folder)
    return read_unchanged(path / FILE, partial(_load, path))


def _load(path: Path) -> FaissStore:
    if not exists(path):
        raise Sen2ProError(f"there is no index in {path}: {FILE} is missing")
    contents, _ = bundle.load(path, NAME, Contents)
    info, _ = from_json(contents.about, f"the index in {path}")
    count, place = contents.rows, _checked(path, "vectors", contents.files)
    sizes = {"vectors": info.dimensions, "details": info.details}
    numbers = bundle.read_arrays(place, {name: Expected("F32", f"{count} {size}") for name, size in sizes.items()})
    details = numbers["details"]
    if (details[:, :KEPT] < 0).any() or (details[:, KEPT + info.dimensions :] < 0).any():
        raise Sen2ProError(f"{place}: variances and lengths cannot be negative")
    documents = _read_texts(_checked(path, "texts", contents.files), count)
    store, graph = FaissStore(info), None
    if info.kind == "hnsw" and "graph" in contents.files and count:
        graph = _read_graph(_checked(path, "graph", contents.files), count, store.graph_sizes())
    store.fill(Rows(documents, numbers["vectors"], details), graph)
    store.confidence = contents.confidence
    return store


def _checked(folder: Path, name: str, files: dict[str, IndexFile]) -> Path:
    """Return the path of a part of an index, after a check of its name and its digest."""
    if name not in files:
        raise Sen2ProError(f"{folder / FILE}: 'files' has no {name!r}")
    path = folder / files[name].name
    if path.name != files[name].name or not path.name.startswith(f"{name}-") or path.suffix != _FILES[name]:
        raise Sen2ProError(f"{folder / FILE}: {files[name].name!r} cannot be the name of a part of an index")
    if not path.is_file():
        raise Sen2ProError(f"a part of the index is missing: {path}")
    if digest_of(path) != files[name].digest:
        raise Sen2ProError(f"{path} was changed or damaged since it was written; build the index again")
    return path


def digest_of(path: Path) -> str:
    """Return the digest of a file."""
    state = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            state.update(piece)
    return str(state.hexdigest())


def _write_texts(path: Path, documents: list[Document]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in FIELDS])
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
        for start in range(0, len(documents), _GROUP):
            rows = [(id, text, json.dumps(metadata)) for id, text, metadata in documents[start : start + _GROUP]]
            file.write_table(pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], schema))


def _read_texts(path: Path, count: int) -> list[Document]:
    documents: list[Document] = []
    for batch in _batches(path, count):
        parsed = [bundle.parse(text, f"{path}: metadata") for text in batch["metadata"]]
        columns = check_ids(batch["id"]), batch["text"], check_metadata(parsed, len(parsed))
        documents += map(Document, *columns)
    if len(documents) != count or len({document.id for document in documents}) != count:
        raise Sen2ProError(f"{path}: there must be {count} ids, all different, not {len(documents)}")
    return documents


def _batches(path: Path, count: int) -> Iterator[dict[str, list[str]]]:
    import pyarrow as pa

    with open_parquet(path) as file:
        schema = file.schema_arrow
        if schema.names != list(FIELDS) or set(schema.types) != {pa.string()}:
            raise Sen2ProError(f"{path} must have the columns id, text and metadata, all of texts")
        if file.metadata.num_rows != count:
            raise Sen2ProError(f"{path} has {file.metadata.num_rows} rows, but the index {count}")
        for batch in parquet_batches(file, _BATCH):
            columns = {name: batch.column(name).to_pylist() for name in schema.names}
            if any(value is None for values in columns.values() for value in values):
                raise Sen2ProError(f"{path}: a row has no id, text or metadata")
            yield columns


def _graph_numbers(graph: Any) -> dict[str, NDArray[Any]]:
    faiss = library()
    return {
        "levels": faiss.vector_to_array(graph.levels).astype(np.int32),
        "neighbours": faiss.vector_to_array(graph.neighbors).astype(np.int32),
        "entry": np.array([graph.entry_point], np.int64),
    }


def _read_graph(path: Path, rows: int, starts: NDArray[np.int64]) -> Callable[[Any], None]:
    """Return a function that puts a saved graph into an engine; no number may lead out of its arrays.

    A row of `levels` l has neighbours on the levels 0 to l - 1, and each of them must be on that level too.
    """
    faiss = library()
    found = bundle.read_arrays(path, _GRAPH)
    levels, neighbours, entry = found["levels"], found["neighbours"], int(found["entry"][0])
    sound = len(levels) == rows > 0 and levels.min() >= 1 and levels.max() < len(starts)
    sound = sound and 0 <= entry < rows and levels[entry] == levels.max()
    if sound:
        offsets = np.r_[0, np.cumsum(starts[levels])]
        sound = len(neighbours) == offsets[-1] and neighbours.min() >= -1 and neighbours.max() < rows
        for row in np.flatnonzero(levels > 1) if sound else ():
            own = neighbours[offsets[row] : offsets[row + 1]]
            for level in range(1, levels[row]):
                near = own[starts[level] : starts[level + 1]]
                sound = sound and bool((levels[near[near >= 0]] > level).all())
    if not sound:
        raise Sen2ProError(f"{path} holds no graph of {rows} rows; build the index again")

    def place(graph: Any) -> None:
        faiss.copy_array_to_vector(levels, graph.levels)
        faiss.copy_array_to_vector(offsets.astype(np.uint64), graph.offsets)
        faiss.copy_array_to_vector(neighbours, graph.neighbors)
        graph.entry_point, graph.max_level = entry, int(levels.max()) - 1

    return place
