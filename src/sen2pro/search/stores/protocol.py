"""What an index needs of a store: one protocol, the types that pass through it, and retries."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

import msgspec
import numpy as np

from sen2pro import __version__
from sen2pro.distances import METRICS
from sen2pro.errors import Sen2ProError, join_names, one_of, short_repr
from sen2pro.io.bundle import Config, convert
from sen2pro.signature import Signature
from sen2pro.validation import Array

FORMAT = 2
MOST_DIMENSIONS = 1 << 16
RERANKS = ("eq6", *METRICS)  # Eq. 6 is `sen2pro` in `sen2pro.distance`
KEPT = 3  # numbers of each document: total variances of model and data, and words; 0 is unknown
TRIES, _FIRST_WAIT = 5, 0.1  # seconds, doubled after each try
FIELDS = ("id", "text", "metadata")  # of a document
Value = str | int | float | bool
Where = dict[str, list[Value]]  # key -> the values that a document may have
Json = dict[str, Any]
Ranking = Literal["cosine", "mean-cosine"]  # of plain vectors, or of means
T = TypeVar("T")
P = ParamSpec("P")


class StoreUnavailable(Sen2ProError):
    """A store does not answer, or dropped the connection. Trying again may help."""


class NoIndex(Sen2ProError):
    """There is no index of this name."""


class DuplicateIds(Sen2ProError):
    """Ids are in the index already, or occur twice among the new ones; `ids` are some of them."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(
            f"{len(ids)} id{'s are' if len(ids) != 1 else ' is'} in use already: {join_names(list(ids), 5)}. Choose "
            "other ids, or pass duplicates='replace' to replace the old documents"
        )


class Document(NamedTuple):
    """A document as it was added, without its vector."""

    id: str
    text: str
    metadata: Mapping[str, Value]


class IndexInfo(Config, frozen=True):
    """How an index was made, and the JSON of its confidence: kept in its store, and compared with the model."""

    signature: Signature
    ranking: Ranking
    rerank: str | None
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=MOST_DIMENSIONS)]
    kind: Literal["flat", "hnsw"]
    format: int = FORMAT
    version: str = __version__
    confidence: Json | None = None

    def __post_init__(self) -> None:
        if self.rerank is not None:
            one_of("rerank", self.rerank, RERANKS)

    @property
    def details(self) -> int:
        """The number of details of a document: `KEPT`, and for reranking its mean and variance."""
        return KEPT + (2 * self.dimensions if self.rerank else 0)


def to_json(info: IndexInfo) -> Json:
    """Return what a store keeps of an index beside its documents, for `from_json`."""
    content: Json = msgspec.to_builtins(info)
    return content


def from_json(content: object, place: str) -> IndexInfo:
    """Return what `to_json` was given. Errors name the place."""
    if content is None:
        raise NoIndex(f"there is no index {place}; build it first: Index.build(model, texts, store=..., name=...)")
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise Sen2ProError(
            f"{place} was made with sen2pro {short_repr(content.get('version'))}, in a format that this version "
            f"({__version__}) does not read; build the index again"
        )
    return convert(content, IndexInfo, place)


@dataclass(frozen=True, eq=False)
class Rows:
    """Documents to be stored, with their unit vectors (n, k) and their details (n, d); see `IndexInfo.details`."""

    documents: list[Document]
    vectors: Array
    details: Array

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def ids(self) -> list[str]:
        """The ids of the documents."""
        return [document.id for document in self.documents]

    def last_of_each_id(self) -> Rows:
        """Return the rows without those whose id occurs again later."""
        last = {id: row for row, id in enumerate(self.ids)}
        if len(last) == len(self):
            return self
        kept = sorted(last.values())
        return Rows([self.documents[row] for row in kept], self.vectors[kept], self.details[kept])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nearest documents of one query, the nearest first, with their details (n, d).

    A store gives cosines as similarities; after reranking they are minus the distances.
    """

    documents: Sequence[Document]
    similarities: list[float]
    details: Array

    @classmethod
    def none(cls) -> Candidates:
        """Return the candidates of a query for which nothing was found."""
        return cls((), [], np.empty((0, KEPT), np.float32))


class Store(Protocol):
    """What an index needs of an engine. Several threads may call all methods at once.

    A store that is on another machine raises `StoreUnavailable` where another try may help; the index tries again.
    """

    info: IndexInfo

    def __len__(self) -> int:
        """Return the number of documents."""

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows, all or none; ids that are in use raise `DuplicateIds`, or are replaced."""

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids, in any order; unknown ids are left out."""

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents, all or none; return how many there were."""

    def nearest(self, vectors: Array, k: int, where: Where) -> list[Candidates]:
        """Return the k nearest documents for each vector (n, k), of those that pass the filter."""

    def has_key(self, key: str) -> bool:
        """Tell whether a document has this key in its metadata."""

    def describe(self, info: IndexInfo) -> None:
        """Keep another description of the index."""

    def finish(self) -> None:
        """Build what speeds up searches, after many rows were written."""

    def close(self) -> None:
        """Release what the store holds."""


class DatabaseStore(Store, Protocol):
    """A store with an address; it has no `info` before `create`, or before somebody sets it from `about`."""

    def __init__(self, url: str, name: str, *, allow_pickle: bool) -> None:
        """Open the database; the index may not be there yet."""

    def create(self, info: IndexInfo, *, overwrite: bool) -> None:
        """Make an empty index."""

    def about(self) -> object:
        """Return the description that the database holds (see `from_json`); None without such an index."""


def retry(action: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function up to five times while its store is unavailable, after waits of 0.1, 0.2, 0.4 and 0.8 seconds."""
    for attempt in range(TRIES - 1):
        try:
            return action(*args, **options)
        except StoreUnavailable:
            time.sleep(_FIRST_WAIT * 2**attempt)
    return action(*args, **options)


def refuse_duplicates(store: Store, ids: list[str]) -> None:
    """Raise if ids occur twice, or are in use."""
    repeated = {id for id in ids if ids.count(id) > 1} if len(set(ids)) < len(ids) else set()
    if there := repeated or {document.id for document in retry(store.read, ids)}:
        raise DuplicateIds(sorted(there, key=ids.index))


def write_once(store: Store, rows: Rows, *, replace: bool) -> None:
    """Write rows, with retries; if a retry finds all ids in use, only the answer to the try before it was lost."""
    tries = 0

    def attempt() -> None:
        nonlocal tries
        tries += 1
        try:
            store.write(rows, replace=replace)
        except DuplicateIds as error:
            if tries == 1 or set(error.ids) != set(rows.ids):
                raise

    retry(attempt)


def without_secret(url: str) -> str:
    """Return an address as an error may show it.

    >>> without_secret("postgresql://me:secret@host/db")
    'postgresql://***@host/db'
    """
    return re.sub(r"(?<=://)[^/@]*@", "***@", url).split("?")[0]


def missing(package: str, extra: str) -> Sen2ProError:
    """Return the error for an engine that is not installed."""
    return Sen2ProError(f"this store needs {package}; install it with: pip install 'sen2pro[{extra}]'")
