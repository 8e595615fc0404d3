"""Linear heads that see the distribution of a sentence, not only its centre; and how their settings are chosen.

Features are x ~ N(mean, noise); the logits are W x + b. A head minimises the expected cross-entropy over the noise,
plus |W|^2 / 2C. `sampled` averages it over samples mean + std * eps. `expected` takes it to second order: the loss at
the mean plus sum_j noise_j Var_p(W_j) / 2, the variance over the classes with their probabilities p. Where the noise
moves the logits by much, that penalises less than the true average.

Features, head, regularisation and temperature are chosen by the log-loss on rows that were not trained on. A strong
penalty gives the best directions from a few examples, but probabilities that are far too even. So the size of the
weights is chosen apart from the penalty: all of them are divided by a temperature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sen2pro.gaussian import Gaussian
from sen2pro.io.bundle import Finite, Positive
from sen2pro.validation import Array64, Labels

FEATURES, HEADS = ("mean", "mean+variance"), ("expected", "sampled")
# The variances of a sentence say far less of its topic than its mean does, and ten examples cannot teach a head to
# overlook hundreds of columns: so they start out small. Chosen on AG News' validation set.
_VARIANCE_WEIGHT = 0.3
_COPIES, _MOST_ROWS = 16, 8000  # samples of each sentence when training, and of all sentences
_DRAWS = 256  # of the logits when predicting
C_VALUES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
TEMPERATURES = 2.0 ** -np.arange(-2, 10.5, 0.5)
_FOLDS, _FEWER_FOLDS, _MANY = 5, 3, 500
_JUDGING_DRAWS = 32
_ROUNDING = 1e-9  # a smaller gain is rounding
_CHUNK, _NUMBERS = 512, 1 << 18  # most rows whose draws are in memory at once, and most numbers of them


@dataclass(frozen=True, eq=False)
class Design:
    """Features (n, d) and the noise of the first k columns, k <= d; without noise k = 0.

    The noise is a variance for each (n, k), or for full covariances their roots (n, r, k): each is root^T root.
    """

    features: Array64
    noise: Array64

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centres of the columns, and one scale for the means and one for the variances.

    One scale a block and not a column: from a few dozen examples, the spread of a single column is mostly chance.
    """

    features: str
    mean_centre: Array64  # (k,)
    mean_scale: float
    variance_centre: Array64  # (k,)
    variance_scale: float

    @classmethod
    def fit(cls, gaussian: Gaussian, features: str) -> Scaling:
        """Learn centres and scales from the training part."""
        blocks = [array.astype(np.float64) for array in (gaussian.mean, gaussian.variance)]
        centres = [x.mean(axis=0) for x in blocks]
        scales = [float(np.sqrt(np.square(x - x.mean(axis=0)).mean())) or 1.0 for x in blocks]
        return cls(features, centres[0], scales[0], centres[1], scales[1] / _VARIANCE_WEIGHT)

    def __call__(self, gaussian: Gaussian) -> Design:
        """Return the features of n Gaussians: (n, k) or (n, 2 k), noise on the first k."""
        mean = (gaussian.mean.astype(np.float64) - self.mean_centre) / self.mean_scale
        noise = gaussian.variance.astype(np.float64) / self.mean_scale**2
        if self.features == "mean":
            return Design(mean, noise)
        variance = (gaussian.variance.astype(np.float64) - self.variance_centre) / self.variance_scale
        return Design(np.concatenate([mean, variance], axis=1), noise)


@dataclass(frozen=True, eq=False)
class Weights:
    """A fitted head: W (classes, d) and b (classes,)."""

    matrix: Array64
    bias: Array64

    def cooled(self, temperature: float) -> Weights:
        """Return all weights divided by a temperature: below 1, probabilities become surer."""
        return Weights(self.matrix / temperature, self.bias / temperature)


def fit(
    design: Design, labels: Labels, classes: int, head: str, C: float, *, seed: int = 0, start: Weights | None = None
) -> Weights:
    """Return the weights that minimise the expected cross-entropy; `start` makes it faster.

    Where the noise is far greater than the spread of the features, there may be several minima.
    """
    from scipy.optimize import minimize  # which only fitting needs

    penalty = 1 / (C * len(design))
    if head == "sampled":
        design, labels = _noisy(design, labels, seed)
    shape = classes, design.features.shape[1] + 1

    def objective(flat: Array64) -> tuple[float, Array64]:
        weights = flat.reshape(shape)
        loss, gradient = expected_loss(design, labels, weights)
        loss += penalty / 2 * float(np.square(weights[:, :-1]).sum())
        gradient[:, :-1] += penalty * weights[:, :-1]
        return loss, gradient.ravel()

    first = np.zeros(shape) if start is None else np.c_[start.matrix, start.bias]
    minimum = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-5})
    matrix = minimum.x.reshape(shape)
    return Weights(matrix[:, :-1].copy(), matrix[:, -1].copy())


def expected_loss(design: Design, labels: Labels, weights: Array64) -> tuple[float, Array64]:
    """Return the expected cross-entropy, on average over the rows, and its gradient; exact where there is no noise.

    The weights are (classes, d + 1), the bias last.
    """
    x, n, k = design.features, len(design), design.noise.shape[-1]
    logs = x @ weights[:, :-1].T + weights[:, -1]
    logs -= logs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    p, own = np.exp(logs), (np.arange(n), labels)
    diagonal, mixed, by_weights = _spread(design.noise, weights[:, :k], p)
    by_p = diagonal / 2 - mixed
    by_logits = p * (1 + by_p - (p * by_p).sum(axis=1, keepdims=True))
    by_logits[own] -= 1
    gradient = np.c_[by_logits.T @ x, by_logits.sum(axis=0)]
    gradient[:, :k] += by_weights
    return float((p * (diagonal - mixed)).sum() / 2 - logs[own].sum()) / n, gradient / n


