"""Sentences as a confidence needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sen2pro.gaussian import Gaussian
from sen2pro.signature import Signature
from sen2pro.validation import Array, Array64


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences as a confidence needs them: their plain vectors, their distributions, and their lengths.

    `parts` are the Gaussians of model and data uncertainty, as `Sen2Pro.encode_sources` gives them, and `joined` is
    what `Sen2Pro.encode` gives; `words` is the number of words of each sentence (n,).
    """

    vectors: Array
    parts: Mapping[str, Gaussian]
    joined: Gaussian
    words: Array64

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Encoded:
        parts = {name: part[rows] for name, part in self.parts.items()}
        return Encoded(self.vectors[rows], parts, self.joined[rows], self.words[rows])

    @property
    def plain(self) -> Array:
        """The plain vectors."""
        return self.vectors

    @property
    def gaussian(self) -> Gaussian:
        """The joined distributions."""
        return self.joined

    @property
    def signature(self) -> Signature | None:
        """How they were made."""
        return self.joined.signature
