"""Choose a probability by cross-validation, and judge the choice by a second cross-validation around it.

A `Candidate` is a curve over one feature, or a logistic regression with a ridge on a few of them, which it names. Both
confidences have their own list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.io.bundle import Config
from sen2pro.validation import Array64

Shape = Literal["linear", "products", "beta", "isotonic"]
Mask = NDArray[np.bool_]
Number = Annotated[float, Meta(gt=-1e30, lt=1e30)]  # a fitted one: products of a few of them stay finite
Spread = Annotated[float, Meta(gt=1e-30, lt=1e30)]
_FOLDS = 5
_STEPS = 50  # of Newton's method, at most
_LAST_STEP = 1e-5  # a step so small is the last


@dataclass(frozen=True, eq=False)
class Table:
    """Features of n examples, (n, f). Several columns may share a name; `temperature` is that of a softmax in them."""

    names: tuple[str, ...]
    values: Array64
    temperature: float = 1.0

    def __getitem__(self, rows: Mask | NDArray[np.int_]) -> Table:
        return replace(self, values=self.values[rows])

    def columns(self, wanted: Sequence[str]) -> Array64:
        """Return the columns of some features, in the order of `wanted`.

        >>> Table(("a", "b", "b"), np.array([[1.0, 2.0, 3.0]])).columns(["b", "a"])
        array([[2., 3., 1.]])
        """
        return self.values[:, [i for name in wanted for i, each in enumerate(self.names) if each == name]]


HeldOut = tuple[Mask, Table]
"""The rows that a fold holds out (n,), and the table of all rows as the fold sees it."""


@dataclass(frozen=True)
class Candidate:
    """The features to look at, how to use them, and the strengths of the ridge to try.

    Coefficients are drawn to 0, but the first one to a `slope`: per unit of the feature, or per spread.
    """

    name: str
    features: tuple[str, ...]
    strengths: tuple[float, ...]
    slope: float = 0.0
    per_spread: bool = False
    shape: Shape = "linear"


class FittedCandidate(Config, frozen=True):
    """A candidate that is fitted: it predicts with NumPy alone, and can be saved.

    `numbers` are an intercept and coefficients of the scaled features, or the places and heights of an isotonic curve.
    """

    name: str
    features: tuple[str, ...]
    shape: Shape
    strength: Number
    centre: tuple[Number, ...]
    spread: tuple[Spread, ...]
    numbers: tuple[Number, ...]
    temperature: Spread = 1.0

    def __post_init__(self) -> None:
        width = len(self.centre)
        if not self.features or not width or len(self.spread) != width:
            raise ValueError("there must be features, and as many spreads as centres")
        if self.shape == "isotonic":
            places, heights = np.split(np.array(self.numbers), 2) if len(self.numbers) % 2 == 0 else ([1, 0], [0])
            whole = len(places) > 0 and (np.diff(places) >= 0).all() and all(0 < height < 1 for height in heights)
        else:
            whole = len(self.numbers) == 1 + {"linear": width, "products": 2 * width, "beta": 2}[self.shape]
        if not whole:
            raise ValueError("the numbers of the candidate do not belong together")

    def logits(self, table: Table) -> Array64:
        """Return the log-odds of each row, (n,)."""
        x = table.columns(self.features)
        if x.shape[1] != len(self.centre):
            raise Sen2ProError(
                f"this confidence was fitted on {len(self.centre)} numbers per example, but there are {x.shape[1]}; "
                "pass the features it was fitted with, or fit again"
            )
        columns, numbers = _shaped(self.shape, (x - self.centre) / self.spread), np.array(self.numbers)
        if self.shape == "isotonic":
            places, heights = np.split(numbers, 2)
            share = np.interp(columns[:, 0], places, heights)
            return np.asarray(np.log(share) - np.log1p(-share))
        return np.asarray(columns @ numbers[1:] + numbers[0])


@dataclass(frozen=True, eq=False)
class Chosen:
    """The candidate that was chosen, fitted on all rows, and the log-odds of the rows (n,) out of fold."""

    fitted: FittedCandidate
    logits: Array64


def expit(x: Array64) -> Array64:
    """Return 1 / (1 + exp(-x)), without an overflow."""
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


def _shaped(shape: Shape, x: Array64) -> Array64:
    """Return the columns that a candidate weighs, from scaled features (n, f)."""
    if shape == "products":  # how much the first feature counts may depend on the others
        return np.concatenate([x, x[:, :1] * x], axis=1)
    if shape == "beta":  # beta calibration (Kull et al. 2017) takes the logarithms of a share and of one minus it
        share = np.clip(x[:, 0] / 8 + 0.5, 1e-3, 1 - 1e-3)  # four spreads to each side of the middle
        return np.stack([np.log(share), -np.log1p(-share)], axis=1)
    return x


def fit(candidate: Candidate, table: Table, labels: Array64, strength: float) -> FittedCandidate:
    """Fit a candidate to labels (n,) with a ridge of some strength.

    >>> x = np.random.default_rng(0).normal(size=(500, 1))
    >>> fitted = fit(Candidate("line", ("x",), (1.0,)), Table(("x",), x), (x[:, 0] > 0).astype(float), 1.0)
    >>> (fitted.logits(Table(("x",), np.array([[-1.0], [1.0]]))) > 0).tolist()
    [False, True]
    """
    x = table.columns(candidate.features)
    centre, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, 1.0)  # a constant feature stays as it is
    columns = _shaped(candidate.shape, (x - centre) / spread)
    if candidate.shape == "isotonic":
        strength, numbers = 0.0, _isotonic(columns[:, 0], labels).ravel()
    else:
        drawn_to = np.zeros(columns.shape[1])
        drawn_to[0] = candidate.slope * (1 if candidate.per_spread else spread[0])
        numbers = logistic(columns, labels, drawn_to, strength)
    centres, spreads, found = (tuple(each.tolist()) for each in (centre, spread, numbers))
    return FittedCandidate(
        name=candidate.name, features=candidate.features, shape=candidate.shape, strength=strength, centre=centres,
        spread=spreads, numbers=found, temperature=table.temperature,
    )  # fmt: skip


def logistic(x: Array64, y: Array64, drawn_to: Array64, strength: float) -> Array64:
    """Return intercept and coefficients of a logistic regression whose coefficients are drawn to some values.

    It is the most probable one under a Gaussian prior of precision `strength`, by Newton's method. The intercept is
    nearly free: it stays finite where all labels are of one kind.
    """
    ones = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    pull = np.r_[1e-6, np.full(x.shape[1], strength)]
    middle, odds = np.r_[0.0, drawn_to], (y.sum() + 1) / (len(y) - y.sum() + 1)
    weights = np.r_[np.log(odds), drawn_to]

    def loss(w: Array64) -> float:
        return float(losses(ones @ w, y).sum() + (pull * (w - middle) ** 2).sum() / 2)

    for _ in range(_STEPS):
        p = expit(ones @ weights)
        gradient = ones.T @ (p - y) + pull * (weights - middle)
        curvature = (ones * (p * (1 - p) + 1e-9)[:, None]).T @ ones + np.diag(pull)
        step, size, before = np.linalg.solve(curvature, gradient), 1.0, loss(weights)
        while loss(weights - size * step) > before + 1e-9 and size > 1e-4:
            size /= 2
        weights = weights - size * step
        if np.abs(step).max() < _LAST_STEP:
            break
    return np.asarray(weights)


def _isotonic(x: Array64, y: Array64) -> Array64:
    """Return places and heights (2, m) of a rising curve, kept away from 0 and 1 by one label of each kind."""
    from sklearn.isotonic import isotonic_regression

    places, where = np.unique(x, return_inverse=True)
    counts = np.bincount(where).astype(np.float64)
    heights = isotonic_regression(np.bincount(where, y) / counts, sample_weight=counts)
    heights = (heights * len(y) + 1) / (len(y) + 2)
    corners = np.r_[True, np.diff(heights) != 0] | np.r_[np.diff(heights) != 0, True]
    return np.stack([places[corners], heights[corners]])


def losses(logits: Array64, labels: Array64) -> Array64:
    """Return -log P(label) of each row (n,)."""
    return np.asarray(np.logaddexp(0, logits) - labels * logits)


def folds(labels: Array64, groups: NDArray[np.int64] | None = None, seed: int = 0) -> list[Mask]:
    """Return masks (n,) of the rows that each of five folds holds out; each has a like share of both labels.

    Rows of one group are in one fold.
    """
    if groups is None:
        rng, number, start = np.random.default_rng(seed), np.empty(len(labels), np.int64), 0
        for kind in (0, 1):
            rows = rng.permutation(np.flatnonzero(labels == kind))
            number[rows] = (start + np.arange(len(rows))) % _FOLDS
            start += len(rows)
        masks = [number == fold for fold in range(_FOLDS)]
    else:
        from sklearn.model_selection import StratifiedGroupKFold

        rarer = min(len(np.unique(groups[labels == kind])) for kind in (0, 1))
        splitter = StratifiedGroupKFold(min(_FOLDS, max(rarer, 2)), shuffle=True, random_state=seed)
        masks = [np.isin(np.arange(len(labels)), test) for _, test in splitter.split(groups, labels, groups)]
    return [mask for mask in masks if mask.any()]


def out_of_fold(candidate: Candidate, parts: Sequence[HeldOut], labels: Array64, strength: float) -> Array64:
    """Return the log-odds of all rows (n,), each by a fit without its own fold."""
    found = np.empty(len(labels))
    for held, table in parts:
        found[held] = fit(candidate, table[~held], labels[~held], strength).logits(table[held])
    return found


def choose(candidates: Sequence[Candidate], table: Table, parts: Sequence[HeldOut], labels: Array64) -> Chosen:
    """Choose by log-loss: the first candidate that is within one standard error of the best.

    The standard error is that of the difference of the two, row by row. The strength of each is chosen first.
    """
    best_of_each: list[tuple[float, Array64]] = []
    for candidate in candidates:
        tried = {strength: out_of_fold(candidate, parts, labels, strength) for strength in candidate.strengths}
        strength = min(tried, key=lambda each: float(losses(tried[each], labels).mean()))
        best_of_each.append((strength, tried[strength]))
    costs = [losses(logits, labels) for _, logits in best_of_each]
    best = min(costs, key=lambda cost: float(cost.mean()))
    number = next(i for i, cost in enumerate(costs) if (cost - best).mean() <= (cost - best).std() / np.sqrt(len(best)))
    strength, logits = best_of_each[number]
    return Chosen(fit(candidates[number], table, labels, strength), logits)


def better(without: Chosen, with_: Chosen, labels: Array64, errors: float) -> Chosen:
    """Return the choice with the distribution if its gain in log-loss exceeds this many standard errors."""
    gain = losses(without.logits, labels) - losses(with_.logits, labels)
    return with_ if gain.mean() > errors * gain.std() / np.sqrt(len(gain)) else without


def judged(
    labels: Array64,
    masks: Sequence[Mask],
    choose_both: Callable[[Mask], tuple[Chosen, Chosen | None]],
    logits: Callable[[FittedCandidate, Mask], Array64],
) -> tuple[Array64, Array64 | None]:
    """Return the log-odds (n,) of two choices by nested cross-validation: each row by choices made without its fold.

    `choose_both(rows)` chooses and fits on some rows, and `logits(fitted, rows)` predicts others. The second choice may
    be missing.
    """
    found = np.full((2, len(labels)), np.nan)
    for held in masks:
        rest = ~held if len(np.unique(labels[~held])) > 1 else np.ones(len(labels), bool)
        for row, chosen in zip(found, choose_both(rest), strict=True):
            if chosen is not None:
                row[held] = logits(chosen.fitted, held)
    return found[0], None if np.isnan(found[1]).any() else found[1]
