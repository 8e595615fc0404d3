"""Choose features, head, regularisation and temperature by the log-loss on rows that were not trained on.

A strong penalty gives the best directions from a few examples, but probabilities that are far too even. So the size of
the weights is chosen apart from the penalty: all of them are divided by a temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sen2pro.classification.heads import Design, Scaling, Weights, at_temperatures, fit
from sen2pro.gaussian import Gaussian
from sen2pro.validation import Array64, Labels

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

    def fit(self, gaussian: Gaussian, labels: Labels, classes: int, seed: int) -> tuple[Scaling, Weights]:
        """Fit a head with these settings: return how Gaussians become its features, and its weights."""
        scaling = Scaling.fit(gaussian, self.features)
        weights = fit(scaling(gaussian), labels, classes, self.head, self.C, seed=seed)
        return scaling, weights.cooled(self.temperature)


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on and rows to judge by."""

    train: Gaussian
    train_labels: Labels
    held_out: Gaussian
    held_out_labels: Labels


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting, and what it was judged by: the losses of the rows held out, with some doubt."""

    choice: Choice
    losses: Array64  # (rows,)


def folds(gaussian: Gaussian, labels: Labels, seed: int) -> list[Fold]:
    """Cut the rows into parts for cross-validation, every class spread evenly; no more folds than the rarest class."""
    number = min(_FOLDS if len(labels) < _MANY else _FEWER_FOLDS, int(np.bincount(labels).min()))
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = (np.arange(len(rows)) + rng.integers(number)) % number
    sides = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(number)]
    return [Fold(gaussian[kept], labels[kept], gaussian[out], labels[out]) for kept, out in sides]


def choose(
    parts: Sequence[Fold], classes: int, *, features: Sequence[str], heads: Sequence[str], c_values: Sequence[float],
    seed: int,
) -> Trial:  # fmt: skip
    """Return the simplest setting whose log-loss over all rows held out is the smallest, or as good as that.

    Features and heads named first are simple, and so is a small C. As good means within one standard error of the
    difference. Features and C are chosen with the first head; the other heads are then tried with these.
    """
    values = sorted(c_values)
    first = _simplest([trial for name in features for trial in _trials(parts, classes, name, heads[0], values, seed)])
    name, C = first.choice.features, first.choice.C
    others = [trial for head in heads[1:] for trial in _trials(parts, classes, name, head, [C], seed)]
    return _simplest([first, *others])


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
    by_c: list[list[Array64]] = [[] for _ in c_values]
    for part in parts:
        scaling = Scaling.fit(part.train, features)
        train, held_out = scaling(part.train), scaling(part.held_out)
        weights: Weights | None = None
        for C, judged in zip(c_values, by_c, strict=True):
            weights = fit(train, part.train_labels, classes, head, C, seed=seed, start=weights)
            judged.append(_judged(held_out, part.held_out_labels, weights, doubt))
    trials = []
    for C, judged in zip(c_values, by_c, strict=True):
        log_losses, losses, right = np.concatenate(judged, axis=2)
        best = int(losses.mean(axis=1).argmin())
        measured = float(log_losses[best].mean()), float(right[best].mean())
        trials.append(Trial(Choice(features, head, C, float(TEMPERATURES[best]), *measured), losses[best]))
    return trials


def _judged(design: Design, labels: Labels, weights: Weights, doubt: float) -> Array64:
    """Return, of each temperature and row: log-loss, the same with doubt (a little is for any class), whether right."""
    judged = np.empty((3, len(TEMPERATURES), len(labels)))
    for rows, p in at_temperatures(design, weights, TEMPERATURES, _DRAWS):
        logs, own = np.log(np.maximum(p, 1e-30)), labels[rows]
        log_losses = -logs[:, np.arange(len(own)), own]
        judged[:, :, rows] = log_losses, (1 - doubt) * log_losses - doubt * logs.mean(axis=2), p.argmax(axis=2) == own
    return judged
