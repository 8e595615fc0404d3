"""Fit a head: the samples of a corpus are the teacher, one plain pass is the pupil, ridge regression the lesson.

All of it is in closed form. Targets are turned to their principal components, each with a penalty of its own, chosen by
leave-one-out error; the hidden states to read and the scale to predict variances on are chosen on sentences held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.checks import MOST_SAMPLES, check_whole, share
from sen2pro.errors import Sen2ProError, shown
from sen2pro.estimation.head import TRANSFORMS, Coverage, Head, Linear, basis, space_of
from sen2pro.estimation.shrinkage import Strength, dof_of_noise, log_bias
from sen2pro.gaussian import floored
from sen2pro.progress import Show, progress
from sen2pro.sampling.states import States
from sen2pro.types import Array, Array64

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

Rows = NDArray[np.int64]  # which sentences

_PENALTIES = (0.0, *np.geomspace(1, 1e6, 13), np.inf)
_KEPT = 0.97  # of the gain of all components, when the least useful ones are dropped
_AXES = 64
_AT_LEAST = 200  # sentences
Candidates = dict[str, tuple[int, ...] | None]  # name -> hidden states that are read; None: the length alone
_FLOOR = 1e-4  # of a dimension's average variance: a smaller one is a lack of samples
_SURE = 0.25  # standard error of an R2 that is still reported


@dataclass
class Teacher:
    """What the samples of n sentences say, of one kind of uncertainty."""

    mean: Array  # (n, k)
    variance: Array  # (n, k), divided by N - 1
    halves: tuple[Array, Array]  # variances of either half of the samples
    count: int

    @classmethod
    def empty(cls, n: int, k: int, count: int) -> Teacher:
        """Make room for n sentences."""
        mean, variance, first, second = (np.empty((n, k), np.float32) for _ in range(4))
        return cls(mean, variance, (first, second), count)

    def put(self, rows: slice, samples: NDArray[Any]) -> None:
        """Take in the samples (r, N, k) of some sentences."""
        samples = samples.astype(np.float64)
        self.mean[rows], self.variance[rows] = samples.mean(axis=1), samples.var(axis=1, ddof=1)
        for i, half in enumerate(self.halves):
            half[rows] = samples[:, i::2].var(axis=1, ddof=1)


def learn(model: Sen2Pro, texts: list[str], samples: int, held_out: float, batch_size: int | None, show: Show) -> Head:
    """Sample a corpus of different sentences with a model, and fit a head for it; see `Sen2Pro.distill`."""
    if len(texts) < _AT_LEAST:
        raise Sen2ProError(
            f"a head is fitted on at least {_AT_LEAST} different sentences, better thousands, not {len(texts)}"
        )
    samples = check_whole("samples", samples, 6, MOST_SAMPLES)
    out = share(held_out)
    if out is None or not 0.05 <= out <= 0.5:
        raise Sen2ProError(f"held_out must be between 0.05 and 0.5, not {shown(held_out)}")
    prompt = model.encoder.prompt(None, None)
    counts = dict.fromkeys(model.sources, samples - samples % 2)
    teachers = {name: Teacher.empty(len(texts), model.dim, counts[name]) for name in model.sources}
    with progress(len(texts) * sum(counts.values()), show, threshold=256) as advance:
        for start in range(0, len(texts), 256):
            part = texts[start : start + 256]
            drawn = {name: np.empty((len(part), counts[name], model.dim), np.float32) for name in model.sources}
            for source, index, number, vectors in model.sampler.draw(part, prompt, counts, batch_size, advance):
                drawn[source][index, number] = vectors
            for name, array in drawn.items():
                teachers[name].put(slice(start, start + len(part)), array)
    return fit_for(model, texts, teachers, prompt=prompt, held_out=out, batch_size=batch_size)


def fit_for(
    model: Sen2Pro,
    texts: list[str],
    teachers: dict[str, Teacher],
    *,
    prompt: str = "",
    held_out: float = 0.2,
    batch_size: int | None = None,
) -> Head:
    """Fit a head for a model on sentences whose samples are there."""
    layers = range(max(model.encoder.depth - 1, 0))  # the last one is what the vector is made of
    states = model.sampler.plain(texts, prompt, layers=layers, batch_size=batch_size, warn=False)
    counts = "+".join(str(teacher.count) for teacher in teachers.values())
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return fit(
        states,
        model.sampler.finish(states.vectors),
        teachers,
        layers=layers,
        space=space_of(model.signature()),
        corpus={"hash": digest[:8], "size": len(texts)},
        teacher={"samples": counts, "seed": model.seed, "version": __version__},
        held_out=held_out,
    )


class _Ridge:
    """Ridge regression with unpenalised terms, decomposed once for any number of targets and penalties."""

    def __init__(self, terms: Array64, features: Array64) -> None:
        self.terms = terms
        size = np.sqrt((terms**2).mean(axis=0)) + 1e-12
        u, s, v = np.linalg.svd(terms / size, full_matrices=False)
        good = s > 1e-7 * s[0]  # functions of the length are much alike, or the same for some tokenizers
        self._q = u[:, good]
        self._solve = (v[good].T / s[good] @ self._q.T) / size[:, None]
        self._cross = self._solve @ features
        left = features - terms @ self._cross
        scale = np.sqrt((left**2).mean(axis=0))
        # A dimension that never varies holds nothing but rounding errors; it must not be blown up and read.
        self._scale = np.where(scale > 1e-6 * np.median(scale), scale, np.inf) if scale.size else scale
        left /= self._scale
        gram = left.T @ left if left.shape[0] >= left.shape[1] else left @ left.T
        values, vectors = np.linalg.eigh(gram)
        good = values > 1e-9 * max(values[-1], 1e-30) if len(values) else np.zeros(0, bool)
        self._s = np.sqrt(values[good])
        if left.shape[0] >= left.shape[1]:
            self._v = vectors[:, good]
            self._u = left @ self._v / self._s
        else:
            self._u = vectors[:, good]
            self._v = left.T @ self._u / self._s

    def fit(self, targets: Array64, layers: tuple[int, ...] | None, transform: str = "") -> tuple[Linear, Array64]:
        """Return the map, and what it predicts for each row when fitted on all the others."""
        coefficients = self._solve @ targets
        left = targets - self.terms @ coefficients
        _, _, directions = np.linalg.svd(left.T @ left)
        components = left @ directions.T
        inner = self._u.T @ components
        terms_leverage, squares = (self._q**2).sum(axis=1), self._u**2
        best = np.full(components.shape[1], np.inf)
        penalty = np.full(components.shape[1], np.inf)
        nothing = ((components / (1 - terms_leverage)[:, None]) ** 2).sum(axis=0)
        for value in _PENALTIES:
            shrink = self._s**2 / (self._s**2 + value) if np.isfinite(value) else np.zeros_like(self._s)
            leverage = terms_leverage + squares @ shrink
            if leverage.max() > 0.999:
                continue
            residual = (components - self._u @ (shrink[:, None] * inner)) / (1 - leverage)[:, None]
            error = (residual**2).sum(axis=0)
            better = error < best
            best[better], penalty[better] = error[better], value
        gain = nothing - best
        order = np.argsort(-gain)
        kept = order[: int(np.searchsorted(np.cumsum(gain[order]), _KEPT * gain.sum())) + 1]
        kept = np.sort(kept[(gain[kept] > 0) & np.isfinite(penalty[kept])])

        s, w = self._s[:, None], penalty[kept][None]
        weights = self._v @ (s / (s**2 + w) * inner[:, kept]) / self._scale[:, None]
        out = components / (1 - terms_leverage)[:, None]
        for value in np.unique(penalty[kept]):
            columns = kept[penalty[kept] == value]
            shrink = self._s**2 / (self._s**2 + value)
            leverage = terms_leverage + squares @ shrink
            fitted = self._u @ (shrink[:, None] * inner[:, columns])
            out[:, columns] = (components[:, columns] - fitted) / (1 - leverage)[:, None]
        linear = Linear(
            layers if len(kept) else None,
            (coefficients - self._cross @ weights @ directions[kept]).astype(np.float32),
            weights.astype(np.float32),
            directions[kept].astype(np.float32),
            transform,
        )
        return linear, targets - out @ directions


def fit(
    states: States,
    plain: Array,
    teachers: dict[str, Teacher],
    *,
    layers: Sequence[int],
    space: dict[str, str],
    corpus: dict[str, Any],
    teacher: dict[str, Any],
    held_out: float = 0.2,
) -> Head:
    """Fit a head on n sentences.

    Parameters
    ----------
    states, plain
        What one pass says of the sentences, and the vectors (n, k) it gives in the model's own geometry.
    teachers
        Samples of each kind of uncertainty, in the same geometry.
    layers
        Hidden states that may be read.
    space, corpus, teacher
        What the head is made for and from, to be kept with it.
    held_out
        Share of the sentences that choices are made on.
    """
    n = len(plain)
    order = np.random.default_rng(0).permutation(n)
    held, rest = order[: int(n * held_out)], order[int(n * held_out) :]
    candidates: Candidates = {"length": None, "last": ()}
    if len(layers) > 1:
        candidates |= {"ends": (layers[0], layers[-1]), "spread": (layers[0], layers[len(layers) // 2], layers[-1])}
    lessons = {source: _Lesson(samples, plain) for source, samples in teachers.items()}
    choices, quality = _choose(states, lessons, candidates, held, rest)
    coverage = _coverage(states, list(candidates.values())[-1] or (), rest, held)
    parts = _fit_all(states, lessons, candidates, choices)
    return Head(space=space, corpus=corpus, teacher=teacher, quality=quality, coverage=coverage, **parts)


class _Choice(NamedTuple):
    """Which states are read for the variance and on which scale it is predicted, and which for the shift."""

    variance: str
    transform: str
    shift: str


def _choose(
    states: States,
    lessons: Mapping[str, _Lesson],
    candidates: Candidates,
    held: NDArray[np.int64],
    rest: NDArray[np.int64],
) -> tuple[dict[str, _Choice], dict[str, dict[str, float]]]:
    """Fit every candidate on a part of the sentences, and take what is best on those held out; also say how good."""
    scalars = states.scalars()
    low, high = scalars[rest].min(axis=0), scalars[rest].max(axis=0)
    terms, tried = basis(scalars), np.clip(scalars[held], low, high)
    ridges = {name: _Ridge(terms[rest], states.features(read)[rest]) for name, read in candidates.items()}
    choices: dict[str, _Choice] = {}
    quality: dict[str, dict[str, float]] = {}
    for source, lesson in lessons.items():
        variances: dict[tuple[str, str], tuple[float, Array64]] = {}
        shifts: dict[str, tuple[float, Array64]] = {}
        for name, ridge in ridges.items():
            for transform in TRANSFORMS:
                linear, out = ridge.fit(lesson.targets(transform)[rest], candidates[name], transform)
                scale = lesson.scale(lesson.variances(transform, out), rest)
                predicted = scale * lesson.variances(transform, linear(_rows(states, held), tried))
                variances[name, transform] = lesson.deviance(predicted, held), predicted
            linear, _ = ridge.fit(lesson.shift[rest], candidates[name])
            shift = linear(_rows(states, held), tried)
            shifts[name] = float(((shift - lesson.shift[held]) ** 2).mean()), shift
        best = min(variances, key=lambda choice: variances[choice][0])
        nearest = min(shifts, key=lambda choice: shifts[choice][0])
        choices[source] = _Choice(*best, nearest)
        quality[source] = lesson.quality(variances[best][1], shifts[nearest][1], held, rest)
    return choices, quality


def _fit_all(
    states: States, lessons: Mapping[str, _Lesson], candidates: Candidates, choices: Mapping[str, _Choice]
) -> dict[str, dict[str, Any]]:
    """Fit what was chosen on all sentences: the parts of a head, by name and source."""
    terms = basis(states.scalars())
    needed = {name for choice in choices.values() for name in (choice.variance, choice.shift)}
    ridges = {name: _Ridge(terms, states.features(candidates[name])) for name in needed}
    parts: dict[str, dict[str, Any]] = {"shifts": {}, "variances": {}, "errors": {}, "live": {}, "strengths": {}}
    for source, lesson in lessons.items():
        choice = choices[source]
        targets = lesson.targets(choice.transform)
        linear, out = ridges[choice.variance].fit(targets, candidates[choice.variance], choice.transform)
        predicted = lesson.variances(choice.transform, out)
        scale = lesson.scale(predicted, slice(None))
        parts["variances"][source] = lesson.spread(linear, scale).in_half()
        parts["strengths"][source] = lesson.strength(np.log(scale * predicted))
        linear, out = ridges[choice.shift].fit(lesson.shift, candidates[choice.shift])
        parts["shifts"][source] = linear.in_half()
        noise = lesson.samples.variance.mean(axis=0) / lesson.samples.count
        parts["errors"][source] = np.maximum(((out - lesson.shift) ** 2).mean(axis=0) - noise, 0).astype(np.float32)
        parts["live"][source] = lesson.live
    return parts


class _Lesson:
    """The targets of one kind of uncertainty, and how good a prediction of them is, without the noise of the samples.

    The noise of few samples is larger than what is measured, so it is never estimated and subtracted. A prediction and
    a constant are compared on the same samples, whose noise is in both errors and cancels. A squared error is the
    product of the errors against either half of the samples, whose noise is independent and averages to 0.
    """

    def __init__(self, samples: Teacher, plain: Array) -> None:
        self.samples = samples
        self.shift = samples.mean.astype(np.float64) - plain
        self.live = samples.variance.max(axis=0) > 1e-8 * samples.variance.mean()
        # Samples of a short sentence may all be the same; how small its variance is cannot be known from them.
        floor = np.maximum(_FLOOR * samples.variance.mean(axis=0, dtype=np.float64), 1e-30)
        full, *halves = (np.maximum(array, floor)[:, self.live] for array in (samples.variance, *samples.halves))
        self.variance, self.halves = full, halves
        self.dof, self.half_dof = samples.count - 1, samples.count // 2 - 1

    def targets(self, transform: str) -> Array64:
        """Return transformed variances, without the bias that the transform of a noisy variance has."""
        return self._unbiased(*(TRANSFORMS[transform][0](array) for array in (self.variance, *self.halves)))[0]

    def _unbiased(self, full: Array64, first: Array64, second: Array64) -> tuple[Array64, Array64, Array64]:
        """Return what all samples and either half of them say, (n, q) each, without the bias of each column.

        The bias falls with the degrees of freedom; the samples and either half of them give its size.
        """
        gap = (full - (first + second) / 2).mean(axis=0)
        ratio = log_bias(self.dof) / (log_bias(self.half_dof) - log_bias(self.dof))
        return full + gap * ratio, first + gap * (1 + ratio), second + gap * (1 + ratio)

    def scale(self, predicted: Array64, rows: Rows | slice) -> float:
        """Return the factor that makes the predicted totals of sentences right on average.

        Logarithms of few samples with heavy tails are too small; totals are not.
        """
        return float((self.variance[rows].sum(axis=1) / predicted.sum(axis=1)).mean())

    def variances(self, transform: str, predicted: Array64) -> Array64:
        """Return predictions for the live dimensions as variances, with a floor."""
        return floored(TRANSFORMS[transform][1](predicted))

    def deviance(self, predicted: Array64, rows: Rows) -> float:
        """Return the loss whose minimum is the true variance, whatever the distribution of the samples."""
        return float((np.log(predicted) + self.variance[rows] / predicted).mean())

    def spread(self, linear: Linear, scale: float) -> Linear:
        """Return a map onto all dimensions, also those that never vary, whose variances are `scale` times as large."""
        k = len(self.live)
        terms, directions = np.zeros((len(linear.terms), k)), np.zeros((len(linear.directions), k))
        terms[:, self.live], directions[:, self.live] = linear.terms, linear.directions
        if linear.transform == "log":
            terms[0] += np.log(scale)  # the constant term
        else:
            terms, directions = terms * np.sqrt(scale), directions * np.sqrt(scale)
        return Linear(
            linear.layers, terms.astype(np.float32), linear.states, directions.astype(np.float32), linear.transform
        )

    def strength(self, predicted: Array64) -> Strength:
        """Estimate what prediction and samples are worth from out-of-sample predictions of log-variances.

        An error that is smaller than its own standard error is not known; its standard error is taken instead.
        """
        logs = [np.log(array) for array in (self.variance, *self.halves)]
        gap = log_bias(self.half_dof) - log_bias(self.dof)
        bias = float((logs[0] - (logs[1] + logs[2]) / 2).mean() / gap)
        full, first, second = (log - predicted for log in self._unbiased(*logs))
        level, one, other = (error.mean(axis=1, keepdims=True) for error in (full, first, second))
        return Strength(
            dof=dof_of_noise(max(_Average.of((first - one) * (second - other)))),
            efficiency=dof_of_noise(float((full**2 - first * second).mean())) / self.dof,
            bias=bias,
            level=max(_Average.of(one * other)),
            level_noise=max(float((level**2 - one * other).mean()), 0.0) * self.dof,
        )

    def quality(self, variance: Array64, shift: Array64, held: Rows, rest: Rows) -> dict[str, float]:
        """Return R2 on the sentences held out; NaN where the samples are too few to know it.

        R2 is the share of a constant's error that the prediction saves. The constant is the average of the sentences
        that were fitted on, just as the prediction was; for the shift, it is no shift.
        """
        variances = [self.variance, *self.halves]
        totals = [array.sum(axis=1, keepdims=True) for array in variances]
        truth, noise = self.shift[held], self.samples.variance[held] / self.samples.count
        return {
            "variance per dimension": self._explained(variance, variances, held, rest),
            "total variance": self._explained(variance.sum(axis=1, keepdims=True), totals, held, rest),
            "shift of the mean": _share(truth**2 - (shift - truth) ** 2, truth**2 - noise),
        }

    def _explained(self, predicted: Array64, variances: list[Array64], held: Rows, rest: Rows) -> float:
        full, *halves = self._unbiased(*map(np.log, variances))
        constant = full[rest].mean(axis=0)
        truth, first, second = full[held], halves[0][held], halves[1][held]
        saved = (constant - truth) ** 2 - (np.log(predicted) - truth) ** 2
        return _share(saved, (constant - first) * (constant - second))


class _Average(NamedTuple):
    """An average over sentences, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, array: Array64) -> _Average:
        """Average (n, q); the columns of a row are not independent, so they count as one."""
        rows = array.mean(axis=1)
        return cls(float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(len(rows))))


