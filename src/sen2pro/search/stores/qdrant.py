"""An index in Qdrant: a server, or the engine inside qdrant-client, in memory or in a folder.

A server takes a batch as a whole. The local engine writes point by point, so a batch is noted in a journal first, and
an interrupted batch is undone.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.search.stores.protocol import (
    FIELDS,
    Candidates,
    Document,
    DuplicateIds,
    IndexInfo,
    Json,
    Rows,
    StoreUnavailable,
    Value,
    Where,
    missing,
    to_json,
    without_secret,
)
from sen2pro.validation import Array

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
except ImportError:
    raise missing("qdrant-client", "qdrant") from None

_NAMESPACE = uuid.UUID("5e2b0a9c-0000-4000-8000-73656e327072")
_ABOUT, _JOURNAL = 1, 2  # points of the second collection
_PORT, _WAIT = 6333, 10  # seconds


class QdrantStore:
    """A collection of points, and a second one, NAME__about, with the description of the index.

    The address is that of a server (`qdrant://host:port`), `qdrant://:memory:`, or a folder (`qdrant:///path`). The
    client of Qdrant keeps a folder in pickle format, which can run code when it is read.
    """

    info: IndexInfo

    def __init__(self, url: str, name: str, *, allow_pickle: bool = False) -> None:
        self._url, self._name, self._notes = url, name, f"{name}__about"
        self._lock = threading.RLock()
        rest = url.partition("://")[2]
        self._is_local = rest == ":memory:" or rest.startswith("/")
        self._client = _local(rest, allow_pickle) if self._is_local else _remote(url)

    @contextmanager
    def _connected(self) -> Iterator[QdrantClient]:
        """Give the client, the local engine to one thread at a time; its errors become ours."""
        with self._lock if self._is_local else nullcontext():
            try:
                yield self._client
            except UnexpectedResponse as error:
                if error.status_code is None or error.status_code < 500:
                    raise Sen2ProError(f"Qdrant refused this: {first_line(error)}") from None
                raise self._unavailable(error) from None
            except (ResponseHandlingException, ApiException, ConnectionError) as error:
                raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"Qdrant at {without_secret(self._url)} does not answer: {first_line(error)}")

    def create(self, info: IndexInfo, *, overwrite: bool) -> None:
        """Make the collections of a new index."""
        with self._connected() as client:
            if client.collection_exists(self._name):
                if not overwrite:
                    raise Sen2ProError(
                        f"there is a collection {self._name!r} already; pass overwrite=True, or another name=..."
                    )
                if not client.collection_exists(self._notes):
                    raise Sen2ProError(
                        f"the collection {self._name!r} is not an index of sen2pro, so it is not replaced"
                    )
                client.delete_collection(self._name)
            if client.collection_exists(self._notes):
                client.delete_collection(self._notes)
            for name, size in ((self._name, info.dimensions), (self._notes, 1)):
                client.create_collection(name, models.VectorParams(size=size, distance=models.Distance.DOT))
            self.describe(info)

    def about(self) -> object:
        """Return the description of the index, or None if there is none; undo an interrupted batch."""
        with self._connected() as client:
            if not client.collection_exists(self._notes) or not client.collection_exists(self._name):
                return None
            self._undo()
            found = client.retrieve(self._notes, [_ABOUT])
            return (found[0].payload or {}).get("about") if found else None

    def describe(self, info: IndexInfo) -> None:
        """Keep another description of the index."""
        with self._connected():
            self._note(_ABOUT, {"about": to_json(info)})
        self.info = info

    def _note(self, number: int, payload: Json) -> None:
        self._client.upsert(self._notes, [models.PointStruct(id=number, vector=[1.0], payload=payload)], wait=True)

    def __len__(self) -> int:
        with self._connected() as client:
            return client.count(self._name, exact=True).count

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids; unknown ids are left out."""
        with self._connected() as client:
            points = client.retrieve(self._name, [_point(id) for id in ids], with_payload=True)
        return [_document(point.payload or {}) for point in points]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows as one batch."""
        columns = zip(rows.documents, rows.vectors.tolist(), rows.details.tolist(), strict=True)
        points = [
            models.PointStruct(
                id=_point(document.id), vector=vector,
                payload={**dict(zip(FIELDS, document, strict=True)), "details": details},
            )
            for document, vector, details in columns
        ]  # fmt: skip
        with self._connected() as client:
            if not replace and (there := self.read(rows.ids)):
                raise DuplicateIds([document.id for document in there])
            self._as_one(rows.ids, lambda: client.upsert(self._name, points, wait=True))

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents as one batch; return how many there were."""
        with self._connected() as client:
            there = [document.id for document in self.read(ids)]
            points = models.PointIdsList(points=[_point(id) for id in there])
            if there:
                self._as_one(there, lambda: client.delete(self._name, points, wait=True))
            return len(there)

    def _as_one(self, ids: Sequence[str], change: Callable[[], object]) -> None:
        """Change points, all or none: what the local engine replaces is noted before."""
        if not self._is_local:
            change()
            return
        points = [_point(id) for id in ids]
        old = self._client.retrieve(self._name, points, with_vectors=True)
        kept = [{"id": str(point.id), "vector": point.vector, "payload": point.payload} for point in old]
        self._note(_JOURNAL, {"points": points, "old": kept})
        try:
            change()
        except BaseException:
            self._undo()
            raise
        self._client.delete(self._notes, models.PointIdsList(points=[_JOURNAL]), wait=True)

    def _undo(self) -> None:
        """Undo an interrupted batch of the local engine; a server has no journal."""
        for journal in self._client.retrieve(self._notes, [_JOURNAL]):
            content = journal.payload or {}
            self._client.delete(self._name, models.PointIdsList(points=content["points"]), wait=True)
            if content["old"]:
                self._client.upsert(self._name, [models.PointStruct(**each) for each in content["old"]], wait=True)
            self._client.delete(self._notes, models.PointIdsList(points=[_JOURNAL]), wait=True)

    def nearest(self, vectors: Array, k: int, where: Where) -> list[Candidates]:
        """Return the k nearest documents for each vector (n, k)."""
        wanted, exact = _filter(where), None  # the local engine always compares all points, and warns if it gets this
        if not self._is_local:
            exact = models.SearchParams(exact=self.info.kind == "flat", hnsw_ef=max(128, 2 * k))
        requests = [
            models.QueryRequest(query=vector, limit=k, filter=wanted, params=exact, with_payload=True)
            for vector in vectors.tolist()
        ]
        with self._connected() as client:
            answers = client.query_batch_points(self._name, requests=requests) if requests else []
        return [_candidates(answer.points) for answer in answers]

    def has_key(self, key: str) -> bool:
        """Tell whether a document has this key in its metadata."""
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=f"metadata.{key}"))
        with self._connected() as client:
            found, _ = client.scroll(self._name, models.Filter(must_not=[empty]), limit=1, with_payload=False)
        return bool(found)

    def finish(self) -> None:
        """Do nothing: a server builds its graph automatically."""

    def close(self) -> None:
        """Close the client, which frees the lock of a folder."""
        self._client.close()


