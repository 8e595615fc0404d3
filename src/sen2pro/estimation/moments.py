"""Stage 3, estimation: samples become a mean and a covariance (Eq. 4), kept diagonal, banded or full."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.settings import COMBINATIONS
from sen2pro.validation import Array64, check_numbers, check_text

ESTIMATORS = ("diagonal", "banded(b)", "full")


def estimate(samples: NDArray[Any], estimator: str = "diagonal") -> tuple[Array64, Array64]:
    """Estimate mean and covariance from samples; the covariance divides by N, as Eq. 4 does.

    Parameters
    ----------
    samples
        (..., N, k), for instance what `Sen2Pro.sample` returns.
    estimator
        `diagonal` (the paper's), `banded(b)` (keeps entries with |i-j| <= b) or `full` (the paper's SCE).

    Returns
    -------
    mean, covariance
        (..., k), and (..., k) for `diagonal` and `banded(0)`, (..., k, k) otherwise.

    Examples
    --------
    >>> samples = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> mean, variance = estimate(samples)
    >>> mean, variance
    (array([1., 1.]), array([1., 1.]))
    >>> estimate(samples, "full")[1]
    array([[1., 1.],
           [1., 1.]])
    """
    band = re.fullmatch(r"banded\(([0-9]{1,9})\)", check_text("estimator", estimator))
    if not band:
        if estimator.startswith("banded("):
            raise Sen2ProError(f"give the number of bands, for instance 'banded(3)', not {short_repr(estimator)}")
        one_of("estimator", estimator, ESTIMATORS)
    samples = check_numbers("samples", samples, axes=("sentence", "sample", "dimension"))
    if samples.ndim < 2 or 0 in samples.shape[-2:]:
        raise Sen2ProError(f"samples must have shape (..., N, k) with N > 0 and k > 0, not {samples.shape}")
    # The first sample is taken off before averaging, so that identical samples centre to exactly 0.
    first = samples[..., :1, :].astype(np.float64)
    shifted = samples - first
    offset = shifted.mean(axis=-2, keepdims=True)
    centred, mean = shifted - offset, (first + offset)[..., 0, :]
    if estimator in ("diagonal", "banded(0)"):
        return mean, np.asarray((centred**2).mean(axis=-2))
    covariance = np.swapaxes(centred, -1, -2) @ centred / samples.shape[-2]
    if band:
        covariance = np.triu(np.tril(covariance, int(band[1])), -int(band[1]))
    return mean, covariance


class Moments:
    """Running mean and variance of n sentences in float64: Welford's algorithm, parallel (Chan et al., 1979).

    >>> moments = Moments(sentences=1, dim=1)
    >>> moments.update(np.array([0, 0, 0]), np.array([[1.0], [3.0], [5.0]]))
    >>> moments.mean, moments.variance
    (array([[3.]]), array([[2.66666667]]))
    """

    def __init__(self, sentences: int, dim: int) -> None:
        self.count = np.zeros((sentences, 1))
        self.mean: Array64 = np.zeros((sentences, dim))
        self._squares: Array64 = np.zeros((sentences, dim))

    def update(self, index: NDArray[np.int64], samples: NDArray[Any]) -> None:
        """Add samples (r, k) of the sentences `index` (r,); equal indices must follow each other."""
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        sentence, count = index[starts], np.diff(starts, append=len(index))[:, None]
        first = samples[starts].astype(np.float64)
        shifted = samples - np.repeat(first, count[:, 0], axis=0)  # identical samples become exact zeros
        offset = np.add.reduceat(shifted, starts) / count
        squares = np.add.reduceat((shifted - np.repeat(offset, count[:, 0], axis=0)) ** 2, starts)

        before, total = self.count[sentence], self.count[sentence] + count
        delta = first + offset - self.mean[sentence]
        self._squares[sentence] += squares + delta**2 * (before * count / total)
        self.mean[sentence] += np.where(before == 0, delta, delta * (count / total))
        self.count[sentence] = total

    @property
    def variance(self) -> Array64:
        """Population variance (n, k); 0 where there is no sample."""
        return np.asarray(self._squares / np.maximum(self.count, 1))


def combine(
    estimates: Sequence[tuple[NDArray[Any], NDArray[Any]]], counts: Sequence[int], how: str
) -> tuple[Array64, Array64]:
    """Join the (mean, variance) of model and data uncertainty, estimated from `counts` samples each.

    `individual` averages the estimates, `unified` pools the samples. (The paper writes the pool as an intersection of
    two sets of samples, which is always empty; the union is what can be meant.) One estimate alone stays as it is.
    """
    one_of("combine", check_text("combine", how), COMBINATIONS)
    weights = np.ones(len(counts)) if how == "individual" else np.asarray(counts, np.float64)
    weighted = list(zip(weights / weights.sum(), estimates, strict=True))
    mean = sum(weight * mean for weight, (mean, _) in weighted)
    variance = sum(weight * variance for weight, (_, variance) in weighted)
    if how == "unified":
        variance = variance + sum(weight * (each - mean) ** 2 for weight, (each, _) in weighted)
    return np.asarray(mean), np.asarray(variance)


def log_bias(dof: float) -> float:
    """Return how much too small the logarithm of a variance is on average, for Gaussian samples.

    >>> variances = np.random.default_rng(0).normal(size=(50_000, 5)).var(axis=1, ddof=1)  # of a true variance of 1
    >>> bool(abs(np.log(variances).mean() + log_bias(4)) < 0.01)
    True
    """
    return float(np.log(dof / 2) - _scipy().digamma(dof / 2))


def noise_of_dof(dof: float) -> float:
    """Return the variance of the logarithm of a variance with these degrees of freedom: trigamma(dof / 2)."""
    return float(_scipy().polygamma(1, dof / 2))


def dof_of_noise(variance: float) -> float:
    """Return the degrees of freedom at which the logarithm of a variance has this variance, from 0.002 to 2 million."""
    if not 1e-6 < variance < 1e6:
        return 2e6 if variance <= 1e-6 else 2e-3
    from scipy.optimize import brentq

    return float(np.exp(brentq(lambda dof: np.log(noise_of_dof(np.exp(dof)) / variance), -7, 15, xtol=1e-12)))


def _scipy() -> Any:
    from scipy import special  # slow to import

    return special


def samples_worth(dof: float, efficiency: float, level: float) -> float:
    """Return the number of samples whose log-variances are as far from the truth as predicted ones.

    The error of a prediction is that of a sample variance of `dof` degrees of freedom in each dimension, and of the
    variance `level` in the level of a sentence. A sample is worth `efficiency` of a Gaussian one.
    """
    return 1 + dof_of_noise(noise_of_dof(dof) + level) / max(efficiency, 1e-9)
