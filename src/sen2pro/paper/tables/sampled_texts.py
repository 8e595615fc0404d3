"""What classification adds to table 8 and figure 3: from ten examples of each class, with the samples themselves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.choosing import Choice
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import fit, probabilities
from sen2pro.errors import TruncationWarning
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import Statistic, average_statistic, mean_of, mean_statistic, paired_bootstrap
from sen2pro.paper import numbers as paper
from sen2pro.paper.data import CLASSIFICATION_SETS, DataMissing, read_classification, spread
from sen2pro.paper.lab import Lab, moments
from sen2pro.paper.report import Line
from sen2pro.paper.tables.labelled import few
from sen2pro.types import Array, Array64

SHOTS, DRAWS = 10, 3  # as in the paper
_TESTS = 200  # texts of a test set: each takes thirty passes
T8_NOTE = (
    f"TC: {SHOTS} examples of each class, {DRAWS} draws, a head that averages over the covariance in question; its "
    "penalty is what cross-validation chooses with the diagonal one, so that nothing but the estimator differs."
)
Samples = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of examples of a set, and what they are tested on: samples (n, N, k) of each source, vectors, labels."""

    classes: int
    train: Samples
    train_vectors: Array
    labels: NDArray[np.int64]
    test: Samples
    test_vectors: Array
    truth: NDArray[np.int64]


def tests(lab: Lab) -> int:
    """Return how many texts of a set are tested on, at most."""
    return min(lab.limit or _TESTS, _TESTS)


def sampled_sets(lab: Lab) -> dict[str, list[Draw]]:
    """Return the draws of each set that is there, by its title."""
    found = {}
    for name in CLASSIFICATION_SETS:
        try:
            found[paper.TEXT_TITLES[name]] = list(_draws(lab, name))
        except DataMissing:
            continue
    return found


def _draws(lab: Lab, name: str) -> Iterator[Draw]:
    train, test = read_classification(name, "train"), read_classification(name, "test")
    tested = np.array(spread(len(test.texts), tests(lab)))

    def sampled(texts: list[str]) -> tuple[Samples, Array]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            return lab.samples_of(texts, normalize=lab.encoder().normalize), lab.own_vectors(texts)

    of_test = sampled([test.texts[i] for i in tested])
    for seed in range(DRAWS):
        rows = few(train.labels, train.names, SHOTS, seed)
        of_train = sampled([train.texts[i] for i in rows])
        yield Draw(len(train.names), *of_train, train.labels[rows], *of_test, test.labels[tested])


def chosen(lab: Lab, draw: Draw, seed: int) -> Choice:
    """Return what cross-validation chooses with all samples; the same then holds for fewer, or a full covariance."""
    gaussian = joined(lab, draw.train)
    return Sen2ProClassifier(features="mean", head="expected", seed=seed).fit(gaussian, draw.labels).choice_


def joined(lab: Lab, samples: Samples) -> Gaussian:
    """Return the Gaussians of samples."""
    return lab.join({source: Gaussian(*moments(found)) for source, found in samples.items()})


def right(draw: Draw, choice: Choice, train: Gaussian, test: Gaussian, *, full: bool = False) -> NDArray[np.bool_]:
    """Return which test sentences are classified rightly; `full` takes the whole covariances of the draw's samples."""
    scaling = Scaling.fit(train, choice.features)
    designs = [scaling(gaussian) for gaussian in (train, test)]
    if full:
        designs = [
            replace(design, noise=roots(samples) / scaling.mean_scale)
            for design, samples in zip(designs, (draw.train, draw.test), strict=True)
        ]
    weights = fit(designs[0], draw.labels, draw.classes, choice.head, choice.C).scaled(choice.temperature)
    return np.asarray(probabilities(designs[1], weights).argmax(axis=1) == draw.truth)


def roots(samples: Samples) -> Array64:
    """Return R (n, r, k) such that R^T R is the mean of the sources' full covariances (SCE), never a k x k matrix."""
    parts = []
    for found in samples.values():
        centred = found.astype(np.float64) - found.mean(axis=1, keepdims=True, dtype=np.float64)
        parts.append(centred / np.sqrt(found.shape[1] * len(samples)))
    return np.concatenate(parts, axis=1)


def t8_line(lab: Lab) -> Line:
    """Return the classification line of table 8: the full covariance against the diagonal one."""
    sets = sampled_sets(lab)
    quoted = paper.T8["TC"]
    if not sets:
        return Line(["Average", "TC"], quoted, missing="no data")
    sizes = [len(draws[0].truth) for draws in sets.values()]
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    found: dict[bool, list[Statistic]] = {True: [], False: []}
    for seed in range(DRAWS):
        parts: dict[bool, list[Statistic]] = {True: [], False: []}
        for draws in sets.values():
            draw = draws[seed]
            choice, train, test = chosen(lab, draw, seed), joined(lab, draw.train), joined(lab, draw.test)
            for full in parts:
                parts[full].append(mean_statistic(right(draw, choice, train, test, full=full)))
        for full, statistics in parts.items():
            found[full].append(average_statistic(statistics, places))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    compared = paired_bootstrap(found[False], mean_of(found[True]), int(ends[-1]), groups=groups)
    return Line([f"Average of {len(sets)}, {max(sizes)} texts", "TC"], quoted, compared.scaled(100))


def curves(lab: Lab, counts: Callable[[int], list[int]]) -> tuple[dict[str, dict[int, float]], float, list[str]]:
    """Return the accuracy x 100 by number of samples of each source, that of plain vectors, and the sets' titles."""
    sets = sampled_sets(lab)
    found: dict[str, dict[int, list[float]]] = {"n1 (model)": {}, "n2 (data)": {}}
    plain = []
    for draws in sets.values():
        for seed, draw in enumerate(draws):
            choice = chosen(lab, draw, seed)
            for title, source in zip(found, draw.train, strict=True):
                for count in counts(draw.train[source].shape[1]):
                    train, test = (
                        joined(lab, {s: x[:, :count] if s == source else x for s, x in side.items()})
                        for side in (draw.train, draw.test)
                    )
                    found[title].setdefault(count, []).append(100 * right(draw, choice, train, test).mean())
            points = [Gaussian(v, np.zeros_like(v)) for v in (draw.train_vectors, draw.test_vectors)]
            point = Sen2ProClassifier(features="mean", head="expected", seed=seed).fit(points[0], draw.labels)
            plain.append(100 * point.score(points[1], draw.truth))
    means = {title: {count: float(np.mean(v)) for count, v in curve.items()} for title, curve in found.items()}
    return means, float(np.mean(plain)) if plain else float("nan"), list(sets)
