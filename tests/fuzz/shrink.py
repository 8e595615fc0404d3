"""Make the input of a failure small: what is left out must leave the failure as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuzz.engine import Case, Family, Outcome, attempt

MOST_TRIES = 400


def shrunk(family: Family, case: Case, outcome: Outcome, tries: int = MOST_TRIES) -> Case:
    """Return a case with as few bytes as can be found that fails in the same way."""

    def fails(data: bytes) -> bool:
        found = attempt(family, replace(case, data=data))
        return (found.kind, found.where) == (outcome.kind, outcome.where)

    return replace(case, data=smallest(case.data, fails, tries))


def smallest(data: bytes, fails: Callable[[bytes], bool], tries: int = MOST_TRIES) -> bytes:
    """Remove chunks, large ones first, as long as what is left still fails (ddmin of Zeller, bounded).

    >>> smallest(b"abcdXefghYijkl", lambda data: b"X" in data and b"Y" in data)
    b'XY'
    """
    size = max(1, len(data) // 2)
    while data and tries > 0:
        start, removed = 0, False
        while start < len(data) and tries > 0:
            less = data[:start] + data[start + size :]
            tries -= 1
            if fails(less):
                data, removed = less, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = size if removed and size == 1 else max(1, size // 2)
    return data
