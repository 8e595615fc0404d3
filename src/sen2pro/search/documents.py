"""What goes into an index, for all stores: checked documents and filters, and their vectors and variances."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from sen2pro.errors import Sen2ProError, Sen2ProWarning, one_of, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.io.atomic import check_path
from sen2pro.io.gaussians import GaussianBatch, GaussianLike, stream
from sen2pro.io.shards import outline
from sen2pro.search.stores.protocol import KEPT, MOST_DIMENSIONS, Document, IndexInfo, Ranking, Value, Where
from sen2pro.signature import MATTERS, Signature
from sen2pro.validation import SOURCES, Array, Array64, as_list, check_sentences, check_text, check_whole, is_whole

if TYPE_CHECKING:  # a folder is checked before torch is imported
    import pyarrow as pa

    from sen2pro.model import Sen2Pro

CHUNK = 1024  # texts that are encoded and written at once
LONGEST_ID = 512  # characters: a database keeps ids in a tree whose entries must be short
LARGEST_WHOLE = 1 << 53  # beyond it JSON readers round
MOST_VALUES = 1000  # of a filter, all of its keys together
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MUST_AGREE = (*MATTERS, "samples", "max_length", "prompt")  # between building and searching
Side = Literal["query", "document"]  # of a search
# The names of prompts that sentence-transformers looks for, first to last, for each side of a search.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


def batches(
    texts: Iterable[str], ids: Iterable[object], metadata: Iterable[Mapping[str, object]] | None, *, exact: bool
) -> Iterator[list[Document]]:
    """Yield checked documents; `exact` says that there must be as many ids as texts, not more."""
    if isinstance(texts, (str, bytes, Mapping)) or isinstance(ids, (str, bytes)):
        raise Sen2ProError(f"give a list of texts and a list of ids, not {short_repr(texts)}")
    try:
        rows, names = iter(texts), iter(ids)
        extra = None if metadata is None else iter(metadata)
    except TypeError as error:
        raise Sen2ProError(f"texts, ids and metadata are lists or generators: {error}") from None
    while chunk := list(islice(rows, CHUNK)):
        own = list(islice(names, len(chunk)))
        more = None if extra is None else list(islice(extra, len(chunk)))
        for what, column in (("ids", own), ("metadata", more)):
            if column is not None and len(column) < len(chunk):
                raise Sen2ProError(f"there are fewer {what} than texts")
        checked = check_sentences(chunk)
        for number, text in enumerate(checked):
            if "\0" in text:
                raise Sen2ProError(f"text {number} holds a NUL, which no database can keep: {short_repr(text)}")
        yield [*map(Document, check_ids(own), checked, check_metadata(more, len(checked)))]
    if list(chain(islice(names, 1) if exact else (), islice(extra or (), 1))):
        raise Sen2ProError("there are more ids or metadata than texts")


def length_of(texts: Iterable[str], total: int | None = None) -> int | None:
    """Return the number of texts: `total`, or their own length; None if it is unknown."""
    return len(texts) if total is None and isinstance(texts, Sized) else total


def check_ids(ids: object) -> list[str]:
    """Return ids as texts; whole numbers may be ids too.

    >>> check_ids(["a", 7])
    ['a', '7']
    """
    found = []
    for number, value in enumerate([ids] if isinstance(ids, str) or is_whole(ids) else as_list(ids, "a list of ids")):
        whole = is_whole(value) and abs(value) < LARGEST_WHOLE
        id = str(value) if whole else check_text(f"id {number}", value)
        if not id or len(id) > LONGEST_ID or "\0" in id:
            raise Sen2ProError(f"id {number} must have 1 to {LONGEST_ID} characters and no NUL, not {short_repr(id)}")
        found.append(id)
    return found


def check_metadata(metadata: Iterable[object] | None, rows: int) -> list[dict[str, Value]]:
    """Return one dictionary of plain values for each row; a key whose value is None is left out.

    >>> check_metadata([{"year": None, "lang": "en"}], 1)
    [{'lang': 'en'}]
    >>> check_metadata([{"year": 1999, "a.b": 1}], 1)
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: a metadata key has 1 to 63 letters, digits and _, and starts with no digit, not 'a.b'
    """
    found: list[dict[str, Value]] = []
    for each in [{}] * rows if metadata is None else metadata:
        if not isinstance(each, Mapping):
            raise Sen2ProError(f"metadata is a dictionary for each text, not {short_repr(each)}")
        found.append({check_key(key): check_value(key, value) for key, value in each.items() if value is not None})
    return found


def check_where(where: object) -> Where:
    """Return a filter as key -> list of allowed values.

    >>> check_where({"lang": "en", "year": [1999, 2000]})
    {'lang': ['en'], 'year': [1999, 2000]}
    """
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise Sen2ProError(
            f"where is a dictionary like {{'lang': 'en', 'year': [1999, 2000]}}, not {short_repr(where)}"
        )
    count = sum(len(value) if isinstance(value, (list, tuple)) else 1 for value in where.values())
    if max(count, len(where)) > MOST_VALUES:
        raise Sen2ProError(
            f"where may have {MOST_VALUES:,} values, all keys together, not {max(count, len(where)):,}; search in "
            "parts, or give the texts a key for what you want to find"
        )
    found: Where = {}
    for key, value in where.items():
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if not values:
            raise Sen2ProError(f"where has no value for {key!r}; give at least one, or leave the key out")
        found[check_key(key)] = [check_value(key, each) for each in values]
    return found


def check_key(key: object) -> str:
    """Return a key of metadata: a plain name, so that no store can read it as a path or an operator."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        rule = "a metadata key has 1 to 63 letters, digits and _, and starts with no digit"
        raise Sen2ProError(f"{rule}, not {short_repr(key)}")
    return key


