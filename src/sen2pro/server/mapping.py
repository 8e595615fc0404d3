"""Texts in the plane: the position and the ellipse of each Gaussian, groups, and names for the groups."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sen2pro.gaussian import Gaussian
from sen2pro.validation import Array64, Labels

_DEVIATIONS = 2.0  # that an ellipse covers: it holds 86 % of a Gaussian in the plane
_MOST_GROUPS = 8
_LEAST_TEXTS = 6  # for more than one group
_TEXTS_PER_GROUP = 4  # on average, at least
_NAMED = 2000  # characters of a text in which words for the names are looked for
_WORD = re.compile(r"[^\W\d_]{3,20}(?:['’][^\W\d_]{1,3})?")
_COMMON_WORDS = (
    "about after again all also and any are because been before being both but can can't could did does doing don't "
    "down during each few for from further get got had has have having her here hers him his how into isn't it's its "
    "just like made make many may might more most much must not now off once one only other our out over own same "
    "she should some such than that that's the their them then there these they this those through too two under "
    "until upon use very was wasn't were what when where which while who whom why will with without won't would you "
    "your yours i'm i've"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True)
class MapPoint:
    """A text in the plane, at (x, y).

    `rx` and `ry` are the long and the short half axis of its ellipse, which covers two standard deviations; `angle` is
    that of the long one, in degrees counter-clockwise from the x axis. `total` is the sum of its variances in all
    dimensions. `score` is how specific it is, 0 to 100; null without a specificity head. `nearest` is the index of the
    nearest other text in all dimensions, and `cosine` the cosine to it. `group` is the index of its group.
    """

    index: int
    x: float
    y: float
    rx: float
    ry: float
    angle: float
    total: float
    score: float | None
    group: int
    nearest: int
    cosine: float


@dataclass(frozen=True)
class MapGroup:
    """A group of texts, named by its most typical words."""

    name: str
    size: int


def make_map(
    texts: Sequence[str], gaussian: Gaussian, scores: Sequence[float | None]
) -> tuple[list[MapPoint], list[MapGroup]]:
    """Return the points and the groups of texts with these Gaussians (n, k) and scores of specificity.

    >>> gaussian = Gaussian([[0.0, 1], [0.2, 0.9], [1, 0]], [[0.1, 0.2]] * 3)
    >>> points, groups = make_map(["It rains.", "It is raining.", "I like tea."], gaussian, [None] * 3)
    >>> [point.nearest for point in points], groups
    ([1, 0, 1], [MapGroup(name='rains, raining', size=3)])
    """
    mean = gaussian.mean.astype(np.float64)
    directions = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-30)
    cosines = directions @ directions.T
    points, covariances = project(gaussian)
    groups = find_groups(directions, cosines)
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    columns = (
        *points.T, *ellipses(covariances).T, gaussian.total_variance, np.array(scores, object), groups, nearest,
        cosines[np.arange(len(texts)), nearest],
    )  # fmt: skip
    rows = zip(range(len(texts)), *(column.tolist() for column in columns), strict=True)
    names = name_groups(texts, groups)
    sizes = np.bincount(groups, minlength=len(names)).tolist()
    return [MapPoint(*row) for row in rows], [MapGroup(*each) for each in zip(names, sizes, strict=True)]


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


def ellipses(covariances: Array64) -> Array64:
    """Return the long half axis, the short half axis and the angle of the ellipse of each covariance (n, 2, 2).

    >>> ellipses(np.array([[[1.0, 0], [0, 4]]])).round(6).tolist()
    [[4.0, 2.0, 90.0]]
    """
    values, vectors = np.linalg.eigh(covariances)  # the greater value is the second
    axes = _DEVIATIONS * np.sqrt(np.maximum(values, 0))
    angles = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1])) % 180
    return np.stack([axes[:, 1], axes[:, 0], angles], axis=1)


def find_groups(directions: Array64, cosines: Array64) -> Labels:
    """Return the group of each of n unit vectors (n, k): Ward's clusters, as many as have the best silhouette.

    >>> directions = np.repeat(np.eye(3), 4, axis=0)
    >>> find_groups(directions + 1e-3 * np.arange(36).reshape(12, 3), directions @ directions.T).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    """
    from scipy.cluster.hierarchy import fcluster, linkage  # takes a tenth of a second, and only maps need it

    count, distinct = len(directions), len(np.unique(directions.round(6), axis=0))
    best, groups = -np.inf, np.zeros(count, np.int64)
    if count < _LEAST_TEXTS or distinct < 3:
        return groups
    tree, distances = linkage(directions, "ward"), np.sqrt(np.maximum(2 - 2 * cosines, 0))
    for number in range(2, min(_MOST_GROUPS, distinct - 1, max(2, count // _TEXTS_PER_GROUP)) + 1):
        found = fcluster(tree, number, "maxclust")
        separation = _silhouette(distances, found)
        if separation > best:
            best, groups = separation, found
    order = {group: number for number, group in enumerate(dict.fromkeys(groups.tolist()))}
    return np.array([order[group] for group in groups.tolist()], np.int64)


def _silhouette(distances: Array64, groups: Labels) -> float:
    """Return the mean silhouette of groups: 1 if they are far apart, -1 if they are mixed."""
    members = np.equal.outer(groups, np.unique(groups)).astype(np.float64)  # (n, groups)
    sizes, sums = members.sum(axis=0), distances @ members
    own_size = members @ sizes
    own = (sums * members).sum(axis=1) / np.maximum(own_size - 1, 1)
    other = np.where(members == 1, np.inf, sums / sizes).min(axis=1)
    scale = np.maximum(np.maximum(own, other), 1e-30)
    return float(np.where(own_size > 1, (other - own) / scale, 0).mean())


def name_groups(texts: Sequence[str], groups: Labels) -> tuple[str, ...]:
    """Name each group by the two words that are frequent in it and rare elsewhere.

    >>> texts = ["The rain stopped.", "Heavy rain fell.", "Tea is hot.", "Green tea is hot."]
    >>> name_groups(texts, np.array([0, 0, 1, 1]))
    ('rain, stopped', 'tea, hot')
    """
    found = [dict.fromkeys(word.lower() for word in _WORD.findall(text[:_NAMED])) for text in texts]
    words = [[word for word in each if word not in _COMMON] for each in found]
    total, names = Counter(chain.from_iterable(words)), []
    for group in range(int(groups.max(initial=0)) + 1):
        members = [each for each, own in zip(words, groups.tolist(), strict=True) if own == group]
        weights: dict[str, float] = {}
        for word, count in Counter(chain.from_iterable(members)).items():
            here, elsewhere = count / len(members), (total[word] - count) / max(len(texts) - len(members), 1)
            weights[word] = here * math.log((here + 0.05) / (elsewhere + 0.05))
        typical = sorted(weights, key=weights.__getitem__, reverse=True)[:2]  # stable: in the order of the texts
        names.append(", ".join(typical) or f"group {group + 1}")
    return tuple(names)
