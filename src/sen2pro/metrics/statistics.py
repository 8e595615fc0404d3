"""Correlations that say when they are undefined, and a paired bootstrap of the difference of two scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.types import Array64

RESAMPLES = 2000
FEWEST = 6  # points: with less, no resampling can tell anything from chance
_CHUNK_NUMBERS = 1 << 18  # of a block of resamples

Statistic = Callable[[Array64], Array64]  # counts of each point (b, n) -> value of each resample (b,)


class Undefined(Sen2ProError):
    """A correlation that does not exist, because one side never varies or there are too few points."""


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation.

    >>> pearson([1, 2, 3], [2, 4, 7]).__round__(4)
    0.9934
    >>> pearson([1, 1, 1], [2, 4, 7])
    Traceback (most recent call last):
    sen2pro.metrics.statistics.Undefined: no correlation: all 3 values on one side are equal
    """
    return float(np.corrcoef(*_checked(x, y))[0, 1])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's rank correlation, ties sharing their mean rank.

    >>> spearman([1, 2, 3, 4], [1, 8, 9, 7]).__round__(4)
    0.4
    """
    return value_of(correlation_statistic("spearman", x, y), np.size(x))


def kendall(x: ArrayLike, y: ArrayLike) -> float:
    """Return Kendall's tau-b.

    >>> kendall([1, 2, 3, 4], [1, 3, 2, 4]).__round__(4)  # 5 pairs in order, 1 not
    0.6667
    """
    return value_of(correlation_statistic("kendall", x, y), np.size(x))


CORRELATIONS: dict[str, Callable[[ArrayLike, ArrayLike], float]]
CORRELATIONS = {"spearman": spearman, "pearson": pearson, "kendall": kendall}


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Array64, Array64]:
    x_, y_ = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x_.shape != y_.shape or x_.ndim != 1:
        raise Sen2ProError(f"a correlation is between two lists of one length, not {x_.shape} and {y_.shape}")
    if len(x_) < 3:
        raise Undefined(f"no correlation: {len(x_)} points are too few, it takes at least 3")
    for side in (x_, y_):
        finite = np.isfinite(side)
        if not finite.all():
            raise Sen2ProError(f"a correlation takes finite numbers, but number {int(finite.argmin())} is not")
        if (side == side[0]).all():
            raise Undefined(f"no correlation: all {len(side)} values on one side are equal")
    return x_, y_


def by_system(systems: Sequence[str], values: ArrayLike) -> dict[str, float]:
    """Return the mean value of each system, in order of appearance.

    >>> by_system(["x", "y", "x"], [1, 5, 3])
    {'x': 2.0, 'y': 5.0}
    """
    names, numbers = np.array(systems), np.asarray(values, np.float64)
    return {name: float(numbers[names == name].mean()) for name in dict.fromkeys(systems)}


def aligned(scores: Mapping[str, float], human: Mapping[str, float]) -> tuple[Array64, Array64]:
    """Return the two scores of the systems that have both, which must be at least 3."""
    names = [name for name in scores if name in human]
    if len(names) < 3:
        raise Undefined(f"no correlation over {len(names)} systems ({', '.join(names)}); it takes at least 3")
    return np.array([scores[n] for n in names], float), np.array([human[n] for n in names], float)


def _ranks(values: Array64) -> Statistic:
    """Return mean ranks (b, n) as a function of how often each item counts (b, n); the values are sorted once."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.r_[True, ordered[1:] != ordered[:-1]]  # a group of ties
    first, group = np.flatnonzero(begins), np.cumsum(begins) - 1

    def ranks(counts: Array64) -> Array64:
        sizes = np.add.reduceat(counts[:, order], first, axis=1)
        middle = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
        result = np.empty_like(counts)
        result[:, order] = middle[:, group]
        return result

    return ranks


def _weighted_pearson(x: Array64, y: Array64, counts: Array64) -> Array64:
    """Return Pearson's correlation of each row, items counting `counts` times: (b,); nan where it is undefined."""
    total = counts.sum(axis=1, keepdims=True)
    x, y = (side - (counts * side).sum(axis=1, keepdims=True) / total for side in (x, y))
    squares = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    products = (counts * x * y).sum(axis=1)
    return np.asarray(np.where(squares > 1e-20, products / np.sqrt(np.maximum(squares, 1e-20)), np.nan))


def correlation_statistic(kind: str, scores: ArrayLike, gold: ArrayLike) -> Statistic:
    """Return a correlation as a function of how often each point counts, for `paired_bootstrap`."""
    x, y = _checked(scores, gold)
    one_of("correlation", kind, CORRELATIONS)
    if kind == "pearson":
        x, y = ((side - side.mean()) / side.std() for side in (x, y))  # so that no scale is too small to be seen
        return lambda counts: _weighted_pearson(x[None], y[None], counts)
    if kind == "spearman":
        ranks_x, ranks_y = _ranks(x), _ranks(y)
        return lambda counts: _weighted_pearson(ranks_x(counts), ranks_y(counts), counts)
    signs_x, signs_y = (np.sign(side[:, None] - side[None, :]) for side in (x, y))
    matrices = signs_x * signs_y, np.abs(signs_x), np.abs(signs_y)

    def tau(counts: Array64) -> Array64:
        # The parts of tau-b are quadratic forms in the counts; a point is tied with its own copies.
        pairs, of_x, of_y = (((counts @ matrix) * counts).sum(axis=1) for matrix in matrices)
        return np.asarray(np.where(of_x * of_y > 0, pairs / np.sqrt(np.maximum(of_x * of_y, 1)), np.nan))

    return tau


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


def average_statistic(
    parts: Sequence[Statistic], places: Sequence[NDArray[np.int64]], weights: Sequence[float] | None = None
) -> Statistic:
    """Return the (weighted) mean of statistics, each of the points at its `places`, as one statistic of all points."""
    shares = np.ones(len(parts)) if weights is None else np.asarray(weights, np.float64)

    def average(counts: Array64) -> Array64:
        values = [part(counts[:, where]) for part, where in zip(parts, places, strict=True)]
        return np.asarray(shares @ np.stack(values) / shares.sum())

    return average


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

    >>> gold = np.arange(50.0)
    >>> noise = np.random.default_rng(0).normal(size=50)
    >>> good, poor = (correlation_statistic("spearman", gold + size * noise, gold) for size in (1, 30))
    >>> paired_bootstrap([good], poor, 50).verdict
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
