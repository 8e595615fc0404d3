"""Choose features, head, regularisation and temperature by the log-loss on rows that were not trained on.

A strong penalty gives the best directions from a few examples, but probabilities that are far too even; so the size of
the weights is chosen apart from the penalty: all of them are divided by a temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Design, Weights, at_temperatures, fit
from sen2pro.gaussian import Gaussian
from sen2pro.types import Array64, Labels

C_VALUES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
TEMPERATURES = 2.0 ** -np.arange(-2, 10.5, 0.5)
_FOLDS, _FEWER_FOLDS, _MANY = 5, 3, 500
_DRAWS = 32
_ROUNDING = 1e-9  # a gain that is none


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the log-loss and the share of right answers that it had on rows not trained on."""

    features: str
    head: str
    C: float
    temperature: float
    log_loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on and rows to judge by."""

    train: Gaussian
    train_labels: Labels
    held_out: Gaussian
    held_out_labels: Labels


def folds(gaussian: Gaussian, labels: Labels, seed: int) -> list[Fold]:
    """Cut the rows into parts for cross-validation, every class spread evenly; no more folds than the rarest class."""
    number = min(_FOLDS if len(labels) < _MANY else _FEWER_FOLDS, int(np.bincount(labels).min()))
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = (np.arange(len(rows)) + rng.integers(number)) % number
    return [_fold(gaussian, labels, np.flatnonzero(fold == i)) for i in range(number)]


def _fold(gaussian: Gaussian, labels: Labels, out: NDArray[np.int64]) -> Fold:
    kept = np.setdiff1d(np.arange(len(labels)), out)
    return Fold(gaussian[kept], labels[kept], gaussian[out], labels[out])


def choose(
    parts: Sequence[Fold],
    classes: int,
    *,
    features: Sequence[str],
    heads: Sequence[str],
    c_values: Sequence[float],
    seed: int,
) -> Trial:
    """Return the simplest setting whose log-loss over all rows held out is the smallest, or as good as that.

    Simple are the features and heads named first, and a small C. As good is what is within one standard error of the
    difference. Features and C are chosen with the first head; the other heads are then tried with these.
    """
    found = [trial for name in features for trial in _trials(parts, classes, name, heads[0], sorted(c_values), seed)]
    first = _simplest(found)
    others = [
        trial
        for head in heads[1:]
        for trial in _trials(parts, classes, first.choice.features, head, [first.choice.C], seed)
    ]
    return _simplest([first, *others])


class _Judged(NamedTuple):
    """For each temperature and row: log-loss, smoothed log-loss, whether the prediction is correct."""

    log_losses: Array64
    losses: Array64
    right: NDArray[np.bool_]


def _judged(design: Design, labels: Labels, weights: Weights, doubt: float) -> _Judged:
    """Judge weights; with doubt, a little of the loss is for any class."""
    shape = len(TEMPERATURES), len(labels)
    found = _Judged(np.empty(shape), np.empty(shape), np.empty(shape, bool))
    for rows, p in at_temperatures(design, weights, TEMPERATURES, _DRAWS):
        logs, own = np.log(np.maximum(p, 1e-30)), labels[rows]
        found.log_losses[:, rows] = -logs[:, np.arange(len(own)), own]
        found.losses[:, rows] = (1 - doubt) * found.log_losses[:, rows] - doubt * logs.mean(axis=2)
        found.right[:, rows] = p.argmax(axis=2) == own
    return found


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting, and what it was judged by: the losses of the rows held out, with some doubt."""

    choice: Choice
    losses: Array64  # (rows,)


def _simplest(trials: Sequence[Trial]) -> Trial:
    best = min(trials, key=lambda trial: float(trial.losses.mean()))
    for trial in trials:
        worse = trial.losses - best.losses
        if worse.mean() <= worse.std() / np.sqrt(len(worse)) + _ROUNDING:
            return trial
    return best


def _trials(
    parts: Sequence[Fold], classes: int, features: str, head: str, c_values: Sequence[float], seed: int
) -> list[Trial]:
    """Return a trial for each C, at its best temperature."""
    # As if one more row had been of any class: otherwise, few rows without an error would call for certainty.
    doubt = 1 / (sum(len(part.held_out_labels) for part in parts) + 2)
    by_part = [_by_c(part, classes, features, head, c_values, doubt, seed) for part in parts]
    trials = []
    for C, judged in zip(c_values, zip(*by_part, strict=True), strict=True):
        log_losses, losses, right = (np.concatenate(side, axis=1) for side in zip(*judged, strict=True))
        best = int(losses.mean(axis=1).argmin())
        measured = float(log_losses[best].mean()), float(right[best].mean())
        trials.append(Trial(Choice(features, head, C, float(TEMPERATURES[best]), *measured), losses[best]))
    return trials


def _by_c(
    part: Fold, classes: int, features: str, head: str, c_values: Sequence[float], doubt: float, seed: int
) -> list[_Judged]:
    """Train with each C, and judge by the rows held out."""
    scaling = Scaling.fit(part.train, features)
    train, held_out = scaling(part.train), scaling(part.held_out)
    found = []
    weights: Weights | None = None
    for C in c_values:
        weights = fit(train, part.train_labels, classes, head, C, seed=seed, start=weights)
        found.append(_judged(held_out, part.held_out_labels, weights, doubt))
    return found
