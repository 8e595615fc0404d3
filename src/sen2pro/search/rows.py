"""What an index holds of a document, and what may be asked of its metadata: checked here, once for all stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.validation import Array, as_list, check_text, is_whole

Value = str | int | float | bool
Where = dict[str, list[Value]]  # key -> the values that a document may have
ABOUT = ("model_variance", "data_variance", "words")  # what a confidence needs of a document; 0 is unknown
LONGEST_ID = 512  # letters: a database keeps ids in a tree whose entries must be short
LARGEST_WHOLE = 1 << 53  # beyond it JSON readers round
MOST_VALUES = 1000  # of a filter, all of its keys together
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, eq=False)
class Rows:
    """Documents to be stored: vectors (n, d) and what a confidence needs (n, 3), in the order of `ABOUT`."""

    ids: list[str]
    texts: list[str]
    vectors: Array
    about: Array
    metadata: list[dict[str, Value]]

    def __len__(self) -> int:
        return len(self.ids)


class Found(NamedTuple):
    """What a store found for one query, the nearest first, in columns of one length.

    A greater score is closer (dot product, or minus a distance). `about` gives what a confidence needs of a row, by
    its place, in the order of `ABOUT`. `vectors` (n, d) are there if they were asked for.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    scores: list[float]
    about: Callable[[int], Sequence[float]]
    metadata: Sequence[Mapping[str, Value]]
    vectors: Array | None = None

    @classmethod
    def nothing(cls) -> Found:
        """Return what a store finds where there is nothing."""
        return cls((), (), [], lambda place: (0.0, 0.0, 0.0), ())


class Document(NamedTuple):
    """A document as it was added, without its vector."""

    id: str
    text: str
    metadata: Mapping[str, Value]


def check_ids(ids: Any, rows: int | None = None) -> list[str]:
    """Return ids as texts; whole numbers may be ids too.

    >>> check_ids(["a", 7])
    ['a', '7']
    """
    given = [ids] if isinstance(ids, str) or is_whole(ids) else as_list(ids, "a list of ids")
    if rows is not None and len(given) != rows:
        raise Sen2ProError(f"{rows} texts need as many ids, not {len(given)}")
    return [_check_id(number, each) for number, each in enumerate(given)]


def _check_id(number: int, value: Any) -> str:
    id = str(value) if is_whole(value) and abs(value) < LARGEST_WHOLE else check_text(f"id {number}", value)
    if not id or len(id) > LONGEST_ID or "\0" in id:
        raise Sen2ProError(f"id {number} must have 1 to {LONGEST_ID} letters and no NUL, not {short_repr(id)}")
    return id


def check_metadata(metadata: Any, rows: int) -> list[dict[str, Value]]:
    """Return one dictionary of plain values for each row; a key whose value is None is left out.

    >>> check_metadata([{"year": None, "lang": "en"}], 1)
    [{'lang': 'en'}]
    >>> check_metadata([{"year": 1999, "a.b": 1}], 1)
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: a metadata key has 1 to 63 letters, digits and _, and starts with no digit, not 'a.b'
    """
    if metadata is None:
        return [{} for _ in range(rows)]
    given = as_list(metadata, "a list of dictionaries")
    if len(given) != rows:
        raise Sen2ProError(f"{rows} texts need metadata for each, not {len(given)} dictionaries")
    for each in given:
        if not isinstance(each, Mapping):
            raise Sen2ProError(f"metadata is a dictionary for each text, not {short_repr(each)}")
    kept = [{check_key(key): value for key, value in each.items() if value is not None} for each in given]
    return [{key: check_value(key, value) for key, value in each.items()} for each in kept]


def check_where(where: Any) -> Where:
    """Return what documents must have, as key -> list of allowed values.

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


def check_key(key: Any) -> str:
    """Return a key of metadata: a plain name, so that no store can read it as a path or an operator."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        rule = "a metadata key has 1 to 63 letters, digits and _, and starts with no digit"
        raise Sen2ProError(f"{rule}, not {short_repr(key)}")
    return key


def check_value(key: Any, value: Any) -> Value:
    """Return a text, a number or a truth value, as JSON has them."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if is_whole(value) and abs(value) <= LARGEST_WHOLE:
        return int(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        return float(value)
    if isinstance(value, str):
        text = check_text(f"metadata {key!r}", value)
        if "\0" not in text:
            return text
    raise Sen2ProError(
        f"metadata {short_repr(key)} must be a text, a finite number, or true or false, not {short_repr(value)}"
    )


def matcher(where: Where) -> Callable[[Mapping[str, Value]], bool]:
    """Return a function that tells whether the metadata of a document fit; as in JSON, true is not 1, but 1.0 is.

    >>> fits = matcher({"year": [1999.0, 2000], "new": [True]})
    >>> fits({"year": 1999, "new": True}), fits({"year": 1999, "new": 1}), fits({"year": 1999})
    (True, False, False)
    """
    # In Python True is 1, also as a member of a set: so each value stands beside whether it is a truth value.
    wanted = [(key, {(isinstance(value, bool), value) for value in values}) for key, values in where.items()]

    def fits(metadata: Mapping[str, Value]) -> bool:
        return all(
            key in metadata and (isinstance(metadata[key], bool), metadata[key]) in values for key, values in wanted
        )

    return fits
