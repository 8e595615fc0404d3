"""Texts after encoding: what `encode`, `compare`, `specificity`, search and classification share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.backend import States
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.signature import Signature
from sen2pro.validation import Array


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts as a model encodes them: see `Sen2Pro.estimate`."""

    vectors: Array | None
    """The plain vectors, (n, k): whitened and normalised, without dropout. None if no plain pass was asked for."""
    parts: Mapping[str, Gaussian]
    """The Gaussians of each source of uncertainty, `model` and `data`; empty after a plain pass."""
    joined: Gaussian | None
    """The Gaussians of all sources together; None after a plain pass."""
    words: NDArray[Any]
    """The number of words of each text, (n,)."""
    states: States | None = None
    """The states of the plain pass, which heads read."""

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Encoded:
        """Return some of the texts: a slice, or a list of numbers or truth values."""
        return Encoded(
            None if self.vectors is None else self.vectors[rows],
            {name: part[rows] for name, part in self.parts.items()},
            None if self.joined is None else self.joined[rows],
            self.words[rows],
            None if self.states is None else self.states.rows(np.arange(len(self))[rows]),
        )

    @property
    def signature(self) -> Signature | None:
        """How the texts were encoded; None after a plain pass."""
        return None if self.joined is None else self.joined.signature

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
