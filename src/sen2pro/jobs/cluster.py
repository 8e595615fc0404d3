"""What the driver of a cluster needs besides the cluster's library: an address that answers, and exits that stay."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from sen2pro.errors import Sen2ProError, short_repr

TIMEOUT = 5.0  # seconds until an address counts as one where nobody answers
_SIGNALS = ("SIGTERM", "SIGHUP")
_WORDS = ("auto", "local")  # which say how to find a cluster, not where it is


def check_address(address: str) -> None:
    """Raise if an address of a Ray cluster is none, or nobody answers there: Ray takes minutes to say so.

    `auto`, `local` and other schemes than ray:// are left to Ray.

    >>> check_address("auto")
    >>> check_address("my cluster")
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: 'my cluster' is no address of a Ray cluster; give host:port, ray://host:port or auto
    """
    scheme, mark, rest = address.partition("://")
    if address in _WORDS or (mark and scheme.lower() != "ray"):
        return
    try:
        place = urlsplit(f"//{rest if mark else address}")
        host, port = place.hostname, place.port
    except ValueError:
        host, port = None, None
    if host is None or (port is None and not mark):
        raise Sen2ProError(
            f"{short_repr(address)} is no address of a Ray cluster; give host:port, ray://host:port or auto"
        )
    if port is None:  # which Ray knows
        return
    try:
        socket.create_connection((host, port), TIMEOUT).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Sen2ProError(
            f"nobody answers at {short_repr(address)} ({why}); is the address right, and does Ray run there?"
        ) from None


class Exits:
    """Exits that a signal asks for, with the code of whoever handles the signal.

    If a signal comes while Ray waits, Ray makes one of its own of the exit that the handler asked for, with code 1.

    >>> exits = Exits()
    >>> exits.watch()
    >>> with exits.kept():
    ...     pass
    >>> exits.forget()
    """

    def __init__(self) -> None:
        self._asked: SystemExit | None = None
        self._before: dict[int, Callable[..., Any]] = {}

    def watch(self) -> None:
        """Note from now on which exit a handler asks for."""
        if threading.current_thread() is not threading.main_thread():
            return  # which alone may set handlers
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            handler = None if number is None else signal.getsignal(number)
            if number is not None and number not in self._before and callable(handler):
                self._before[number] = handler
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        try:
            self._before[number](number, frame)
        except SystemExit as asked:
            self._asked = asked
            raise

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Turn the exit that leaves the block into the one that was asked for."""
        try:
            yield
        except SystemExit:
            if self._asked is not None:
                raise self._asked from None
            raise

    def forget(self) -> None:
        """Give the signals back to their handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
