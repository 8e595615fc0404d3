"""What classification adds to table 8 and figure 3: a few examples of each class, with the samples themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.heads import Choice, Scaling, fit, probabilities
from sen2pro.gaussian import Gaussian
from sen2pro.validation import Array, Array64, Labels
from sen2pro_lab.metrics.bootstrap import mean_statistic
from sen2pro_lab.metrics.comparisons import Board, Points, average
from sen2pro_lab.metrics.sts import spread
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.catalogue import CLASSIFICATION_SETS, DataMissing
from sen2pro_lab.paper.data import Labelled, read_classification
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.tables.labelled import few, truncating
from sen2pro_lab.paper.tables.pairs import certain

SHOTS, DRAWS = 10, 3  # as in the paper
VARIED = ("n1 (model)", "n2 (data)")
_TESTS = 200  # texts of a test set: each takes thirty passes
Samples = Mapping[str, Array]
Counts = Callable[[int], list[int]]  # how many samples there are -> how many of them to take, in turn
Point = tuple[str, int]  # what is varied, and how many samples are taken of it
Curves = Mapping[str, Mapping[int, float]]  # what is varied -> number of samples -> score


class Side(NamedTuple):
    """Texts to train or to test on: samples (n, N, k) of each source, plain vectors, labels."""

    samples: Samples
    vectors: Array
    labels: Labels


class Draw(NamedTuple):
    """Examples of every class of a set, what they are tested on, and what cross-validation chooses with all samples."""

    train: Side
    test: Side
    seed: int
    choice: Choice


def size(lab: Lab) -> tuple[int, int, int]:
    """Return how many examples of each class, draws of them, and test texts of a set there are; less for a quick look.

    >>> size(Lab(limit=12)), size(Lab(limit=50))
    ((2, 1, 3), (10, 3, 50))
    """
    return lab.fewer_shots(SHOTS), 1 if lab.quick else DRAWS, min(lab.items or _TESTS, _TESTS)


def sampled_sets(lab: Lab) -> dict[str, list[Draw]]:
    """Return the draws of each set that is there, by its title."""
    sets, (shots, draws, tests) = {}, size(lab)

    def side(data: Labelled, rows: Sequence[int] | Labels) -> Side:
        part = data.take(rows)
        with truncating():
            samples = lab.samples_of(part.texts, normalize=lab.encoder().normalize)
            return Side(samples, lab.own_vectors(part.texts), part.labels)

    for name in CLASSIFICATION_SETS:
        with suppress(DataMissing):
            train, test = read_classification(name, "train"), read_classification(name, "test")
            tested = side(test, spread(len(test.texts), tests))
            drawn = [side(train, few(train.labels, train.names, shots, seed)) for seed in range(draws)]
            fitted = [_fitted(lab.of_samples(x.samples), x.labels, seed) for seed, x in enumerate(drawn)]
            sets[paper.TEXT_TITLES[name]] = [Draw(x, tested, i, fitted[i].choice_) for i, x in enumerate(drawn)]
        if lab.quick and sets:  # texts are long: for a quick look one set will do
            break
    return sets


def _fitted(gaussian: Gaussian, labels: Labels, seed: int) -> Sen2ProClassifier:
    """Return a classifier whose settings are chosen by cross-validation."""
    return Sen2ProClassifier(features="mean", head="expected", seed=seed).fit(gaussian, labels)


def right(lab: Lab, draw: Draw, *, full: bool = False) -> NDArray[np.bool_]:
    """Return which test sentences are classified rightly; `full` takes the whole covariances of the samples."""
    train, test, _, choice = draw
    gaussians = [lab.of_samples(side.samples) for side in (train, test)]
    scaling = Scaling.fit(gaussians[0], choice.features)
    designs = [scaling(gaussian) for gaussian in gaussians]
    if full:
        whole = [roots(side.samples) / scaling.mean_scale for side in (train, test)]
        designs = [replace(design, noise=noise) for design, noise in zip(designs, whole, strict=True)]
    classes = int(train.labels.max()) + 1
    weights = fit(designs[0], train.labels, classes, choice.head, choice.C).cooled(choice.temperature)
    return np.asarray(probabilities(designs[1], weights).argmax(axis=1) == test.labels)


def roots(samples: Samples) -> Array64:
    """Return R (n, r, k) such that R^T R is the mean of the sources' full covariances (SCE), never a k x k matrix."""
    centred = [drawn - drawn.mean(axis=1, keepdims=True, dtype=np.float64) for drawn in samples.values()]
    return np.concatenate([x / np.sqrt(x.shape[1] * len(samples)) for x in centred], axis=1)


def add_to(board: Board, lab: Lab) -> None:
    """Add the classification line of table 8: the full covariance against the diagonal one."""
    sets, quoted = sampled_sets(lab), paper.T8["TC"]
    if not sets:
        board.leave_out(["Average", "TC"], "no data", quoted)
        return
    points = {}
    for i, draws in enumerate(sets.values()):
        diagonal, full = ([right(lab, draw, full=whole) for draw in draws] for whole in (False, True))
        points[str(i)] = Points.of(mean_statistic, diagonal, full, len(draws[0].test.labels))
    most = max(of_set.n for of_set in points.values())
    board.add([f"Average of {len(sets)}, {most} texts", "TC"], partial(average, points), quoted)


def curves(lab: Lab, counts: Counts) -> tuple[Curves, float, list[str]]:
    """Return the accuracy x 100 by number of samples of each source, that of plain vectors, and the sets' titles."""
    sets, scores, plain = sampled_sets(lab), defaultdict(list), []
    for train, test, seed, choice in chain(*sets.values()):
        for (point, some), (_, tested) in zip(*(thinned(x.samples, counts) for x in (train, test)), strict=True):
            fewer = Side(some, train.vectors, train.labels), Side(tested, test.vectors, test.labels)
            scores[point].append(100 * float(right(lab, Draw(*fewer, seed, choice)).mean()))
        head = _fitted(certain(train.vectors), train.labels, seed)
        plain.append(100 * head.score(certain(test.vectors), test.labels))
    return means(scores), float(np.mean(plain)) if plain else float("nan"), list(sets)


def thinned(samples: Samples, counts: Counts) -> Iterator[tuple[Point, Samples]]:
    """Yield the samples with only the first of one source, for every number of them, source by source."""
    for title, source in zip(VARIED, samples, strict=True):
        for count in counts(samples[source].shape[1]):
            yield (title, count), {**samples, source: samples[source][:, :count]}


def means(scores: Mapping[Point, list[float]]) -> Curves:
    """Return the mean score at each point."""
    return {v: {n: float(np.mean(x)) for (varied, n), x in scores.items() if varied == v} for v in VARIED}
