"""Fit a head: the samples of a corpus are the teacher, one plain pass is the pupil, ridge regression the lesson.

Targets are turned to their principal components, each with a penalty chosen by leave-one-out error. The hidden states
to read, and the scale to predict variances on, are chosen on sentences held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.checks import MOST_SAMPLES, check_whole, share
from sen2pro.errors import Sen2ProError, shown
from sen2pro.estimation.head import SPACE, TRANSFORMS, Coverage, Head, Linear
from sen2pro.estimation.ridge import Layers, Ridge, Rows
from sen2pro.estimation.shrinkage import Strength, dof_of_noise, log_bias
from sen2pro.estimation.specificity import fit_specificity
from sen2pro.gaussian import floored
from sen2pro.progress import Show, progress
from sen2pro.sampling.states import States
from sen2pro.types import Array, Array64

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

_Choice = tuple[Layers, str, Layers]  # what is read for the variance, the scale it is predicted on, what for the shift

_AXES = 64
_AT_LEAST = 200  # sentences
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
            f"fit a head on at least {_AT_LEAST} different sentences, better thousands, not {len(texts)}"
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
    layers = range(max(model.encoder.depth - 1, 0))  # the last one is what the vector is made of
    states = model.sampler.plain(texts, prompt, layers=layers, batch_size=batch_size, warn=False)
    head = fit_for(model, texts, states, teachers, out)
    moved = model.sampler.moved(texts, prompt, samples // 2, batch_size, show)
    return replace(head, specificity=fit_specificity(model.signature(), texts, states, moved))


def fit_for(model: Sen2Pro, texts: list[str], states: States, teachers: dict[str, Teacher], held_out: float) -> Head:
    """Fit a head for a model on sentences whose samples, in the model's own geometry, are there."""
    layers = sorted(states.layers)
    candidates: list[Layers] = [None, ()]
    if len(layers) > 1:
        candidates += [(layers[0], layers[-1]), (layers[0], layers[len(layers) // 2], layers[-1])]
    plain = model.sampler.finish(states.vectors)
    lessons = {source: _Lesson(samples, plain) for source, samples in teachers.items()}
    order, split = np.random.default_rng(0).permutation(len(texts)), int(len(texts) * held_out)
    held, rest = order[:split], order[split:]
    choices, quality = _choose(states, lessons, candidates, held, rest)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    counts = "+".join(str(teacher.count) for teacher in teachers.values())
    signature = model.signature()
    return Head(
        space={name: getattr(signature, name) for name in SPACE},
        corpus={"hash": digest[:8], "size": len(texts)},
        teacher={"samples": counts, "seed": model.seed, "version": __version__},
        quality=quality,
        coverage=_coverage(states, candidates[-1] or (), rest, held),
        **_fit_all(states, lessons, choices),
    )


def _choose(
    states: States, lessons: Mapping[str, _Lesson], candidates: list[Layers], held: Rows, rest: Rows
) -> tuple[dict[str, _Choice], dict[str, dict[str, float]]]:
    """Fit every candidate on a part of the sentences, and take what is best on those held out; also say how good."""
    scalars = states.scalars()
    tried = states.rows(held), np.clip(scalars[held], scalars[rest].min(axis=0), scalars[rest].max(axis=0))
    ridges = {layers: Ridge(states, layers, rest) for layers in candidates}
    choices: dict[str, _Choice] = {}
    quality: dict[str, dict[str, float]] = {}
    for source, lesson in lessons.items():
        variances: dict[tuple[Layers, str], tuple[float, Array64]] = {}
        shifts: dict[Layers, tuple[float, Array64]] = {}
        for layers, ridge in ridges.items():
            for transform in TRANSFORMS:
                linear, out = ridge.fit(lesson.targets(transform)[rest], transform)
                scale = lesson.scale(lesson.variances(transform, out), rest)
                predicted = scale * lesson.variances(transform, linear(*tried))
                # The minimum of this loss is the true variance, whatever the distribution of the samples.
                variances[layers, transform] = (np.log(predicted) + lesson.variance[held] / predicted).mean(), predicted
            shift = ridge.fit(lesson.shift[rest])[0](*tried)
            shifts[layers] = float(((shift - lesson.shift[held]) ** 2).mean()), shift
        best = min(variances, key=lambda choice: variances[choice][0])
        nearest = min(shifts, key=lambda choice: shifts[choice][0])
        choices[source] = *best, nearest
        quality[source] = lesson.quality(variances[best][1], shifts[nearest][1], held, rest)
    return choices, quality


def _fit_all(states: States, lessons: Mapping[str, _Lesson], choices: Mapping[str, _Choice]) -> dict[str, Any]:
    """Fit what was chosen on all sentences: the parts of a head, by name and source."""
    used = {layers for variance, _, shift in choices.values() for layers in (variance, shift)}
    ridges = {layers: Ridge(states, layers, slice(None)) for layers in used}
    parts: dict[str, dict[str, Any]] = {"shifts": {}, "variances": {}, "errors": {}, "live": {}, "strengths": {}}
    for source, lesson in lessons.items():
        layers, transform, nearest = choices[source]
        linear, out = ridges[layers].fit(lesson.targets(transform), transform)
        predicted = lesson.variances(transform, out)
        scale = lesson.scale(predicted, slice(None))
        parts["variances"][source] = lesson.spread(linear, scale).in_half()
        parts["strengths"][source] = lesson.strength(np.log(scale * predicted))
        linear, out = ridges[nearest].fit(lesson.shift)
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
        return self._unbiased(*map(TRANSFORMS[transform][0], (self.variance, *self.halves)))[0]

    def _unbiased(self, full: Array64, first: Array64, second: Array64) -> tuple[Array64, Array64, Array64]:
        """Take the bias of each column from what all samples and either half of them say: their gap gives its size."""
        gap = (full - (first + second) / 2).mean(axis=0)
        ratio = log_bias(self.dof) / (log_bias(self.half_dof) - log_bias(self.dof))
        return full + gap * ratio, first + gap * (1 + ratio), second + gap * (1 + ratio)

    def scale(self, predicted: Array64, rows: Rows | slice) -> float:
        """Return the factor that makes predicted totals right on average; logarithms of heavy tails are too small."""
        return float((self.variance[rows].sum(axis=1) / predicted.sum(axis=1)).mean())

    def variances(self, transform: str, predicted: Array64) -> Array64:
        """Return predictions for the live dimensions as variances, with a floor."""
        return floored(TRANSFORMS[transform][1](predicted))

    def spread(self, linear: Linear, scale: float) -> Linear:
        """Return a map onto all dimensions, also those that never vary, whose variances are `scale` times as large."""
        k = len(self.live)
        terms, directions = np.zeros((len(linear.terms), k)), np.zeros((len(linear.directions), k))
        terms[:, self.live], directions[:, self.live] = linear.terms, linear.directions
        if linear.transform == "log":
            terms[0] += np.log(scale)  # the constant term
        else:
            terms, directions = terms * np.sqrt(scale), directions * np.sqrt(scale)
        return replace(linear, terms=terms.astype(np.float32), directions=directions.astype(np.float32))

    def strength(self, predicted: Array64) -> Strength:
        """Estimate what prediction and samples are worth; an error below its own standard error is taken to be that."""
        logs = [np.log(array) for array in (self.variance, *self.halves)]
        gap = log_bias(self.half_dof) - log_bias(self.dof)
        bias = float((logs[0] - (logs[1] + logs[2]) / 2).mean() / gap)
        full, first, second = (log - predicted for log in self._unbiased(*logs))
        level, one, other = (error.mean(axis=1, keepdims=True) for error in (full, first, second))
        return Strength(
            dof=dof_of_noise(max(_average((first - one) * (second - other)))),
            efficiency=dof_of_noise(float((full**2 - first * second).mean())) / self.dof,
            bias=bias,
            level=max(_average(one * other)),
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


def _average(array: Array64) -> tuple[float, float]:
    """Return the average of (n, q), and its standard error; columns are not independent, so a row counts as one."""
    rows = array.mean(axis=1)
    return float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(len(rows)))


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
    (gain, gain_error), (total, total_error) = _average(saved), _average(whole)
    share = gain / max(total, 1e-30)
    if _average(saved - share * whole)[1] < _SURE * total:
        return min(share, 1.0)  # two estimates, so their quotient can overshoot
    return gain / max(total + 2 * total_error, 1e-30) if gain < -gain_error else float("nan")


def _coverage(states: States, layers: tuple[int, ...], rest: Rows, held: Rows) -> Coverage:
    scalars = states.scalars()
    z = np.concatenate([states.features(layers), scalars], axis=1)[rest]
    centre, scale = z.mean(axis=0), z.std(axis=0) + 1e-9
    z = (z - centre) / scale
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    count = min(_AXES, len(values) - 1)
    spread = np.sqrt(np.maximum(values[::-1][:count], 1e-12))
    left = float(np.sqrt(max(values[:-count].mean(), 1e-12)))
    low, high = scalars.min(axis=0), scalars.max(axis=0)
    arrays = {"centre": centre, "scale": scale, "spread": spread, "low": low, "high": high}
    singles = {name: array.astype(np.float32) for name, array in arrays.items()}
    axes = vectors[:, ::-1][:, :count].astype(np.float16)
    coverage = Coverage(layers=layers, axes=axes, rest=left, distances=np.zeros(0, np.float32), **singles)
    return replace(coverage, distances=np.sort(coverage.distance(states.rows(held))).astype(np.float32))
