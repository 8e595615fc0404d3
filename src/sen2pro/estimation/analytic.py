"""The correction of variances that were propagated through the network (`encoder.propagation`).

Propagated variances follow what dropout does in this very sentence, but leave out what is between dimensions. A linear
map of the states of the same pass predicts the logarithm of what is missing. It is fitted to samples, as a head is. The
propagated part holds for text of any kind, so that less is left to be learned.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sen2pro import __version__
from sen2pro.errors import Sen2ProError
from sen2pro.estimation.head import TRANSFORMS, Linear, basis, few_layers
from sen2pro.io import documents, tensors
from sen2pro.io.atomic import check_path
from sen2pro.sampling.states import States
from sen2pro.validation import Array64

CONFIG, TENSORS = "sen2pro_analytic.json", "sen2pro_analytic.safetensors"
_PARTS = {
    "terms": ("F32", f"{basis(np.zeros((1, 3))).shape[1]} k"),
    "states": ("F16", "f r"),
    "directions": ("F16", "r k"),
}


@dataclass(frozen=True, eq=False)
class Correction:
    """A fitted map from the states of one pass to the logarithm of what propagated variances lack."""

    linear: Linear
    quality: dict[str, float]  # R2 of corrected variances on held-out text; NaN: unknown

    def __call__(self, states: States, scalars: Array64, spread: Array64) -> Array64:
        """Correct propagated variances (n, k); the scalars are those of the states, within the bounds of the head."""
        return np.asarray(spread * TRANSFORMS["log"][1](self.linear(states, scalars)))

    @cached_property
    def hash(self) -> str:
        """Eight hex digits over all numbers in it."""
        arrays = (np.ascontiguousarray(getattr(self.linear, name)).tobytes() for name in _PARTS)
        return hashlib.sha256(b"".join(arrays)).hexdigest()[:8]

    def save(self, folder: str | Path, head: str) -> None:
        """Write the numbers as safetensors, and what they are as JSON next to them; `head` is the hash of its head."""
        folder = Path(folder)
        tensors.write(folder / TENSORS, {name: getattr(self.linear, name) for name in _PARTS})
        about = {"layers": self.linear.layers, "quality": self.quality, "hash": self.hash, "head": head}
        documents.write(folder / CONFIG, about | {"version": __version__})

    @classmethod
    def load(cls, folder: str | Path, head: str) -> Correction:
        """Read what `save` wrote; a folder that somebody else wrote is checked before it is used."""
        folder = check_path(folder)
        config = documents.read(folder / CONFIG, _CONFIG)
        if config["head"] != head:
            raise Sen2ProError(f"{folder / CONFIG} is of another head than the one in its folder")
        expected = {name: tensors.Expected(*each) for name, each in _PARTS.items()}
        arrays = tensors.read(folder / TENSORS, expected)
        layers = config["layers"]
        linear = Linear(None if layers is None else tuple(layers), **arrays, transform="log")
        correction = cls(linear, config["quality"])
        if correction.hash != config["hash"]:
            raise Sen2ProError(f"{folder / TENSORS} is damaged: its numbers do not have the hash that {CONFIG} says")
        return correction


_CONFIG = documents.record(
    {
        "layers": documents.either(documents.NULL, few_layers),
        "quality": documents.mapping(documents.either(documents.NULL, documents.ANY_NUMBER)),
        "hash": documents.TEXT,
        "head": documents.TEXT,
        "version": documents.TEXT,
    }
)
