"""EvalRank: is the right partner of a sentence closer to it than 25,000 others? (Wang et al., 2022)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import Statistic, mean_statistic
from sen2pro.paper.data import EvalRank
from sen2pro.paper.store import to_unit
from sen2pro.progress import Show, progress
from sen2pro.types import Array, Array64

MEASURES = ("MRR", "Hits@1", "Hits@3")
_BLOCK = 256  # queries at a time: the table of scores is never whole

Block = Callable[[NDArray[np.int64]], NDArray[np.float32]]  # queries (b,) -> scores of every background sentence (b, n)


def ranks(task: EvalRank, scores: Block, show: Show = False) -> NDArray[np.int64]:
    """Return the rank of each pair's second sentence among the background, for the first as a query.

    It is one more than the number of background sentences other than the query that score strictly more. (The protocol
    counts the query as well and takes at least 1, which is the same wherever the query itself scores most.)

    Parameters
    ----------
    task
        Pairs and background.
    scores
        Gives, for some rows of the background as queries, their score with every background sentence.
    show
        Whether a progress bar is shown, as for `Sen2Pro.encode`.
    """
    index = {sentence: i for i, sentence in enumerate(task.background)}
    pairs = np.array([(index[a], index[b]) for a, b in task.pairs])
    queries, which = np.unique(pairs[:, 0], return_inverse=True)
    found = np.empty(len(pairs), np.int64)
    with progress(len(queries), show, threshold=4 * _BLOCK, unit="queries") as advance:
        for start in range(0, len(queries), _BLOCK):
            block = scores(queries[start : start + _BLOCK])
            mine = np.flatnonzero((which >= start) & (which < start + _BLOCK))
            rows = block[which[mine] - start]
            more = rows > rows[np.arange(len(mine)), pairs[mine, 1]][:, None]
            more[np.arange(len(mine)), pairs[mine, 0]] = False
            found[mine] = 1 + more.sum(axis=1)
            advance(len(block))
    return found


def statistics(found: NDArray[np.int64]) -> dict[str, Statistic]:
    """Return MRR and Hits@k of some ranks, as functions of how often each pair counts.

    >>> by_name = statistics(np.array([1, 2, 4]))
    >>> {name: float(s(np.ones((1, 3)))[0].round(4)) for name, s in by_name.items()}
    {'MRR': 0.5833, 'Hits@1': 0.3333, 'Hits@3': 0.6667}
    """
    return {
        "MRR": mean_statistic(1 / found),
        "Hits@1": mean_statistic(found <= 1),
        "Hits@3": mean_statistic(found <= 3),
    }


def centred(vectors: Array) -> Array:
    """Return plain vectors less their mean, scaled to length 1: the protocol's cosine."""
    return to_unit(vectors - vectors.mean(axis=0))


def centred_gaussian(gaussian: Gaussian) -> Gaussian:
    """Return Gaussians less the mean of all, scaled so that a sample has length 1 on average.

    This is what centring and normalising every sample would give, from the moments alone: the squared length of a
    centred sample is |mean|^2 + total variance on average. As on the unit sphere, the mean itself comes out shorter,
    and the more so the more uncertain it is.
    """
    mean: Array64 = gaussian.mean.astype(np.float64)
    mean = mean - mean.mean(axis=0)
    squared = (mean**2).sum(axis=1, keepdims=True) + gaussian.total_variance[:, None]
    squared = np.maximum(squared, 1e-24)
    return Gaussian(mean / np.sqrt(squared), gaussian.variance / squared, gaussian.signature)
