"""Few samples are a poor estimate of hundreds of variances: shrink them towards a prior, as far as the data say.

The model is the conjugate one (Smyth, 2004): a sample variance is sigma^2 chi^2_nu / nu, and sigma^2 is itself a draw,
tau^2 nu0 / chi^2_nu0, around a prior guess tau^2 whose worth is nu0 samples. The level of a sentence (its average
log-variance) is shrunk apart from its dimensions, because few samples tell far more about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import floored
from sen2pro.validation import Array64


@dataclass(frozen=True)
class Strength:
    """How much a prior and a sample are worth, for one kind of uncertainty."""

    dof: float  # nu0: what the prior says of one dimension is worth this many degrees of freedom
    efficiency: float = 1.0  # what a sample is worth: 1 for Gaussian samples, less for those with heavy tails
    bias: float = 1.0  # how much too small the log of a sample variance is, by that of Gaussian samples
    level: float = np.inf  # variance of the prior's error in the level of a sentence; infinite if it says nothing of it
    level_noise: float = 0.0  # variance of the level of a sentence from nu degrees of freedom, times nu

    @property
    def samples(self) -> float:
        """The number of samples whose log-variances, of dimensions and level together, err as much as the prior's."""
        return 1 + dof_of_noise(polygamma(1, self.dof / 2) + self.level) / max(self.efficiency, 1e-9)


def polygamma(order: int, x: float) -> float:
    """Return a derivative of the logarithm of the gamma function (1: trigamma)."""
    import torch

    return float(torch.special.polygamma(order, torch.tensor(x, dtype=torch.float64)))


def log_bias(dof: float) -> float:
    """Return how much too small the logarithm of a variance is on average, for Gaussian samples.

    >>> variances = np.random.default_rng(0).normal(size=(50_000, 5)).var(axis=1, ddof=1)  # of a true variance of 1
    >>> bool(abs(np.log(variances).mean() + log_bias(4)) < 0.01)
    True
    """
    import torch

    return float(np.log(dof / 2) - torch.special.digamma(torch.tensor(dof / 2, dtype=torch.float64)))


def dof_of_noise(variance: float) -> float:
    """Return the degrees of freedom at which the logarithm of a variance has this variance: trigamma(dof / 2)."""
    if not 1e-6 < variance < 1e6:
        return 2e6 if variance <= 1e-6 else 2e-3
    x = 0.5 + 1 / variance  # Newton's method on 1 / trigamma, which is convex
    for _ in range(50):
        value = polygamma(1, x)
        step = value * (1 - value / variance) / polygamma(2, x)
        x += step
        if abs(step) < 1e-10 * x:
            break
    return 2 * x


def shrunk(variance: NDArray[Any], count: int, prior: NDArray[Any], strength: Strength) -> Array64:
    """Join the variances (n, k) of `count` samples, divided by count - 1, with those of a prior.

    Dimensions with a prior of 0 never vary and stay at 0.

    >>> shrunk(np.array([[4.0]]), 5, np.array([[1.0]]), Strength(dof=4, level=0.0)).round(2)  # worth 4 and 4
    array([[2.5]])
    """
    nu, error = count - 1, strength.level
    live = prior > 0
    safe = np.where(live, prior, 1.0)
    excess = np.where(live, np.log(floored(variance) / safe) + strength.bias * log_bias(nu), 0.0)
    level = excess.sum(axis=-1, keepdims=True) / np.maximum(live.sum(axis=-1, keepdims=True), 1)
    weight = 1.0 if np.isinf(error) else error / max(error + strength.level_noise / nu, 1e-30)
    evidence = strength.efficiency * nu
    result = (strength.dof * prior * np.exp(weight * level) + evidence * variance) / (strength.dof + evidence)
    return np.asarray(np.where(live, result, 0.0))
