"""Distances between Gaussians (Eq. 6 of the paper and the classical ones), pairwise and all-pairs.

Every metric is written once, in terms of a few sums over dimensions; `_PAIRWISE` and `_ALL_PAIRS` say how such a sum is
taken. All-pairs sums run over blocks, so that no (n, m, k) array is ever made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.gaussian import Gaussian, floored
from sen2pro.signature import check_comparable
from sen2pro.validation import Array, Array64, check_text, parse_fraction

Floats = NDArray[np.floating[Any]]
_Pair = tuple[Array64, Array64]

_BLOCK = 1024  # rows and columns of an all-pairs table that are worked on at once
_BLOCK_NUMBERS = 1 << 22  # of a broadcast block
_RESULTANT_EXPONENT = 0.75
_LARGEST_SUM = float(np.finfo(np.float32).max) / 2  # that float32 is trusted with


def _faiss_may_help() -> bool:
    """Not on macOS, where faiss and torch bring two OpenMP libraries that crash together."""
    return sys.platform != "darwin" and find_spec("faiss") is not None


def _l1_table(x: Floats, y: Floats) -> Array64:
    """Return L1 distances: by faiss in float32 if it is installed and no sum can leave float32's range."""
    largest = max(float(np.abs(v).max(initial=0)) for v in (x, y))
    if _faiss_may_help() and 2 * largest * x.shape[1] <= _LARGEST_SUM:
        import faiss

        left, right = (np.ascontiguousarray(v, np.float32) for v in (x, y))
        return np.asarray(faiss.pairwise_distances(left, right, faiss.METRIC_L1), np.float64)
    return _table(x, y, "cityblock")


def _table(x: Floats, y: Floats, metric: str) -> Array64:
    from scipy.spatial.distance import cdist  # half a second to import, and only tables need it

    return np.asarray(cdist(x, y, metric))


