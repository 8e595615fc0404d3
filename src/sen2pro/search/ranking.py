"""By what documents are ranked: which vector an engine gets, which metric it uses, and what is ranked again exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sen2pro.distances import METRICS, distance
from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.search.encoding import Encoded
from sen2pro.validation import Array, Array64, parse_fraction

PLAIN = "cosine"
NAMES = (PLAIN, "mean-cosine", *METRICS)
ENGINE_METRICS = ("dot", "l1", "l2")
_CANDIDATES = 10  # for each hit that is asked for, where candidates are ranked again
_FEWEST_CANDIDATES, _FEWEST_OF_A_DIVERGENCE = 200, 1000
_LEAST_LEVEL = 1e-6  # of standard deviations, so that a text without variance can be divided by it
_RESULTANT_EXPONENT = 0.75  # of the corrected cosine: see `sen2pro.distances`


@dataclass(frozen=True)
class Ranking:
    """One way to rank.

    An engine compares vectors of `size(k)` numbers by its `metric`: `dot`, `l1` or `l2`. `similarity` turns its score
    (a dot product or minus a distance) into what is shown; None leaves it. With `again`, an engine's hits are only
    candidates, ranked again by the distance itself.
    """

    name: str
    alpha: float | str
    metric: str
    size: Callable[[int], int]
    document: Callable[[Encoded], Array]
    query: Callable[[Encoded], Array]
    similarity: Callable[[float], float] | None = None
    again: Callable[[Array], Gaussian] | None = None
    graph: bool = True  # whether a graph finds its neighbours
    fewest: int = _FEWEST_CANDIDATES

    def candidates(self, k: int) -> int:
        """Return how many hits to ask an engine for."""
        return k if self.again is None else max(_CANDIDATES * k, self.fewest)

    def exact(self, query: Gaussian, vectors: Array) -> Array64:
        """Return the similarity of one query to candidates, given their stored vectors (n, d)."""
        assert self.again is not None
        weight = {"alpha": self.alpha} if self.name == "sen2pro" else {}
        own = Gaussian(np.atleast_2d(query.mean), np.atleast_2d(query.variance))
        return np.asarray(-distance(own, self.again(vectors), self.name, **weight)[0].astype(np.float64))


def ranking(name: str = PLAIN, alpha: float | str | None = None) -> Ranking:
    """Return the ranking of a name.

    `cosine` is that of the plain vectors, `mean-cosine` that of the means; the others are the distances of
    `sen2pro.distance`. `alpha` belongs to `sen2pro`.

    >>> ranking("wasserstein").metric, ranking("wasserstein").size(384)
    ('l2', 768)
    """
    one_of("ranking", name, NAMES)
    if alpha is not None and name != "sen2pro":
        raise Sen2ProError(f"alpha belongs to the ranking 'sen2pro'; {name!r} has none")
    weight = "ratio" if alpha in (None, "ratio") else parse_fraction(alpha)
    if weight is None:
        raise Sen2ProError(f"alpha must be a number between 0 and 1 or 'ratio', not {short_repr(alpha)}")
    return _ranking(name, weight)


def _ranking(name: str, alpha: float | str) -> Ranking:
    def both(metric: str, size: Callable[[int], int], vectors: Callable[[Encoded], Array], **more: Any) -> Ranking:
        return Ranking(name, alpha, metric, size, vectors, vectors, **more)

    if name == PLAIN:
        return both("dot", _same, lambda encoded: unit(_plain(encoded)))
    if name == "mean-cosine":
        return both("dot", _same, lambda encoded: unit(_gaussian(encoded).mean))
    if name in ("expected-cosine", "corrected-cosine"):
        return both("dot", _same, _resultant(_RESULTANT_EXPONENT if name == "corrected-cosine" else None))
    if name == "wasserstein":
        return both("l2", _twice, _with_std)
    if name in ("symmetric-kl", "bhattacharyya"):
        more: dict[str, Any] = {"again": _of_scaled, "graph": False, "fewest": _FEWEST_OF_A_DIVERGENCE}
        return Ranking(name, alpha, "dot", lambda k: 2 * k + 2, _scaled, _unscaled, **more)
    if name == "expected-l2":
        document, query = (_with_total(column) for column in (0, 1))
        return Ranking(name, alpha, "l2", lambda k: k + 2, document, query, lambda score: -(score**2))
    if isinstance(alpha, str):
        return both("l1", _twice, _weighted(1.0, 1.0), again=lambda vectors: Gaussian(*_halves(vectors)))
    return both("l1", _twice, _weighted(1 - alpha, alpha))


def unit(vectors: Array) -> Array:
    """Return vectors of length 1; a vector of zeros stays as it is."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return np.asarray(vectors / np.maximum(lengths, 1e-30), np.float32)


