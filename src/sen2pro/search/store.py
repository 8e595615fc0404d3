"""Where the rows of an index lie: one small protocol, the stores by their address, and patience with failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, TypeVar

from sen2pro import __version__
from sen2pro.errors import Sen2ProError, join_names, one_of, short_repr
from sen2pro.io.documents import COUNT, NUMBER, TEXT, WHOLE, either, one_of_texts, record
from sen2pro.search.ranking import ENGINE_METRICS, NAMES
from sen2pro.search.rows import Document, Found, Rows, Where
from sen2pro.signature import Signature
from sen2pro.validation import Array

FORMAT = 1
KINDS = ("flat", "hnsw")
MOST_DIMENSIONS = 1 << 16
SOME_ROWS = 1000  # that are looked at for the keys of their metadata
TRIES, _FIRST_WAIT = 5, 0.1  # seconds, doubled from try to try
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SECRET = re.compile(r"(?<=://)[^/@]*@")
T = TypeVar("T")
_DOCUMENT = record(
    {
        "format": WHOLE, "version": TEXT, "signature": record({f.name: TEXT for f in fields(Signature)}),
        "ranking": one_of_texts(*NAMES), "alpha": either(NUMBER, one_of_texts("ratio")),
        "metric": one_of_texts(*ENGINE_METRICS), "dimensions": COUNT, "kind": one_of_texts(*KINDS),
    }
)  # fmt: skip


class StoreUnavailable(Sen2ProError):
    """A store does not answer, or dropped the connection; to try again may help."""


class NoIndex(Sen2ProError):
    """There is no index of this name."""


class DuplicateIds(Sen2ProError):
    """Ids are in the index already, or stand twice among those to be added; `ids` are some of them."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(
            f"{len(ids)} id{'s are' if len(ids) != 1 else ' is'} there already: {join_names(list(ids), 5)}. Give "
            "others, or pass duplicates='replace' to put the new rows in their place"
        )


@dataclass(frozen=True)
class About:
    """How an index was made: kept in its store, and compared with the model that is to search it."""

    signature: Signature
    ranking: str
    alpha: float | str
    metric: str
    dimensions: int
    kind: str

    def to_json(self) -> dict[str, Any]:
        """Return what a store keeps."""
        return {"format": FORMAT, "version": __version__, **asdict(self)}

    @classmethod
    def from_json(cls, content: Any, place: str) -> About:
        """Read what a store kept; what is wrong with it is an error that names the place."""
        if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
            made = f"sen2pro {content.get('version')}"
            raise Sen2ProError(
                f"{place} is an index of format {short_repr(content['format'])}, made with {made}, but this version "
                f"({__version__}) reads format {FORMAT}; build it again"
            )
        _DOCUMENT(content, place)
        if not 0 < content["dimensions"] <= MOST_DIMENSIONS:
            raise Sen2ProError(
                f"{place}: 'dimensions' must be from 1 to {MOST_DIMENSIONS}, not {content['dimensions']}"
            )
        kept = {name: value for name, value in content.items() if name not in ("format", "version")}
        return cls(**{**kept, "signature": Signature(**kept["signature"])})


