"""Use: distances between Gaussians (Eq. 6 of the paper and the classical ones), pairwise and all-pairs.

Every metric is written once, in terms of a few sums over dimensions; `_Pairwise` and `_AllPairs` say how such a
sum is taken. All-pairs sums run over blocks, so that no (n, m, k) array is ever made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.checks import check_text, share
from sen2pro.errors import Sen2ProError, one_of, shown
from sen2pro.gaussian import Gaussian, floored
from sen2pro.signature import check_comparable
from sen2pro.types import Array, Array64

_BLOCK = 1024  # rows and columns of an all-pairs table that are worked on at once
_BLOCK_NUMBERS = 1 << 22  # of a broadcast block
_RESULTANT_EXPONENT = 0.75
_LARGEST_SUM = float(np.finfo(np.float32).max) / 2  # that float32 is trusted with
_TILE, _TILE_NUMBERS = 256, 1 << 20  # columns of an L1 tile, and numbers in its buffer


class _Pairwise:
    """Sums over dimensions of row i of x with row i of y: (n,)."""

    left = right = staticmethod(lambda v: v)

    @staticmethod
    def l1(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        return np.asarray(np.abs(x.astype(np.float64) - y).sum(axis=-1))

    @staticmethod
    def squared_l2(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        return np.asarray(((x.astype(np.float64) - y) ** 2).sum(axis=-1))

    @staticmethod
    def dot(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        return np.asarray((x.astype(np.float64) * y).sum(axis=-1))

    @staticmethod
    def total(function: Callable[..., Any], *pairs: tuple[NDArray[Any], NDArray[Any]]) -> Array64:
        return np.asarray(function(*pairs).sum(axis=-1))


def _faiss_may_help() -> bool:
    """Not on macOS, where faiss and torch bring two OpenMP libraries that crash together."""
    return sys.platform != "darwin" and find_spec("faiss") is not None


class _AllPairs:
    """Sums over dimensions of row i of x with row j of y: (n, m)."""

    @staticmethod
    def left(v: NDArray[Any]) -> NDArray[Any]:
        return v[:, None]

    @staticmethod
    def right(v: NDArray[Any]) -> NDArray[Any]:
        return v[None, :]

    @staticmethod
    def l1(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        """Return L1 distances in float32: by faiss if it is installed, else in tiles that stay in the cache.

        Numbers so large that a sum could leave float32's range are summed in float64.
        """
        largest = max(float(np.abs(v).max(initial=0)) for v in (x, y))
        large = 2 * largest * x.shape[1] > _LARGEST_SUM
        if _faiss_may_help() and not large:
            import faiss

            found = faiss.pairwise_distances(
                np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32), faiss.METRIC_L1
            )
            return np.asarray(found, np.float64)
        import torch

        dtype = torch.float64 if large else torch.float32
        left, right = (torch.tensor(v, dtype=dtype) for v in (x, y))
        result = torch.empty(len(x), len(y), dtype=dtype)
        for first in range(0, len(y), _TILE):
            columns = right[first : first + _TILE]
            step = max(1, _TILE_NUMBERS // max(1, columns.numel()))
            buffer = torch.empty(step, *columns.shape, dtype=dtype)
            for start in range(0, len(x), step):
                rows = left[start : start + step, None]
                difference = torch.sub(rows, columns, out=buffer[: len(rows)]).abs_()
                result[start : start + step, first : first + _TILE] = difference.sum(-1)
        return result.double().numpy()

    @staticmethod
    def squared_l2(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        import torch

        result = torch.cdist(
            torch.tensor(x, dtype=torch.float64),
            torch.tensor(y, dtype=torch.float64),
            compute_mode="donot_use_mm_for_euclid_dist",  # which loses the small distances
        )
        return np.asarray(result.numpy() ** 2)

    @staticmethod
    def dot(x: NDArray[Any], y: NDArray[Any]) -> Array64:
        return np.asarray(x.astype(np.float64) @ y.astype(np.float64).T)

    @staticmethod
    def total(function: Callable[..., Any], *pairs: tuple[NDArray[Any], NDArray[Any]]) -> Array64:
        n, (m, k) = len(pairs[0][0]), pairs[0][1].shape
        step = max(1, _BLOCK_NUMBERS // max(1, m * k))
        result = np.empty((n, m))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            result[rows] = function(*((x[rows, None], y[None]) for x, y in pairs)).sum(axis=-1)
        return result


Sums = type[_Pairwise] | type[_AllPairs]


def _sen2pro(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """Eq. 6: (1 - alpha) * L1(mean_a - mean_b) + alpha * L1(variance_a - variance_b).

    The paper sets alpha to L1(mean)/L1(variance) and reports values of 0.01 to 0.05. Both cannot hold: that ratio
    is around 100, and with it distances would be negative. Its inverse, L1(variance)/L1(mean), has the reported
    size, and that is the rule `"ratio"`, clipped to [0, 1].
    """
    means, variances = sums.l1(a.mean, b.mean), sums.l1(a.variance, b.variance)
    if alpha == "ratio":
        smaller = np.minimum(variances, means)
        weight = np.where(means > 0, smaller / np.where(means > 0, means, 1), 1.0)
    else:
        weight = np.full((), alpha)
    return np.asarray((1 - weight) * means + weight * variances)


def _wasserstein(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """2-Wasserstein: sqrt(|mean_a - mean_b|^2 + |std_a - std_b|^2)."""
    return np.sqrt(sums.squared_l2(a.mean, b.mean) + sums.squared_l2(a.std, b.std))


def _symmetric_kl(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """(KL(a, b) + KL(b, a)) / 2; the logarithms of the two determinants cancel."""
    va, vb = floored(a.variance), floored(b.variance)
    ma, mb = a.mean.astype(np.float64), b.mean.astype(np.float64)

    def term(means: Any, precisions: Any, variances: Any) -> Any:
        (x, y), (px, py), (vx, vy) = means, precisions, variances
        return (px + py) * (x - y) ** 2 + vx * py + vy * px - 2

    total = sums.total(term, (ma, mb), (1 / va, 1 / vb), (va, vb))
    return np.asarray(np.maximum(0.25 * total, 0))  # rounding can go below


def _bhattacharyya(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """|mean_a - mean_b|^2 / v / 8 + log(v / sqrt(v_a v_b)) / 2 summed, with v = (v_a + v_b) / 2, in log space."""
    va, vb = floored(a.variance), floored(b.variance)
    ma, mb = a.mean.astype(np.float64), b.mean.astype(np.float64)

    def term(means: Any, variances: Any) -> Any:
        (x, y), (vx, vy) = means, variances
        middle = (vx + vy) / 2
        return (x - y) ** 2 / middle / 8 + np.log(middle) / 2

    logs = 0.25 * np.log(va).sum(-1), 0.25 * np.log(vb).sum(-1)
    total = sums.total(term, (ma, mb), (va, vb)) - sums.left(logs[0]) - sums.right(logs[1])
    return np.asarray(np.maximum(total, 0))


def _expected_cosine(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """1 - E[x.y] / sqrt(E|x|^2 E|y|^2).

    On the unit sphere, where |x| = 1, this is 1 minus the average cosine of the samples themselves, for one source of
    uncertainty or `unified` ones; averaging two estimates (`individual`) moves it by a few thousandths.
    """
    size_a, size_b = (np.sqrt((g.mean.astype(np.float64) ** 2).sum(-1) + g.total_variance) for g in (a, b))
    sizes = sums.left(size_a) * sums.right(size_b)
    return np.asarray(1 - sums.dot(a.mean, b.mean) / np.maximum(sizes, 1e-30))


def _corrected_cosine(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """1 - cos(mean_a, mean_b) / (R_a R_b)^0.75, where R = |mean| / sqrt(|mean|^2 + total variance).

    R is the resultant length of directional statistics: 1 for a sentence that is certain, less the more its samples
    disagree. Dividing by it makes up for what uncertainty takes from a cosine. The exponent was chosen on STS-B dev and
    SICK trial (`benchmarks/similarity_search.py`).
    """
    squares = [(g.mean.astype(np.float64) ** 2).sum(-1) for g in (a, b)]
    size_a, size_b = (np.sqrt(square) for square in squares)
    whole_a, whole_b = (np.sqrt(square + g.total_variance) for square, g in zip(squares, (a, b), strict=True))
    short_a, short_b = (
        np.maximum(size, 1e-30) * (size / np.maximum(whole, 1e-30)) ** _RESULTANT_EXPONENT
        for size, whole in ((size_a, whole_a), (size_b, whole_b))
    )
    return np.asarray(1 - sums.dot(a.mean, b.mean) / np.maximum(sums.left(short_a) * sums.right(short_b), 1e-30))


def _expected_l2(a: Gaussian, b: Gaussian, sums: Sums, alpha: float | str) -> Array64:
    """E|x - y|^2 of two independent samples: |mean_a - mean_b|^2 + total variance of both."""
    return np.asarray(sums.squared_l2(a.mean, b.mean) + sums.left(a.total_variance) + sums.right(b.total_variance))


_METRICS: dict[str, Callable[[Gaussian, Gaussian, Sums, float | str], Array64]] = {
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

    Parameters
    ----------
    a, b
        Batches (n, k) and (m, k); a single Gaussian counts as a batch of one. Settings that differ raise an
        error that names them.
    metric
        `sen2pro` (Eq. 6), `wasserstein` (2-Wasserstein), `symmetric-kl`, `bhattacharyya`, `expected-cosine` (1 minus
        it), `expected-l2` (squared) or `corrected-cosine` (1 minus the cosine of the means, divided by how much the
        samples agree). All closed-form for diagonal Gaussians. The last three are not 0 between a Gaussian and itself:
        two are expectations over independent draws, and a corrected cosine can be above 1.
    alpha
        Weight of the variances in Eq. 6: a number in [0, 1] or `"ratio"`, L1(variances)/L1(means) of each pair.

    Returns
    -------
    distances
        Never NaN; inf where a distance is above float32's range (3.4e38), which takes means or variances as large.

    Examples
    --------
    >>> g = Gaussian(mean=[[0.0, 0.0], [3.0, 4.0]], variance=[[1.0, 1.0], [1.0, 1.0]])
    >>> distance(g, g, "wasserstein")
    array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    alpha = _check(a, b, metric, alpha)
    a, b = _batch(a), _batch(b)
    result = np.empty((len(a), len(b)), np.float32)
    for row in range(0, len(a), _BLOCK):
        for column in range(0, len(b), _BLOCK):
            rows, columns = slice(row, row + _BLOCK), slice(column, column + _BLOCK)
            result[rows, columns] = _single(_METRICS[metric](a[rows], b[columns], _AllPairs, alpha))
    return result


def distance_pairwise(a: Gaussian, b: Gaussian, metric: str = "sen2pro", *, alpha: float | str = "ratio") -> Array:
    """Return the distance of each Gaussian in `a` to its partner in `b`: (n,) float32; arguments as for `distance`.

    >>> a, b = Gaussian([[0.0, 0.0]], [[1.0, 1.0]]), Gaussian([[1.0, 3.0]], [[1.0, 2.0]])
    >>> distance_pairwise(a, b, alpha=0.5)  # 0.5 * (1 + 3) + 0.5 * (0 + 1)
    array([2.5], dtype=float32)
    """
    alpha = _check(a, b, metric, alpha)
    a, b = _batch(a), _batch(b)
    if len(a) != len(b):
        raise Sen2ProError(f"pairs need as many Gaussians on both sides, not {len(a)} and {len(b)}")
    return _single(_METRICS[metric](a, b, _Pairwise, alpha))


def _single(distances: Array64) -> Array:
    """Round to float32; what is above its range becomes inf."""
    with np.errstate(over="ignore"):
        return distances.astype(np.float32)


def _batch(gaussian: Gaussian) -> Gaussian:
    return gaussian if gaussian.mean.ndim == 2 else Gaussian.concatenate([gaussian])


def _check(a: Any, b: Any, metric: Any, alpha: Any) -> float | str:
    """Refuse what cannot be compared; return alpha in its one form."""
    one_of("metric", check_text("metric", metric), METRICS)
    for gaussian in (a, b):
        if not isinstance(gaussian, Gaussian):
            raise Sen2ProError(
                f"distances are between Gaussians, as encode returns them, not {type(gaussian).__name__}"
            )
    weight = one_of("alpha", alpha, ["ratio"]) if isinstance(alpha, str) else share(alpha)
    if weight is None:
        raise Sen2ProError(f"alpha must be a number between 0 and 1 or 'ratio', not {shown(alpha)}")
    if weight != "ratio" and metric != "sen2pro":
        raise Sen2ProError(f"alpha belongs to the metric 'sen2pro'; {metric!r} has none")
    if a.dim != b.dim:
        raise Sen2ProError(f"cannot compare Gaussians of {a.dim} and {b.dim} dimensions")
    check_comparable(a.signature, b.signature)
    return weight
