"""Correlations that say when they are undefined, and averages of statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.validation import Array64
from sen2pro_lab.metrics.bootstrap import Statistic, Undefined, value_of


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation.

    >>> pearson([1, 2, 3], [2, 4, 7]).__round__(4)
    0.9934
    >>> pearson([1, 1, 1], [2, 4, 7])
    Traceback (most recent call last):
    sen2pro_lab.metrics.bootstrap.Undefined: no correlation: all 3 values on one side are equal
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


def average_statistic(
    parts: Sequence[Statistic], places: Sequence[NDArray[np.int64]], weights: Sequence[float] | None = None
) -> Statistic:
    """Return the (weighted) mean of statistics, each of the points at its `places`, as one statistic of all points."""
    shares = np.ones(len(parts)) if weights is None else np.asarray(weights, np.float64)

    def average(counts: Array64) -> Array64:
        values = [part(counts[:, where]) for part, where in zip(parts, places, strict=True)]
        return np.asarray(shares @ np.stack(values) / shares.sum())

    return average
