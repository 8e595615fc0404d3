"""How much the body of a call holds, counted before Python makes objects of it."""

from __future__ import annotations

import numpy as np

from sen2pro.server.problems import Problem

MOST_VALUES = 1_500_000  # of a body: numbers and texts
MOST_PARTS = 10_000  # lists, objects and fields of a body, besides a list for each text


def check_amount(body: bytes, texts: int) -> None:
    """Refuse a body with more values, or with more lists and fields, than a call of so many texts can need.

    Python would take seconds to make objects of them, and nobody else would be answered meanwhile.

    >>> check_amount(b'{"input": ["a, b", "c"]}', 2)
    >>> check_amount(b'{"input": [' + b"[]," * 20_000 + b"[]]}", 2048)
    Traceback (most recent call last):
    sen2pro.server.problems.Problem: the body may have 12048 lists and fields, not 20004
    """
    most_parts = MOST_PARTS + texts
    if body.count(b",") < MOST_VALUES and sum(map(body.count, (b"[", b"{", b":"))) <= most_parts:
        return
    letters = np.frombuffer(body.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    outside = ~np.logical_xor.accumulate(letters == ord('"'))  # of texts
    values, *parts = (int(np.count_nonzero(outside & (letters == letter))) for letter in b",[{:")
    if values >= MOST_VALUES:
        raise Problem("large", f"the body may have {MOST_VALUES} values, not {values + 1}")
    if sum(parts) > most_parts:
        raise Problem("large", f"the body may have {most_parts} lists and fields, not {sum(parts)}")
