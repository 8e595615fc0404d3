"""Gaussians in two dimensions: where each sentence lies, how wide it is, its group, and its nearest neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.types import Array64, Labels

MOST_GROUPS = 8
_LEAST = 6  # sentences that groups are looked for in
_LEAST_IN_GROUP = 4  # on average
DEVIATIONS = 2.0  # that the ellipse of a sentence reaches: 86 % of a Gaussian in the plane lie inside


@dataclass(frozen=True, eq=False)
class SentenceMap:
    """Sentences in the plane.

    Attributes
    ----------
    texts
        The n sentences.
    points
        Where they lie (n, 2).
    covariances
        How far each spreads in the plane (n, 2, 2).
    totals
        The total variance of each, in all dimensions (n,).
    groups
        The number of its group (n,), from 0 in the order of the sentences.
    nearest
        The number of its nearest neighbour (n,), by the cosine of the means in all dimensions.
    cosines
        The cosine to that neighbour (n,).
    """

    texts: tuple[str, ...]
    points: Array64
    covariances: Array64
    totals: Array64
    groups: Labels
    nearest: Labels
    cosines: Array64

    def __len__(self) -> int:
        return len(self.texts)


def make_map(texts: Sequence[str], gaussian: Gaussian) -> SentenceMap:
    """Map sentences by their Gaussians (n, k).

    >>> gaussian = Gaussian([[0.0, 1], [0.2, 0.9], [1, 0]], [[0.1, 0.2]] * 3)
    >>> found = make_map(["It rains.", "It is raining.", "I like tea."], gaussian)
    >>> found.nearest.tolist(), found.points.shape
    ([1, 0, 1], (3, 2))
    """
    if len(texts) < 2 or len(texts) != len(gaussian):
        raise Sen2ProError(f"a map takes at least 2 sentences and their Gaussians, not {len(texts)}")
    mean = gaussian.mean.astype(np.float64)
    directions = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-30)
    points, covariances = project(gaussian)
    nearest, cosines = neighbours(directions)
    return SentenceMap(
        tuple(texts), points, covariances, gaussian.total_variance, find_groups(directions), nearest, cosines
    )


def project(gaussian: Gaussian) -> tuple[Array64, Array64]:
    """Return Gaussians (n, k) in the two main directions of their means: points (n, 2), covariances (n, 2, 2).

    A diagonal covariance is seldom diagonal in the plane: for the directions A (2, k) it is A diag(variance) A'.

    >>> points, covariances = project(Gaussian([[0.0, 2, 0], [0, -2, 0], [1, 0, 0]], [[1.0, 4, 9]] * 3))
    >>> covariances[0].round(6).tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """
    mean, variance = gaussian.mean.astype(np.float64), gaussian.variance.astype(np.float64)
    centred = mean - mean.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]  # (2, k)
    axes = axes * np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1, 1)[:, None]  # one sign
    if len(axes) < 2:  # vectors of one number
        axes = np.vstack([axes, np.zeros_like(axes)])
    return centred @ axes.T, np.einsum("ik,nk,jk->nij", axes, variance, axes)


def ellipse(covariance: Array64, deviations: float = DEVIATIONS) -> tuple[float, float, float]:
    """Return width, height and angle (degrees) of the ellipse of a covariance (2, 2).

    >>> [round(number, 6) for number in ellipse(np.diag([4.0, 1.0]))]
    [4.0, 8.0, 90.0]
    """
    values, vectors = np.linalg.eigh(covariance)
    width, height = 2 * deviations * np.sqrt(np.maximum(values, 0))
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    return float(width), float(height), angle % 180


def outline(point: Array64, covariance: Array64, deviations: float = DEVIATIONS, steps: int = 32) -> Array64:
    """Return the outline (steps + 1, 2) of the ellipse around a point; the last corner is the first.

    >>> float(outline(np.array([5.0, 0]), np.diag([4.0, 1.0]))[:, 0].max().round(2))
    9.0
    """
    values, vectors = np.linalg.eigh(covariance)
    turn = np.linspace(0, 2 * np.pi, steps + 1)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return np.asarray(point + deviations * (circle * np.sqrt(np.maximum(values, 0))) @ vectors.T)


def neighbours(directions: Array64) -> tuple[Labels, Array64]:
    """Return the nearest other row of each of n unit vectors (n, k), and the cosine to it."""
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    return nearest, cosines[np.arange(len(nearest)), nearest]


def find_groups(directions: Array64) -> Labels:
    """Return the group of each of n unit vectors (n, k): k-means, with as many groups as separate best (silhouette).

    >>> find_groups(np.repeat(np.eye(3), 4, axis=0) + 1e-3 * np.arange(36).reshape(12, 3)).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    different = len(np.unique(directions.round(6), axis=0))
    if len(directions) < _LEAST or different < 3:
        return np.zeros(len(directions), np.int64)
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best, groups = -np.inf, np.zeros(len(directions), np.int64)
    for count in range(2, min(MOST_GROUPS, different - 1, max(2, len(directions) // _LEAST_IN_GROUP)) + 1):
        found = KMeans(count, n_init=4, random_state=0).fit_predict(directions)
        separation = silhouette_score(directions, found)
        if separation > best:
            best, groups = separation, found
    order = {int(group): number for number, group in enumerate(dict.fromkeys(groups.tolist()))}
    return np.array([order[int(group)] for group in groups], np.int64)