def _total_table(function: Callable[..., Array64], *pairs: tuple[Array64, Array64]) -> Array64:
    n, (m, k) = len(pairs[0][0]), pairs[0][1].shape
    step = max(1, _BLOCK_NUMBERS // max(1, m * k))
    result = np.empty((n, m))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        result[rows] = function(*((x[rows, None], y[None]) for x, y in pairs)).sum(axis=-1)
    return result


class _Sums(NamedTuple):
    """Sums over the dimensions of rows of x and y, and where the numbers of each side stand in the result."""

    left: Callable[[Array64], Array64]
    right: Callable[[Array64], Array64]
    l1: Callable[[Floats, Floats], Array64]
    squared_l2: Callable[[Floats, Floats], Array64]
    dot: Callable[[Floats, Floats], Array64]
    total: Callable[..., Array64]  # of a function of pairs (x, y)


_PAIRWISE = _Sums(  # row i of x with row i of y: (n,)
    left=lambda v: v,
    right=lambda v: v,
    l1=lambda x, y: np.abs(x.astype(np.float64) - y).sum(axis=-1),
    squared_l2=lambda x, y: ((x.astype(np.float64) - y) ** 2).sum(axis=-1),
    dot=lambda x, y: (x.astype(np.float64) * y).sum(axis=-1),
    total=lambda function, *pairs: function(*pairs).sum(axis=-1),
)
_ALL_PAIRS = _Sums(  # row i of x with row j of y: (n, m)
    left=lambda v: v[:, None],
    right=lambda v: v[None, :],
    l1=_l1_table,
    squared_l2=partial(_table, metric="sqeuclidean"),
    dot=lambda x, y: x.astype(np.float64) @ y.astype(np.float64).T,
    total=_total_table,
)


def _sen2pro(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """Eq. 6: (1 - alpha) * L1(mean_a - mean_b) + alpha * L1(variance_a - variance_b).

    The paper sets alpha to L1(mean)/L1(variance), around 100, and reports values of 0.01 to 0.05. Both cannot hold. The
    inverse has the reported size, and that is the rule `"ratio"`, clipped to [0, 1].
    """
    means, variances = sums.l1(a.mean, b.mean), sums.l1(a.variance, b.variance)
    divisor = np.where(means > 0, means, 1)
    weight = np.where(means > 0, np.minimum(variances, means) / divisor, 1.0) if isinstance(alpha, str) else alpha
    return np.asarray((1 - weight) * means + weight * variances)


def _wasserstein(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """2-Wasserstein: sqrt(|mean_a - mean_b|^2 + |std_a - std_b|^2)."""
    return np.asarray(np.sqrt(sums.squared_l2(a.mean, b.mean) + sums.squared_l2(a.std, b.std)))


def _symmetric_kl(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """(KL(a, b) + KL(b, a)) / 2; the logarithms of the two determinants cancel."""
    va, vb = floored(a.variance), floored(b.variance)
    ma, mb = a.mean.astype(np.float64), b.mean.astype(np.float64)

    def term(means: _Pair, precisions: _Pair, variances: _Pair) -> Array64:
        (x, y), (px, py), (vx, vy) = means, precisions, variances
        return (px + py) * (x - y) ** 2 + vx * py + vy * px - 2

    total = sums.total(term, (ma, mb), (1 / va, 1 / vb), (va, vb))
    return np.asarray(np.maximum(0.25 * total, 0))  # rounding can go below


def _bhattacharyya(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """|mean_a - mean_b|^2 / v / 8 + log(v / sqrt(v_a v_b)) / 2 summed, with v = (v_a + v_b) / 2, in log space."""
    va, vb = floored(a.variance), floored(b.variance)
    ma, mb = a.mean.astype(np.float64), b.mean.astype(np.float64)

    def term(means: _Pair, variances: _Pair) -> Array64:
        (x, y), (vx, vy) = means, variances
        middle = (vx + vy) / 2
        return (x - y) ** 2 / middle / 8 + np.log(middle) / 2

    logs = 0.25 * np.log(va).sum(-1), 0.25 * np.log(vb).sum(-1)
    total = sums.total(term, (ma, mb), (va, vb)) - sums.left(logs[0]) - sums.right(logs[1])
    return np.asarray(np.maximum(total, 0))


def _cosine(a: Gaussian, b: Gaussian, sums: _Sums, length: Callable[[Array64, Array64], Array64]) -> Array64:
    """1 - mean_a.mean_b / (length_a length_b), with lengths made of |mean| and sqrt(|mean|^2 + total variance)."""
    squares = [(g.mean.astype(np.float64) ** 2).sum(-1) for g in (a, b)]
    left, right = (
        length(np.sqrt(square), np.sqrt(square + g.total_variance)) for square, g in zip(squares, (a, b), strict=True)
    )
    return np.asarray(1 - sums.dot(a.mean, b.mean) / np.maximum(sums.left(left) * sums.right(right), 1e-30))


def _expected_cosine(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """1 - E[x.y] / sqrt(E|x|^2 E|y|^2): on the unit sphere, 1 minus the average cosine of the samples themselves."""
    return _cosine(a, b, sums, lambda size, whole: whole)


def _corrected_cosine(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """1 - cos(mean_a, mean_b) / (R_a R_b)^0.75, where R = |mean| / sqrt(|mean|^2 + total variance).

    R is the resultant length of directional statistics: 1 for a sentence that is certain, less the more its samples
    disagree. The exponent was chosen on STS-B dev and SICK trial (`lab/results/benchmarks/similarity_search.json`).
    """

    def length(size: Array64, whole: Array64) -> Array64:
        return np.asarray(np.maximum(size, 1e-30) * (size / np.maximum(whole, 1e-30)) ** _RESULTANT_EXPONENT)

    return _cosine(a, b, sums, length)


def _expected_l2(a: Gaussian, b: Gaussian, sums: _Sums, alpha: float | str) -> Array64:
    """E|x - y|^2 of two independent samples: |mean_a - mean_b|^2 + total variance of both."""
    return np.asarray(sums.squared_l2(a.mean, b.mean) + sums.left(a.total_variance) + sums.right(b.total_variance))


_METRICS: dict[str, Callable[[Gaussian, Gaussian, _Sums, float | str], Array64]] = {
    "sen2pro": _sen2pro,
    "wasserstein": _wasserstein,
    "symmetric-kl": _symmetric_kl,
    "bhattacharyya": _bhattacharyya,
    "expected-cosine": _expected_cosine,
    "expected-l2": _expected_l2,
    "corrected-cosine": _corrected_cosine,
}
METRICS = tuple(_METRICS)


def distance(a: Gaussian, b: Gaussian, metric: str = "sen2pro", *, alpha: float | str = "ratio") -> Array:
    """Return the distance of every Gaussian in `a` to every one in `b`: (n, m) float32.

    A distance is never NaN; it is inf above float32's range (3.4e38).

    Parameters
    ----------
    a, b
        Batches (n, k) and (m, k); a single Gaussian counts as a batch of one. Comparing Gaussians made with different
        settings raises an error that names the settings.
    metric
        `sen2pro` (Eq. 6), `wasserstein` (2-Wasserstein), `symmetric-kl`, `bhattacharyya`, `expected-cosine` (1 minus
        it), `expected-l2` (squared) or `corrected-cosine` (1 minus the cosine of the means, divided by how much the
        samples agree). The last three are not 0 between a Gaussian and itself: two are expectations over independent
        draws, and a corrected cosine can be above 1.
    alpha
        Weight of the variances in Eq. 6: a number in [0, 1] or `"ratio"`, L1(variances)/L1(means) of each pair.

    Examples
    --------
    >>> g = Gaussian(mean=[[0.0, 0.0], [3.0, 4.0]], variance=[[1.0, 1.0], [1.0, 1.0]])
    >>> distance(g, g, "wasserstein")
    array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    a, b, alpha = _checked(a, b, metric, alpha)
    result = np.empty((len(a), len(b)), np.float32)
    for row in range(0, len(a), _BLOCK):
        for column in range(0, len(b), _BLOCK):
            rows, columns = slice(row, row + _BLOCK), slice(column, column + _BLOCK)
            result[rows, columns] = _single(_METRICS[metric](a[rows], b[columns], _ALL_PAIRS, alpha))
    return result


def distance_pairwise(a: Gaussian, b: Gaussian, metric: str = "sen2pro", *, alpha: float | str = "ratio") -> Array:
    """Return the distance of each Gaussian in `a` to its partner in `b`: (n,) float32; arguments as for `distance`.

    >>> a, b = Gaussian([[0.0, 0.0]], [[1.0, 1.0]]), Gaussian([[1.0, 3.0]], [[1.0, 2.0]])
    >>> distance_pairwise(a, b, alpha=0.5)  # 0.5 * (1 + 3) + 0.5 * (0 + 1)
    array([2.5], dtype=float32)
    """
    a, b, alpha = _checked(a, b, metric, alpha)
    if len(a) != len(b):
        raise Sen2ProError(f"pairs need as many Gaussians on both sides, not {len(a)} and {len(b)}")
    return _single(_METRICS[metric](a, b, _PAIRWISE, alpha))


def _single(distances: Array64) -> Array:
    """Round to float32; what is above its range becomes inf."""
    with np.errstate(over="ignore"):
        return distances.astype(np.float32)


def _checked(a: Gaussian, b: Gaussian, metric: str, alpha: float | str) -> tuple[Gaussian, Gaussian, float | str]:
    """Refuse what cannot be compared; return two batches, and alpha in its one form."""
    one_of("metric", check_text("metric", metric), METRICS)
    for gaussian in (a, b):
        if not isinstance(gaussian, Gaussian):
            raise Sen2ProError(f"distances are between Gaussians (see Sen2Pro.encode), not {type(gaussian).__name__}")
    weight = one_of("alpha", alpha, ["ratio"]) if isinstance(alpha, str) else parse_fraction(alpha)
    if weight is None:
        raise Sen2ProError(f"alpha must be a number between 0 and 1 or 'ratio', not {short_repr(alpha)}")
    if weight != "ratio" and metric != "sen2pro":
        raise Sen2ProError(f"alpha belongs to the metric 'sen2pro'; {metric!r} has none")
    if a.dim != b.dim:
        raise Sen2ProError(f"cannot compare Gaussians of {a.dim} and {b.dim} dimensions")
    check_comparable(a.signature, b.signature)
    a, b = (g if g.mean.ndim == 2 else Gaussian.concatenate([g]) for g in (a, b))
    return a, b, weight