def _spread(noise: Array64, weights: Array64, p: Array64) -> tuple[Array64, Array64, Array64]:
    """Return, with S the covariance of the logits: its diagonal, S p, and the gradient of sum_i Var_p / 2 by W."""
    if noise.ndim == 3:
        roots = noise @ weights.T  # (n, r, classes)
        middle = roots @ p[:, :, None]  # (n, r, 1)
        by_roots = p[:, None] * (roots - middle)
        gradient = by_roots.reshape(-1, len(weights)).T @ noise.reshape(-1, noise.shape[2])
        return np.square(roots).sum(axis=1), (roots * middle).sum(axis=1), gradient
    middle = noise * (p @ weights)
    return noise @ np.square(weights).T, middle @ weights.T, (p.T @ noise) * weights - p.T @ middle


def _noisy(design: Design, labels: Labels, seed: int) -> tuple[Design, Labels]:
    """Return copies of each row, mean + std * eps."""
    copies = int(np.clip(_MOST_ROWS // len(design), 1, _COPIES))
    noise, k = design.noise, design.noise.shape[-1]
    eps = np.random.default_rng(seed).standard_normal((copies, *noise.shape[:2]))
    features = np.repeat(design.features[None], copies, axis=0)
    features[..., :k] += np.sqrt(noise) * eps if noise.ndim == 2 else np.einsum("cnr,nrk->cnk", eps, noise)
    flat = features.reshape(-1, features.shape[-1])
    return Design(flat, np.empty((len(flat), 0))), np.tile(labels, copies)


def probabilities(design: Design, weights: Weights) -> Array64:
    """Return the probabilities (n, classes), averaged over the noise; a row's do not depend on the others."""
    parts = [p[0] for _, p in at_temperatures(design, weights, np.ones(1), _DRAWS)]
    return np.concatenate([np.empty((0, len(weights.bias))), *parts])


def at_temperatures(
    design: Design, weights: Weights, temperatures: Array64, draws: int
) -> Iterator[tuple[slice, Array64]]:
    """Yield rows, and their probabilities (temperatures, rows, classes) when all weights are divided by each."""
    logits = design.features @ weights.matrix.T + weights.bias
    k, classes = design.noise.shape[-1], len(weights.bias)
    eps = np.random.default_rng(0).standard_normal((draws // 2, classes))
    eps = np.concatenate([eps, -eps]) if k else np.zeros((1, classes))  # in pairs, so that their mean is 0
    step = max(1, min(_CHUNK, _NUMBERS // (classes * max(classes, draws))))
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        roots = np.linalg.cholesky(_covariance(design.noise[rows], weights.matrix[:, :k]))
        drawn = np.moveaxis(logits[rows, None] + eps @ roots.swapaxes(1, 2), 2, 0).copy()  # (classes, rows, draws)
        drawn -= drawn.max(axis=0)
        powers = (np.exp(drawn / temperature) for temperature in temperatures)
        yield rows, np.stack([(each / each.sum(axis=0)).mean(axis=2).T for each in powers])


def _covariance(noise: Array64, weights: Array64) -> Array64:
    """Return the covariance of the logits (n, classes, classes), a trace added so that it always has a root."""
    if noise.ndim == 3:
        roots = noise @ weights.T
        covariance = roots.swapaxes(1, 2) @ roots
    else:
        covariance = (noise[:, None] * weights) @ weights.T
    trace = covariance.trace(axis1=1, axis2=2)[:, None, None]
    return np.asarray(covariance + (1e-9 * trace + 1e-30) * np.eye(len(weights)))


@dataclass(frozen=True)
class Choice:
    """The chosen settings, and their log-loss and accuracy on rows not trained on."""

    features: str
    head: str
    C: Finite
    temperature: Positive
    log_loss: float
    accuracy: Finite

    def fit(self, gaussian: Gaussian, labels: Labels, classes: int, seed: int) -> tuple[Scaling, Weights]:
        """Fit a head with these settings: return how Gaussians become its features, and its weights."""
        scaling = Scaling.fit(gaussian, self.features)
        weights = fit(scaling(gaussian), labels, classes, self.head, self.C, seed=seed)
        return scaling, weights.cooled(self.temperature)


class Options(NamedTuple):
    """The settings to choose from; features and heads named first are simple."""

    features: Sequence[str] = FEATURES
    heads: Sequence[str] = HEADS
    c_values: Sequence[float] = C_VALUES


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


def choose(parts: Sequence[Fold], classes: int, options: Options, seed: int) -> Trial:
    """Return the simplest setting whose log-loss over all rows held out is the smallest, or as good as that.

    A small C is simple, too. As good means within one standard error of the difference. Features and C are chosen with
    the first head; the other heads are then tried with these.
    """
    features, heads, values = options.features, options.heads, sorted(options.c_values)
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
    for rows, p in at_temperatures(design, weights, TEMPERATURES, _JUDGING_DRAWS):
        logs, own = np.log(np.maximum(p, 1e-30)), labels[rows]
        log_losses = -logs[:, np.arange(len(own)), own]
        judged[:, :, rows] = log_losses, (1 - doubt) * log_losses - doubt * logs.mean(axis=2), p.argmax(axis=2) == own
    return judged
