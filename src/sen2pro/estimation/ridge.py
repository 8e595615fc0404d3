"""Ridge regression from the states of one pass: the way in which every head is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.estimation.head import Linear, basis
from sen2pro.sampling.states import States
from sen2pro.validation import Array64

Rows = NDArray[np.int64]  # which sentences
Layers = tuple[int, ...] | None  # hidden states that are read; None: the length alone

_PENALTIES = (0.0, *np.geomspace(1, 1e6, 13), np.inf)
_KEPT = 0.96  # of the gain of all components, when the least useful ones are dropped


class Ridge:
    """Ridge regression with unpenalised terms, decomposed once for any number of targets and penalties."""

    def __init__(self, states: States, layers: Layers, rows: Rows | slice) -> None:
        self.layers, self.terms = layers, basis(states.scalars())[rows]
        terms, features = self.terms, states.features(layers)[rows]
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
