"""The candidates for a probability: curves over the cosine, and logistic regressions on a few features.

All of them take features (n, f), see `features.names`, and give logits (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from sen2pro.calibration.features import PLAIN
from sen2pro.validation import Array64

STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the pull to the shipped coefficients: 1 is that of a few labels
_STEPS = 50  # of Newton's method, at most
_NEAR = 1e-5  # a step so small is the last


@dataclass(frozen=True, eq=False)
class Scale:
    """Centre and spread of each feature, so that coefficients can be compared and shrunk alike."""

    centre: Array64
    spread: Array64

    @classmethod
    def of(cls, features: Array64) -> Scale:
        """Return those of some features (n, f); one that never varies, but for rounding, is left as it is."""
        centre, spread = features.mean(axis=0), features.std(axis=0)
        return cls(centre, np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, 1.0))

    def __call__(self, features: Array64) -> Array64:
        """Return features of mean 0 and spread 1."""
        return np.asarray((features - self.centre) / self.spread)


def _platt(x: Array64) -> Array64:
    return x[:, :1]


def _lengths(x: Array64) -> Array64:
    """Cosine and lengths, the square of the cosine, and its products with the lengths."""
    return _with_products(x[:, : len(PLAIN)])


def _with_products(x: Array64) -> Array64:
    """All features, and the product of the cosine with each: how much it counts may depend on the others."""
    return np.concatenate([x, x[:, :1] * x], axis=1)


def _beta(x: Array64) -> Array64:
    """Beta calibration (Kull et al. 2017) wants the logarithms of a share and of one minus it."""
    share = np.clip(x[:, 0] / 8 + 0.5, 1e-3, 1 - 1e-3)  # four spreads to each side of the middle
    return np.stack([np.log(share), -np.log1p(-share)], axis=1)


# Simple ones first: the one-standard-error rule takes the first that is about as good as the best.
DESIGNS: dict[str, Callable[[Array64], Array64]] = {
    "platt": _platt,
    "beta": _beta,
    "isotonic": _platt,
    "lengths": _lengths,
    "distribution": _with_products,
}
TITLES = {
    "platt": "Platt, cosine",
    "isotonic": "isotonic, cosine",
    "beta": "beta, cosine",
    "lengths": "logistic, cosine and lengths",
    "distribution": "logistic, with the distribution",
}
WITHOUT, WITH = ("platt", "beta", "isotonic", "lengths"), ("distribution",)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted candidate: `numbers` are an intercept and coefficients, or the places and heights of an isotonic fit."""

    name: str
    strength: float
    scale: Scale
    numbers: Array64

    def logits(self, features: Array64) -> Array64:
        """Return the logit of each pair (n,)."""
        design = DESIGNS[self.name](self.scale(features))
        if self.name == "isotonic":
            places, heights = self.numbers.reshape(2, -1)
            return np.asarray(logit(np.interp(design[:, 0], places, heights)))
        return np.asarray(design @ self.numbers[1:] + self.numbers[0])


def fit(name: str, features: Array64, labels: Array64, strength: float = 1.0, slope: float = 0.0) -> Fitted:
    """Fit a candidate; coefficients are drawn to 0, that of the cosine to a `slope`, the shipped one.

    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = (x[:, 0] > 0).astype(float)
    >>> fitted = fit("platt", x, y)
    >>> bool((fitted.logits(x)[y == 1] > 0).mean() > 0.9)
    True
    """
    scale = Scale.of(features)
    design = DESIGNS[name](scale(features))
    if name == "isotonic":
        return Fitted(name, 0.0, scale, _isotonic(design[:, 0], labels).ravel())
    centre = np.zeros(design.shape[1])
    if name != "beta":
        centre[0] = slope * scale.spread[0]
    return Fitted(name, strength, scale, logistic(design, labels, centre, strength))


def logistic(x: Array64, y: Array64, centre: Array64, strength: float) -> Array64:
    """Return intercept and coefficients of a logistic regression whose coefficients are drawn to a centre.

    It is the most probable one under a Gaussian prior of precision `strength`, by Newton's method. The intercept is
    all but free: it stays finite where all labels are of one kind.
    """
    ones = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    pull = np.r_[1e-6, np.full(x.shape[1], strength)]
    middle = np.r_[0.0, centre]
    weights = np.r_[logit((y.sum() + 1) / (len(y) + 2)), centre]

    def loss(w: Array64) -> float:
        z = ones @ w
        return float((np.logaddexp(0, z) - y * z).sum() + (pull * (w - middle) ** 2).sum() / 2)

    for _ in range(_STEPS):
        p = expit(ones @ weights)
        gradient = ones.T @ (p - y) + pull * (weights - middle)
        curvature = (ones * (p * (1 - p) + 1e-9)[:, None]).T @ ones + np.diag(pull)
        step, size, before = np.linalg.solve(curvature, gradient), 1.0, loss(weights)
        while loss(weights - size * step) > before + 1e-9 and size > 1e-4:
            size /= 2
        weights = weights - size * step
        if np.abs(step).max() < _NEAR:
            break
    return np.asarray(weights)


def _isotonic(x: Array64, y: Array64) -> Array64:
    """Return places and heights (2, m) of a rising curve, kept away from 0 and 1 by one label of each kind."""
    from sklearn.isotonic import isotonic_regression

    places, where = np.unique(x, return_inverse=True)
    counts = np.bincount(where).astype(np.float64)
    heights = isotonic_regression(np.bincount(where, y) / counts, sample_weight=counts)
    heights = (heights * len(y) + 1) / (len(y) + 2)
    kept = np.r_[True, np.diff(heights) != 0] | np.r_[np.diff(heights) != 0, True]  # the corners of the steps
    return np.stack([places[kept], heights[kept]])


def losses(logits: Array64, labels: Array64) -> Array64:
    """Return -log P(label) of each pair (n,)."""
    return np.asarray(np.logaddexp(0, logits) - labels * logits)


def level(logits: Array64, labels: Array64) -> tuple[float, float]:
    """Return shift and slope that set logits to the level of some labels; the order of the pairs stays as it is."""
    shift, slope = logistic(logits[:, None], labels, np.ones(1), 10.0)
    return (float(shift), float(slope)) if slope > 0 else (0.0, 1.0)


def out_of_fold(
    name: str, features: Array64, labels: Array64, folds: Sequence[NDArray[np.bool_]], strength: float, slope: float
) -> Array64:
    """Return the logits of all pairs (n,), each by a fit without its own fold; `folds` are masks of the held out."""
    found = np.empty(len(labels))
    for held in folds:
        found[held] = fit(name, features[~held], labels[~held], strength, slope).logits(features[held])
    return found
