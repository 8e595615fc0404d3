"""Logistic regressions on the features of hits: fitted with a ridge, chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.candidates import Scale, logistic, losses
from sen2pro.calibration.choosing import about_as_good
from sen2pro.calibration.search_features import DESIGNS, DISTRIBUTION, TEMPERATURES, Hits, columns, entropy
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64

PENALTIES = (1.0, 10.0, 100.0)  # of the squared weights of features that vary by 1
SLOPE = 1.0  # to which few labels are drawn: a first score higher by its spread makes the odds e times as large
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Logistic:
    """A logistic regression: features are centred and scaled, then weighted; the first weight is the constant."""

    scale: Scale
    weights: Array64

    def logits(self, x: Array64) -> Array64:
        """Return the log-odds (n,) of rows of features (n, f)."""
        if x.shape[1] != len(self.scale.centre):
            raise Sen2ProError(
                f"this confidence was fitted on {len(self.scale.centre)} numbers of a query, but there are "
                f"{x.shape[1]}; pass what it was fitted with, or fit again"
            )
        return np.asarray(self.weights[0] + self.scale(x) @ self.weights[1:])


def fit_logistic(x: Array64, y: Array64, penalty: float, slope: float = 0.0) -> Logistic:
    """Fit a logistic regression with a ridge: weights are drawn to 0, that of the first feature to a `slope`.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fitted = fit_logistic(x, np.array([0.0, 0.0, 1.0, 1.0]), penalty=1.0)
    >>> bool(fitted.logits(np.array([[3.0]]))[0] > 0 > fitted.logits(np.array([[0.0]]))[0])
    True
    """
    scale = Scale.of(x)
    return Logistic(scale, logistic(scale(x), y, np.r_[slope, np.zeros(x.shape[1] - 1)], penalty))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A candidate that was fitted: the parts of the lists it looks at, and a logistic regression of them."""

    design: tuple[str, ...]
    penalty: float
    temperature: float
    logistic: Logistic

    def logits(self, hits: Hits) -> Array64:
        """Return the log-odds (n,) that the first hit is right."""
        return self.logistic.logits(columns(self.design, hits, self.temperature))


def fit_design(
    design: tuple[str, ...], hits: Hits, y: Array64, penalty: float, temperature: float | None = None
) -> Fitted:
    """Fit one candidate, at the best temperature if none is given."""
    if temperature is None:
        temperature = best_temperature([design], hits, y)
    return Fitted(design, penalty, temperature, fit_logistic(columns(design, hits, temperature), y, penalty, SLOPE))


def best_temperature(designs: Sequence[tuple[str, ...]], hits: Hits, y: Array64) -> float:
    """Return the temperature at which the entropy alone tells most; 1 where no design looks at the entropy."""
    if not any("entropy" in design for design in designs):
        return 1.0
    unit = float(hits.scores.std(axis=1).mean()) or 1.0
    tried = [share * unit for share in TEMPERATURES]
    single = {t: entropy(hits.scores, t) for t in tried}
    costs = [losses(fit_logistic(single[t], y, 1.0).logits(single[t]), y).mean() for t in tried]
    return tried[int(np.argmin(costs))]


