"""The parts of a running server: the engine, its queue, the metrics, and whether it is ready."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from sen2pro.server.auth import ApiKeys
from sen2pro.server.batching import Batcher
from sen2pro.server.engine import Engine
from sen2pro.server.http_errors import RequestError
from sen2pro.server.observability import LOGGER, Metrics, error_summary
from sen2pro.server.serving import Serving

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

Result = TypeVar("Result")
Value = TypeVar("Value")
Thread = Literal["tokens", "fits"]  # short work on texts; seconds of work on vectors
_BYTES_IN_FLIGHT = 256 << 20  # of the bodies of all requests
_LAST_BATCH = 2.0  # seconds that the last batch may take
_CACHE_ENTRIES, _CACHE_BYTES = 32, 128 << 20


class Cache(Generic[Value]):
    """The objects that were made last from the texts of requests, bounded in number and in bytes.

    Only the hash of its texts finds a value. Lists of texts that are cut differently have different keys.

    >>> cache = Cache[int]()
    >>> cache.put(Cache.key(["ab", "c"]), 1, size=8)
    >>> cache.get(Cache.key(["ab", "c"])), cache.get(Cache.key(["a", "bc"]))
    (1, None)
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    @staticmethod
    def key(texts: Sequence[str]) -> str:
        """Return the key of texts."""
        digest = hashlib.blake2b(digest_size=16)
        for data in (text.encode() for text in texts):
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def get(self, key: str) -> Value | None:
        """Return the value of a key, if it is still there."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Keep a value of about `size` bytes, and drop the values that were not used for the longest time."""
        self._bytes += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._values and (len(self._values) > _CACHE_ENTRIES or self._bytes > _CACHE_BYTES):
            self._bytes -= self._values.popitem(last=False)[1][1]


class Service:
    """The parts that all routes share; `phase` is `starting`, `ready` or `stopping`.

    Parameters
    ----------
    engine, serving, keys
        The model, the operator's choices, and the API keys.
    on_ready
        Called once the model has warmed up.
    """

    def __init__(
        self, engine: Engine, serving: Serving, keys: ApiKeys, on_ready: Callable[[], object] = lambda: None
    ) -> None:
        self.engine, self.serving, self.keys, self.on_ready = engine, serving, keys, on_ready
        self.metrics = Metrics()
        budget = serving.batch_tokens or engine.batch_tokens
        # Searches have a worker of their own: it may wait for a database.
        self.batcher, self.searcher = self.workers = tuple(
            Batcher(budget, serving.queue, serving.window / 1000, self.metrics) for _ in range(2)
        )
        self.metrics.queue_texts.set_function(lambda: sum(worker.waiting for worker in self.workers))
        self.metrics.queue_tokens.set_function(lambda: sum(worker.tokens for worker in self.workers))
        self.indexes: Cache[Index] = Cache()  # of documents in requests
        self.classifiers: Cache[Sen2ProClassifier] = Cache()  # of examples in requests
        self.name = serving.served_name or engine.model.encoder.name
        self.names = {self.name, *serving.alias}
        self.created = int(time.time())
        self.signature = engine.model.signature()
        self.phase: Literal["starting", "ready", "stopping"] = "starting"
        self.bytes_in_flight = 0
        self.most_bytes_in_flight = max(_BYTES_IN_FLIGHT, serving.body_bytes)
        self._threads = {name: ThreadPoolExecutor(1, f"sen2pro-{name}") for name in ("tokens", "fits")}

    def start(self) -> None:
        """Start the worker and warm up in a thread; until that is done, `/health` says 503."""
        for worker in self.workers:
            worker.start()
        self._threads["tokens"].submit(self._warm_up)

    def _warm_up(self) -> None:
        began = time.perf_counter()
        try:
            self.engine.warm_up()
        except Exception as error:
            LOGGER.error({"event": "the warm-up failed; the server will not be ready", **error_summary(error)})
            return
        if self.phase == "starting":
            self.phase = "ready"
        LOGGER.info({"event": "ready", "model": self.name, "seconds": round(time.perf_counter() - began, 3)})
        self.on_ready()

    def close(self) -> None:
        """End the threads; a batch that takes too long is left alone."""
        self.phase = "stopping"
        for executor in self._threads.values():
            executor.shutdown(wait=True, cancel_futures=True)
        done = [worker.close(_LAST_BATCH) for worker in self.workers]
        if not all(done):
            LOGGER.warning({"event": "the last batch was not done in time"})
        LOGGER.info({"event": "stopped"})

    async def run_in_thread(self, function: Callable[[], Result], thread: Thread = "tokens") -> Result:
        """Run a function in a thread beside the event loop and the worker; each thread runs one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], function)

    def check_ready(self) -> None:
        """Refuse a request while the server starts or stops."""
        if self.phase != "ready":
            raise RequestError("stopping", f"the server is {self.phase}; try again later", retry_after=1)

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served; no name means the served one."""
        if name is not None and name not in self.names:
            message = "the model that you ask for is not served here; /v1/models names the one that is"
            raise RequestError("model", message, "model")

    def check_dimensions(self, dimensions: int | None) -> None:
        """Refuse another number of dimensions than the model has."""
        own = self.engine.model.dim
        if dimensions is not None and dimensions != own:
            raise RequestError(
                "invalid", f"this model gives {own} dimensions and no other number of them", "dimensions"
            )

    def public_settings(self) -> dict[str, object]:
        """Return the settings of the model; of a vocabulary only whether there is one, since it can have any size."""
        settings = self.engine.model.settings.to_json()
        return {**settings, "vocabulary": None if settings["vocabulary"] is None else ["..."]}
