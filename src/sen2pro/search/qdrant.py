"""An index in Qdrant: a server, or the engine inside qdrant-client, in memory or in a folder.

A server takes a batch as a whole. The local engine writes point by point, so a batch is first noted in a journal, and
one that was interrupted is undone.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.search.rows import ABOUT, Document, Found, Rows, Where
from sen2pro.search.store import (
    SOME_ROWS,
    About,
    DuplicateIds,
    StoreUnavailable,
    missing,
    patiently,
    read_about,
    without_secret,
    written_about,
)
from sen2pro.validation import Array

_NAMESPACE = uuid.UUID("5e2b0a9c-0000-4000-8000-73656e327072")
_ABOUT_POINT, _JOURNAL_POINT = 1, 2
_PORT, _WAIT = 6333, 10  # seconds


class QdrantEngine:
    """Makes and opens indexes on a server (`qdrant://host:port`), in memory (`qdrant://:memory:`) or in a folder.

    The client of Qdrant keeps a folder (`qdrant:///path`) in pickle format, which can run code when it is read.
    """

    def __init__(self, allow_pickle: bool) -> None:
        self._allow_pickle = allow_pickle

    def create(self, url: str, name: str, about: About, overwrite: bool) -> QdrantStore:
        """Make the collections of a new index."""
        store = QdrantStore(url, name, about, self._client(url))
        patiently(lambda: store.create(overwrite))
        return store

    def connect(self, url: str, name: str) -> QdrantStore:
        """Open an index, and undo what was left half written."""
        store = QdrantStore(url, name, None, self._client(url))  # type: ignore[arg-type]  # read next
        try:
            store.about, store.confidence = read_about(
                patiently(store.read_about), f"{name!r} in {without_secret(url)}"
            )
        except Sen2ProError:
            store.close()
            raise
        store.undo()
        return store

    def _client(self, url: str) -> tuple[Any, bool]:
        """Return a client, and whether it is the local engine."""
        try:
            from qdrant_client import QdrantClient
        except ImportError:
            raise missing("qdrant-client", "qdrant") from None
        scheme, _, rest = url.partition("://")
        if rest == ":memory:":
            return QdrantClient(":memory:", force_disable_check_same_thread=True), True
        if rest.startswith("/"):
            folder = Path(unquote(rest))
            if folder.exists() and any(folder.iterdir()) and not self._allow_pickle:
                raise Sen2ProError(
                    f"qdrant-client keeps {folder} in pickle format, which can run any code when it is read. If you "
                    "made it yourself, pass allow_pickle=True"
                )
            try:
                return QdrantClient(path=str(folder), force_disable_check_same_thread=True), True
            except (RuntimeError, OSError) as error:
                raise Sen2ProError(f"the folder {folder} cannot be opened: {first_line(error)}") from None
        try:
            parts = urlsplit(f"{'https' if scheme.endswith('+https') else 'http'}://{rest}")
            address = f"{parts.scheme}://{parts.hostname}:{parts.port or _PORT}{parts.path}"
        except ValueError as error:
            raise Sen2ProError(f"{without_secret(url)} is no address of a Qdrant server: {error}") from None
        key = parts.password or os.environ.get("QDRANT_API_KEY")
        # qdrant-client itself warns of a key that goes over http.
        return QdrantClient(url=address, api_key=key, timeout=_WAIT, check_compatibility=False), False


class QdrantStore:
    """A collection of points, and a second one, NAME__about, with how the index was made."""

    about: About

    def __init__(self, url: str, name: str, about: About, client: tuple[Any, bool]) -> None:
        from qdrant_client import models

        self._models: Any = models
        self._url, self._name, self.about = url, name, about
        self._client, self._local = client
        self.confidence: dict[str, Any] | None = None
        self._notes = f"{name}__about"
        self._lock = threading.RLock()

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """Give the client; the local engine is for one thread at a time."""
        from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

        with self._lock if self._local else nullcontext():
            try:
                yield self._client
            except UnexpectedResponse as error:
                if error.status_code is not None and error.status_code >= 500:
                    raise self._unavailable(error) from None
                raise Sen2ProError(f"Qdrant refused this: {first_line(error)}") from None
            except (ResponseHandlingException, ApiException, ConnectionError) as error:
                raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"Qdrant at {without_secret(self._url)} does not answer: {first_line(error)}")

    def create(self, overwrite: bool) -> None:
        """Make the two collections."""
        models = self._models
        distance = {"dot": "DOT", "l1": "MANHATTAN", "l2": "EUCLID"}[self.about.metric]
        with self._asking() as client:
            if client.collection_exists(self._name):
                if not overwrite:
                    raise Sen2ProError(
                        f"there is a collection {self._name!r} already; pass overwrite=True, or another name=..."
                    )
                if not client.collection_exists(self._notes):
                    raise Sen2ProError(f"the collection {self._name!r} is no index of sen2pro, so it is not replaced")
                client.delete_collection(self._name)
            if client.collection_exists(self._notes):
                client.delete_collection(self._notes)
            size = self.about.dimensions
            vectors = models.VectorParams(size=size, distance=models.Distance[distance])
            client.create_collection(self._name, vectors_config=vectors)
            client.create_collection(
                self._notes, vectors_config=models.VectorParams(size=1, distance=models.Distance.DOT)
            )
            self._note(_ABOUT_POINT, {"about": written_about(self.about)})

    def keep_confidence(self, content: dict[str, Any] | None) -> None:
        """Keep the confidence beside how the index was made."""
        with self._asking():
            self._note(_ABOUT_POINT, {"about": written_about(self.about, content)})
        self.confidence = content

    def read_about(self) -> dict[str, Any] | None:
        """Return how the index was made; None if there is none."""
        with self._asking() as client:
            if not client.collection_exists(self._notes) or not client.collection_exists(self._name):
                return None
            found = client.retrieve(self._notes, [_ABOUT_POINT])
            return (found[0].payload or {}).get("about") if found else None

    def _note(self, number: int, payload: dict[str, Any]) -> None:
        point = self._models.PointStruct(id=number, vector=[1.0], payload=payload)
        self._client.upsert(self._notes, [point], wait=True)

    def __len__(self) -> int:
        with self._asking() as client:
            return int(client.count(self._name, exact=True).count)

    def existing(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids that are there."""
        with self._asking() as client:
            found = client.retrieve(self._name, [_point(id) for id in ids], with_payload=False)
            there = {str(point.id) for point in found}
            return [id for id in ids if _point(id) in there]

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return those of some documents that are there."""
        with self._asking() as client:
            points = client.retrieve(self._name, [_point(id) for id in ids], with_payload=True)
        return [Document(*(point.payload[name] for name in ("id", "text", "metadata"))) for point in points]

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows as one batch."""
        points = [
            self._models.PointStruct(
                id=_point(id), vector=vector,
                payload={"id": id, "text": text, "about": dict(zip(ABOUT, about, strict=True)), "metadata": metadata},
            )
            for id, text, vector, about, metadata in zip(
                rows.ids, rows.texts, rows.vectors.tolist(), rows.about.tolist(), rows.metadata, strict=True
            )
        ]  # fmt: skip
        with self._asking() as client:
            there = [] if replace else self.existing(rows.ids)
            if there:
                raise DuplicateIds(there)
            with self._journal([_point(id) for id in rows.ids]):
                client.upsert(self._name, points, wait=True)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows as one batch; return how many there were."""
        with self._asking() as client:
            points = [_point(id) for id in dict.fromkeys(self.existing(ids))]
            if points:
                with self._journal(points):
                    client.delete(self._name, self._models.PointIdsList(points=points), wait=True)
            return len(points)

    @contextmanager
    def _journal(self, points: list[str]) -> Iterator[None]:
        """Note what a batch of the local engine replaces, so that one that is interrupted can be undone."""
        if not self._local:
            yield
            return
        old = self._client.retrieve(self._name, points, with_vectors=True)
        kept = [{"id": str(point.id), "vector": list(point.vector), "payload": point.payload} for point in old]
        self._note(_JOURNAL_POINT, {"points": points, "old": kept})
        try:
            yield
        except BaseException:
            self.undo()
            raise
        self._forget()

    def undo(self) -> None:
        """Take back a batch of the local engine that was interrupted."""
        if not self._local:
            return
        with self._asking() as client:
            found = client.retrieve(self._notes, [_JOURNAL_POINT])
            if not found:
                return
            journal = found[0].payload or {}
            client.delete(self._name, self._models.PointIdsList(points=journal["points"]), wait=True)
            if journal["old"]:
                client.upsert(self._name, [self._models.PointStruct(**each) for each in journal["old"]], wait=True)
            self._forget()

    def _forget(self) -> None:
        self._client.delete(self._notes, self._models.PointIdsList(points=[_JOURNAL_POINT]), wait=True)

    def nearest(self, vectors: Array, k: int, where: Where, *, with_vectors: bool) -> list[Found]:
        """Return the k nearest rows for each vector (n, d)."""
        models = self._models
        wanted = self._filter(where)
        exact = None  # the local engine compares all points, and warns if it is told how
        if not self._local:
            exact = models.SearchParams(exact=self.about.kind == "flat", hnsw_ef=max(128, 2 * k))
        requests = [
            models.QueryRequest(
                query=vector, limit=k, filter=wanted, params=exact, with_payload=True, with_vector=with_vectors
            )
            for vector in vectors.tolist()
        ]
        with self._asking() as client:
            answers = client.query_batch_points(self._name, requests=requests) if requests else []
        return [self._found(answer.points, with_vectors) for answer in answers]

    def _found(self, points: Sequence[Any], with_vectors: bool) -> Found:
        if not points:
            return Found.nothing()
        rows = [point.payload for point in points]
        return Found(
            [row["id"] for row in rows], [row["text"] for row in rows],
            [float(point.score) if self.about.metric == "dot" else -abs(float(point.score)) for point in points],
            lambda place: [rows[place]["about"][name] for name in ABOUT], [row["metadata"] for row in rows],
            np.array([point.vector for point in points], np.float32) if with_vectors else None,
        )  # fmt: skip

    def has_key(self, key: str) -> bool:
        """Tell whether a row has this key in its metadata."""
        models = self._models
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=f"metadata.{key}"))
        with self._asking() as client:
            found, _ = client.scroll(self._name, models.Filter(must_not=[empty]), limit=1, with_payload=False)
        return bool(found)

    def keys(self) -> list[str]:
        """Return the keys of the metadata of a thousand rows."""
        with self._asking() as client:
            found, _ = client.scroll(self._name, limit=SOME_ROWS, with_payload=["metadata"])
        return sorted({key for point in found for key in point.payload["metadata"]})

    def _filter(self, where: Where) -> Any:
        """Return a filter; numbers are matched by ranges of one value, so that 1 is 1.0."""
        models = self._models

        def conditions(key: str, values: Sequence[Any]) -> list[Any]:
            texts = [value for value in values if isinstance(value, str)]
            matches = [models.MatchAny(any=texts)] if texts else []
            matches += [models.MatchValue(value=value) for value in {each for each in values if isinstance(each, bool)}]
            numbers = {each for each in values if not isinstance(each, (str, bool))}
            ranges = [models.Range(gte=number, lte=number) for number in numbers]
            return [
                *(models.FieldCondition(key=f"metadata.{key}", match=each) for each in matches),
                *(models.FieldCondition(key=f"metadata.{key}", range=each) for each in ranges),
            ]

        each = [models.Filter(should=conditions(key, values)) for key, values in where.items()]
        return models.Filter(must=each) if each else None

    def finish(self) -> None:
        """Do nothing: a server builds its graph by itself."""

    def close(self) -> None:
        """Close the client, which frees the lock of a folder."""
        self._client.close()


def _point(id: str) -> str:
    """Return the id of a point: Qdrant takes numbers and UUIDs only."""
    return str(uuid.uuid5(_NAMESPACE, id))
