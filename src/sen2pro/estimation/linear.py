"""Linear maps from the states of one pass, and ridge regression, which fits every head."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.backend import States
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array, Array64

Rows = NDArray[np.int64]  # the numbers of some texts
Layers = tuple[int, ...] | None  # hidden states that are read; None: the length alone

BASIS = 11  # terms of `basis`
PARTS = ("terms", "states", "directions")  # the arrays of a `Linear`
_LARGEST_LOG = 80.0  # of a variance that float32 holds; only text unlike any of the corpus comes near it
_PENALTIES = (0.0, *np.geomspace(1, 1e6, 13), np.inf)
_KEPT = 0.96  # of the gain of all components, when the least useful ones are dropped
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # from a variance, and back to it
    "log": (np.log, lambda y: np.exp(np.minimum(y, _LARGEST_LOG))),
    "root": (np.sqrt, lambda y: np.maximum(y, 0.0) ** 2),
}


def basis(scalars: Array64) -> Array64:
    """Return the terms that a head fits without penalty: smooth functions of length and norm, (n, 11)."""
    t, w, s = scalars.T
    terms = np.empty((len(scalars), BASIS))  # faster than np.stack for a single text
    for column, term in enumerate((1.0, t, t**2, t**3, np.exp(-t), w, w**2, np.exp(-w), s, s**2, s * t)):
        terms[:, column] = term
    return terms


def in_single(table: NDArray[Any]) -> NDArray[Any]:
    """Return a table in float32 at least: numpy would convert float16 again in each product."""
    return table.astype(np.promote_types(table.dtype, np.float32), copy=False)


def check_width(features: NDArray[Any], weights: NDArray[Any]) -> None:
    """Refuse features of another network than the one that the weights were fitted for."""
    if features.shape[1] != len(weights):
        given = f"reads {len(weights)} numbers of a sentence, not the {features.shape[1]} that this network gives"
        raise Sen2ProError(f"this head was made for another network: it {given}")


@dataclass(frozen=True, eq=False)
class Linear:
    """basis @ terms + features @ states @ directions: (n, k)."""

    layers: Layers
    terms: Array  # (b, k)
    states: NDArray[Any]  # (F, r)
    directions: NDArray[Any]  # (r, k)
    transform: str = ""

    def in_half(self) -> Linear:
        """Return the same map with its two large tables in float16, which is half the size."""
        high, low = (
            np.abs(table).max(axis=axis, initial=1e-30) for table, axis in ((self.states, 0), (self.directions, 1))
        )
        balance = np.sqrt(low / high)  # both tables in the same range, far from what float16 cannot hold
        directions = (self.directions / balance[:, None]).astype(np.float16)
        return replace(self, states=(self.states * balance).astype(np.float16), directions=directions)

    def __call__(self, states: States, scalars: Array64) -> Array64:
        """Predict for n sentences."""
        result = basis(scalars) @ self.terms
        if self.layers is not None and self.states.shape[1]:
            features = states.features(self.layers)
            check_width(features, self.states)
            first, second = self._tables
            result = result + features.astype(first.dtype, copy=False) @ first @ second
        return np.asarray(result)

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return in_single(self.states), in_single(self.directions)


class Ridge:
    """Ridge regression with unpenalised terms, decomposed once for any number of targets and penalties."""

    def __init__(self, states: States, layers: Layers, rows: Rows | slice) -> None:
        self.layers, self.terms = layers, basis(states.scalars)[rows]
        terms, features = self.terms, states.features(layers)[rows].astype(np.float64)
        size = np.sqrt((terms**2).mean(axis=0)) + 1e-12
        u, s, v = np.linalg.svd(terms / size, full_matrices=False)
        good = s > 1e-7 * s[0]  # functions of the length are much alike, or the same for some tokenizers
        self._q = u[:, good]
        self._solve = (v[good].T / s[good] @ self._q.T) / size[:, None]
        self._cross = self._solve @ features
        left = features - terms @ self._cross
        scale = np.sqrt((left**2).mean(axis=0))
        # A dimension that never varies holds nothing but rounding errors; it must not be blown up and read.
        self._scale = np.where(scale > 1e-6 * np.median(scale), scale, np.inf) if scale.size else scale
        left /= self._scale
        tall = left.shape[0] >= left.shape[1]
        values, vectors = np.linalg.eigh(left.T @ left if tall else left @ left.T)
        good = values > 1e-9 * max(values[-1], 1e-30) if len(values) else np.zeros(0, bool)
        self._s = np.sqrt(values[good])
        self._u: Array64 = left @ vectors[:, good] / self._s if tall else vectors[:, good]
        self._v: Array64 = vectors[:, good] if tall else left.T @ vectors[:, good] / self._s

    def fit(self, targets: Array64, transform: str = "") -> tuple[Linear, Array64]:
        """Return the map, and what it predicts for each row when fitted on all the others."""
        coefficients = self._solve @ targets
        left = targets - self.terms @ coefficients
        _, _, directions = np.linalg.svd(left.T @ left)
        components = left @ directions.T
        inner = self._u.T @ components
        terms_leverage, squares = (self._q**2).sum(axis=1), self._u**2

        def errors(value: float, columns: Any = slice(None)) -> Array64 | None:
            """Return the errors in some components with a penalty, each row left out; None if a row cannot be."""
            shrink = self._s**2 / (self._s**2 + value)
            leverage = terms_leverage + squares @ shrink
            if leverage.max() > 0.999:
                return None
            fitted = self._u @ (shrink[:, None] * inner[:, columns])
            return np.asarray((components[:, columns] - fitted) / (1 - leverage)[:, None])

        out = components / (1 - terms_leverage)[:, None]  # the errors without any feature
        best, penalty = np.full((2, components.shape[1]), np.inf)
        for value in _PENALTIES:
            residual = errors(value)
            if residual is not None:
                error = (residual**2).sum(axis=0)
                better = error < best
                best[better], penalty[better] = error[better], value
        gain = (out**2).sum(axis=0) - best
        order = np.argsort(-gain)
        kept = order[: int(np.searchsorted(np.cumsum(gain[order]), _KEPT * gain.sum())) + 1]
        kept = np.sort(kept[(gain[kept] > 0) & np.isfinite(penalty[kept])])
        s, w = self._s[:, None], penalty[kept][None]
        weights = self._v @ (s / (s**2 + w) * inner[:, kept]) / self._scale[:, None]
        for value in np.unique(penalty[kept]):
            columns = kept[penalty[kept] == value]
            out[:, columns] = errors(value, columns)
        terms = coefficients - self._cross @ weights @ directions[kept]
        parts = {"terms": terms, "states": weights, "directions": directions[kept]}
        arrays = {name: array.astype(np.float32) for name, array in parts.items()}
        linear = Linear(self.layers if len(kept) else None, **arrays, transform=transform)
        return linear, targets - out @ directions


def hash_of(arrays: Mapping[str, NDArray[Any]], more: str = "") -> str:
    """Return eight hex digits over the numbers of a head, and a text."""
    content = b"".join(name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
    return hashlib.sha256(content + more.encode()).hexdigest()[:8]