def check_value(key: object, value: object) -> Value:
    """Return a text, a number or a truth value, as JSON has them."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= LARGEST_WHOLE:
        return int(value)
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    if isinstance(value, str):
        text = check_text(f"metadata {key!r}", value)
        if "\0" not in text:
            return text
    raise Sen2ProError(
        f"metadata {short_repr(key)} must be a text, a finite number, or true or false, not {short_repr(value)}"
    )


def matcher(where: Where) -> Callable[[Mapping[str, Value]], bool]:
    """Return a function that tells whether metadata pass a filter; as in JSON, true is not 1, but 1.0 is.

    >>> passes = matcher({"year": [1999.0, 2000], "new": [True]})
    >>> passes({"year": 1999, "new": True}), passes({"year": 1999, "new": 1}), passes({"year": 1999})
    (True, False, False)
    """

    # In Python True equals 1, also as a member of a set. So each value is paired with whether it is a truth value.
    def pair(value: Value | None) -> tuple[bool, Value | None]:
        return isinstance(value, bool), value

    wanted = [(key, {pair(value) for value in values}) for key, values in where.items()]
    return lambda metadata: all(pair(metadata.get(key)) in values for key, values in wanted)


class EncodedFile:
    """A Parquet file of `sen2pro encode`, or a folder of shards. Memory does not grow with it.

    `metadata` names the columns that become metadata of the documents; by default all that `sen2pro encode` kept.
    """

    def __init__(self, path: str | Path, metadata: Sequence[str] | None = None) -> None:
        self._path = check_path(path)
        if self._path.suffix.lower() != ".parquet" and not self._path.is_dir():
            raise Sen2ProError(f"{self._path}: only a Parquet file keeps ids and texts; write one with sen2pro encode")
        found = outline(self._path)
        self.signature, self._rows, self._chosen = found.signature, found.rows, metadata is not None
        self._columns = list(found.kept)
        if metadata is not None:
            self._columns = list(dict.fromkeys(as_list(metadata, "a list of columns")))
            for name in self._columns:
                one_of(f"metadata column in {self._path}", check_key(name), found.kept)

    def __len__(self) -> int:
        return self._rows

    def batches(self) -> Iterator[tuple[list[Document], GaussianBatch]]:
        """Yield documents with their Gaussians, after a first pass over the file that checks its digest and columns."""
        unfit: dict[str, str] = {}
        for piece in stream(self._path, CHUNK):
            for name in self._columns:
                if name in piece.columns and name not in unfit and (why := _unfit(name, piece.columns[name])):
                    unfit[name] = why
        for name, why in unfit.items():
            if self._chosen:
                raise Sen2ProError(f"{self._path}: the column {name!r} cannot be metadata: {why}; leave it out")
            message = f"the column {name!r} of {self._path} does not become metadata: {why}"
            warnings.warn(message, Sen2ProWarning, stacklevel=3)
        names, done = [name for name in self._columns if name not in unfit], 0
        for piece in stream(self._path, CHUNK, verify=False):
            number = len(piece)
            ids = check_ids(piece.ids if piece.ids is not None else range(done, done + number))
            columns = [piece.columns[name].to_pylist() for name in names if name in piece.columns]
            rows: Iterable[tuple[object, ...]] = zip(*columns, strict=True) if columns else [()] * number
            metadata = check_metadata([dict(zip(names, row, strict=False)) for row in rows], number)
            yield [*map(Document, ids, piece.texts or [""] * number, metadata)], piece
            done += number


def _unfit(name: str, values: pa.Array) -> str | None:
    """Return why a column cannot be metadata; None if it can."""
    try:
        check_metadata([{name: value} for value in values.to_pylist()], len(values))
    except Sen2ProError as error:
        return str(error)
    except UnicodeDecodeError:
        return "it holds text that is not UTF-8"
    return None


def search_model(model: Sen2Pro) -> Sen2Pro:
    """Return a model as an index uses it: in one pass if there is a head, by sampling if samples were asked for."""
    from sen2pro.model import Sen2Pro

    if not isinstance(model, Sen2Pro):
        raise Sen2ProError(f"model must be a Sen2Pro, not {type(model).__name__}")
    return model if has_gaussians(model) else model.in_one_pass() or model


def describe(
    model: Sen2Pro, store: str | None, kind: str | None, rerank: str | None,
    ranking: Ranking = "cosine",
) -> IndexInfo:  # fmt: skip
    """Return the description of a new index, with its defaults; raise if it cannot be made.

    >>> from sen2pro import Sen2Pro
    >>> describe(Sen2Pro("all-MiniLM-L6-v2"), None, None, None).kind
    'flat'
    """
    model = search_model(model)
    if rerank is not None and not has_gaussians(model):
        raise Sen2ProError(
            "this model has no head, so one pass gives no Gaussians to rerank by; leave rerank out, fit a head "
            "(Sen2Pro.distill), or ask for samples: Sen2Pro(..., samples=15)"
        )
    kind = one_of("kind", kind or ("flat" if store is None else "hnsw"), ("flat", "hnsw"))
    check_whole("the number of dimensions", model.dim, 1, MOST_DIMENSIONS)
    return IndexInfo(
        signature=model.signature(), ranking=ranking, rerank=rerank, dimensions=model.dim,
        kind="flat" if kind == "flat" else "hnsw",
    )  # fmt: skip


def has_gaussians(model: Sen2Pro) -> bool:
    """Tell whether an index takes Gaussians of this model; otherwise it takes plain vectors alone."""
    return not model.settings.draws or model.settings.samples is not None


def prompt_name(model: Sen2Pro, side: Side) -> str | None:
    """Return the name of the model's prompt for one side of a search, `query` or `document`, if it has one."""
    return next((name for name in _PROMPT_NAMES[side] if name in model.encoder.prompts), None)


