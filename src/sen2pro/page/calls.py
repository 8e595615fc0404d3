"""What a call may hold: what the page's own script sends, and nothing else.

gradio opens files and addresses that it finds in what it is sent. So only texts reach it, as many as the page declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PARTS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_FILE = {"name", "content", "problem"}  # of a file that was opened in the browser


class NotOurs(Exception):
    """A call that no browser with this page makes."""


@dataclass(frozen=True)
class Call:
    """A call that was checked: whose it is, and its body, written anew."""

    session: str
    body: bytes


@dataclass(frozen=True)
class _Declared:
    """What the page declares of one of its functions."""

    is_queued: bool
    inputs: tuple[Callable[[Any], bool], ...]  # what each of them may be
    opens_files: bool


class Calls:
    """The calls of a page.

    Parameters
    ----------
    blocks
        gradio's `Blocks`, which declare the functions and their inputs.
    """

    def __init__(self, blocks: Any) -> None:
        self._declared = {
            number: _Declared(
                function.queue is not False, tuple(_checker(block) for block in function.inputs),
                any(event == "upload" for _, event in function.targets),
            )
            for number, function in blocks.fns.items()
        }  # fmt: skip

    def read(self, body: bytes, is_queued: bool) -> Call:
        """Return a call that was sent to the queue, or past it; raise `NotOurs` if the page would not send it."""
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            raise NotOurs from None
        if not isinstance(given, dict) or not given.keys() <= _PARTS:
            raise NotOurs
        number, data, event = given.get("fn_index"), given.get("data"), given.get("event_data")
        declared = self._declared.get(number) if type(number) is int else None
        if declared is None or declared.is_queued != is_queued:
            raise NotOurs
        if not isinstance(data, list) or len(data) != len(declared.inputs):
            raise NotOurs
        if not all(is_right(value) for is_right, value in zip(declared.inputs, data, strict=True)):
            raise NotOurs
        if not (_is_file(event) if declared.opens_files else event is None):
            raise NotOurs
        if type(given.get("trigger_id")) not in (int, type(None)):
            raise NotOurs
        session = check_session(given.get("session_hash"))
        try:
            return Call(session, json.dumps(given, ensure_ascii=False).encode())
        except UnicodeEncodeError:  # half of a pair of surrogates
            raise NotOurs from None


def check_session(given: Any) -> str:
    """Return the number that a browser has given itself.

    >>> check_session("hhlavbb9oi7")
    'hhlavbb9oi7'
    """
    if not isinstance(given, str) or not _SESSION.fullmatch(given):
        raise NotOurs
    return given


def session_of(query: bytes) -> str:
    """Return the session that a query names.

    >>> session_of(b"session_hash=hhlavbb9oi7")
    'hhlavbb9oi7'
    """
    try:
        found = parse_qs(query.decode("ascii"), max_num_fields=8).get("session_hash", [])
    except ValueError:
        raise NotOurs from None
    return check_session(found[0] if len(found) == 1 else None)


def _checker(block: Any) -> Callable[[Any], bool]:
    """Return what tells whether a value can be an input of a component."""
    kind = block.get_block_name()
    if kind == "textbox":
        return lambda value: value is None or isinstance(value, str)
    if kind == "radio":
        choices = tuple(value for _, value in block.choices)
        return lambda value: isinstance(value, str) and value in choices
    if kind == "state":  # it is the server's
        return lambda value: value is None
    raise TypeError(f"say in page/calls.py what an input of the kind {kind} may be")


def _is_file(event: Any) -> bool:
    return isinstance(event, dict) and event.keys() == _FILE and all(isinstance(part, str) for part in event.values())
