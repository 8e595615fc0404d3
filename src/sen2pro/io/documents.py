"""Read a JSON document that somebody else may have written, against a list of the keys it may have.

A `Check` takes a value and its place in the document, and raises an error that names the place. Checks are put
together from smaller ones:

>>> check = record({"name": TEXT, "seed": WHOLE}, {"rate": either(NUMBER, NULL)})
>>> check({"name": "a", "seed": 1}, "m.json")
>>> check({"name": "a", "seed": "1"}, "m.json")
Traceback (most recent call last):
sen2pro.errors.Sen2ProError: m.json: 'seed' must be a whole number, not '1'
>>> check({"name": "a", "seed": 1, "color": "red"}, "m.json")
Traceback (most recent call last):
sen2pro.errors.Sen2ProError: m.json: unknown key 'color'; the keys are: name, rate, seed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, has_surrogates, short_repr
from sen2pro.io.atomic import write_text
from sen2pro.validation import is_whole

Check = Callable[[Any, str], None]
LARGEST = 64 << 20  # bytes of a document
DIGEST = "digest"
# What only the caller may decide. A document that could grant these would be able to run code, or to fetch it.
GRANTED_BY_CALLER = (
    "allow_pickle", "device", "head", "model", "revision", "token", "tokenizer", "trust_remote_code", "whitening",
)  # fmt: skip


def parse(text: str | bytes, place: str) -> Any:
    """Return what a JSON text in UTF-8 says; whatever is wrong with the text is an error that names its place."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise Sen2ProError(f"{place}: not JSON that can be read: too many brackets inside each other") from None
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{place}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None
    except ValueError as error:  # also whole numbers of thousands of digits
        raise Sen2ProError(f"{place}: not JSON ({error})") from None


def load(path: str | Path) -> Any:
    """Return what a JSON file says: UTF-8, at most 64 MiB."""
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise Sen2ProError(f"{path} is larger than {LARGEST >> 20} MiB; settings are never that large")
    return parse(path.read_bytes(), str(path))


def read(path: str | Path, check: Check) -> dict[str, Any]:
    """Read a JSON object from a file, and check it (see `record`) and the digest that `write` left.

    A digest tells of accidents. It is no defence: whoever changes a file can write a new one.
    """
    content = load(path)
    if not isinstance(content, dict):
        raise Sen2ProError(f"{path} must hold a JSON object, not {short_repr(content)}")
    digest = content.pop(DIGEST, None)
    check(content, str(path))
    if digest is not None and digest != digest_of(content):
        raise Sen2ProError(
            f"{path} was changed since it was saved. If you changed it yourself, remove its {DIGEST!r} too"
        )
    return content


def write(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with a digest of its content, whole or not at all."""
    document = {**content, DIGEST: digest_of(content)}
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def digest_of(content: Mapping[str, Any]) -> str:
    """Return 32 hex digits over a JSON object, whatever the order of its keys and its white space."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return a check for an object with known keys; any other key is an error that names it."""
    known = {**required, **(optional or {})}
    keys = ", ".join(sorted(known))
    is_object = _test(f"an object with the keys {keys}", lambda value: isinstance(value, dict))

    def check(value: Any, place: str) -> None:
        is_object(value, place)
        for name in value:
            if name not in known and name in GRANTED_BY_CALLER:
                raise Sen2ProError(
                    f"{place}: {name!r} is not for a file to set. If you trust the source of this folder and it needs "
                    f"{name}, pass {name}=... yourself; then remove the key from the file"
                )
            if name not in known:
                raise Sen2ProError(f"{place}: unknown key {short_repr(name)}; the keys are: {keys}")
        for name in required:
            if name not in value:
                raise Sen2ProError(f"{place}: the key {name!r} is missing")
        for name, inner in value.items():
            known[name](inner, _below(place, name))

    return check


def mapping(inner: Check) -> Check:
    """Return a check for an object with any keys, whose values pass another check."""

    def check(value: Any, place: str) -> None:
        _OBJECT(value, place)
        for name, each in value.items():
            TEXT(name, place)
            inner(each, _below(place, name))

    return check


def list_of(inner: Check, length: int | None = None) -> Check:
    """Return a check for a list, of a given length if there is one."""
    is_list = _test(
        "a list" if length is None else f"a list of {length}",
        lambda value: isinstance(value, list) and length in (None, len(value)),
    )

    def check(value: Any, place: str) -> None:
        is_list(value, place)
        for number, each in enumerate(value):
            inner(each, f"{place}, item {number}")

    return check


def either(*checks: Check) -> Check:
    """Return a check that is passed by what passes one of several; the last one says what is wrong."""

    def check(value: Any, place: str) -> None:
        for each in checks[:-1]:
            try:
                return each(value, place)
            except Sen2ProError:
                continue
        checks[-1](value, place)

    return check


def _test(what: str, passes: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str) -> None:
        if not passes(value):
            raise Sen2ProError(f"{place} must be {what}, not {short_repr(value)}")

    return check


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, float)


_OBJECT = _test("an object", lambda value: isinstance(value, dict))
TEXT = _test("a text", lambda value: isinstance(value, str) and not has_surrogates(value))
TRUTH = _test("true or false", lambda value: isinstance(value, bool))
NULL = _test("null", lambda value: value is None)
WHOLE = _test("a whole number", is_whole)
COUNT = _test("a whole number of at least 0", lambda value: is_whole(value) and value >= 0)
NUMBER = _test("a finite number", lambda value: _is_number(value) and abs(value) < 1e308)
ANY_NUMBER = _test("a number", _is_number)


def one_of_texts(*allowed: str) -> Check:
    """Return a check for one of a few texts."""
    return _test(" or ".join(map(repr, allowed)), lambda value: isinstance(value, str) and value in allowed)


def _below(place: str, name: str) -> str:
    """Return the place of a key: the file, a colon, and the names that lead to it."""
    return f"{place[:-1]}.{name}'" if place.endswith("'") else f"{place}: '{name}'"
