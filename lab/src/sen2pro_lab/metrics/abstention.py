"""How well a confidence tells right answers from wrong ones, as functions of how often each answer counts.

All take a confidence of each answer (n,), greater is surer, and whether the answer is right (n,). They return a
`Statistic`, for `paired_bootstrap`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import trapezoid

from sen2pro.calibration.report import BINS
from sen2pro.validation import Array64
from sen2pro_lab.metrics.bootstrap import Statistic

_RATES = np.linspace(0, 1, 11)[:-1]  # of withheld answers, as mteb has them


def auroc(confidence: ArrayLike, right: ArrayLike) -> Statistic:
    """Return the area under the ROC curve: the chance that a right answer is surer than a wrong one.

    >>> float(auroc([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0])(np.ones((1, 4)))[0])  # 3 of 4 pairs are in order
    0.75
    """
    order, last, y = _sorted(confidence, right)
    first = np.r_[0, last[:-1] + 1]

    def area(counts: Array64) -> Array64:
        drawn = counts[:, order]
        yes, no = (np.add.reduceat(drawn * kind, first, axis=1) for kind in (y, 1 - y))
        below = no.sum(axis=1, keepdims=True) - no.cumsum(axis=1) + no / 2
        pairs = yes.sum(axis=1) * no.sum(axis=1)
        return np.asarray(np.where(pairs > 0, (yes * below).sum(axis=1) / np.maximum(pairs, 1), np.nan))

    return area


def risk_coverage_area(confidence: ArrayLike, right: ArrayLike) -> Statistic:
    """Return the mean share of wrong answers among the surest 1, 2, ... n; smaller is better.

    Of equally sure answers, the share of wrong ones is that of the group.

    >>> float(risk_coverage_area([0.9, 0.5], [1, 0])(np.ones((1, 2)))[0])  # (0 / 1 + 1 / 2) / 2
    0.25
    """
    order, last, y = _sorted(confidence, right)
    sizes = np.diff(np.r_[-1, last])
    wrong = np.repeat(np.add.reduceat(1 - y, np.r_[0, last[:-1] + 1]) / sizes, sizes)

    def area(counts: Array64) -> Array64:
        drawn = counts[:, order]
        answered = drawn.cumsum(axis=1)
        risk = (drawn * wrong).cumsum(axis=1) / np.maximum(answered, 1)
        return np.asarray((drawn * risk).sum(axis=1) / drawn.sum(axis=1))

    return area


def share_answered(confidence: ArrayLike, right: ArrayLike, precision: float = 0.95) -> Statistic:
    """Return the greatest share of answers, the surest ones, of which `precision` is right; known only afterwards.

    >>> float(share_answered([0.9, 0.8, 0.7, 0.1], [1, 1, 0, 0], 0.6)(np.ones((1, 4)))[0])
    0.75
    """
    order, last, y = _sorted(confidence, right)

    def share(counts: Array64) -> Array64:
        drawn = counts[:, order]
        answered, good = (x.cumsum(axis=1)[:, last] for x in (drawn, drawn * y))
        enough = good >= precision * answered - 1e-9
        return np.asarray(np.where(enough, answered, 0).max(axis=1) / drawn.sum(axis=1))

    return share


def nauc(confidence: ArrayLike, right: ArrayLike) -> Statistic:
    """Return mteb's normalised area under the abstention curve (arXiv 2402.12997): 1 is perfect, 0 is chance.

    The curve is the share of right answers after the least sure 0, 10, ... 90 % were withheld; of equally sure ones,
    each counts as the mean of the group. It is undefined (NaN) where all answers are right, or wrong.

    >>> float(nauc([0.9, 0.8, 0.7, 0.1], [1, 1, 0, 0])(np.ones((1, 4)))[0])
    1.0
    """
    order, last, y = _sorted(-np.asarray(confidence, np.float64), right)  # from the least sure on
    first = np.r_[0, last[:-1] + 1]

    def area(counts: Array64) -> Array64:
        drawn = counts[:, order]
        size, good = (np.add.reduceat(each, first, axis=1).cumsum(axis=1) for each in (drawn, drawn * y))
        n, yes = size[:, -1:], good[:, -1:]
        withheld = np.minimum(np.rint(_RATES * n), n - 1)
        # What was right among those withheld: within a group of ties, it grows evenly.
        lost = np.stack([np.interp(*row) for row in zip(withheld, _from_zero(size), _from_zero(good), strict=True)])
        ours, best = ((yes - each) / (n - withheld) for each in (lost, np.maximum(withheld - (n - yes), 0)))
        flat = (yes / n)[:, 0] * (_RATES[-1] - _RATES[0])
        room = trapezoid(best, _RATES, axis=1) - flat
        defined = (yes > 0)[:, 0] & (yes < n)[:, 0]
        gained = trapezoid(ours, _RATES, axis=1) - flat
        return np.asarray(np.where(defined, gained / np.where(defined, room, 1), np.nan))

    return area


def _from_zero(values: Array64) -> Array64:
    return np.concatenate([np.zeros((len(values), 1)), values], axis=1)


def calibration(probability: ArrayLike, right: ArrayLike, bins: int = BINS) -> Statistic:
    """Return how far probabilities and shares of right answers are apart, over bins of equal width.

    >>> float(calibration([0.9, 0.9], [1, 0])(np.ones((1, 2)))[0].round(4))  # says 0.9, is right half of the time
    0.4
    """
    p, y = np.asarray(probability, np.float64), np.asarray(right, np.float64)
    place = np.clip(np.ceil(p * bins).astype(int) - 1, 0, bins - 1)
    excess = np.where(place[:, None] == np.arange(bins), (p - y)[:, None], 0.0)
    return lambda counts: np.asarray(np.abs(counts @ excess).sum(axis=1) / counts.sum(axis=1))


def _sorted(confidence: ArrayLike, right: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], Array64]:
    """Return the order from the surest on, where each group of ties ends in it, and the labels in that order."""
    c, y = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    order = np.argsort(-c, kind="stable")
    ends = np.r_[c[order][1:] != c[order][:-1], True]
    return order, np.flatnonzero(ends), y[order]
