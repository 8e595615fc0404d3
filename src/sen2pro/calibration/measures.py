"""How good predicted probabilities (n, classes) are, given the true class numbers (n,)."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64

BINS = 15
ANSWERED = 0.8  # the share of texts that a classifier answers, those that it is surest of
_TOLERANCE = 0.01  # of a sum of probabilities: some are rounded
_SMALLEST = 1e-15  # a probability of 0 for what happened would cost infinitely much


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
