"""Texts that are to be added, in batches, and what is said when one of them fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.search.rows import Rows
from sen2pro.search.store import DuplicateIds, StoreUnavailable

CHUNK = 1024  # texts that are encoded and written at once


def chunks(
    texts: Iterable[str], ids: Iterable[Any], metadata: Iterable[Mapping[str, Any]] | None, exact: bool
) -> Iterator[tuple[list[str], list[Any], list[Any] | None]]:
    """Yield texts, ids and metadata in batches; there must be as many of each."""
    if isinstance(texts, (str, bytes, Mapping)) or isinstance(ids, (str, bytes)):
        raise Sen2ProError(f"give a list of texts and a list of ids, not {short_repr(texts)}")
    try:
        rows, names = iter(texts), iter(ids)
        about = None if metadata is None else iter(metadata)
    except TypeError as error:
        raise Sen2ProError(f"texts, ids and metadata are lists or generators: {error}") from None
    done = 0
    while chunk := list(islice(rows, CHUNK)):
        each = list(islice(names, len(chunk)))
        extra = None if about is None else list(islice(about, len(chunk)))
        done += len(chunk)
        for what, given in (("ids", each), ("metadata", extra)):
            if given is not None and len(given) < len(chunk):
                raise Sen2ProError(f"there are fewer {what} than texts: {done - len(chunk) + len(given)}")
        yield chunk, each, extra
    left = chain(islice(names, 1) if exact else (), islice(about, 1) if about is not None else ())
    if list(left):
        raise Sen2ProError(f"there are more ids or metadata than the {done} texts")


def check_nul(texts: list[str]) -> None:
    """Refuse texts with a NUL."""
    for number, text in enumerate(texts):
        if "\0" in text:
            raise Sen2ProError(f"text {number} holds a NUL, which no database can keep: {short_repr(text)}")


def last_of_each(rows: Rows) -> Rows:
    """Return rows without those whose id stands there again later."""
    last = {id: row for row, id in enumerate(rows.ids)}
    if len(last) == len(rows):
        return rows
    kept = sorted(last.values())
    return Rows(
        [rows.ids[row] for row in kept], [rows.texts[row] for row in kept], rows.vectors[kept], rows.about[kept],
        [rows.metadata[row] for row in kept],
    )  # fmt: skip


def told(error: Sen2ProError, done: int) -> Sen2ProError:
    """Return an error that says how many rows are in."""
    if isinstance(error, StoreUnavailable):
        how = "Add the others again when the store is back"
        return StoreUnavailable(f"{error}. {done} rows of this call are in, all others are not. {how}")
    if not done or isinstance(error, DuplicateIds):
        if done:
            error.args = (f"{error}. {done} rows of this call are in",)
        return error
    return Sen2ProError(f"after {done} rows, which are in: {error}")
