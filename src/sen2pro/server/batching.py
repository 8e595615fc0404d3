"""Batches of texts from many requests: a queue that counts tokens, and one worker thread.

A batch takes texts of the oldest requests first, and then one text of each request in turn. A short request joins the
next batch even if another client has thousands of texts queued, and a long request makes progress even if many clients
send short ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sen2pro.errors import Sen2ProError
from sen2pro.server.http_errors import ClientGone, RequestError
from sen2pro.server.observability import LOGGER, Metrics, error_summary

Unit = TypeVar("Unit")
Result = TypeVar("Result")
_FAILED = "the server could not process this request; see its log"


@dataclass(frozen=True)
class BatchJob(Generic[Unit, Result]):
    """What is done with units (texts, or pairs of texts). Requests whose jobs have one key share batches.

    `run` takes units and returns one result for each. A unit takes `passes` of the network, and costs `extra` tokens
    besides. A job with `own_worker` may wait for another program, such as a database, and gets a separate queue and
    thread.
    """

    key: tuple[object, ...]
    run: Callable[[list[Unit]], Sequence[Result]] = field(compare=False)
    passes: int = field(default=1, compare=False)
    extra: int = field(default=0, compare=False)
    own_worker: bool = field(default=False, compare=False)


@dataclass(eq=False, slots=True)
class PendingRequest(Generic[Unit, Result]):
    """The units of one request, the tokens of each, and the results so far."""

    job: BatchJob[Unit, Result]
    units: Sequence[Unit]
    tokens: Sequence[int]
    future: asyncio.Future[list[Result]]
    results: dict[int, Result | RequestError] = field(default_factory=dict)
    next: int = 0
    submitted: float = field(default_factory=time.perf_counter)
    first_run: float = 0.0


Pending = PendingRequest[Any, Any]
Batch = list[tuple[Pending, int]]  # requests, and the number of the unit of each


def take(queue: deque[Pending], budget: int) -> tuple[Batch, int]:
    """Take a batch of about `budget` tokens off the queue, all of one job.

    The first request in the queue decides the job, and gets a unit. Then the oldest requests fill the first half, so
    long requests are done in time. The second half goes around, one unit per request in turn. Requests that got
    nothing stand first the next time, so no job waits for the end of another one.

    >>> job, loop = BatchJob(("plain",), list), asyncio.new_event_loop()
    >>> long = PendingRequest(job, ["a", "b", "c", "d"], [30] * 4, loop.create_future())
    >>> short = PendingRequest(job, ["x"], [5], loop.create_future())
    >>> queue = deque([long, short])
    >>> batch, tokens = take(queue, 100)
    >>> [request.units[number] for request, number in batch], tokens
    (['a', 'b', 'x', 'c'], 95)
    >>> loop.close()
    """
    job = queue[0].job
    requests = [request for request in queue if request.job == job]
    batch: Batch = []
    served: set[Pending] = set()
    total = 0

    def add(request: Pending) -> bool:
        """Put the next unit of a request into the batch, if there is room for it."""
        nonlocal total
        weight = request.tokens[request.next]
        if batch and total + weight > budget:
            return False
        batch.append((request, request.next))
        total += weight
        request.next += 1
        served.add(request)
        return True

    add(requests[0])
    for request in sorted(requests, key=lambda each: each.submitted):
        while 2 * total < budget and request.next < len(request.units) and add(request):
            pass
    turns = deque(request for request in [*requests[1:], requests[0]] if request.next < len(request.units))
    while turns and total < budget and add(turns[0]):
        request = turns.popleft()
        if request.next < len(request.units):
            turns.append(request)
    rest = [request for request in queue if request not in served]  # of all jobs, in their order
    queue.clear()
    queue.extend(rest)
    queue.extend(request for request in turns if request in served)
    return batch, total


class Batcher:
    """A queue and the thread that works it off.

    Parameters
    ----------
    budget
        Maximum number of tokens per batch; a single longer text is a batch alone.
    capacity
        Maximum number of units in the queue.
    window
        Seconds that an idle worker waits for more units, if several requests came together last time.
    metrics
        Where batches are counted.
    """

    def __init__(self, budget: int, capacity: int, window: float, metrics: Metrics) -> None:
        self.budget, self.capacity, self.window, self.metrics = budget, capacity, window, metrics
        self.waiting = self.tokens = 0  # units and their tokens in the queue
        self.is_idle = True
        self._queue: deque[Pending] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._requests_in_last_batch = 1
        self._tokens_per_second = 0.0
        self._thread = threading.Thread(target=self._work, name="sen2pro-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, seconds: float | None = None) -> bool:
        """Let the thread finish the queue and end; return whether it did within this time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def submit(
        self, job: BatchJob[Unit, Result], units: Sequence[Unit], tokens: Sequence[int]
    ) -> PendingRequest[Unit, Result]:
        """Put the units of a request into the queue; the future of the result gets the list of their results.

        Call it in the event loop. A full queue raises a `RequestError` of the kind `busy`.
        """
        request = PendingRequest(job, units, tokens, asyncio.get_running_loop().create_future())
        with self._changed:
            if self.waiting and self.waiting + len(units) > self.capacity:
                raise RequestError("busy", "the queue is full; try again later", retry_after=self._retry_after())
            self._queue.append(request)
            self.waiting += len(units)
            self.tokens += sum(tokens)
            self._changed.notify()
        return request

    def cancel(self, request: Pending) -> None:
        """Take a request out of the queue. A batch that is running is finished, and its results are dropped."""
        with self._changed:
            if request in self._queue:
                self._queue.remove(request)
                self.waiting -= len(request.units) - request.next
                self.tokens -= sum(request.tokens[request.next :])
                request.next = len(request.units)
        request.future.cancel()

    def _retry_after(self) -> int:
        """Return after how many seconds about half of the queue will be done."""
        return max(1, min(60, round(self.tokens / 2 / self._tokens_per_second) if self._tokens_per_second else 1))

    def _work(self) -> None:
        last = 0  # tokens of the last batch, if others wait already
        while True:
            with self._changed:
                if not self._queue:
                    self.is_idle, last = True, 0
                    while not self._queue and not self._closed:
                        self._changed.wait()
                    if self._requests_in_last_batch > 1 and self.window:
                        self._wait_for_more()
                if not self._queue:  # it is closed, or the only request was cancelled
                    if self._closed:
                        return
                    continue
                # Clients that just got a response may ask again: two equal batches cost less than a large and a small.
                half = max(self.tokens + last, self.budget) // 2 if last else self.budget
                batch, tokens = take(self._queue, min(half, self.budget))
                last = tokens
                self.is_idle = False
                self.waiting -= len(batch)
                self.tokens -= tokens
            self._requests_in_last_batch = len({id(request) for request, _ in batch})
            self._run(batch, tokens)

    def _wait_for_more(self) -> None:
        """Wait a moment for requests that came together with others before."""
        until = time.perf_counter() + self.window
        while self.tokens < self.budget and not self._closed and (left := until - time.perf_counter()) > 0:
            self._changed.wait(left)

    def _run(self, batch: Batch, tokens: int) -> None:
        began = time.perf_counter()
        for request, _ in batch:
            if not request.first_run:
                request.first_run = began
                self.metrics.queue_seconds.observe(began - request.submitted)
        results = self._results(batch[0][0].job, batch)
        seconds = time.perf_counter() - began
        speed = tokens / max(seconds, 1e-6)
        self._tokens_per_second = 0.8 * self._tokens_per_second + 0.2 * speed if self._tokens_per_second else speed
        self.metrics.batch_texts.observe(len(batch))
        self.metrics.batch_tokens.observe(tokens)
        self.metrics.batch_seconds.observe(seconds)
        finished = []
        for (request, number), result in zip(batch, results, strict=True):
            request.results[number] = result
            if len(request.results) == len(request.units):
                finished.append(request)
        if finished:
            loop = finished[0].future.get_loop()
            try:
                loop.call_soon_threadsafe(_deliver, finished)
            except RuntimeError:  # the loop was closed, so no request waits
                LOGGER.warning({"event": "results came after the server was closed"})

    def _results(self, job: BatchJob[Any, Any], batch: Batch) -> Sequence[Any]:
        """Run a batch. If it fails, run its units one by one, so that a bad unit harms no other request."""
        units = [request.units[number] for request, number in batch]
        try:
            results = job.run(units)
            if len(results) != len(units):
                raise Sen2ProError(f"{len(units)} units gave {len(results)} results")
            return results
        except Exception as error:
            if len(units) == 1:
                if isinstance(error, RequestError):
                    return [error]
                LOGGER.error({"event": "work failed", "job": str(job.key[0]), **error_summary(error)})
                return [RequestError("failed", _FAILED)]
        return [  # requests that are out of time, or whose client is gone, are left out
            RequestError("failed", _FAILED) if request.future.done() else self._results(job, [(request, number)])[0]
            for request, number in batch
        ]


def _deliver(finished: list[Pending]) -> None:
    """Set the results of requests; runs in the event loop."""
    for request in finished:
        results = [request.results[number] for number in range(len(request.units))]
        error = next((each for each in results if isinstance(each, RequestError)), None)
        if request.future.done():
            continue
        if error is None:
            request.future.set_result(results)
        else:
            request.future.set_exception(error)


async def wait_for_results(
    batcher: Batcher,
    request: PendingRequest[Unit, Result],
    disconnected: Coroutine[object, object, None],
    seconds: float,
) -> list[Result]:
    """Wait until a request is done, its time is over (`late`), or its client has gone away (`ClientGone`)."""
    watcher: asyncio.Future[None] = asyncio.ensure_future(disconnected)
    waited: set[asyncio.Future[Any]] = {request.future, watcher}
    try:
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if request.future.done():
            return request.future.result()
        raise ClientGone if watcher.done() else late()
    finally:
        watcher.cancel()
        if not request.future.done():
            batcher.cancel(request)


def late() -> RequestError:
    """Return the error of a request whose time is over."""
    return RequestError("late", "the time limit is over; send fewer texts, or try again later")