def folds(y: Array64, seed: int = 0, count: int = _FOLDS) -> list[NDArray[np.bool_]]:
    """Return masks (n,) of the rows that each fold holds out; both kinds of label are spread evenly over the folds."""
    rng = np.random.default_rng(seed)
    number = np.empty(len(y), np.int64)
    start = 0
    for kind in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == kind))
        number[rows] = (start + np.arange(len(rows))) % count
        start += len(rows)
    return [number == fold for fold in range(count) if (number == fold).any()]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The candidate that was chosen, fitted on all rows, and the log-odds of the rows (n,) out of fold."""

    fitted: Fitted
    logits: Array64


def choose(designs: Sequence[tuple[str, ...]], hits: Hits, y: Array64, seed: int = 0) -> Chosen:
    """Choose by log-loss: the first design that is within one standard error of the best.

    The standard error is that of the difference of the two, row by row. The penalty of each design is chosen first.
    """
    parts = [(held, hits[~held], y[~held]) for held in folds(y, seed)]
    temperatures = [best_temperature(designs, rest, labels) for _, rest, labels in parts]
    found: list[tuple[float, Array64]] = []
    for design in designs:
        tried = {penalty: np.empty(len(y)) for penalty in PENALTIES}
        for (held, rest, labels), temperature in zip(parts, temperatures, strict=True):
            for penalty, logits in tried.items():
                logits[held] = fit_design(design, rest, labels, penalty, temperature).logits(hits[held])
        penalty = min(tried, key=lambda each: float(losses(tried[each], y).mean()))
        found.append((penalty, tried[penalty]))
    costs = [losses(logits, y) for _, logits in found]
    best = min(costs, key=lambda cost: float(cost.mean()))
    number = next(i for i, cost in enumerate(costs) if about_as_good(cost - best))
    penalty, logits = found[number]
    return Chosen(fit_design(designs[number], hits, y, penalty), logits)


def choose_both(hits: Hits, y: Array64, seed: int = 0) -> tuple[Chosen, Chosen | None]:
    """Return the best without the distribution, and the best that adds it to that (None if there is none to add)."""
    designs = list(DESIGNS.values())
    for name in ("lengths", "votes"):
        if name in hits.given:
            designs += [(*design, name) for design in designs]
    without = choose(designs, hits, y, seed)
    extras = [name for name in DISTRIBUTION if name in hits.given]
    sets = [(name,) for name in extras] + ([tuple(extras)] if len(extras) > 1 else [])
    base = without.fitted.design
    return without, choose([(*base, *added) for added in sets], hits, y, seed) if sets else None


def better(without: Chosen, with_: Chosen | None, y: Array64) -> Chosen:
    """Return the one with the distribution if it is better by more than one standard error, else the one without."""
    if with_ is None or about_as_good(losses(without.logits, y) - losses(with_.logits, y)):
        return without
    return with_


def judged(hits: Hits, y: Array64, seed: int = 0) -> tuple[Array64, Array64 | None]:
    """Return the log-odds (n,) of the best without and of the best with the distribution, by nested cross-validation.

    Each row is scored by candidates that were chosen and fitted without its fold.
    """
    without, with_ = np.empty(len(y)), np.empty(len(y))
    some = False
    for held in folds(y, seed + 1):
        both = choose_both(hits[~held], y[~held], seed)
        for found, chosen in zip((without, with_), both, strict=True):
            if chosen is not None:
                found[held] = chosen.fitted.logits(hits[held])
        some = both[1] is not None
    return without, with_ if some else None


@dataclass(frozen=True, eq=False)
class Later:
    """How likely each hit after the first is right, if none before it is."""

    logistic: Logistic
    unit: float  # the usual spread of a list

    def logits(self, first: Array64, scores: Array64) -> Array64:
        """Return the log-odds (n, k - 1), given those of the first hit (n,)."""
        return self.logistic.logits(later_columns(first, scores, self.unit)).reshape(len(scores), scores.shape[1] - 1)


def later_columns(first: Array64, scores: Array64, unit: float) -> Array64:
    """Return a row for each hit after the first (n * (k - 1), 3): log-odds of the first, gap to it, log of the rank."""
    gaps = (scores[:, :1] - scores[:, 1:]) / unit
    ranks = np.broadcast_to(np.log(np.arange(2, scores.shape[1] + 1)), gaps.shape)
    return np.stack([np.broadcast_to(first[:, None], gaps.shape), gaps, ranks], axis=-1).reshape(-1, 3)


def fit_later(first: Array64, scores: Array64, labels: NDArray[np.bool_]) -> Later:
    """Fit the hits after the first, given the log-odds of the first (n,) and which hits are right (n, k)."""
    unit = float(scores.std(axis=1).mean()) or 1.0
    open_still = ~np.logical_or.accumulate(labels, axis=1)[:, :-1]  # no hit before was right
    rows = open_still.reshape(-1)
    y = labels[:, 1:].reshape(-1)[rows].astype(np.float64)
    return Later(fit_logistic(later_columns(first, scores, unit)[rows], y, penalty=1.0), unit)
