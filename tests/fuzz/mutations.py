"""Ways to spoil bytes, and values of JSON."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

INTERESTING = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\xff" * 8,
    b"\n",
    b"\r",
    b'"',
    b"{",
)
# Letters that are trouble somewhere: halves of pairs, escape codes, marks of order and direction, white space.
ODD_TEXTS = (
    "", " ", "\t", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\u200b", "\ufeff", "\u202eabc", "\u00a0", "\u2028", "\x85",
    "\r", "\n", "a\nb", "a\r\nb", '"', '""', "'", ",", ";", "\t\t", "\\", "é", "e\u0301", "漢字", "👩\u200d🚀",
    "\U0010ffff", "=1+1", "NaN", "null", "[bold]", "%s", "{}", "../x", "a" * 5000, "²", "１２", "İ", "ß",
)  # fmt: skip
HALF = "\ud800"  # JSON can spell it


def spoiled(data: bytes, rng: Random) -> bytes:
    """Return bytes with one to three mutations."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(data, rng)
    return data


def _flipped(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _replaced(data: bytes, rng: Random) -> bytes:
    start, _ = _span(data, rng)
    new = rng.choice((*INTERESTING, rng.randbytes(rng.randint(1, 8))))
    return data[:start] + new + data[start + len(new) :]


def _inserted(data: bytes, rng: Random) -> bytes:
    start, _ = _span(data, rng)
    return data[:start] + rng.choice((*INTERESTING, rng.randbytes(rng.randint(1, 8)))) + data[start:]


def _removed(data: bytes, rng: Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _doubled(data: bytes, rng: Random) -> bytes:
    start, end = _span(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _moved(data: bytes, rng: Random) -> bytes:
    start, end = _span(data, rng)
    piece, rest = data[start:end], data[:start] + data[end:]
    place = rng.randint(0, len(rest))
    return rest[:place] + piece + rest[place:]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.choice((0, 1, rng.randint(0, len(data)), max(0, len(data) - rng.randint(1, 12))))]


def _beheaded(data: bytes, rng: Random) -> bytes:
    return data[rng.randint(0, min(len(data), 20)) :]


def _lengthened(data: bytes, rng: Random) -> bytes:
    return data + rng.choice((b"\0", b"\0" * 100, b"\n", data, rng.randbytes(10)))


def _zeroed(data: bytes, rng: Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + b"\0" * (end - start) + data[end:]


_MUTATIONS = (
    _flipped, _flipped, _flipped, _replaced, _replaced, _inserted, _removed, _doubled, _moved, _cut, _beheaded,
    _lengthened, _zeroed,
)  # fmt: skip


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, len(data) // 2 + 1)))


_ODD_VALUES = (
    None, True, False, 0, 1, -1, 2, 15, 2**31, 2**63, 2**64, 10**30, -(10**30), 10**400, 0.0, -0.0, 0.5, 1.0, 1e-320,
    1e308, float("nan"), float("inf"), float("-inf"), "", "x", HALF, [], [[]], {}, [None], [1, 2], ["x", 1],
    {"": None}, {"a": {"b": []}}, {"__class__": "x"}, [10**400], [HALF], {HALF: 1},
)  # fmt: skip


def odd_value(rng: Random) -> Any:
    """Return a value that JSON can spell and that is seldom expected."""
    return copy.deepcopy(rng.choice((*_ODD_VALUES, rng.choice(ODD_TEXTS))))


def rewritten(value: Any, rng: Random) -> Any:
    """Return a JSON value with one to three of its parts changed, lost, renamed, moved or put inside one another."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _changed(value, rng)
    return value


def _changed(value: Any, rng: Random) -> Any:
    inside = isinstance(value, (dict, list)) and value
    if not inside or rng.random() < 0.1:
        return rng.choice((odd_value(rng), [value], {"a": value}, str(value), _nudged(value, rng)))
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    what = rng.random()
    if what < 0.5:
        value[key] = _changed(value[key], rng)
    elif what < 0.65:
        del value[key]
    elif what < 0.75:
        value[key] = value[rng.choice(keys)]
    elif isinstance(value, list):
        value.insert(rng.randint(0, len(value)), rng.choice((odd_value(rng), value[key])))
    else:
        value[rng.choice((*ODD_TEXTS, HALF, f"{key}x", str(key).upper(), "trust_remote_code"))] = odd_value(rng)
    return value


def _nudged(value: Any, rng: Random) -> Any:
    """Return a number or a text near the one that there is."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return rng.choice(
            (value + 1, value - 1, -value, value * 2, value + 0.5 if abs(value) < 1e9 else 0.5, str(value))
        )
    if isinstance(value, float):
        return rng.choice((-value, value * 10, 0, 1 - value, str(value)))
    if isinstance(value, str):
        return rng.choice((value + rng.choice(ODD_TEXTS), value[1:], value.upper(), value * 2, value + HALF, [value]))
    return odd_value(rng)


def spelled(value: Any, rng: Random) -> bytes:
    """Return a JSON text, in one of the ways there are to spell it; some of them are wrong."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 2)))
    what = rng.random()
    if what < 0.03:
        depth = rng.choice((100, 1000, 100_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1) if "null" in text else "[" * depth
    elif what < 0.05:
        text = text.replace(":", ": 1" + "0" * 5000 + ', "a":', 1)
    elif what < 0.07:
        text = text.replace("{", "{" + text.strip("{}[]").split(",")[0] + ",", 1)  # a key twice
    data = text.encode(rng.choice(("utf-8",) * 12 + ("utf-16", "utf-8-sig", "utf-32")), "surrogatepass")
    return spoiled(data, rng) if rng.random() < 0.2 else data
