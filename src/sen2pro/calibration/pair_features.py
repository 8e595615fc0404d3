"""The features of a pair of sentences: numbers with and without the distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sen2pro.calibration.selection import Mask, Table
from sen2pro.distances import distance_pairwise
from sen2pro.estimation.encoded import Encoded
from sen2pro.gaussian import is_far
from sen2pro.validation import Array, Array64

PLAIN = ("cosine", "length", "length difference")  # features that need no distribution
_FLOOR = 1e-12  # of a variance, before its logarithm


def names(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features of a pair, those without a distribution first.

    >>> names(["data"])
    ('cosine', 'length', 'length difference', 'distance', 'mean cosine', 'data total', 'data ratio', 'data product')
    """
    of_source = [f"{source} {name}" for source in sources for name in ("total", "ratio", "product")]
    return (*PLAIN, "distance", "mean cosine", *of_source)


def pair_features(a: Encoded, b: Encoded) -> Table:
    """Return the features of each pair, by `names`; a pair and its reverse have the same.

    Of each source of uncertainty: *total* is the logarithm of the sum of both total variances, *ratio* the size of the
    logarithm of their ratio (sentences that mean the same are about equally vague), and *product* the logarithm of the
    variance of the dot product, by the delta method.
    """
    lengths = np.log(np.maximum([a.words, b.words], 1))
    distance = distance_pairwise(a.gaussian, b.gaussian).astype(np.float64)
    columns = [plain_cosine(a.plain, b.plain), lengths.sum(axis=0), np.abs(lengths[0] - lengths[1])]
    columns += [distance, plain_cosine(a.gaussian.mean, b.gaussian.mean)]
    for source in a.parts:
        x, y = a.parts[source], b.parts[source]
        total_x, total_y = (np.maximum(part.total_variance, _FLOOR) for part in (x, y))
        product = (x.mean.astype(np.float64) ** 2 * y.variance + y.mean.astype(np.float64) ** 2 * x.variance).sum(-1)
        columns += [np.log(total_x + total_y), np.abs(np.log(total_x / total_y)), np.log(np.maximum(product, _FLOOR))]
    return Table(names(list(a.parts)), np.stack(columns, axis=-1))


def plain_cosine(x: Array, y: Array) -> Array64:
    """Return the cosine of each row of one array with the same row of the other, in double precision."""
    x_, y_ = (side.astype(np.float64) for side in (x, y))
    norms = np.linalg.norm(x_, axis=-1) * np.linalg.norm(y_, axis=-1)
    return np.asarray((x_ * y_).sum(axis=-1) / np.maximum(norms, _FLOOR))


def far_pairs(left: Encoded, right: Encoded) -> Mask:
    """Tell which pairs (n,) have a sentence that the head does not know."""
    return is_far(left.gaussian) | is_far(right.gaussian)
