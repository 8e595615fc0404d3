"""Strategies: odd texts, spoiled bytes, JSON that says something else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Draw = st.DrawFn
HALF = "\ud800"  # half a surrogate pair: JSON can spell it
PIECES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\0" * 4, b"\xff" * 8, b"\0" * 100, b"\n", b"\r", b'"', b"{")
# Letters that are trouble somewhere: halves of pairs, escape codes, marks of order and direction, white space.
ODD_TEXTS = (
    "", " ", "\t", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\u200b", "\ufeff", "\u202eabc", "\u00a0", "\u2028", "\x85",
    "\r", "\n", "a\nb", "a\r\nb", '"', '""', "'", ",", ";", "\t\t", "\\", "é", "e\u0301", "漢字", "👩\u200d🚀",
    "\U0010ffff", "=1+1", "NaN", "null", "[bold]", "%s", "{}", "../x", "a" * 5000, "²", "１２", "İ", "ß",
)  # fmt: skip
ODD_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e38, -1e38, float("nan"), float("inf"), float("-inf"))
_ODD_VALUES = (
    None, True, False, 0, 1, -1, 2, 15, 2**31, 2**63, 2**64, 10**30, -(10**30), 10**400, 0.0, -0.0, 0.5, 1.0, 1e-320,
    1e308, float("nan"), float("inf"), float("-inf"), "x", HALF, [], [[]], {}, [None], [1, 2], ["x", 1],
    {"": None}, {"a": {"b": []}}, {"__class__": "x"}, [10**400], [HALF], {HALF: 1},
)  # fmt: skip
SENTENCES = ("the dog runs", "a man plays the guitar", "rain today", "x", "Größe und Maß", "“quoted”, with commas")

plain_texts = st.sampled_from(SENTENCES)
odd_texts = st.sampled_from(ODD_TEXTS) | st.builds("{}{}".format, plain_texts, st.sampled_from(ODD_TEXTS)) | st.text()
odd_values = st.sampled_from((*_ODD_VALUES, *ODD_TEXTS)).map(copy.deepcopy)


def chance(tenths: float) -> st.SearchStrategy[bool]:
    """Give True so many times of ten."""
    return st.integers(0, 99).map(lambda number: number >= 100 - 10 * tenths)


def texts(odd: float = 2) -> st.SearchStrategy[str]:
    """Give sentences, and so many times of ten something like one."""
    return chance(odd).flatmap(lambda is_odd: odd_texts if is_odd else plain_texts)


@st.composite
def spoiled(draw: Draw, data: bytes) -> bytes:
    """Give bytes of which one to three pieces were lost, replaced, flipped, doubled, moved or made zero."""
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        start, other = (draw(st.integers(0, len(data)) | st.integers(max(0, len(data) - 12), len(data))) for _ in "ab")
        end = min(len(data), start + draw(st.sampled_from((1, 0, 2, 4, 8, 30, len(data) // 2 + 1, len(data)))))
        piece, bit = data[start:end], 1 << draw(st.integers(0, 7))
        flipped = bytes([piece[0] ^ bit]) + piece[1:] if piece else b""
        ways = (b"", flipped, flipped, piece * 2, piece * 50, b"\0" * len(piece), data[other : other + len(piece)])
        data = data[:start] + draw(st.sampled_from((*ways, *PIECES)) | st.binary(max_size=8)) + data[end:]
    return data


@st.composite
def rewritten(draw: Draw, value: Any) -> Any:
    """Give a JSON value with one to three of its parts changed, lost, added, moved or put inside one another."""
    whole = [copy.deepcopy(value)]
    for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
        places = list(_places(whole))[draw(chance(9)) :] or [(whole, 0)]
        (holder, key), (from_holder, from_key) = (places[draw(st.integers(0, len(places) - 1))] for _ in "ab")
        way = draw(st.sampled_from(("near", "odd", "lost", "moved", "added")))
        if way == "near":
            holder[key] = draw(st.sampled_from(_near(holder[key])))
        elif way == "lost" and holder is not whole:
            del holder[key]
        elif way == "moved":
            holder[key] = copy.deepcopy(from_holder[from_key])
        elif way == "added" and isinstance(holder, dict):
            names = st.sampled_from((*ODD_TEXTS, HALF, f"{key}x", str(key).upper(), "trust_remote_code"))
            holder[draw(names)] = draw(odd_values)
        elif way == "added" and holder is not whole:
            holder.insert(key, draw(odd_values))
        else:
            holder[key] = draw(odd_values)
    return whole[0]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each part of a JSON value, as what holds it and its key there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def _near(value: Any) -> list[Any]:
    """Return values near one that there is."""
    found: list[Any] = [[value], {"a": value}]
    if isinstance(value, bool) or value is None:
        found += [not value, str(value)]
    elif isinstance(value, int) and abs(value) < 10**300:
        found += [value + 1, value - 1, -value, value * 2, value + 0.5, str(value)]
    elif isinstance(value, float):
        found += [-value, value * 10, 0, 1 - value, str(value)]
    elif isinstance(value, str):
        found += [f"{value}x", f"{value}\0", value[1:], value.upper(), value * 2]
    return found


@st.composite
def spelled(draw: Draw, value: Any) -> bytes:
    """Give a JSON text, in one of the ways there are to spell it; some of them are wrong."""
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from((None, 2))))
    way = draw(st.integers(0, 49))
    if way == 1:
        depth = draw(st.sampled_from((100, 1000, 100_000)))
        text = text.replace("null", "[" * depth + "]" * depth, 1) if "null" in text else "[" * depth
    elif way == 2:
        text = text.replace(":", ": 1" + "0" * 5000 + ', "a":', 1)
    elif way == 3:
        text = text.replace("{", "{" + text.strip("{}[]").split(",")[0] + ",", 1)  # a key twice
    encoding = draw(st.sampled_from(("utf-8",) * 12 + ("utf-16", "utf-8-sig", "utf-32")))
    data = text.encode(encoding, "surrogatepass")
    return draw(spoiled(data)) if draw(chance(2)) else data


@st.composite
def odd_json(draw: Draw, value: Any) -> bytes:
    """Give a JSON value that was rewritten, spelled in some way."""
    return draw(spelled(draw(rewritten(value))))