def _local(place: str, allow_pickle: bool) -> QdrantClient:
    if place == ":memory:":
        return QdrantClient(":memory:", force_disable_check_same_thread=True)
    folder = Path(unquote(place))
    if folder.exists() and any(folder.iterdir()) and not allow_pickle:
        raise Sen2ProError(
            f"qdrant-client keeps {folder} in pickle format, which can run any code when it is read. If you made it "
            "yourself, pass allow_pickle=True"
        )
    try:
        return QdrantClient(path=str(folder), force_disable_check_same_thread=True)
    except (RuntimeError, OSError) as error:
        raise Sen2ProError(f"the folder {folder} cannot be opened: {first_line(error)}") from None


def _remote(url: str) -> QdrantClient:
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(f"{'https' if scheme.endswith('+https') else 'http'}://{rest}")
        address = f"{parts.scheme}://{parts.hostname}:{parts.port or _PORT}{parts.path}"
    except ValueError as error:
        raise Sen2ProError(f"{without_secret(url)} is not the address of a Qdrant server: {error}") from None
    key = parts.password or os.environ.get("QDRANT_API_KEY")  # qdrant-client warns of a key that goes over http
    return QdrantClient(url=address, api_key=key, timeout=_WAIT, check_compatibility=False)


def _point(id: str) -> str:
    """Return the id of a point: Qdrant takes numbers and UUIDs only."""
    return str(uuid.uuid5(_NAMESPACE, id))


def _document(payload: Json) -> Document:
    return Document(*(payload[name] for name in FIELDS))


def _candidates(points: Sequence[models.ScoredPoint]) -> Candidates:
    rows = [point.payload or {} for point in points]
    details = np.array([row["details"] for row in rows], np.float32)
    similarities = [float(point.score) for point in points]
    return Candidates([_document(row) for row in rows], similarities, details) if rows else Candidates.none()


def _filter(where: Where) -> models.Filter | None:
    """Return a filter; numbers are matched by ranges of one value, so that 1 is 1.0."""

    def condition(key: str, values: Sequence[Value]) -> models.Filter:
        field, texts = f"metadata.{key}", [value for value in values if isinstance(value, str)]
        truths = {value for value in values if isinstance(value, bool)}
        numbers = {value for value in values if not isinstance(value, (str, bool))}
        found: list[models.Condition] = [
            *(models.FieldCondition(key=field, match=models.MatchValue(value=each)) for each in truths),
            *(models.FieldCondition(key=field, range=models.Range(gte=each, lte=each)) for each in numbers),
        ]
        if texts:
            found.append(models.FieldCondition(key=field, match=models.MatchAny(any=texts)))
        return models.Filter(should=found)

    return models.Filter(must=[condition(*each) for each in where.items()]) if where else None
