"""What all routes share: the engine, the queue, keys, limits, and whether the server is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from sen2pro.sampling.passes import LARGEST
from sen2pro.server.batching import Batcher, Lane, answer, late
from sen2pro.server.doors import Call
from sen2pro.server.engine import Engine, Text
from sen2pro.server.keys import Keys
from sen2pro.server.logs import LOGGER, where
from sen2pro.server.metrics import Metrics
from sen2pro.server.problems import Gone, Problem
from sen2pro.server.serving import Serving

Result = TypeVar("Result")
Sized = TypeVar("Sized", bound="str | list[int]")
_MOST_IN_HAND = 256 << 20  # bytes of the bodies of all calls
_INLINE = 8192  # letters that are tokenized at once in the event loop: a millisecond or two


class State:
    """A server's parts; `phase` is `starting`, `ready` or `stopping`."""

    def __init__(self, engine: Engine, serving: Serving, keys: Keys) -> None:
        self.engine, self.serving, self.keys = engine, serving, keys
        self.metrics = Metrics()
        encoder = engine.model.encoder
        threads, passes = torch.get_num_threads(), 1.0
        if encoder.native is not None:
            # One pass as large as one may be, or two for each thread: the short texts in one, the long ones in another.
            passes = LARGEST if threads == 1 else 2.0 * threads
        budget = serving.batch_tokens or int(encoder.token_budget * passes)
        self.batcher = Batcher(budget, serving.queue, serving.window / 1000, self.metrics)
        self.searcher = Batcher(budget, serving.queue, serving.window / 1000, self.metrics)
        self.workers = (self.batcher, self.searcher)
        self.metrics.watch(lambda: self.waiting, lambda: sum(worker.tokens for worker in self.workers))
        self.name = serving.served_name or encoder.name
        self.names = {self.name, *serving.alias}
        self.phase = "starting"
        self.farewells: list[Callable[[], None]] = []  # called when the server stops, before connections are closed
        self.until: float | None = None  # when a server that stops has to be done, by the monotonic clock
        self.created = int(time.time())
        self.signature = engine.model.signature()
        self._in_hand = 0  # bytes of the bodies of all calls that are not answered
        self._tokenizing = ThreadPoolExecutor(1, "sen2pro-tokens")

    async def start(self) -> None:
        """Start the worker, and warm up; until that is done, `/health` says 503."""
        for worker in self.workers:
            worker.start()
        loop = asyncio.get_running_loop()
        self._warming = loop.run_in_executor(self._tokenizing, self._warm_up)

    def _warm_up(self) -> None:
        began = time.perf_counter()
        try:
            self.engine.warm_up()
        except Exception as error:
            LOGGER.error({"event": "the warm-up failed; the server will not be ready", **where(error)})
            return
        if self.phase == "starting":
            self.phase = "ready"
        LOGGER.info({"event": "ready", "model": self.name, "seconds": round(time.perf_counter() - began, 3)})

    def stop(self) -> None:
        """Take no more calls; those in hand are finished."""
        self.phase = "stopping"

    def close(self) -> None:
        """End the threads; a batch that takes longer than the grace is left alone."""
        self.stop()
        self._tokenizing.shutdown(wait=True, cancel_futures=True)
        until = time.monotonic() + self.serving.grace if self.until is None else self.until
        done = [worker.close(max(1.0, until - time.monotonic())) for worker in self.workers]
        if not all(done):
            LOGGER.warning({"event": "the last batch was not done in time"})

    @property
    def waiting(self) -> int:
        """How many texts wait."""
        return sum(worker.waiting for worker in self.workers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return all(worker.is_idle for worker in self.workers)

    async def aside(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run what would hold up the event loop in the thread that finds tokens."""
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, function, *arguments)

    def check_ready(self) -> None:
        """Refuse a call while the server starts or stops."""
        if self.phase != "ready":
            raise Problem("stopping", f"the server is {self.phase}; try again later", retry_after=1)

    def take_in(self, call: Call, size: int) -> None:
        """Count bytes of the body of a call; all calls in hand together may have only so many."""
        call.size += size
        self._in_hand += size
        if self._in_hand > max(_MOST_IN_HAND, self.serving.body_bytes):
            raise Problem("busy", "the server has too many bytes in hand; try again later", retry_after=1)

    def let_go(self, call: Call) -> None:
        """Count the bytes of a call no more."""
        self._in_hand -= call.size
        call.size = 0

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served; no name means the one that is."""
        if name is not None and name not in self.names:
            raise Problem(
                "model", "the model that you ask for is not served here; /v1/models names the one that is", "model"
            )

    def check_dimensions(self, dimensions: int | None) -> None:
        """Refuse another number of dimensions than the model has."""
        own = self.engine.model.dim
        if dimensions is not None and dimensions != own:
            raise Problem("invalid", f"this model gives {own} dimensions and no other number of them", "dimensions")

    def listed(self, given: Any, field: str) -> list[Any]:
        """Return a list of texts or of lists of token ids, from one or several of them, within the limits of a call."""
        if isinstance(given, str) or (given and isinstance(given[0], int)):
            given = [given]
        if not given:
            raise Problem("empty", f"'{field}' is empty; give at least one text", field)
        if len(given) > self.serving.texts:
            raise Problem("large", f"a call may have {self.serving.texts} texts, not {len(given)}", field)
        self._check_lengths(given, field)
        return list(given)

    def _check_lengths(self, given: Sequence[Sized], field: str | None = None) -> None:
        most = self.serving.characters
        if max(map(len, given)) > most:
            raise Problem("large", f"a text may have {most} characters", field)

    async def texts(
        self, call: Call, given: Sequence[str | list[int]], prompt: str, truncate: bool | None = None
    ) -> list[Text]:
        """Check texts and count their tokens: here if they are short, else in a thread beside the worker."""
        found: list[Text] = []
        texts: list[str]
        if sum(map(len, given)) <= _INLINE:
            texts = self.engine.written(given)
            self._check_lengths(texts)  # a token id may stand for many letters
            found = self.engine.texts(texts, prompt)
        else:  # calls with many texts take turns, part by part
            texts = []
            for part in parts(given):
                texts += await self.in_time(call, self.engine.written, part)
                self._check_lengths(texts)
            checked = await self.in_time(call, self.engine.checked, texts)
            for some in parts(checked):
                found += await self.in_time(call, self.engine.texts, some, prompt)
        call.texts += len(found)
        call.tokens += sum(len(text.tokens) for text in found)
        cut = sum(not text.whole for text in found)
        if cut:
            if not (self.serving.truncate if truncate is None else truncate):
                longest = self.engine.model.encoder.max_length
                raise Problem("long", f"a text is longer than the {longest} tokens that this model takes")
            self.metrics.truncated.inc(cut)
        return found

    async def run(self, call: Call, lane: Lane, units: Sequence[Any], weights: Sequence[int]) -> list[Any]:
        """Have a worker do something with the units of a call, and wait for the results.

        The weights say what each unit costs, in tokens.
        """
        left = self._time_left(call)
        worker = self.searcher if lane.apart else self.batcher
        ticket = worker.submit(lane, units, weights)
        return await answer(worker, ticket, call.receive, left, call.farewells)

    async def in_time(self, call: Call, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a part of a call's work aside, unless its client has gone or its time is up."""
        left = self._time_left(call)
        try:
            return await asyncio.wait_for(self.aside(function, *arguments), left)
        except asyncio.TimeoutError:
            raise late() from None

    def _time_left(self, call: Call) -> float:
        """Return how many seconds a call still has; work for nobody ends here."""
        if call.is_lost:
            raise Gone
        left = call.began + self.serving.time_limit - time.perf_counter()
        if left <= 0:
            raise late()
        return left

    async def run_texts(
        self, call: Call, lane: Lane, texts: Sequence[Text], passes: int = 1, more: int = 0
    ) -> list[Any]:
        """Have a worker do something with texts; `more` is what each costs beside its passes, in tokens."""
        return await self.run(call, lane, texts, [passes * text.weight + more for text in texts])

    def usage(self, call: Call) -> dict[str, int]:
        """Return what OpenAI calls the usage."""
        return {"prompt_tokens": call.tokens, "total_tokens": call.tokens}


def parts(texts: Sequence[Sized]) -> Iterator[list[Sized]]:
    """Cut a list of texts, or of lists of token ids, into parts of few letters, or of one text.

    >>> list(parts(["a" * 5000, "b" * 5000, "c", "d" * 9000])) == [["a" * 5000], ["b" * 5000, "c"], ["d" * 9000]]
    True
    """
    part: list[Sized] = []
    letters = 0
    for text in texts:
        if part and letters + len(text) > _INLINE:
            yield part
            part, letters = [], 0
        part.append(text)
        letters += len(text)
    yield part
