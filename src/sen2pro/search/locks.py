"""A lock that many readers may hold at once, or one writer."""

from __future__ import annotations

import threading


class ReadersAndWriter:
    """Searches run side by side; a change waits for them to end, and those that come after it wait for the change.

    A thread that holds it may not take it again.

    >>> lock, rows = ReadersAndWriter(), [1, 2]
    >>> with lock.writing:
    ...     rows.append(3)
    >>> with lock.reading:
    ...     print(rows)
    [1, 2, 3]
    """

    def __init__(self) -> None:
        state = _State()
        self.reading, self.writing = _Reading(state), _Writing(state)


class _State:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.readers = self.waiting = 0
        self.writer = False


class _Reading:
    def __init__(self, state: _State) -> None:
        self._state = state

    def __enter__(self) -> None:
        state = self._state
        with state.lock:
            while state.writer or state.waiting:
                state.changed.wait()
            state.readers += 1

    def __exit__(self, *error: object) -> None:
        state = self._state
        with state.lock:
            state.readers -= 1
            if not state.readers and state.waiting:
                state.changed.notify_all()


class _Writing:
    def __init__(self, state: _State) -> None:
        self._state = state

    def __enter__(self) -> None:
        state = self._state
        with state.lock:
            state.waiting += 1
            try:
                while state.writer or state.readers:
                    state.changed.wait()
                state.writer = True
            finally:
                state.waiting -= 1
                state.changed.notify_all()

    def __exit__(self, *error: object) -> None:
        state = self._state
        with state.lock:
            state.writer = False
            state.changed.notify_all()
