"""Metrics for Prometheus, and logs as lines of JSON.

Logs never hold a text, a key, or the message of an error, which may quote a text.
"""

from __future__ import annotations

import logging
import time
import traceback
from functools import lru_cache

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

LOGGER = logging.getLogger("sen2pro.server")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in a registry of its own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count_request("/embed", 200, 0.004, texts=1, tokens=12)
    >>> b'sen2pro_requests_total{route="/embed",status="200"} 1.0' in metrics.page()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter("requests", "Requests that got a response.", "route", "status")
        self.errors = self._counter("errors", "Requests that were refused or failed, by kind.", "route", "kind")
        self.cancelled = self._counter("cancelled", "Requests whose client went away.")
        self.truncated = self._counter("truncated_texts", "Texts that were cut to the length that the model takes.")
        self._texts = self._counter("texts", "Texts in requests that succeeded.")
        self._tokens = self._counter("tokens", "Tokens in requests that succeeded.")
        self._seconds = self._histogram("request_seconds", "Time from request to response.", _SECONDS, "route")
        self.batch_texts = self._histogram("batch_texts", "Texts per batch.", _TEXTS)
        self.batch_tokens = self._histogram("batch_tokens", "Tokens per batch.", _TOKENS)
        self.batch_seconds = self._histogram("batch_seconds", "Time per batch.", _SECONDS)
        self.queue_seconds = self._histogram("queue_seconds", "Time until the first batch of a request.", _SECONDS)
        self.queue_texts = Gauge("sen2pro_queue_texts", "Texts in the queue.", registry=self.registry)
        self.queue_tokens = Gauge("sen2pro_queue_tokens", "Tokens in the queue.", registry=self.registry)
        # Finding a child by its labels takes longer than counting, and there are few children.
        self._children = lru_cache(maxsize=4096)(
            lambda route, status: (self._requests.labels(route, status), self._seconds.labels(route))
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"sen2pro_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"sen2pro_{name}", text, labels, registry=self.registry, buckets=buckets)

    def count_request(self, route: str, status: int, seconds: float, texts: int = 0, tokens: int = 0) -> None:
        """Count a request that got a response."""
        requests, latency = self._children(route, str(status))
        requests.inc()
        latency.observe(seconds)
        if texts and status == 200:
            self._texts.inc(texts)
            self._tokens.inc(tokens)

    def page(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON: a dictionary that was logged, or the message of a library.

    >>> record = logging.LogRecord("uvicorn.error", logging.INFO, "", 0, "Shutting down", None, None)
    >>> JsonFormatter().format(record)
    '{"time":"...","level":"info","event":"Shutting down"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **(record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            content |= error_summary(record.exc_info[1])
        return orjson.dumps(content, default=str).decode()


def error_summary(error: BaseException) -> dict[str, object]:
    """Return the type of an error and where it was raised. Its message is left out, since it may quote a text.

    >>> try:
    ...     raise ValueError("a secret")
    ... except ValueError as error:
    ...     summary = error_summary(error)
    >>> summary["error"], "secret" in str(summary)
    ('ValueError', False)
    """
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    places = [f"{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "places": places}


def start_logging(level: int = logging.INFO) -> None:
    """Write our log and uvicorn's to standard error as JSON; of uvicorn's only warnings and errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name, least in (("sen2pro.server", level), ("uvicorn", max(level, logging.WARNING))):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
