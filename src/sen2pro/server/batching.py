"""Texts of many calls, run together: a queue with tokens counted, and one thread that works it off.

A batch takes texts of the oldest calls, and then one text of each call in turn. So a call of one short text is in the
next batch that starts, whoever else has a thousand texts waiting. And a call of a thousand texts is done in time,
however many others have one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sen2pro.errors import Sen2ProError
from sen2pro.server.logs import LOGGER, where
from sen2pro.server.metrics import Metrics
from sen2pro.server.problems import Gone, Problem

Run = Callable[[list[Any]], Any]
Farewells = set[Callable[[], None]]  # what is called when a connection is lost
FAREWELLS = "sen2pro.farewells"  # their place among the extensions of an ASGI scope
_FAILED = "the server could not work on this call; its log says more"


@dataclass(frozen=True)
class Lane:
    """Work that may share a batch: lanes with one key do the same to each of their units.

    `run` takes units (texts, pairs of texts) and returns a result for each. What is `apart` may wait for another
    program, such as a database, and gets a queue and a thread of its own.
    """

    key: tuple[Any, ...]
    run: Run
    apart: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lane) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Ticket:
    """The work of one call: its units, the tokens of each, and the results so far."""

    __slots__ = ("began", "future", "lane", "left", "next", "results", "since", "tokens", "units")

    def __init__(self, lane: Lane, units: Sequence[Any], tokens: Sequence[int], future: asyncio.Future[Any]) -> None:
        self.lane, self.units, self.tokens, self.future = lane, units, tokens, future
        self.results: list[Any] = [None] * len(units)
        self.left, self.next = len(units), 0
        self.since, self.began = time.perf_counter(), 0.0


Batch = list[tuple[Ticket, int]]


def take(waiting: deque[Ticket], budget: int) -> tuple[Batch, int]:
    """Take a batch of about `budget` tokens off the queue, all of one lane.

    The first call in the queue says which lane, and gets a unit. Then the oldest calls get what is left of the first
    half: so a call of many texts is done in time, too. The second half goes around, a unit to each call in turn. Who
    got nothing this time stands first the next time, whatever the lane: so no lane waits for the end of another.

    >>> lane, loop = Lane(("plain",), list), asyncio.new_event_loop()
    >>> many = Ticket(lane, ["a", "b", "c", "d"], [30] * 4, loop.create_future())
    >>> one = Ticket(lane, ["x"], [5], loop.create_future())
    >>> queue = deque([many, one])
    >>> batch, tokens = take(queue, 100)
    >>> [ticket.units[number] for ticket, number in batch], tokens
    (['a', 'b', 'x', 'c'], 95)
    >>> loop.close()
    """
    lane = waiting[0].lane
    ring = deque(ticket for ticket in waiting if ticket.lane == lane)
    batch: Batch = []
    served: set[Ticket] = set()
    total = 0

    def fits(ticket: Ticket) -> bool:
        """Put the next unit of a call into the batch, if there is room for it."""
        nonlocal total
        weight = ticket.tokens[ticket.next]
        if batch and total + weight > budget:
            return False
        batch.append((ticket, ticket.next))
        total += weight
        ticket.next += 1
        served.add(ticket)
        return True

    fits(ring[0])
    for ticket in sorted(ring, key=lambda each: each.since):
        while 2 * total < budget and ticket.next < len(ticket.units) and fits(ticket):
            pass
    turns = deque(ticket for ticket in [*list(ring)[1:], ring[0]] if ticket.next < len(ticket.units))
    while turns and total < budget and fits(turns[0]):
        ticket = turns.popleft()
        if ticket.next < len(ticket.units):
            turns.append(ticket)
    rest = [ticket for ticket in waiting if ticket not in served]  # of all lanes, in the order in which they came
    waiting.clear()
    waiting.extend(rest)
    waiting.extend(ticket for ticket in turns if ticket in served)
    return batch, total


class Batcher:
    """A queue and the thread that works it off.

    Parameters
    ----------
    budget
        Tokens of a batch.
    most
        Units that may wait.
    window
        Seconds that an idle thread waits for more, if several calls came together last time.
    metrics
        Where batches are counted.
    """

    def __init__(self, budget: int, most: int, window: float, metrics: Metrics) -> None:
        self.budget, self.most, self.window, self.metrics = budget, most, window, metrics
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._units = self._tokens = 0
        self._running: Batch = []
        self._closed = False
        self._together = 1  # calls of the last batch
        self._speed = 0.0  # tokens a second, of late
        self._thread = threading.Thread(target=self._work, name="sen2pro-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, seconds: float | None = None) -> bool:
        """Let the thread finish what it has in hand, and end; return whether it did in this time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not self._running

    @property
    def waiting(self) -> int:
        """How many units wait."""
        return self._units

    @property
    def tokens(self) -> int:
        """How many tokens they have."""
        return self._tokens

    def submit(self, lane: Lane, units: Sequence[Any], tokens: Sequence[int]) -> Ticket:
        """Put the units of a call into the queue; the future of the ticket gets the list of their results.

        It is called in the event loop. A full queue is a problem of the kind `busy`.
        """
        ticket = Ticket(lane, units, tokens, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._units and self._units + len(units) > self.most:
                raise Problem("busy", "the queue is full; try again later", retry_after=self._patience())
            self._waiting.append(ticket)
            self._units += len(units)
            self._tokens += sum(tokens)
            self._changed.notify()
        return ticket

    def cancel(self, ticket: Ticket, reason: BaseException) -> None:
        """Take a call out of the queue, and tell whoever waits for it why; what is running goes on, for nobody."""
        with self._changed:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                self._units -= len(ticket.units) - ticket.next
                self._tokens -= sum(ticket.tokens[ticket.next :])
                ticket.next = len(ticket.units)
        if not ticket.future.done():
            ticket.future.set_exception(reason)

    def _patience(self) -> int:
        """Return after how many seconds a client may try again: when half of what waits should be done."""
        return max(1, min(60, round(self._tokens / 2 / self._speed) if self._speed else 1))

    def _work(self) -> None:
        last = 0  # tokens of the last batch, if others wait already
        while True:
            with self._changed:
                if not self._waiting:
                    self._running, last = [], 0
                    while not self._waiting and not self._closed:
                        self._changed.wait()
                    if self._together > 1 and self.window:
                        self._linger()
                if not self._waiting:  # closed, or the only call was cancelled
                    if self._closed:
                        return
                    continue
                # Who was just answered may ask again: two batches of one size cost less than a large and a small one.
                half = max(self._tokens + last, self.budget) // 2 if last else self.budget
                batch, tokens = take(self._waiting, min(half, self.budget))
                last = tokens
                self._running = batch
                self._units -= len(batch)
                self._tokens -= tokens
            self._together = len({id(ticket) for ticket, _ in batch})
            self._run(batch, tokens)

    def _linger(self) -> None:
        """Wait a moment for the calls that came together with others before."""
        until = time.perf_counter() + self.window
        while self._tokens < self.budget and not self._closed and (left := until - time.perf_counter()) > 0:
            self._changed.wait(left)

    def _run(self, batch: Batch, tokens: int) -> None:
        began = time.perf_counter()
        for ticket, _ in batch:
            if not ticket.began:
                ticket.began = began
                self.metrics.queue_seconds.observe(began - ticket.since)
        lane = batch[0][0].lane
        results = self._results(lane, batch)
        seconds = time.perf_counter() - began
        self._speed = (
            0.8 * self._speed + 0.2 * tokens / max(seconds, 1e-6) if self._speed else tokens / max(seconds, 1e-6)
        )
        self.metrics.batch_texts.observe(len(batch))
        self.metrics.batch_tokens.observe(tokens)
        self.metrics.batch_seconds.observe(seconds)
        finished = []
        for (ticket, number), result in zip(batch, results, strict=True):
            ticket.results[number] = result
            ticket.left -= 1
            if not ticket.left:
                finished.append(ticket)
        if finished:
            loop = finished[0].future.get_loop()
            try:
                loop.call_soon_threadsafe(_deliver, finished)
            except RuntimeError:  # the loop was closed: nobody waits any more
                LOGGER.warning({"event": "an answer came after the server was closed"})

    def _results(self, lane: Lane, batch: Batch) -> Sequence[Any]:
        """Run a batch; if it fails, run its units one by one, so that a bad one harms nobody else."""
        units = [ticket.units[number] for ticket, number in batch]
        try:
            results: Sequence[Any] = lane.run(units)
            if len(results) != len(units):
                raise Sen2ProError(f"{len(units)} units gave {len(results)} results")
            return results
        except Exception as error:
            if len(units) == 1:
                LOGGER.error({"event": "work failed", "lane": str(lane.key[0]), **where(error)})
                return [error if isinstance(error, Problem) else Problem("failed", _FAILED)]
        return [  # those whose time is up, or whose client has gone, are left out
            Problem("failed", _FAILED) if ticket.future.done() else self._results(lane, [(ticket, number)])[0]
            for ticket, number in batch
        ]


def _deliver(finished: list[Ticket]) -> None:
    """Give results to those who wait for them; runs in the event loop."""
    for ticket in finished:
        if ticket.future.done():
            continue
        problem = next((each for each in ticket.results if isinstance(each, Problem)), None)
        if problem is not None:
            ticket.future.set_exception(problem)
        else:
            ticket.future.set_result(ticket.results)


async def answer(
    batcher: Batcher, ticket: Ticket, receive: Callable[[], Any], limit: float, farewells: Farewells | None = None
) -> list[Any]:
    """Wait for a ticket: until it is done, its time is up, or the client has gone away.

    `farewells` are called when the connection is lost. A server that has none (see `running.py`) is asked instead, in a
    task of its own, which costs more.
    """
    loop = asyncio.get_running_loop()
    timer = loop.call_later(limit, _give_up, batcher, ticket)
    watcher = None

    def gone() -> None:
        batcher.cancel(ticket, Gone())

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    if farewells is None:
        watcher = loop.create_task(watch())
    else:
        farewells.add(gone)
    try:
        results: list[Any] = await ticket.future
        return results
    except asyncio.CancelledError:
        gone()
        raise
    finally:
        timer.cancel()
        if watcher is not None:
            watcher.cancel()
        if farewells is not None:
            farewells.discard(gone)


def _give_up(batcher: Batcher, ticket: Ticket) -> None:
    batcher.cancel(ticket, late())


def late() -> Problem:
    """Return what is told when the time of a call is up."""
    return Problem("late", "there was no answer in time; send fewer texts, or try again later")
