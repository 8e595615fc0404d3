"""Linear heads that see the distribution of a sentence, and not only its centre.

Features are x ~ N(mean, noise), with a diagonal noise on the first columns; the logits are W x + b. What is minimised
is the expected cross-entropy over that noise, plus |W|^2 / 2C:

- `sampled`: the average over reparameterised samples, mean + std * eps;
- `expected`: in closed form, to second order: E loss = loss + sum_j noise_j Var_p(W_j) / 2, where the variance of a
  column of W is taken over the classes, weighted by their probabilities p.

The probabilities of a prediction are averaged over the noise as well: the logits are Gaussian, and few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sen2pro.gaussian import Array64

HEADS = ("expected", "sampled")
Labels = NDArray[np.int64]
_COPIES, _MOST_ROWS = 16, 8000  # samples of each sentence when training, and of all sentences
_DRAWS = 256  # of the logits when predicting
_CHUNK = 512  # rows whose draws are in memory at once


@dataclass(frozen=True, eq=False)
class Design:
    """Features (n, d) and the noise of the first k columns, k <= d; without noise k = 0.

    The noise is a variance for each (n, k), or for full covariances their roots (n, r, k): each is root^T root.
    """

    features: Array64
    noise: Array64

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: NDArray[np.int64]) -> Design:
        return Design(self.features[rows], self.noise[rows])


@dataclass(frozen=True, eq=False)
class Weights:
    """A fitted head: W (classes, d) and b (classes,)."""

    matrix: Array64
    bias: Array64

    def scaled(self, factor: float) -> Weights:
        """Return all weights times a factor."""
        return Weights(self.matrix * factor, self.bias * factor)


def fit(
    design: Design, labels: Labels, classes: int, head: str, C: float, *, seed: int = 0, start: Weights | None = None
) -> Weights:
    """Return the weights that minimise the expected cross-entropy; `start` makes it faster, not different."""
    from scipy.optimize import minimize

    rows = len(design)
    if head == "sampled":
        design, labels = _noisy(design, labels, seed)
    x, noise, y = (torch.from_numpy(a) for a in (design.features, design.noise, labels))
    d = x.shape[1]

    def objective(flat: Array64) -> tuple[float, Array64]:
        weights = torch.from_numpy(flat.reshape(classes, d + 1)).requires_grad_()
        loss = _cross_entropy(weights, x, noise, y) + weights[:, :d].square().sum() / (2 * C * rows)
        (gradient,) = torch.autograd.grad(loss, weights)
        return loss.item(), gradient.numpy().ravel()

    first = np.zeros((classes, d + 1)) if start is None else np.c_[start.matrix, start.bias]
    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-5})
    matrix = found.x.reshape(classes, d + 1)
    return Weights(matrix[:, :d].copy(), matrix[:, d].copy())


def _cross_entropy(weights: Tensor, x: Tensor, noise: Tensor, y: Tensor) -> Tensor:
    """Return the expected cross-entropy, on average over the rows; exact where there is no noise."""
    logs = (x @ weights[:, :-1].T + weights[:, -1]).log_softmax(dim=1)
    losses = -logs.gather(1, y[:, None])[:, 0]
    noisy, p = weights[:, : noise.shape[-1]], logs.exp()
    if noise.ndim == 3:
        logits = noise @ noisy.T  # (n, r, classes)
        squares = (logits.square() @ p[:, :, None]).sum(dim=(1, 2))
        losses = losses + (squares - (logits @ p[:, :, None]).square().sum(dim=(1, 2))) / 2
    elif noise.shape[1]:
        squares = (p * (noise @ noisy.square().T)).sum(dim=1)
        losses = losses + (squares - (noise * (p @ noisy).square()).sum(dim=1)) / 2
    return losses.mean()


def _noisy(design: Design, labels: Labels, seed: int) -> tuple[Design, Labels]:
    """Return copies of each row, mean + std * eps."""
    copies = int(np.clip(_MOST_ROWS // len(design), 1, _COPIES))
    eps = np.random.default_rng(seed).standard_normal((copies, *design.noise.shape))
    features = np.repeat(design.features[None], copies, axis=0)
    features[..., : design.noise.shape[1]] += np.sqrt(design.noise) * eps
    flat = features.reshape(-1, features.shape[-1])
    return Design(flat, np.empty((len(flat), 0))), np.tile(labels, copies)


def probabilities(design: Design, weights: Weights) -> Array64:
    """Return the probabilities (n, classes), averaged over the noise; a row's do not depend on the others."""
    return np.asarray(at_temperatures(design, weights, np.ones(1), _DRAWS)[0])


def at_temperatures(design: Design, weights: Weights, factors: Array64, draws: int) -> Array64:
    """Return the probabilities when all weights are multiplied by each of the factors: (factors, n, classes)."""
    logits = design.features @ weights.matrix.T + weights.bias
    k, classes = design.noise.shape[-1], len(weights.bias)
    result = np.empty((len(factors), *logits.shape))
    noisy = weights.matrix[:, :k]
    eps = np.random.default_rng(0).standard_normal((draws // 2, classes))
    eps = np.concatenate([eps, -eps]) if k else np.zeros((1, classes))  # in pairs, so that their mean is 0
    for start in range(0, len(logits), _CHUNK):
        rows = slice(start, start + _CHUNK)
        values, vectors = np.linalg.eigh(_covariance(design.noise[rows], noisy))
        roots = vectors * np.sqrt(np.maximum(values, 0))[:, None]
        drawn = logits[rows, None] + eps @ roots.swapaxes(1, 2)
        for i, factor in enumerate(factors):
            result[i, rows] = _softmax(factor * drawn).mean(axis=1)
    return result


def _covariance(noise: Array64, weights: Array64) -> Array64:
    """Return the covariance of the logits (n, classes, classes)."""
    if noise.ndim == 3:
        logits = noise @ weights.T
        return np.asarray(logits.swapaxes(1, 2) @ logits)
    pairs = (weights[:, None] * weights[None]).reshape(-1, weights.shape[1])
    return np.asarray(noise @ pairs.T).reshape(-1, len(weights), len(weights))


def _softmax(logits: Array64) -> Array64:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
