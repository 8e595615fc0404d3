"""What one plain pass says of a sentence: its vector, averages of hidden states, and its length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sen2pro.validation import Array, Array64


@dataclass(frozen=True, eq=False)
class States:
    """What one plain pass says of n sentences: the input of a head."""

    vectors: Array  # (n, k), before whitening and normalising
    layers: dict[int, Array]  # average over the tokens of hidden states, (n, width) each
    tokens: NDArray[np.int64]  # (n,)
    words: NDArray[np.int64]  # (n,)
    spread: Array | None = None  # (n, k), variance of the vectors under dropout, if it was propagated

    def rows(self, rows: NDArray[np.int64]) -> States:
        """Return the states of some of the sentences."""
        layers = {i: array[rows] for i, array in self.layers.items()}
        spread = None if self.spread is None else self.spread[rows]
        return States(self.vectors[rows], layers, self.tokens[rows], self.words[rows], spread)

    def features(self, layers: tuple[int, ...] | None) -> Array64:
        """Return the columns that a linear map reads: nothing (None), or the vectors and these layers."""
        if layers is None:
            return np.empty((len(self.vectors), 0))
        return np.concatenate([self.vectors, *(self.layers[i] for i in layers)], axis=1).astype(np.float64)

    def scalars(self) -> Array64:
        """Return (n, 3): logarithms of the numbers of tokens and words, and of the vector's length."""
        return self._scalars

    @cached_property
    def _scalars(self) -> Array64:
        size = np.linalg.norm(self.vectors.astype(np.float64), axis=1)
        return np.asarray(np.log(np.stack([self.tokens, self.words, np.maximum(size, 1e-12)], axis=1)))
