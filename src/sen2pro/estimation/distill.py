"""Fit a head: ridge regression from the states of one pass to the means and variances of a corpus's samples.

Targets are turned to their principal components, each with a penalty chosen by leave-one-out error. The hidden states
to read, and the scale to predict variances on, are chosen on sentences held out; where the kinds of text are known, on
kinds held out, since a user's text is of another kind than the corpus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.backend import States, Tokens
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.estimation.head import Coverage, Head, HeadConfig, HeadSpace, Quality, Teacher, Transforms
from sen2pro.estimation.linear import PARTS, TRANSFORMS, Layers, Linear, Ridge, Rows, basis, hash_of
from sen2pro.estimation.moments import dof_of_noise, log_bias, samples_worth
from sen2pro.estimation.specificity import Corpus, fit_specificity
from sen2pro.gaussian import floored
from sen2pro.progress import Show, progress
from sen2pro.sampling.sampler import Sampler
from sen2pro.signature import Signature
from sen2pro.validation import MOST_SAMPLES, Array, Array64, check_whole, parse_fraction

_Choice = tuple[Layers, str, Layers]  # what is read for the variance, the scale it is predicted on, what for the shift
Fold = tuple[Rows, Rows]  # held out, the rest

_AXES = 64
_LEVEL = 3  # the first terms of the basis, 1, log tokens and its square: what a level by length is fitted on
_AT_LEAST = 200  # sentences
_PASSAGE = 100  # words: more are several sentences
_FLOOR = 1e-4  # of a dimension's average variance: a smaller one is a lack of samples
_CHUNK = 256  # sentences whose samples are in memory at once
_SURE = 0.25  # standard error of an R2 that is still reported


@dataclass
class SampledMoments:
    """What the samples of n sentences say, of one kind of uncertainty."""

    mean: Array  # (n, k)
    variance: Array  # (n, k), divided by N - 1
    halves: tuple[Array, Array]  # variances of either half of the samples
    count: int

    @classmethod
    def empty(cls, n: int, k: int, count: int) -> SampledMoments:
        """Make room for n sentences."""
        mean, variance, first, second = (np.empty((n, k), np.float32) for _ in range(4))
        return cls(mean, variance, (first, second), count)

    def put(self, rows: slice, samples: NDArray[Any]) -> None:
        """Take in the samples (r, N, k) of some sentences."""
        samples = samples.astype(np.float64)
        self.mean[rows], self.variance[rows] = samples.mean(axis=1), samples.var(axis=1, ddof=1)
        for i, half in enumerate(self.halves):
            half[rows] = samples[:, i::2].var(axis=1, ddof=1)


def learn(
    sampler: Sampler, signature: Signature, tokens: Tokens, samples: int, held_out: float, batch_size: int | None,
    show: Show,
) -> Head:  # fmt: skip
    """Sample a corpus of different sentences, and fit a head for a model of this signature; see `Sen2Pro.distill`."""
    if len(tokens) < _AT_LEAST:
        raise Sen2ProError(
            f"fit a head on at least {_AT_LEAST} different sentences, better thousands, not {len(tokens)}"
        )
    samples = check_whole("samples", samples, 6, MOST_SAMPLES)
    out = parse_fraction(held_out)
    if out is None or not 0.05 <= out <= 0.5:
        raise Sen2ProError(f"held_out must be between 0.05 and 0.5, not {short_repr(held_out)}")
    counts = dict.fromkeys(sampler.settings.sources, samples - samples % 2)
    drawn = {name: SampledMoments.empty(len(tokens), sampler.dim, count) for name, count in counts.items()}
    with progress(len(tokens) * sum(counts.values()), show, threshold=256) as advance:
        for start in range(0, len(tokens), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(tokens)))
            chunk = {name: np.empty((len(rows), count, sampler.dim), np.float32) for name, count in counts.items()}
            for source, index, number, vectors in sampler.draw(tokens.rows(rows), counts, batch_size, advance):
                chunk[source][index, number] = vectors
            for name, array in chunk.items():
                drawn[name].put(slice(rows.start, rows.stop), array)
    layers = range(max(sampler.encoder.depth - 1, 0))  # the last one is what the vector is made of
    states, texts = sampler.run_plain(tokens, layers, batch_size), list(tokens.texts)
    order, split = np.random.default_rng(0).permutation(len(texts)), int(len(texts) * out)
    head = fit_for(sampler, signature, texts, states, drawn, [(order[:split], order[split:])])
    moved = sampler.measure_moves(tokens, samples // 2, batch_size, show)
    return replace(head, specificity=fit_specificity(signature, texts, states, moved))


def fit_for(
    sampler: Sampler, signature: Signature, texts: list[str], states: States, samples: Mapping[str, SampledMoments],
    folds: list[Fold], kinds: Sequence[str] | None = None,
) -> Head:  # fmt: skip
    """Fit a head on sentences whose samples, in the model's own geometry, are given.

    Choices are made on the sentences that each fold holds out; `kinds` (of each sentence) see `fit_coverage`.
    """
    layers = sorted(states.layers)
    candidates: list[Layers] = [None, ()]
    if len(layers) > 1:
        candidates += [(layers[0], layers[-1]), (layers[0], layers[len(layers) // 2], layers[-1])]
    plain = sampler.finish(states.vectors)
    targets = {source: _Targets(each, plain, states.scalars) for source, each in samples.items()}
    choices, quality = _choose(states, targets, candidates, folds)
    maps, worth = _fit_maps(states, targets, choices)
    coverage = fit_coverage(states, candidates[-1] or (), folds, kinds)
    arrays = {
        **{f"coverage.{name}": value for name, value in vars(coverage).items() if isinstance(value, np.ndarray)},
        **{f"{name}.{part}": getattr(each, part) for name, each in maps.items() for part in PARTS},
        **{f"{source}.live": each.live for source, each in targets.items()},
    }
    counts = "+".join(str(each.count) for each in samples.values())
    config = HeadConfig(
        space=HeadSpace.of(signature), corpus=Corpus.of(texts), quality=cast(Quality, quality),
        worth=worth, rest=coverage.rest,
        teacher=Teacher(samples=counts, seed=sampler.settings.seed), lengths=coverage.lengths,
        layers={"coverage": coverage.layers, **{name: each.layers for name, each in maps.items()}},
        transforms=cast(Transforms, {name: each.transform for name, each in maps.items()}),
        hash=hash_of(arrays, str(coverage.lengths)),
    )  # fmt: skip
    return Head(config, arrays)


def _choose(
    states: States, targets: Mapping[str, _Targets], candidates: list[Layers], folds: list[Fold]
) -> tuple[dict[str, _Choice], dict[str, dict[str, float]]]:
    """Fit every candidate on the rest of each fold, and take what is best on those held out; also say how good."""
    scalars = states.scalars
    # A root cannot follow the level of a total by length, so it is tried on sentences only.
    transforms = [name for name in TRANSFORMS if name == "log" or states.words.max() <= _PASSAGE]
    variances: dict[str, dict[tuple[Layers, str], list[Array64]]] = {source: defaultdict(list) for source in targets}
    shifts: dict[str, dict[Layers, list[Array64]]] = {source: defaultdict(list) for source in targets}
    for held, rest in folds:
        tried = states.rows(held), np.clip(scalars[held], scalars[rest].min(axis=0), scalars[rest].max(axis=0))
        for layers in candidates:
            ridge = Ridge(states, layers, rest)
            for source, target in targets.items():
                for transform in transforms:
                    linear, out = ridge.fit(target.targets(transform)[rest], transform)
                    level = target.level(target.variances(transform, out), transform, rest)
                    linear = target.levelled(linear, level)
                    variances[source][layers, transform].append(target.variances(transform, linear(*tried)))
                shifts[source][layers].append(ridge.fit(target.shift[rest])[0](*tried))
    held = np.concatenate([fold[0] for fold in folds])
    rest = folds[0][1] if len(folds) == 1 else held
    choices: dict[str, _Choice] = {}
    quality: dict[str, dict[str, float]] = {}
    for source, target in targets.items():
        predicted = {choice: np.concatenate(parts) for choice, parts in variances[source].items()}
        shifted = {choice: np.concatenate(parts) for choice, parts in shifts[source].items()}
        # The minimum of this loss is the true variance, whatever the distribution of the samples.
        losses = {choice: (np.log(v) + target.variance[held] / v).mean() for choice, v in predicted.items()}
        errors = {choice: ((shift - target.shift[held]) ** 2).mean() for choice, shift in shifted.items()}
        best, nearest = min(losses, key=lambda c: losses[c]), min(errors, key=lambda c: errors[c])
        choices[source] = *best, nearest
        quality[source] = target.quality(predicted[best], shifted[nearest], held, rest)
    return choices, quality


def _fit_maps(
    states: States, targets: Mapping[str, _Targets], choices: Mapping[str, _Choice]
) -> tuple[dict[str, Linear], dict[str, float]]:
    """Fit what was chosen on all sentences: the maps of a head, and what its predictions are worth in samples."""
    used = {layers for variance, _, shift in choices.values() for layers in (variance, shift)}
    ridges = {layers: Ridge(states, layers, slice(None)) for layers in used}
    maps, worth = {}, {}
    for source, target in targets.items():
        layers, transform, nearest = choices[source]
        linear, out = ridges[layers].fit(target.targets(transform), transform)
        predicted = target.variances(transform, out)
        level = target.level(predicted, transform, slice(None))
        maps[f"{source}.shift"] = ridges[nearest].fit(target.shift)[0].in_half()
        maps[f"{source}.variance"] = target.spread(target.levelled(linear, level)).in_half()
        worth[source] = target.worth(np.log(predicted) + (target.terms @ level)[:, None])
    return maps, worth


class _Targets:
    """The targets of one kind of uncertainty, and how good a prediction of them is, without the noise of the samples.

    The noise of few samples is larger than what is measured, so it is never estimated and subtracted. A prediction and
    a constant are compared on the same samples, whose noise is in both errors and cancels. A squared error is the
    product of the errors against either half of the samples, whose noise is independent and averages to 0.
    """

    def __init__(self, samples: SampledMoments, plain: Array, scalars: Array64) -> None:
        self.samples = samples
        self.terms = basis(scalars)[:, :_LEVEL]
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

    def level(self, predicted: Array64, transform: str, rows: Rows | slice) -> Array64:
        """Return what to add to the logarithm of predicted variances so that totals are right on average, (3,).

        Logarithms of heavy tails are too small, and those of long texts are too small by more. So this is a function of
        the length, 1, log tokens and its square (gamma regression); a root can only take a constant.
        """
        ratio = self.variance[rows].sum(axis=1) / predicted.sum(axis=1)
        used = _LEVEL if transform == "log" and len(ratio) >= _AT_LEAST // 2 else 1
        return np.pad(gamma_regression(self.terms[rows][:, :used], ratio), (0, _LEVEL - used))

    def variances(self, transform: str, predicted: Array64) -> Array64:
        """Return predictions for the live dimensions as variances, with a floor."""
        return floored(TRANSFORMS[transform][1](predicted))

    def levelled(self, linear: Linear, level: Array64) -> Linear:
        """Return a map whose variances are as many times as large as `level` says."""
        if linear.transform == "log":
            terms = linear.terms.astype(np.float64)
            terms[:_LEVEL] += level[:, None]
            return replace(linear, terms=terms.astype(np.float32))
        root = np.float32(np.exp(level[0] / 2))
        return replace(linear, terms=linear.terms * root, directions=linear.directions * root)

    def spread(self, linear: Linear) -> Linear:
        """Return a map onto all dimensions, also those that never vary."""
        k = len(self.live)
        terms, directions = (np.zeros((len(part), k), np.float32) for part in (linear.terms, linear.directions))
        terms[:, self.live], directions[:, self.live] = linear.terms, linear.directions
        return replace(linear, terms=terms, directions=directions)

    def worth(self, predicted: Array64) -> float:
        """Return the number of samples whose variances are as good as those of predicted logarithms.

        An error below its own standard error is taken to be that.
        """
        logs = self._unbiased(*map(np.log, (self.variance, *self.halves)))
        full, first, second = (log - predicted for log in logs)
        one, other = (error.mean(axis=1, keepdims=True) for error in (first, second))
        return samples_worth(
            dof=dof_of_noise(max(_average((first - one) * (second - other)))),
            efficiency=dof_of_noise(float((full**2 - first * second).mean())) / self.dof,
            level=max(_average(one * other)),
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


def gamma_regression(terms: Array64, ratio: Array64) -> Array64:
    """Return coefficients (q,) with which exp(terms @ coefficients) is nearest to the mean of the ratios (n,).

    >>> terms = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    >>> np.exp(gamma_regression(terms, np.array([1.0, 3.0, 6.0, 10.0]))).round(6)  # 2, and 4 times that
    array([2., 4.])
    """
    solve = np.linalg.pinv(terms)
    coefficients = solve @ np.full(len(ratio), np.log(ratio.mean()))
    for _ in range(100):
        step = solve @ (ratio * np.exp(-terms @ coefficients) - 1)
        coefficients = coefficients + np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-10:
            break
    return np.asarray(coefficients)


def fit_coverage(
    states: States, layers: tuple[int, ...], folds: list[Fold], kinds: Sequence[str] | None = None
) -> Coverage:
    """Fit how far text is from a corpus, and how far text held out is from the rest, by its length.

    The text of a user is of another kind. So where `kinds` are known, and held out whole, text is compared with the
    half of them that are furthest from all others (by the distance that one text in twenty goes beyond).
    """
    held = np.concatenate([fold[0] for fold in folds])
    distances = np.concatenate([_distances(states, layers, rest).distance(states.rows(rows)) for rows, rest in folds])
    whole = _distances(states, layers, folds[0][1] if len(folds) == 1 else held)
    terms, logs = basis(states.scalars[held])[:, :_LEVEL], np.log(distances)
    centre = np.linalg.lstsq(terms, logs, rcond=None)[0]
    width = gamma_regression(terms, np.abs(logs - terms @ centre) + 1e-6)
    places = (logs - terms @ centre) * np.exp(-terms @ width)
    if kinds is not None:
        of = np.asarray(kinds)[held]
        far = sorted(set(kinds), key=lambda kind: -float(np.quantile(places[of == kind], 0.95)))
        places = places[np.isin(of, far[: (len(far) + 1) // 2])]
    lengths = tuple(map(float, (*centre, *width)))
    return replace(whole, lengths=lengths, distances=np.sort(places).astype(np.float32))


def _distances(states: States, layers: tuple[int, ...], rest: Rows) -> Coverage:
    scalars = states.scalars
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
    return Coverage(layers=layers, axes=axes, rest=left, distances=np.zeros(0, np.float32), **singles)
