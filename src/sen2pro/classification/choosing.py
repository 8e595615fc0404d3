"""Choose features, head, regularisation and temperature by the log-loss on rows that were not trained on.

A strong penalty gives the best directions from a few examples, but probabilities that are far too even; so the size of
the weights is chosen apart from the penalty, by a factor on all of them (a temperature).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Design, Labels, Weights, at_temperatures, fit
from sen2pro.gaussian import Array64, Gaussian

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # values of C
FACTORS = 2.0 ** np.arange(-2, 10.5, 0.5)
_FOLDS, _FEWER_FOLDS, _MANY = 5, 3, 500
_DRAWS = 32


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the log-loss that it had on rows not trained on."""

    features: str
    head: str
    C: float
    temperature: float
    log_loss: float


@dataclass(frozen=True, eq=False)
class Part:
    """Rows to train on and rows to judge by."""

    train: Gaussian
    train_labels: Labels
    held_out: Gaussian
    held_out_labels: Labels


def folds(gaussian: Gaussian, labels: Labels, seed: int) -> list[Part]:
    """Cut the rows into parts for cross-validation, every class spread evenly; no more folds than the rarest class."""
    number = min(_FOLDS if len(labels) < _MANY else _FEWER_FOLDS, int(np.bincount(labels).min()))
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = (np.arange(len(rows)) + rng.integers(number)) % number
    return [_part(gaussian, labels, np.flatnonzero(fold == i)) for i in range(number)]


def _part(gaussian: Gaussian, labels: Labels, out: NDArray[np.int64]) -> Part:
    kept = np.setdiff1d(np.arange(len(labels)), out)
    return Part(gaussian[kept], labels[kept], gaussian[out], labels[out])


def choose(
    parts: Sequence[Part],
    classes: int,
    *,
    features: Sequence[str],
    heads: Sequence[str],
    penalties: Sequence[float],
    seed: int,
) -> Choice:
    """Return the simplest setting whose log-loss over all rows held out is the smallest, or as good as that.

    Simple are the features and heads named first, and strong penalties; as good is what is within one standard error of
    the difference. Features and penalty are chosen with the first head; the other heads are then tried with these.
    """
    found = [trial for name in features for trial in _trials(parts, classes, name, heads[0], sorted(penalties), seed)]
    first = _simplest(found)
    others = [
        trial
        for head in heads[1:]
        for trial in _trials(parts, classes, first.choice.features, head, [first.choice.C], seed)
    ]
    return _simplest([first, *others]).choice


def best_factor(design: Design, labels: Labels, weights: Weights) -> float:
    """Return the factor on all weights that has the smallest log-loss on rows not trained on."""
    logs = np.log(np.maximum(at_temperatures(design, weights, FACTORS, _DRAWS), 1e-30))
    return float(FACTORS[_smoothed(logs, labels, 1 / (len(labels) + 2)).mean(axis=1).argmin()])


def _smoothed(logs: Array64, labels: Labels, doubt: float) -> Array64:
    """Return the log-loss (factors, rows) of log-probabilities (factors, rows, classes), a little for any class."""
    own = logs[:, np.arange(len(labels)), labels]
    return np.asarray(-(1 - doubt) * own - doubt * logs.mean(axis=2))


@dataclass(frozen=True, eq=False)
class _Trial:
    choice: Choice
    losses: Array64  # (rows,)


def _simplest(trials: Sequence[_Trial]) -> _Trial:
    best = min(trials, key=lambda trial: trial.choice.log_loss)
    for trial in trials:
        worse = trial.losses - best.losses
        if worse.mean() <= worse.std() / np.sqrt(len(worse)):
            return trial
    return best


def _trials(
    parts: Sequence[Part], classes: int, features: str, head: str, penalties: Sequence[float], seed: int
) -> list[_Trial]:
    """Return a trial for each penalty, with the best factor."""
    # As if one more row had been of any class: otherwise, few rows without an error would call for certainty.
    doubt = 1 / (sum(len(part.held_out_labels) for part in parts) + 2)
    losses = np.concatenate([_losses(part, classes, features, head, penalties, doubt, seed) for part in parts], axis=2)
    best = losses.mean(axis=2).argmin(axis=1)
    return [
        _Trial(Choice(features, head, C, float(FACTORS[factor]), float(rows[factor].mean())), rows[factor])
        for C, factor, rows in zip(penalties, best, losses, strict=True)
    ]


def _losses(
    part: Part, classes: int, features: str, head: str, penalties: Sequence[float], doubt: float, seed: int
) -> Array64:
    """Return the log-loss on the rows held out: (penalties, factors, rows)."""
    scaling = Scaling.fit(part.train, features)
    train, held_out = scaling(part.train), scaling(part.held_out)
    losses = []
    weights: Weights | None = None
    for C in penalties:
        weights = fit(train, part.train_labels, classes, head, C, seed=seed, start=weights)
        logs = np.log(np.maximum(at_temperatures(held_out, weights, FACTORS, _DRAWS), 1e-30))
        losses.append(_smoothed(logs, part.held_out_labels, doubt))
    return np.stack(losses)