def prompt_of_documents(model: Sen2Pro) -> str:
    """Return the text that the model puts before a document; empty if it has no prompt for documents."""
    name = prompt_name(model, "document")
    return model.encoder.prompt(None, name) if name else ""


def unit(vectors: Array) -> Array:
    """Return vectors of length 1; a vector of zeros stays as it is."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return np.asarray(vectors / np.maximum(lengths, 1e-30), np.float32)


def details_of(texts: Sequence[str], totals: Mapping[str, Array64 | None], gaussian: GaussianLike | None) -> Array:
    """Return the details (n, d) of texts: total variances, words, and mean and variance if there is a Gaussian."""
    columns = [totals.get(source) for source in SOURCES]
    known = [np.zeros(len(texts)) if column is None else column for column in columns]
    kept = np.stack([*known, [len(text.split()) for text in texts]], axis=1).astype(np.float32)
    return kept if gaussian is None else np.concatenate([kept, gaussian.mean, gaussian.variance], axis=1)


def gaussian_of(details: Array) -> Gaussian:
    """Return the Gaussians in details."""
    mean, variance = np.split(details[:, KEPT:], 2, axis=1)
    return Gaussian(mean, variance)


def check_signature(kept: Signature | None, given: Signature, what: str) -> None:
    """Raise if an index or a file was made with another model or other settings."""
    if kept is None:
        raise Sen2ProError(f"{what} does not say how it was made, so it cannot be compared with a query")
    differing = [
        f"{name} {getattr(kept, name)!r} in {what}, but {getattr(given, name)!r} now"
        for name in _MUST_AGREE
        if getattr(kept, name) != getattr(given, name)
    ]
    if differing:
        versions = f" ({what} was made with sen2pro {kept.version}, this is {given.version})"
        raise Sen2ProError(
            f"{what} was made with another model or other settings: {'; '.join(differing)}"
            f"{versions if kept.version != given.version else ''}. Pass model=... as it was, or build the index again"
        )
