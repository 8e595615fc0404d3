"""How good predicted probabilities are, and a paired bootstrap of the difference of two scores.

Accuracy, log-loss and the others take the probabilities (n, classes) and the true class numbers (n,).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64

BINS = 15
ANSWERED = 0.8  # the share of texts that a classifier answers, those that it is surest of
_TOLERANCE = 0.01  # of a sum of probabilities: some are rounded
_SMALLEST = 1e-15  # a probability of 0 for what happened would cost infinitely much
RESAMPLES = 2000
FEWEST = 6  # points: with less, no resampling can tell anything from chance
_CHUNK_NUMBERS = 1 << 18  # of a block of resamples

Statistic = Callable[[Array64], Array64]  # counts of each point (b, n) -> value of each resample (b,)


@dataclass(frozen=True)
class Scores:
    """The four measures on n texts."""

    accuracy: float
    log_loss: float
    calibration_error: float
    accuracy_of_answered: float  # if only the 80 % are answered that the classifier is surest of
    n: int


def evaluate(probabilities: ArrayLike, truth: ArrayLike) -> Scores:
    """Return all measures.

    >>> evaluate([[0.9, 0.1], [0.2, 0.8]], [0, 0]).accuracy
    0.5
    """
    p, y = _checked(probabilities, truth)
    return Scores(accuracy(p, y), log_loss(p, y), calibration_error(p, y), accuracy_of_answered(p, y), len(y))


def accuracy(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of rows whose most probable class is the true one.

    >>> accuracy([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], [0, 1, 1, 1])
    0.75
    """
    p, y = _checked(probabilities, truth)
    return float((p.argmax(axis=1) == y).mean())


def interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of n rows.

    >>> [round(end, 3) for end in interval(0.8, 100)]
    [0.711, 0.867]
    """
    z = 1.959964
    centre, half = (share + z * z / (2 * n)), z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return float((centre - half) / (1 + z * z / n)), float((centre + half) / (1 + z * z / n))


def log_loss(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean of -log p(true class), in nats.

    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 0]), 4)  # (log 2 + log 4) / 2
    1.0397
    """
    return float(losses(probabilities, truth).mean())


def losses(probabilities: ArrayLike, truth: ArrayLike) -> Array64:
    """Return -log p(true class) of each row (n,), in nats.

    >>> losses([[0.5, 0.5], [0.25, 0.75]], [0, 0]).round(4).tolist()
    [0.6931, 1.3863]
    """
    p, y = _checked(probabilities, truth)
    return np.asarray(-np.log(np.maximum(p[np.arange(len(y)), y], _SMALLEST)))


def calibration_error(probabilities: ArrayLike, truth: ArrayLike, bins: int = BINS) -> float:
    """Return the expected calibration error: how far confidence and accuracy are apart, over bins of equal width.

    The confidence of a row is its greatest probability; each bin counts with its share of the rows.

    >>> round(calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 4)  # says 0.9, is right half of the time
    0.4
    """
    p, y = _checked(probabilities, truth)
    edges, confidence, right = np.linspace(0, 1, bins + 1), p.max(axis=1), p.argmax(axis=1) == y
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)  # on an edge: the bin below
    counts = np.bincount(place, minlength=bins)
    sums = [np.bincount(place, weights=values, minlength=bins) for values in (confidence, right)]
    said, came_true = (total / np.maximum(counts, 1) for total in sums)
    return float((counts / len(y) * np.abs(said - came_true)).sum())


def accuracy_of_answered(probabilities: ArrayLike, truth: ArrayLike, answered: float = ANSWERED) -> float:
    """Return the accuracy if only a share of the rows is answered, those with the greatest confidence.

    >>> accuracy_of_answered([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.5, 0.5]], [0, 0, 0, 0, 1])
    1.0
    """
    p, y = _checked(probabilities, truth)
    surest = np.argsort(-p.max(axis=1), kind="stable")[: max(1, round(answered * len(y)))]  # the first of equal ones
    return float((p.argmax(axis=1) == y)[surest].mean())


def _checked(probabilities: ArrayLike, truth: ArrayLike) -> tuple[Array64, NDArray[Any]]:
    p, y = np.asarray(probabilities, np.float64), np.asarray(truth)
    if p.ndim != 2 or y.shape != p.shape[:1] or not len(y):
        raise Sen2ProError(f"probabilities (n, classes) and class numbers (n,) do not fit: {p.shape} and {y.shape}")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= p.shape[1]:
        numbers = f"class numbers, whole numbers from 0 to {p.shape[1] - 1} that say which column is the true one"
        raise Sen2ProError(f"the truth is given in {numbers}, not {reprlib.repr(y.tolist())}")
    wrong = ~((p >= 0) & (p <= 1)).all(axis=1) | (np.abs(p.sum(axis=1) - 1) > _TOLERANCE)  # also what is not a number
    if wrong.any():
        row = int(wrong.argmax())
        told = f"row {row} is no distribution over the classes: {reprlib.repr(p[row].tolist())}"
        raise Sen2ProError(f"{told}; probabilities lie between 0 and 1 and sum to 1 (of logits, take the softmax)")
    return p, y


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
