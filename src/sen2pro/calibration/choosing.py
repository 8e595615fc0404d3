"""Which candidate to take: chosen by cross-validation, and judged by a second one around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.candidates import STRENGTHS, WITH, WITHOUT, Fitted, fit, losses, out_of_fold
from sen2pro.validation import Array64

_FOLDS = 5
_FEW = 200  # pairs: from less, curves of many steps are noise, and the pull to the shipped slope is at least so strong
_CURVES = ("beta", "isotonic")
Masks = list[NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The candidate that was chosen, fitted on all pairs, and the logits of the pairs (n,) out of fold."""

    fitted: Fitted
    logits: Array64


def folds(labels: Array64, groups: NDArray[np.int64], seed: int = 0) -> Masks:
    """Return masks of the pairs that each fold holds out; pairs of one group are in one fold."""
    from sklearn.model_selection import StratifiedGroupKFold

    rarer = min(len(np.unique(groups[labels == kind])) for kind in (0, 1))
    splitter = StratifiedGroupKFold(min(_FOLDS, max(rarer, 2)), shuffle=True, random_state=seed)
    held = [np.isin(np.arange(len(labels)), test) for _, test in splitter.split(groups, labels, groups)]
    return [mask for mask in held if mask.any()]


def choose(
    names: Sequence[str], features: Array64, labels: Array64, groups: NDArray[np.int64], slope: float, seed: int = 0
) -> Chosen:
    """Choose by log-loss: the simplest candidate that is within one standard error of the best.

    The standard error is that of the difference of the two, pair by pair. Of each candidate the strength of the pull
    to the shipped slope is chosen first; from few pairs it is not left to chance, and only straight lines are tried.
    """
    masks = folds(labels, groups, seed)
    n = len(labels)
    names = [name for name in names if n >= _FEW or name not in _CURVES or len(names) == 1]
    drawn = [strength for strength in STRENGTHS if not slope or strength >= _FEW / n]
    found: dict[str, tuple[float, Array64]] = {}
    for name in names:
        tried = {
            strength: out_of_fold(name, features, labels, masks, strength, slope)
            for strength in ({"isotonic": STRENGTHS[:1], "beta": STRENGTHS}.get(name, drawn))
        }
        strength = min(tried, key=lambda each: float(losses(tried[each], labels).mean()))
        found[name] = strength, tried[strength]
    costs = {name: losses(logits, labels) for name, (_, logits) in found.items()}
    best = min(costs, key=lambda name: float(costs[name].mean()))
    chosen = next(name for name in names if about_as_good(costs[name] - costs[best]))
    strength, logits = found[chosen]
    return Chosen(fit(chosen, features, labels, strength, slope), logits)


def about_as_good(excess: Array64) -> bool:
    """Tell whether losses exceed others (n,) by at most one standard error."""
    return bool(excess.mean() <= excess.std() / np.sqrt(len(excess)))


def choose_both(
    features: Array64, labels: Array64, groups: NDArray[np.int64], slope: float, seed: int = 0
) -> tuple[Chosen, Chosen]:
    """Return the best without the distribution, and the best with it."""
    without, with_ = (choose(names, features, labels, groups, slope, seed) for names in (WITHOUT, WITH))
    return without, with_


def better(without: Chosen, with_: Chosen, labels: Array64) -> Chosen:
    """Return the one with the smaller log-loss out of fold: the distribution costs nothing to take along."""
    gain = losses(without.logits, labels) - losses(with_.logits, labels)
    return with_ if gain.mean() > 0 else without


def judged(
    features: Array64, labels: Array64, groups: NDArray[np.int64], slope: float, seed: int = 0
) -> tuple[Array64, Array64]:
    """Return the logits (n,) of the best without and of the best with the distribution, by nested cross-validation.

    Each pair is scored by candidates that were chosen and fitted without its fold.
    """
    without, with_ = np.empty(len(labels)), np.empty(len(labels))
    for held in folds(labels, groups, seed + 1):
        rest = ~held
        if len(np.unique(labels[rest])) < 2:
            rest = np.ones(len(labels), bool)
        both = choose_both(features[rest], labels[rest], groups[rest], slope, seed)
        for found, chosen in zip((without, with_), both, strict=True):
            found[held] = chosen.fitted.logits(features[held])
    return without, with_
