"""Errors and warnings for users: which value is wrong, why, and what to do."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100
_LONGEST = 2000  # letters of a message


class Sen2ProError(ValueError):
    """Something the caller can put right; the message says how.

    A message that quotes a file may grow with it (a column can have a name of megabytes); its middle is left out.
    """

    def __init__(self, message: str) -> None:
        if len(message) > _LONGEST:
            left_out = f"[... {len(message) - _LONGEST} letters left out ...]"
            message = f"{message[: _LONGEST // 2]} {left_out} {message[-_LONGEST // 2 :]}"
        super().__init__(message)


class HeadMissing(Sen2ProError):
    """There is no head with which a model could encode in one pass."""


class Sen2ProWarning(UserWarning):
    """Something the caller should know, though the result stands."""


class TruncationWarning(Sen2ProWarning):
    """Sentences were longer than the model takes; `count` of them were cut."""

    def __init__(self, count: int, total: int, limit: int) -> None:
        self.count, self.total, self.limit = count, total, limit
        longer = f"{count} of {total} sentences {'is' if count == 1 else 'are'} longer than the {limit} tokens"
        super().__init__(f"{longer} this model takes; only the beginning counts")


def short_repr(value: object) -> str:
    """Return a value as an error message shows it: short, and also where it has no repr.

    >>> short_repr(list(range(1000))), short_repr("text")
    ('[0, 1, 2, 3, 4, 5, ...]', "'text'")
    """
    try:
        return _SHORT.repr(value)
    except (
        Exception
    ):  # the repr of an unknown class may raise anything; Python's own does for a number of thousands of digits
        return f"<{type(value).__name__}>"


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is allowed, else raise an error that names the nearest allowed one.

    >>> one_of("uncertainty", "modle", ["both", "model", "data"])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: unknown uncertainty 'modle'; did you mean 'model'? It is one of: both, model, data
    """
    allowed = list(allowed)
    if isinstance(value, str) and value in allowed:
        return str(value)
    near = get_close_matches(value, allowed, n=1, cutoff=0.5) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise Sen2ProError(f"unknown {name} {short_repr(value)}{hint} It is one of: {', '.join(allowed)}")


def join_names(names: Sequence[object], most: int = 10) -> str:
    """Name things in a message, not more than a few: `'a', 'b' and 1 more`."""
    named = ", ".join(map(repr, names[:most]))
    return named if len(names) <= most else f"{named} and {len(names) - most} more"


def has_surrogates(text: str) -> bool:
    """Tell whether a text holds half a surrogate pair, which JSON can spell but no tokenizer takes."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
