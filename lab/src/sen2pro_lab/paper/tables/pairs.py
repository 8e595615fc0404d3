"""Pairs of sentences, and the similarities of them that are compared, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sen2pro.distances import distance, distance_pairwise
from sen2pro.estimation.moments import combine, estimate
from sen2pro.gaussian import Gaussian
from sen2pro.progress import Show, progress
from sen2pro.validation import Array, Array64
from sen2pro_lab.paper.lab import Lab

_FULL_CHUNK = 64  # pairs whose full covariances are in memory at once


class Pairing:
    """The sentences of a list of pairs, each encoded once; `keep` keeps the samples too, not only their moments."""

    def __init__(self, lab: Lab, left: Sequence[str], right: Sequence[str], *, keep: bool = False) -> None:
        self.lab, self.keep = lab, keep
        index = {sentence: i for i, sentence in enumerate(dict.fromkeys([*left, *right]))}
        self.sentences = tuple(index)
        self.left, self.right = (np.array([index[s] for s in side]) for side in (left, right))
        self._parts: dict[tuple[int, bool], dict[str, Gaussian]] = {}

    @cached_property
    def vectors(self) -> Array:
        """The plain vectors of the sentences, of length 1."""
        return self.lab.vectors(self.sentences)

    def parts(self, seed: int = 0, *, normalize: bool = True) -> dict[str, Gaussian]:
        """Return the Gaussians of model and data uncertainty of the sentences."""
        if (seed, normalize) not in self._parts:
            found = self.lab.parts(self.sentences, seed, normalize=normalize, keep_samples=self.keep)
            self._parts[seed, normalize] = found
        return self._parts[seed, normalize]

    def samples(self, seed: int = 0) -> dict[str, Array]:
        """Return the samples (n, N, k) of the sentences, of each source of uncertainty."""
        return self.lab.samples_of(self.sentences, seed)

    def sides(self, gaussian: Gaussian) -> tuple[Gaussian, Gaussian]:
        """Return the Gaussians of the left and of the right sentences of the pairs."""
        return gaussian[self.left], gaussian[self.right]


@dataclass(frozen=True)
class Reading:
    """A similarity: a geometry, a metric, and which uncertainty it sees; greater scores are closer."""

    title: str
    metric: str
    normalize: bool = True
    certain: bool = False  # whether variances are taken for 0
    plain: bool = False  # whether it compares the plain vectors, scaled to length 1, in place of Gaussians
    kind: str = "m+d"
    how: str = "individual"

    def pairwise(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of each pair (n,)."""
        return -distance_pairwise(self._seen(a), self._seen(b), self.metric)

    def all_pairs(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of all pairs (n, m)."""
        return -distance(self._seen(a), self._seen(b), self.metric)

    def _seen(self, gaussian: Gaussian) -> Gaussian:
        return certain(gaussian.mean) if self.certain else gaussian

    def runs(self, pairs: Pairing) -> list[Array] | list[Array64]:
        """Return the similarity of each pair (n,), once for each seed if it depends on that."""
        seeds = range(pairs.lab.seeds)
        if self == COSINE:
            return [(pairs.vectors[pairs.left] * pairs.vectors[pairs.right]).sum(axis=1)]
        if self == FULL:
            return [full_scores(pairs, pairs.samples(seed)) for seed in seeds]
        if self.plain:
            return [self.pairwise(*pairs.sides(certain(pairs.vectors)))]
        parts = (pairs.parts(seed, normalize=self.normalize) for seed in seeds)
        return [self.pairwise(*pairs.sides(pairs.lab.join(part, self.kind, self.how))) for part in parts]


def certain(vectors: Array) -> Gaussian:
    """Return vectors as Gaussians without a variance."""
    return Gaussian(vectors, np.zeros_like(vectors))


LITERAL = Reading("Eq. 6, raw vectors", "sen2pro", normalize=False)
SPHERE = Reading("Eq. 6, unit sphere", "sen2pro")
MEANS = Reading("cosine of the means", "corrected-cosine", certain=True)  # what averaging alone does
CORRECTED = Reading("corrected cosine", "corrected-cosine")
OURS = SPHERE  # the default of `Sen2Pro.similarity`
READINGS = (LITERAL, SPHERE, MEANS, CORRECTED)
COSINE = Reading("cosine", "cosine", plain=True)  # Sen2Vec
# With no variances, Eq. 6 is the L1 distance of the vectors, and Wasserstein's the L2 distance.
PLAIN = (Reading("plain L1", "sen2pro", plain=True), Reading("plain L2", "wasserstein", plain=True))
FULL = Reading("Eq. 6, full covariance", "full")  # SCE


class Row(NamedTuple):
    """A comparison of two similarities; `quoted` is what the paper says of them, by set."""

    label: str
    ours: Reading
    baseline: Reading = COSINE
    quoted: Mapping[str, tuple[float, float]] | None = None


# The other distances of plain vectors against the cosine, and ours against these: in every table of similarities.
PLAIN_ROWS = (
    *(Row(reading.title, reading) for reading in PLAIN),
    *(Row(f"{OURS.title}, against {reading.title}", OURS, reading) for reading in PLAIN),
)


def all_rows(quoted: Mapping[str, tuple[float, float]] | None = None) -> list[Row]:
    """Return the rows of a table of similarities, with what the paper says of Sen2Pro beside each reading of it."""
    return [*(Row(reading.title, reading, quoted=quoted) for reading in READINGS), *PLAIN_ROWS]


def full_scores(pairs: Pairing, samples: Mapping[str, Array], *, own_weight: bool = False) -> Array64:
    """Return minus the distance of each pair with full covariances (n,)."""
    left, right = ({source: x[side] for source, x in samples.items()} for side in (pairs.left, pairs.right))
    return -full_distance(left, right, own_weight=own_weight, show=pairs.lab.store.show)


def full_distance(
    left: Mapping[str, Array], right: Mapping[str, Array], *, own_weight: bool = False, show: Show = False
) -> Array64:
    """Return Eq. 6 with full covariances (SCE), from the samples (n, N, k) of each source: (n,).

    The weight alpha of a pair is that of its diagonals, so that nothing but the estimator differs; with `own_weight` it
    is the ratio of the full covariances themselves, which is mostly clipped to 1 and leaves nothing of the means.
    """
    distances = []
    count = len(next(iter(left.values())))
    with progress(count, show, threshold=1000, unit="pairs") as advance:
        for start in range(0, count, _FULL_CHUNK):
            where = slice(start, start + _FULL_CHUNK)
            (mean_a, covariance_a), (mean_b, covariance_b) = (
                combine([estimate(x[where], "full") for x in side.values()], [1] * len(side), "individual")
                for side in (left, right)
            )
            of_means = np.abs(mean_a - mean_b).sum(axis=-1)
            difference = np.abs(covariance_a - covariance_b)
            of_covariances = difference.sum(axis=(-2, -1))
            of_weight = of_covariances if own_weight else difference.diagonal(axis1=-2, axis2=-1).sum(axis=-1)
            weight = np.where(of_means > 0, np.minimum(of_weight / np.maximum(of_means, 1e-30), 1), 1.0)
            distances.append((1 - weight) * of_means + weight * of_covariances)
            advance(len(of_means))
    return np.concatenate(distances)
