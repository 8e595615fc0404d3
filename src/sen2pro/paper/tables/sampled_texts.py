"""What classification adds to table 8 and figure 3: a few examples of each class, with the samples themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.choosing import Choice
from sen2pro.classification.heads import Scaling, fit, probabilities
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.comparisons import Board, Points, average
from sen2pro.metrics.statistics import mean_statistic
from sen2pro.metrics.sts import spread
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import CLASSIFICATION_SETS, DataMissing
from sen2pro.paper.data import Labelled, read_classification
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables.labelled import few, truncating
from sen2pro.paper.tables.pairs import certain
from sen2pro.types import Array, Array64, Labels

SHOTS, DRAWS = 10, 3  # as in the paper
_TESTS = 200  # texts of a test set: each takes thirty passes
Samples = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Side:
    """Texts to train or to test on: samples (n, N, k) of each source, plain vectors, labels."""

    samples: Samples
    vectors: Array
    labels: Labels


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of examples of a set, and what they are tested on."""

    classes: int
    train: Side
    test: Side


class Size(NamedTuple):
    """How much is classified: examples of each class, draws of them, and test texts of a set."""

    shots: int
    draws: int
    tests: int


def size(lab: Lab) -> Size:
    """Return how much is classified; less for a quick look.

    >>> size(Lab(limit=12)), size(Lab(limit=50))
    (Size(shots=2, draws=1, tests=3), Size(shots=10, draws=3, tests=50))
    """
    return Size(lab.fewer_shots(SHOTS), 1 if lab.quick else DRAWS, min(lab.items or _TESTS, _TESTS))


def sampled_sets(lab: Lab) -> dict[str, list[Draw]]:
    """Return the draws of each set that is there, by its title."""
    found = {}
    for name in CLASSIFICATION_SETS:
        with suppress(DataMissing):
            found[paper.TEXT_TITLES[name]] = list(_draws(lab, name))
        if lab.quick and found:  # texts are long: for a quick look one set will do
            break
    return found


def _draws(lab: Lab, name: str) -> Iterator[Draw]:
    train, test = read_classification(name, "train"), read_classification(name, "test")

    def side(data: Labelled, rows: NDArray[np.int64]) -> Side:
        texts = [data.texts[i] for i in rows]
        with truncating():
            samples = lab.samples_of(texts, normalize=lab.encoder().normalize)
            return Side(samples, lab.own_vectors(texts), data.labels[rows])

    tested = side(test, np.array(spread(len(test.texts), size(lab).tests)))
    for seed in range(size(lab).draws):
        drawn = few(train.labels, train.names, size(lab).shots, seed)
        yield Draw(len(train.names), side(train, drawn), tested)


def chosen(lab: Lab, draw: Draw, seed: int) -> Choice:
    """Return what cross-validation chooses with all samples; the same then holds for fewer, or a full covariance."""
    return _fitted(lab.of_samples(draw.train.samples), draw, seed).choice_


def _fitted(gaussian: Gaussian, draw: Draw, seed: int) -> Sen2ProClassifier:
    return Sen2ProClassifier(features="mean", head="expected", seed=seed).fit(gaussian, draw.train.labels)


def right(lab: Lab, draw: Draw, choice: Choice, *, full: bool = False) -> NDArray[np.bool_]:
    """Return which test sentences are classified rightly; `full` takes the whole covariances of the samples."""
    sides = [side.samples for side in (draw.train, draw.test)]
    gaussians = [lab.of_samples(samples) for samples in sides]
    scaling = Scaling.fit(gaussians[0], choice.features)
    designs = [scaling(gaussian) for gaussian in gaussians]
    if full:
        roots_of = [roots(samples) / scaling.mean_scale for samples in sides]
        designs = [replace(design, noise=noise) for design, noise in zip(designs, roots_of, strict=True)]
    weights = fit(designs[0], draw.train.labels, draw.classes, choice.head, choice.C).cooled(choice.temperature)
    return np.asarray(probabilities(designs[1], weights).argmax(axis=1) == draw.test.labels)


def roots(samples: Samples) -> Array64:
    """Return R (n, r, k) such that R^T R is the mean of the sources' full covariances (SCE), never a k x k matrix."""
    parts = []
    for found in samples.values():
        centred = found.astype(np.float64) - found.mean(axis=1, keepdims=True, dtype=np.float64)
        parts.append(centred / np.sqrt(found.shape[1] * len(samples)))
    return np.concatenate(parts, axis=1)


def add_to(board: Board, lab: Lab) -> None:
    """Add the classification line of table 8: the full covariance against the diagonal one."""
    sets, quoted = sampled_sets(lab), paper.T8["TC"]
    if not sets:
        board.leave_out(["Average", "TC"], "no data", quoted)
        return
    found = {str(i): _points(lab, draws) for i, draws in enumerate(sets.values())}
    most = max(points.n for points in found.values())
    board.add([f"Average of {len(sets)}, {most} texts", "TC"], partial(average, found), quoted)


def _points(lab: Lab, draws: Sequence[Draw]) -> Points:
    """Return the accuracy of each draw of a set, with diagonal and with full covariances."""
    choices = [chosen(lab, draw, seed) for seed, draw in enumerate(draws)]
    diagonal, full = (
        [mean_statistic(right(lab, draw, choice, full=full)) for draw, choice in zip(draws, choices, strict=True)]
        for full in (False, True)
    )
    return Points(diagonal, full, len(draws[0].test.labels))


def curves(lab: Lab, counts: Callable[[int], list[int]]) -> tuple[dict[str, dict[int, float]], float, list[str]]:
    """Return the accuracy x 100 by number of samples of each source, that of plain vectors, and the sets' titles."""
    sets = sampled_sets(lab)
    found: dict[str, dict[int, list[float]]] = {"n1 (model)": {}, "n2 (data)": {}}
    plain = []
    for seed, draw in ((seed, draw) for draws in sets.values() for seed, draw in enumerate(draws)):
        choice = chosen(lab, draw, seed)
        for title, source in zip(found, draw.train.samples, strict=True):
            for count in counts(draw.train.samples[source].shape[1]):
                sides = (draw.train, draw.test)
                fewer = (replace(side, samples=first(side.samples, source, count)) for side in sides)
                score = right(lab, Draw(draw.classes, *fewer), choice).mean()
                found[title].setdefault(count, []).append(100 * float(score))
        point = _fitted(certain(draw.train.vectors), draw, seed)
        plain.append(100 * point.score(certain(draw.test.vectors), draw.test.labels))
    means = {title: {count: float(np.mean(v)) for count, v in curve.items()} for title, curve in found.items()}
    return means, float(np.mean(plain)) if plain else float("nan"), list(sets)


def first(samples: Samples, source: str, count: int) -> Samples:
    """Return the samples with only the first `count` of one source."""
    return {name: x[:, :count] if name == source else x for name, x in samples.items()}