def _same(k: int) -> int:
    return k


def _twice(k: int) -> int:
    return 2 * k


def _plain(encoded: Encoded) -> Array:
    if encoded.plain is None:
        raise Sen2ProError(
            "a file of Gaussians has no plain vectors; rank by ranking='mean-cosine' or by a distance of Gaussians"
        )
    return encoded.plain


def _gaussian(encoded: Encoded) -> Gaussian:
    if encoded.gaussian is None:
        raise Sen2ProError(
            "this model has no head, so one pass gives no distributions; rank by 'cosine', fit a head "
            "(Sen2Pro.distill), or ask for samples: Sen2Pro(..., samples=15)"
        )
    return encoded.gaussian


def _with_std(encoded: Encoded) -> Array:
    gaussian = _gaussian(encoded)
    return np.concatenate([gaussian.mean, gaussian.std], axis=1)


def _scaled(encoded: Encoded) -> Array:
    """Return documents for divergences, which divide by variances: [u / s, 1 / s, |u|^2 / s].

    u is the mean and the standard deviations, s the level of the latter. The dot product with [2u, -|u|^2, -1] of a
    query is then minus the squared distance of both u, divided by s: what is uncertain is nearer, as in a divergence.
    The level of the query changes no order.
    """
    u = _with_std(encoded).astype(np.float64)
    s = np.maximum(np.sqrt((u[:, u.shape[1] // 2 :] ** 2).mean(axis=1)), _LEAST_LEVEL)[:, None]
    return np.concatenate([u / s, 1 / s, (u**2).sum(axis=1, keepdims=True) / s], axis=1).astype(np.float32)


def _unscaled(encoded: Encoded) -> Array:
    u = _with_std(encoded)
    squares = (u.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    return np.concatenate([2 * u, -squares, -np.ones_like(squares)], axis=1).astype(np.float32)


def _of_scaled(vectors: Array) -> Gaussian:
    """Return the Gaussians of what `_scaled` made."""
    u = vectors[:, :-2].astype(np.float64) / vectors[:, -2:-1]
    mean, std = _halves(u.astype(np.float32))
    return Gaussian(mean, std**2)


def _weighted(of_mean: float, of_variance: float) -> Callable[[Encoded], Array]:
    def vectors(encoded: Encoded) -> Array:
        gaussian = _gaussian(encoded)
        parts = of_mean * gaussian.mean, of_variance * gaussian.variance
        return np.concatenate(parts, axis=1).astype(np.float32)

    return vectors


def _with_total(column: int) -> Callable[[Encoded], Array]:
    """Put the roots of both total variances into columns of their own, so that their squares add up."""

    def vectors(encoded: Encoded) -> Array:
        gaussian = _gaussian(encoded)
        totals = np.zeros((len(gaussian), 2), np.float32)
        totals[:, column] = np.sqrt(gaussian.total_variance)
        return np.concatenate([gaussian.mean, totals], axis=1)

    return vectors


def _resultant(exponent: float | None) -> Callable[[Encoded], Array]:
    """Scale means so that the dot product is 1 - distance of the expected or the corrected cosine."""

    def vectors(encoded: Encoded) -> Array:
        gaussian = _gaussian(encoded)
        mean = gaussian.mean.astype(np.float64)
        size = np.sqrt((mean**2).sum(axis=1))
        whole = np.sqrt(size**2 + gaussian.total_variance)
        length = whole
        if exponent is not None:
            length = np.maximum(size, 1e-30) * (size / np.maximum(whole, 1e-30)) ** exponent
        return np.asarray(mean / np.maximum(length, 1e-15)[:, None], np.float32)

    return vectors


def _halves(vectors: Array) -> tuple[Array, Array]:
    mean, rest = np.split(np.atleast_2d(vectors), 2, axis=1)
    return mean, rest
