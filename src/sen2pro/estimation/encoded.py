"""Texts after encoding: what `encode`, `compare`, search and classification share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.signature import Signature
from sen2pro.validation import Array


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts as a model encodes them: see `Sen2Pro.estimate`."""

    vectors: Array | None
    """The plain vectors, (n, k): whitened and normalised, without dropout. None if they were not asked for."""
    parts: Mapping[str, Gaussian]
    """The Gaussians of each source of uncertainty, `model` and `data`."""
    gaussian: Gaussian
    """The Gaussians of all sources together."""
    words: NDArray[Any]
    """The number of words of each text, (n,)."""

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Encoded:
        """Return some of the texts: a slice, or a list of numbers or truth values."""
        vectors = None if self.vectors is None else self.vectors[rows]
        parts = {name: part[rows] for name, part in self.parts.items()}
        return Encoded(vectors, parts, self.gaussian[rows], self.words[rows])

    @property
    def signature(self) -> Signature | None:
        """How the texts were encoded."""
        return self.gaussian.signature

    @property
    def plain(self) -> Array:
        """The plain vectors, (n, k)."""
        if self.vectors is None:
            raise Sen2ProError("these texts were encoded without their plain vectors")
        return self.vectors

    @property
    def coverage(self) -> Array | None:
        """How well a head knows texts like these, (n,): see `Gaussian.coverage`. None without a head."""
        return self.gaussian.coverage
