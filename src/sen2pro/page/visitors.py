"""What the server keeps of visitors: answers that they have not read yet, and texts until some time after they left."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

_MOST_EVENTS = 8  # of a visitor that are not finished, or whose answers were not read
_MOST_UNREAD = 32  # visitors who do not read; a browser begins to read within milliseconds


class TooMany(Exception):
    """A visitor has too much under way."""


class Visitors:
    """The visitors of a page.

    Parameters
    ----------
    blocks
        gradio's `Blocks`, once it is mounted. Its queue holds the answers, and its states hold the texts.
    seconds
        How long texts are kept after the last call of a visitor.
    """

    def __init__(self, blocks: Any, seconds: float) -> None:
        self._states, self._queue = blocks.state_holder, blocks._queue  # gradio has no public name for its queue
        self._seconds = seconds
        self._coming: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()

    @asynccontextmanager
    async def joining(self, session: str) -> AsyncIterator[None]:
        """Let a visitor join the queue, unless too many answers of this visitor are not read yet."""
        under_way = self._queue.pending_event_ids_session.get(session, ())
        if len(under_way) + self._coming[session] >= _MOST_EVENTS:
            raise TooMany
        self._coming[session] += 1
        try:
            await self._make_room()
            yield
        finally:
            self._coming -= Counter([session])

    @contextmanager
    def reading(self, session: str) -> Iterator[None]:
        """Note that a visitor reads; what is left when the last reader goes will never be read."""
        self._reading[session] += 1
        try:
            yield
        finally:
            self._reading -= Counter([session])
            if not self._reading[session]:
                self._tidy(session)

    async def forget_for_ever(self) -> None:
        """Forget, again and again, the texts of those who have not called for long, and answers made of them."""
        states = self._states
        while True:
            await asyncio.sleep(min(60, self._seconds))
            long_ago = datetime.datetime.now() - datetime.timedelta(seconds=self._seconds)
            for session, last in list(states.time_last_used.items()):
                if last < long_ago:
                    with states.lock:
                        states.session_data.pop(session, None)
                        states.time_last_used.pop(session, None)
            for session in list(self._queue.pending_event_ids_session):
                if session not in states and not self._reading[session]:
                    self._tidy(session)

    async def _make_room(self) -> None:
        """Drop the oldest answers that nobody reads."""
        queue = self._queue
        unread = [each for each, ids in queue.pending_event_ids_session.items() if ids and not self._reading[each]]
        for session in unread[: max(0, len(unread) + 1 - _MOST_UNREAD)]:
            await queue.clean_events(session_hash=session)
            self._drop(session)

    def _tidy(self, session: str) -> None:
        """Drop what will not be read: all but what is still under way."""
        ids, events = self._queue.pending_event_ids_session.get(session, set()), self._queue.event_ids_to_events
        ids &= {each for each in ids if each in events and events[each].alive}
        if not ids:
            self._drop(session)

    def _drop(self, session: str) -> None:
        self._queue.pending_messages_per_session.pop(session, None)
        self._queue.pending_event_ids_session.pop(session, None)
