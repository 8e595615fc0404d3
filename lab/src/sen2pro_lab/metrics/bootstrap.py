"""A paired bootstrap of the difference of two scores: the interval and the p-value of what one gains over the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.report import FEWEST, RESAMPLES
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64

_CHUNK_NUMBERS = 1 << 18  # of a block of resamples

Statistic = Callable[[Array64], Array64]  # counts of each point (b, n) -> value of each resample (b,)


class Undefined(Sen2ProError):
    """A score that does not exist: a correlation of values that never vary, or too few points."""


def value_of(statistic: Statistic, n: int) -> float:
    """Return a statistic of n points that count once each."""
    return float(statistic(np.ones((1, n)))[0])


def mean_statistic(values: ArrayLike) -> Statistic:
    """Return a mean as a function of how often each value counts, for `paired_bootstrap`."""
    values_ = np.asarray(values, np.float64)
    return lambda counts: np.asarray(counts @ values_ / counts.sum(axis=1))


def mean_of(statistics: Sequence[Statistic]) -> Statistic:
    """Return the mean of statistics of the same points, those of several seeds for instance."""
    return lambda counts: np.asarray(np.mean([statistic(counts) for statistic in statistics], axis=0))


@dataclass(frozen=True)
class Comparison:
    """A score against a baseline on the same points, with the 95 % interval and the p-value of the difference.

    `value` is the mean over seeds if there are several, and `sd` their standard deviation.
    """

    baseline: float
    value: float
    low: float
    high: float
    p: float
    n: int
    sd: float | None = None
    smaller_is_better: bool = False

    @property
    def gain(self) -> float:
        """Value minus baseline."""
        return self.value - self.baseline

    @property
    def verdict(self) -> str:
        """`better` or `worse` if p is below 0.05, else `no difference`; `too few` for less than 6 points."""
        if self.n < FEWEST:
            return "too few"
        if self.p >= 0.05:
            return "no difference"
        return "better" if (self.gain > 0) != self.smaller_is_better else "worse"

    def scaled(self, factor: float) -> Comparison:
        """Return the same comparison in other units, times 100 for instance."""
        numbers: dict[str, Any] = {name: getattr(self, name) * factor for name in ("baseline", "value", "low", "high")}
        return replace(self, **numbers, sd=None if self.sd is None else self.sd * factor)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain numbers."""
        names = ("baseline", "value", "gain", "low", "high", "p", "n", "sd", "verdict")
        return {name: getattr(self, name) for name in names}


def paired_bootstrap(
    ours: Sequence[Statistic], baseline: Statistic, n: int, *, groups: NDArray[Any] | None = None,
    resamples: int = RESAMPLES, smaller_is_better: bool = False,
) -> Comparison:  # fmt: skip
    """Compare the mean of a score over seeds with a baseline, by resampling the n points they share.

    `groups` has a label for each point (n,), to resample within groups; by default all points are one group. The
    interval holds the middle 95 % of the resampled differences; p is two-sided. Resamples in which the statistic is
    undefined (few systems, drawn alike) are left out.

    >>> noise = np.random.default_rng(0).normal(size=(2, 50))
    >>> paired_bootstrap([mean_statistic(noise[0] + 2)], mean_statistic(noise[1]), 50).verdict
    'better'
    """
    values, mean = [value_of(statistic, n) for statistic in ours], mean_of(ours)
    gains = np.concatenate([mean(counts) - baseline(counts) for counts in _resamples(n, groups, resamples)])
    gains = gains[np.isfinite(gains)]
    if not len(gains):
        raise Undefined(f"no interval: the score is undefined in every resample of {n} points")
    low, high = map(float, np.percentile(gains, [2.5, 97.5]))
    p = float(min(1.0, 2 * (min((gains <= 0).sum(), (gains >= 0).sum()) + 1) / (len(gains) + 1)))
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Comparison(value_of(baseline, n), float(np.mean(values)), low, high, p, n, sd, smaller_is_better)


def _resamples(n: int, groups: NDArray[Any] | None, resamples: int) -> Iterator[Array64]:
    """Yield how often each point is drawn, (b, n) at a time."""
    rng = np.random.default_rng(0)
    labels = np.zeros(n) if groups is None else groups
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    step = max(1, _CHUNK_NUMBERS // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        counts = np.zeros((rows, n))
        for where in members:
            drawn = rng.integers(0, len(where), (rows, len(where))) + len(where) * np.arange(rows)[:, None]
            counts[:, where] = np.bincount(drawn.ravel(), minlength=rows * len(where)).reshape(rows, -1)
        yield counts
