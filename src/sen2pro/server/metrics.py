"""What Prometheus is told: latency, batches, the queue, tokens and errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The numbers of one server, in a registry of its own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.answered("/embed", 200, 0.004, texts=1, tokens=12)
    >>> b'sen2pro_requests_total{route="/embed",status="200"} 1.0' in metrics.page()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        make: Any = lambda kind, name, text, *more, **options: kind(  # noqa: E731
            f"sen2pro_{name}", text, *more, registry=self.registry, **options
        )
        self._requests = make(Counter, "requests", "Calls that were answered.", ["route", "status"])
        self._seconds = make(Histogram, "request_seconds", "Time to answer a call.", ["route"], buckets=_SECONDS)
        self._errors = make(Counter, "errors", "Calls that were refused or failed, by kind.", ["route", "kind"])
        self.cancelled = make(Counter, "cancelled", "Calls whose client went away.")
        self.truncated = make(Counter, "truncated_texts", "Texts that were cut to what the model takes.")
        self._texts = make(Counter, "texts", "Texts in calls that were answered.")
        self._tokens = make(Counter, "tokens", "Tokens in calls that were answered.")
        self.batch_texts = make(Histogram, "batch_texts", "Texts of a batch.", buckets=_TEXTS)
        self.batch_tokens = make(Histogram, "batch_tokens", "Tokens of a batch.", buckets=_TOKENS)
        self.batch_seconds = make(Histogram, "batch_seconds", "Time that a batch took.", buckets=_SECONDS)
        self.queue_seconds = make(
            Histogram, "queue_seconds", "Time that a call waited for its first batch.", buckets=_SECONDS
        )
        self._queue_texts = make(Gauge, "queue_texts", "Texts that wait.")
        self._queue_tokens = make(Gauge, "queue_tokens", "Tokens that wait.")
        # Looking up a child by its labels costs more than counting; there are few.
        self._children = lru_cache(maxsize=4096)(
            lambda route, status: (self._requests.labels(route, status), self._seconds.labels(route))
        )

    def watch(self, texts: Callable[[], float], tokens: Callable[[], float]) -> None:
        """Read the length of the queue from these functions."""
        self._queue_texts.set_function(texts)
        self._queue_tokens.set_function(tokens)

    def answered(self, route: str, status: int, seconds: float, texts: int = 0, tokens: int = 0) -> None:
        """Count a call."""
        requests, latency = self._children(route, str(status))
        requests.inc()
        latency.observe(seconds)
        if texts and status == 200:
            self._texts.inc(texts)
            self._tokens.inc(tokens)

    def refused(self, route: str, kind: str) -> None:
        """Count a call that got no answer."""
        self._errors.labels(route, kind).inc()

    def page(self) -> bytes:
        """Return all numbers as Prometheus reads them."""
        return generate_latest(self.registry)
