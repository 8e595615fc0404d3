"""Finding the right sentence among many: ranks, MRR and Hits@k, and sentence analogies, all on arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian
from sen2pro.progress import Show, progress
from sen2pro.validation import Array, Array64, Labels
from sen2pro_lab.metrics.base import to_unit
from sen2pro_lab.metrics.bootstrap import Statistic, mean_statistic

MEASURES = ("MRR", "Hits@1", "Hits@3")
_BLOCK = 256  # queries at a time: the table of scores is never whole
Block = Callable[[Labels], Array]  # queries (b,) -> scores of every background sentence (b, n)


def ranks(pairs: Labels, scores: Block, show: Show = False) -> Labels:
    """Return the rank of each pair's second sentence among the background, for the first as a query.

    It is one more than the number of background sentences other than the query that score strictly more. (EvalRank,
    Wang et al. 2022, counts the query too and takes at least 1: the same wherever the query itself scores most.)
    `pairs` (n, 2) says where the two sentences of each pair stand in the background.
    """
    queries, which = np.unique(pairs[:, 0], return_inverse=True)
    result = np.empty(len(pairs), np.int64)
    with progress(len(queries), show, threshold=4 * _BLOCK, unit="queries") as advance:
        for start in range(0, len(queries), _BLOCK):
            block = scores(queries[start : start + _BLOCK])
            mine = np.flatnonzero(which // _BLOCK == start // _BLOCK)
            rows, each = block[which[mine] - start], np.arange(len(mine))
            more = rows > rows[each, pairs[mine, 1]][:, None]
            more[each, pairs[mine, 0]] = False
            result[mine] = 1 + more.sum(axis=1)
            advance(len(block))
    return result


def measures(places: Labels) -> dict[str, Statistic]:
    """Return MRR and Hits@k of some ranks, as functions of how often each pair counts.

    >>> by_name = measures(np.array([1, 2, 4]))
    >>> {name: float(s(np.ones((1, 3)))[0].round(4)) for name, s in by_name.items()}
    {'MRR': 0.5833, 'Hits@1': 0.3333, 'Hits@3': 0.6667}
    """
    values = (1 / places, places <= 1, places <= 3)
    return {name: mean_statistic(value) for name, value in zip(MEASURES, values, strict=True)}


def centred(vectors: Array) -> Array:
    """Return plain vectors less their mean, scaled to length 1: the cosine of EvalRank's protocol."""
    return to_unit(vectors - vectors.mean(axis=0))


def centred_gaussian(gaussian: Gaussian) -> Gaussian:
    """Return Gaussians less the mean of all, scaled so that a sample has length 1 on average.

    It is close to centring and normalising every sample: the squared length of a centred sample is |mean|^2 + total
    variance on average. As on the unit sphere, an uncertain mean is shorter.
    """
    mean: Array64 = gaussian.mean.astype(np.float64)
    mean = mean - mean.mean(axis=0)
    squared = np.maximum((mean**2).sum(axis=1, keepdims=True) + gaussian.total_variance[:, None], 1e-24)
    return Gaussian(mean / np.sqrt(squared), gaussian.variance / squared, gaussian.signature)


def differences(vectors: Array | Array64, where: Labels) -> Array64:
    """Return x = | |a - b| - |c - d| | of analogies a : b :: c : d, smaller is better: (n,).

    >>> vectors = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0], [1.0, 3.0]])
    >>> differences(vectors, np.array([[0, 1, 2, 3]]))  # |5 - 2|
    array([3.])
    """
    a, b, c, d = np.asarray(vectors, np.float64)[where.T]
    return np.asarray(np.abs(np.linalg.norm(a - b, axis=1) - np.linalg.norm(c - d, axis=1)))


def completed(vectors: Array | Array64, where: Labels) -> NDArray[np.bool_]:
    """Tell for each analogy whether d is the sentence nearest to b - a + c (3CosAdd), among all but a, b and c.

    >>> vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    >>> completed(vectors, np.array([[0, 1, 2, 3]]))
    array([ True])
    """
    unit = to_unit(np.asarray(vectors))
    scores = (unit[where[:, 1]] - unit[where[:, 0]] + unit[where[:, 2]]) @ unit.T
    np.put_along_axis(scores, where[:, :3], -np.inf, axis=1)
    return np.asarray(scores.argmax(axis=1) == where[:, 3])
