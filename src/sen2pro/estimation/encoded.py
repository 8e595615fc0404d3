"""Texts after encoding: what `encode`, `compare`, `specificity`, search and classification share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.backend import States
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts as a model encodes them: see `Sen2Pro.estimate`."""

    signature: Signature
    """How the texts were encoded."""
    words: NDArray[np.int64]
    """The number of words of each text, (n,)."""
    parts: Mapping[str, Gaussian]
    """The Gaussians of each source of uncertainty, `model` and `data`; empty after a plain pass."""
    joined: Gaussian | None = None
    """The Gaussians of all sources together; None after a plain pass."""
    vectors: Array | None = None
    """The plain vectors, (n, k): whitened and normalised, without dropout. None if no plain pass was asked for."""
    states: States | None = None
    """The states of the plain pass, which heads read."""

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Encoded:
        """Return some of the texts: a slice, or a list of numbers or truth values."""
        return Encoded(
            self.signature,
            self.words[rows],
            {name: part[rows] for name, part in self.parts.items()},
            None if self.joined is None else self.joined[rows],
            None if self.vectors is None else self.vectors[rows],
            None if self.states is None else self.states.rows(np.arange(len(self))[rows]),
        )

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussians of all sources together."""
        if self.joined is None:
            raise Sen2ProError("these texts were encoded in a plain pass, which gives no distribution")
        return self.joined

    @property
    def plain(self) -> Array:
        """The plain vectors, (n, k)."""
        if self.vectors is None:
            raise Sen2ProError("these texts were encoded without their plain vectors")
        return self.vectors

    @property
    def coverage(self) -> Array | None:
        """How well a head knows texts like these, (n,): see `Gaussian.coverage`. None without a head."""
        return None if self.joined is None else self.joined.coverage

    def total_variances(self) -> Array:
        """Return the total variance of each source, (n, 2): model and data; 0 where a source is not in use."""
        none = np.zeros(len(self))
        columns: Sequence[Any] = [self.parts[s].total_variance if s in self.parts else none for s in SOURCES]
        return np.stack(columns, axis=1).astype(np.float32)
