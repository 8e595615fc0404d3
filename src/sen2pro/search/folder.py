"""An index in memory as a folder: numbers as safetensors, texts as Parquet, and a list of both, which is written last.

FAISS's own format is not read: a file of a stranger's can crash the process. A graph is kept as plain numbers, checked
before FAISS sees them.
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
from sen2pro.io import documents, tensors
from sen2pro.io.atomic import check_path, is_temporary, read_unchanged, replacing_folder
from sen2pro.io.documents import COUNT, TEXT, mapping, record
from sen2pro.io.rows import open_parquet, parquet_batches
from sen2pro.io.tensors import Expected
from sen2pro.search.faiss_store import FaissStore, library
from sen2pro.search.rows import ABOUT, Rows, Value, check_ids, check_metadata
from sen2pro.search.store import About

FILE = "sen2pro_index.json"
_PIECE = 1 << 20  # bytes that are read at once
_BATCH = 8192  # rows of a table that are decoded at once
_GROUP = 1 << 16  # rows of a table that are written at once
_FILES = {"texts": ".parquet", "vectors": ".safetensors", "graph": ".safetensors"}
_PART = re.compile(r"(texts|vectors|graph)(-[0-9a-f]{16}|\.new)\.(parquet|safetensors)")  # .new: up to version 0.11.0
_FILE = record({"name": TEXT, "digest": TEXT})
_ANY = mapping(lambda value, place: None)  # looked at by who reads it
_DOCUMENT = record({"about": _ANY, "rows": COUNT, "files": mapping(_FILE)}, {"confidence": _ANY})
_VECTORS = {"vectors": Expected("F32", "rows d"), "about": Expected("F32", f"rows {len(ABOUT)}")}
_GRAPH = {"levels": Expected("I32", "rows"), "neighbours": Expected("I32", 1), "entry": Expected("I64", "1")}


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
    """Tell whether a save that goes on, or was killed, has a file of this name in a folder without an index."""
    return is_temporary(name) or bool(_PART.fullmatch(name))


def save(store: FaissStore, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write an index to a folder; one that is there is replaced at the last step, or stays as it is."""
    path = check_path(folder)
    with replacing_folder(path, FILE, _PART, lambda: check_target(path, overwrite=overwrite)) as temporary:
        with store.held() as (rows, graph):
            files = _write_files(temporary, rows, graph)
            content = {"about": store.about.to_json(), "rows": len(rows), "files": files}
        if store.confidence is not None:
            content["confidence"] = store.confidence
        documents.write(temporary / FILE, content)


def _write_files(folder: Path, rows: Rows, graph: Any) -> dict[str, dict[str, str]]:
    """Write the parts of an index under names that no other content has; return their names and digests."""
    writers: dict[str, Callable[[Path], None]] = {
        "texts": lambda place: _write_texts(place, rows),
        "vectors": lambda place: tensors.write(place, {"vectors": rows.vectors, "about": rows.about}),
    }
    if graph is not None and len(rows):
        writers["graph"] = lambda place: tensors.write(place, _graph_numbers(graph))
    files = {}
    for name, write in writers.items():
        place = folder / f"{name}{_FILES[name]}"
        write(place)
        digest = digest_of(place)
        final = f"{name}-{digest[:16]}{_FILES[name]}"
        place.rename(folder / final)
        files[name] = {"name": final, "digest": digest}
    return files


def load(folder: str | Path) -> FaissStore:
    """Read an index that `save` wrote; a file that was changed is refused."""
    path = check_path(folder)
    return read_unchanged(path / FILE, partial(_load, path))


def _load(path: Path) -> FaissStore:
    if not exists(path):
        raise Sen2ProError(f"there is no index in {path}: {FILE} is missing")
    found = documents.read(path / FILE, _DOCUMENT)
    about = About.from_json(found["about"], f"{path / FILE}: 'about'")
    places = {name: _checked(path, name, found["files"]) for name in ("texts", "vectors")}
    numbers = tensors.read(places["vectors"], _VECTORS)
    vectors, count = numbers["vectors"], found["rows"]
    if vectors.shape != (count, about.dimensions) or (numbers["about"] < 0).any():
        raise Sen2ProError(
            f"{places['vectors']}: there must be {count} vectors of {about.dimensions} numbers, and no negative "
            f"variance or length, not {vectors.shape}"
        )
    ids, texts, metadata = _read_texts(places["texts"], count)
    rows = Rows(ids, texts, vectors, numbers["about"], metadata)
    store = FaissStore(about)
    graph = None
    if about.kind == "hnsw" and "graph" in found["files"]:
        graph = _read_graph(_checked(path, "graph", found["files"]), count, store.sizes())
    store.fill(rows, graph)
    store.confidence = found.get("confidence")
    return store


def _checked(folder: Path, name: str, files: dict[str, dict[str, str]]) -> Path:
    """Return the path of a file of an index, after a look at its name and its digest."""
    if name not in files:
        raise Sen2ProError(f"{folder / FILE}: 'files' has no {name!r}")
    file = files[name]
    path = folder / file["name"]
    if path.name != file["name"] or not path.name.startswith(f"{name}-") or path.suffix != _FILES[name]:
        raise Sen2ProError(f"{folder / FILE}: {file['name']!r} is no name of a file of an index")
    if not path.is_file():
        raise Sen2ProError(f"a part of the index is missing: {path}")
    if digest_of(path) != file["digest"]:
        raise Sen2ProError(f"{path} was changed or damaged since it was written; build the index again")
    return path


def digest_of(path: Path) -> str:
    """Return the digest of a file."""
    state = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            state.update(piece)
    return str(state.hexdigest())


def _write_texts(path: Path, rows: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("id", "text", "metadata")])
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as file:
        for start in range(0, len(rows), _GROUP):
            part = slice(start, start + _GROUP)
            columns = [rows.ids[part], rows.texts[part], [json.dumps(each) for each in rows.metadata[part]]]
            file.write_table(pa.table([pa.array(values, pa.string()) for values in columns], schema))


def _read_texts(path: Path, count: int) -> tuple[list[str], list[str], list[dict[str, Value]]]:
    ids: list[str] = []
    texts: list[str] = []
    metadata: list[dict[str, Value]] = []
    for batch in _batches(path, count):
        ids += check_ids(batch["id"])
        texts += batch["text"]
        parsed = [documents.parse(text, f"{path}: metadata") for text in batch["metadata"]]
        metadata += check_metadata(parsed, len(parsed))
    if len(ids) != count or len(set(ids)) != count:
        raise Sen2ProError(f"{path}: there must be {count} ids, all different, not {len(ids)}")
    return ids, texts, metadata


def _batches(path: Path, count: int) -> Iterator[dict[str, list[str]]]:
    import pyarrow as pa

    with open_parquet(path) as file:
        schema = file.schema_arrow
        if schema.names != ["id", "text", "metadata"] or set(schema.types) != {pa.string()}:
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


def _read_graph(path: Path, rows: int, starts: NDArray[np.int64]) -> Callable[[Any], None] | None:
    """Return what puts a graph into an engine, or None for an empty one; no number may lead out of its arrays.

    A row of `levels` l has neighbours on the levels 0 to l - 1, and each of them must be on that level too.
    """
    faiss = library()
    found = tensors.read(path, _GRAPH)
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