def _share(saved: Array64, whole: Array64) -> float:
    """Return the average of `saved` as a share of the average of `whole`, both (n, q).

    A share with a standard error above 0.25 is not known, and is NaN. But if the average of `saved` is below 0 by more
    than its standard error, the share is below 0 too, however little is known of `whole`: then the result is the share
    nearest to 0 that `whole` allows for.

    >>> noise = np.random.default_rng(0).normal(size=(50, 1))
    >>> saved = np.full((50, 1), 0.5)
    >>> round(_share(saved, noise / 10 + 1), 1), _share(saved, noise), _share(-saved, noise) < 0
    (0.5, nan, True)
    """
    gain, of = _Average.of(saved), _Average.of(whole)
    share = gain.value / max(of.value, 1e-30)
    if _Average.of(saved - share * whole).error < _SURE * of.value:
        return min(share, 1.0)  # two estimates, so their quotient can overshoot
    return gain.value / max(of.value + 2 * of.error, 1e-30) if gain.value < -gain.error else float("nan")


def _rows(states: States, rows: Rows) -> States:
    layers = {i: array[rows] for i, array in states.layers.items()}
    return States(states.vectors[rows], layers, states.tokens[rows], states.words[rows])


def _coverage(states: States, layers: tuple[int, ...], rest: Rows, held: Rows) -> Coverage:
    z = np.concatenate([states.features(layers), states.scalars()], axis=1)[rest]
    centre, scale = z.mean(axis=0), z.std(axis=0) + 1e-9
    z = (z - centre) / scale
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    count = min(_AXES, len(values) - 1)
    axes, spread = vectors[:, ::-1][:, :count], np.sqrt(np.maximum(values[::-1][:count], 1e-12))
    scalars = states.scalars()
    coverage = Coverage(
        layers,
        centre.astype(np.float32),
        scale.astype(np.float32),
        axes.astype(np.float16),
        spread.astype(np.float32),
        float(np.sqrt(max(values[:-count].mean(), 1e-12))),
        scalars.min(axis=0).astype(np.float32),
        scalars.max(axis=0).astype(np.float32),
        np.zeros(0, np.float32),
    )
    distances = np.sort(coverage.distance(_rows(states, held))).astype(np.float32)
    return Coverage(**{**vars(coverage), "distances": distances})