class Store(Protocol):
    """What an index needs of an engine. All methods may be called from several threads at once."""

    about: About
    confidence: dict[str, Any] | None

    def __len__(self) -> int:
        """Return how many rows there are."""

    def write(self, rows: Rows, *, replace: bool) -> None:
        """Add rows, all or none; ids that are there raise `DuplicateIds`, or are replaced."""

    def existing(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids that are there."""

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return those of some documents that are there, in any order."""

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows, all or none; return how many there were."""

    def nearest(self, vectors: Array, k: int, where: Where, *, with_vectors: bool) -> list[Found]:
        """Return for each vector (n, d) the k nearest rows that have what is asked for, the nearest first."""

    def has_key(self, key: str) -> bool:
        """Tell whether a row has this key in its metadata."""

    def keys(self) -> list[str]:
        """Return the keys of the metadata, of all rows or of the first thousand."""

    def keep_confidence(self, content: dict[str, Any] | None) -> None:
        """Keep what `SearchConfidence.to_json` gives, beside how the index was made."""

    def finish(self) -> None:
        """Make what speeds up searches, after many rows were written."""

    def close(self) -> None:
        """Give back what the store holds."""


def create(url: str | None, name: str, about: About, *, overwrite: bool = False, allow_pickle: bool = False) -> Store:
    """Make a new store at an address; None is FAISS, in memory."""
    check_name(name)
    if url is None:
        from sen2pro.search.faiss_store import FaissStore

        return FaissStore(about)
    return _engine(url, allow_pickle).create(url, name, about, overwrite)


def connect(url: str, name: str, *, allow_pickle: bool = False) -> Store:
    """Open the store at an address."""
    return _engine(url, allow_pickle).connect(url, check_name(name))


def check_new(url: str | None, name: str, *, overwrite: bool = False, allow_pickle: bool = False) -> None:
    """Say what stands in the way of a new index before the work; engines within this process are not asked."""
    check_name(name)
    engine = None if url is None else _engine(url, allow_pickle)
    if engine is None or url is None or url.split("://", 1)[1].startswith((":memory:", "/")):
        return
    try:
        engine.connect(url, name).close()
    except NoIndex:
        return
    except StoreUnavailable:
        raise
    except Sen2ProError:
        if not overwrite:
            raise
    if not overwrite:
        raise Sen2ProError(f"there is an index {name!r} already; pass overwrite=True, or another name=...")


def is_address(place: Any) -> bool:
    """Tell whether a text is the address of a store, and not a folder."""
    return isinstance(place, str) and "://" in place


class _Engine(Protocol):
    def create(self, url: str, name: str, about: About, overwrite: bool) -> Store: ...
    def connect(self, url: str, name: str) -> Store: ...


def _engine(url: Any, allow_pickle: bool) -> _Engine:
    """Return what makes and opens stores of a kind."""
    if not is_address(url):
        raise Sen2ProError(
            f"store must be None (FAISS) or an address like postgresql://... or qdrant://..., not {short_repr(url)}"
        )
    scheme = url.split("://", 1)[0].lower().split("+")[0]
    if scheme == "postgres":
        scheme = "postgresql"
    one_of("store", scheme, ("postgresql", "qdrant"))
    if scheme == "qdrant":
        from sen2pro.search.qdrant import QdrantEngine

        return QdrantEngine(allow_pickle)
    from sen2pro.search.postgres import PostgresEngine

    return PostgresEngine()


def check_name(name: Any) -> str:
    """Return the name of an index in a database: a plain word, so that it can be the name of a table."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = "the name of an index has 1 to 40 small letters, digits and _, and starts with a letter"
        raise Sen2ProError(f"{rule}, not {short_repr(name)}")
    return name


def without_secret(url: str) -> str:
    """Return an address as an error may show it.

    >>> without_secret("postgresql://me:secret@host/db")
    'postgresql://***@host/db'
    """
    return _SECRET.sub("***@", url).split("?")[0]


def patiently(action: Callable[[], T], wait: Callable[[float], None] = time.sleep) -> T:
    """Do something that a store may fail at, up to five times, with waits of 0.1, 0.2, 0.4 and 0.8 seconds."""
    for attempt in range(TRIES):
        try:
            return action()
        except StoreUnavailable:
            if attempt == TRIES - 1:
                raise
            wait(_FIRST_WAIT * 2**attempt)
    raise AssertionError("not reached")


def missing(package: str, extra: str) -> Sen2ProError:
    """Return the error for an engine that is not installed."""
    return Sen2ProError(f"this store needs {package}; install it with: pip install 'sen2pro[{extra}]'")


def read_about(content: Mapping[str, Any] | None, place: str) -> tuple[About, dict[str, Any] | None]:
    """Return how an index was made and the confidence that is kept with it, or say that there is no index."""
    if content is None:
        raise NoIndex(f"there is no index {place}; build it first: Index.build(model, texts, store=..., name=...)")
    kept = dict(content)
    confidence = kept.pop("confidence", None)
    return About.from_json(kept, place), confidence


def written_about(about: About, confidence: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what a database keeps of an index beside its rows; see `read_about`."""
    return about.to_json() | ({"confidence": confidence} if confidence is not None else {})
