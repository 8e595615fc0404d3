"""Logs as lines of JSON. They never hold a text, a key, or the message of an error, which may quote a text."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from typing import Any

import orjson

LOGGER = logging.getLogger("sen2pro.server")


_STARTED = False  # whether the log goes through `Lines`
_DELAY = 0.1  # seconds that lines of calls wait to be written together
_PENDING: list[bytes] = []
_LOCK = threading.Lock()  # of _PENDING and _TIMED
_TIMED = False  # whether a flush is on its way
_WRITING = threading.Lock()  # lines are written in the order in which they came


def write(content: dict[str, Any]) -> None:
    """Write a line of the level `info` for a call, a moment later, together with those of other calls.

    It is called in the event loop. To write each line at once would have the threads change places each time.
    """
    global _TIMED
    if _STARTED and LOGGER.isEnabledFor(logging.INFO):
        line = _line({"time": _time(time.time()), "level": "info", **content})
        with _LOCK:
            _PENDING.append(line)
            was_timed, _TIMED = _TIMED, True
        if not was_timed:
            asyncio.get_running_loop().call_later(_DELAY, _flush_in_time)


def _flush_in_time() -> None:
    global _TIMED
    with _LOCK:
        _TIMED = False
    flush()


def flush() -> None:
    """Write the lines that wait; any thread may do so."""
    with _WRITING:
        with _LOCK:
            lines = _PENDING.copy()
            _PENDING.clear()
        with contextlib.suppress(OSError, ValueError):  # whoever read the log is gone; the server goes on
            sys.stderr.buffer.write(b"".join(lines))
            sys.stderr.buffer.flush()


def _line(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, default=str, option=orjson.OPT_APPEND_NEWLINE)


class Lines(logging.Handler):
    """Write each record as one line of JSON to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record: what was logged as a dictionary, or the message of a library."""
        content = _line(line(record))
        with _LOCK:
            _PENDING.append(content)
        flush()


def line(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a record says, as JSON.

    >>> record = logging.LogRecord("uvicorn.error", logging.INFO, "", 0, "Shutting down", None, None)
    >>> {name: value for name, value in line(record).items() if name != "time"}
    {'level': 'info', 'event': 'Shutting down'}
    """
    content: dict[str, Any] = {"time": _time(record.created), "level": record.levelname.lower()}
    if isinstance(record.msg, dict):
        content |= record.msg
    else:
        content["event"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        content |= where(record.exc_info[1])
    return content


def where(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error and the places it went through: no message, since that may quote a text.

    >>> try:
    ...     raise ValueError("a secret")
    ... except ValueError as error:
    ...     found = where(error)
    >>> found["error"], "secret" in str(found)
    ('ValueError', False)
    """
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    places = [f"{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "places": places}


def start(level: int = logging.INFO) -> None:
    """Send our own log and uvicorn's through `Lines`, and nothing else of theirs anywhere."""
    global _STARTED
    _STARTED = True
    handler = Lines()
    for name in ("sen2pro.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        logger.setLevel(level if name != "uvicorn.error" else max(level, logging.WARNING))
    logging.getLogger("uvicorn.access").handlers = []
    logging.getLogger("uvicorn.access").propagate = False


def _time(seconds: float) -> str:
    moment = time.gmtime(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(seconds % 1 * 1000):03d}Z"
