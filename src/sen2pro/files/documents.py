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
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from sen2pro.errors import Sen2ProError, has_surrogates
from sen2pro.files.atomic import write_text

Check = Callable[[Any, str], None]
LARGEST = 64 << 20  # bytes of a document
DIGEST = "digest"
# What only the caller may decide. A document that could grant these would be able to run code, or to fetch it.
GRANTED_BY_CALLER = (
    "allow_pickle", "device", "head", "model", "revision", "token", "tokenizer", "trust_remote_code", "whitening",
)  # fmt: skip


def parse(text: str | bytes, place: str) -> Any:
    """Return what a JSON text says; whatever is wrong with the text is an error that names its place."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise Sen2ProError(f"{place}: not JSON that can be read: too many brackets inside each other") from None
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{place}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None
    except ValueError as error:  # also whole numbers of thousands of digits
        raise Sen2ProError(f"{place}: not JSON ({error})") from None
    return found


def load(path: str | Path) -> Any:
    """Return what a JSON file says: UTF-8, at most 64 MiB."""
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise Sen2ProError(f"{path} is larger than {LARGEST >> 20} MiB; settings are never that large")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{path}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None
    return parse(text, str(path))


def read(path: str | Path, check: Check) -> dict[str, Any]:
    """Read a JSON object from a file, and check it (see `record`) and the digest that `write` left.

    A digest tells of accidents. It is no defence: whoever changes a file can write a new one.
    """
    found = load(path)
    if not isinstance(found, dict):
        raise Sen2ProError(f"{path} must hold a JSON object, not {_kind(found)}")
    digest = found.pop(DIGEST, None)
    check(found, str(path))
    if digest is not None and digest != digest_of(found):
        raise Sen2ProError(
            f"{path} was changed since it was saved. If you changed it yourself, take its key {DIGEST!r} out too"
        )
    return found


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

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            _wrong(place, f"must be an object with the keys {', '.join(sorted(known))}", value)
        for name in value:
            if name in known:
                continue
            if name in GRANTED_BY_CALLER:
                raise Sen2ProError(
                    f"{place}: {name!r} is not for a file to set. If you trust the source of this folder and it needs "
                    f"{name}, pass {name}=... yourself; then remove the key from the file"
                )
            raise Sen2ProError(f"{place}: unknown key {_short(name)}; the keys are: {', '.join(sorted(known))}")
        for name in required:
            if name not in value:
                raise Sen2ProError(f"{place}: the key {name!r} is missing")
        for name, inner in value.items():
            known[name](inner, _below(place, name))

    return check


def mapping(inner: Check) -> Check:
    """Return a check for an object with any keys, whose values pass another check."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            _wrong(place, "must be an object", value)
        for name, each in value.items():
            TEXT(name, place)
            inner(each, _below(place, name))

    return check


def list_of(inner: Check, length: int | None = None) -> Check:
    """Return a check for a list, of a given length if there is one."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            _wrong(place, "must be a list" if length is None else f"must be a list of {length}", value)
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


def _kind_check(name: str, test: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str) -> None:
        if not test(value):
            _wrong(place, f"must be {name}", value)

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


TEXT = _kind_check("a text", lambda value: isinstance(value, str) and not has_surrogates(value))
TRUTH = _kind_check("true or false", lambda value: isinstance(value, bool))
NULL = _kind_check("null", lambda value: value is None)
WHOLE = _kind_check("a whole number", _is_whole)
COUNT = _kind_check("a whole number of at least 0", lambda value: _is_whole(value) and value >= 0)
NUMBER = _kind_check("a finite number", lambda value: _is_number(value) and abs(value) < 1e308)
ANY_NUMBER = _kind_check("a number", _is_number)


def one_of_texts(*allowed: str) -> Check:
    """Return a check for one of a few texts."""
    return _kind_check(" or ".join(map(repr, allowed)), lambda value: isinstance(value, str) and value in allowed)


def _below(place: str, name: str) -> str:
    """Return the place of a key: the file, a colon, and the names that lead to it."""
    return f"{place[:-1]}.{name}'" if place.endswith("'") else f"{place}: '{name}'"


def _wrong(place: str, what: str, value: Any) -> NoReturn:
    raise Sen2ProError(f"{place} {what}, not {_short(value)}")


def _short(value: Any) -> str:
    return reprlib.repr(value)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
