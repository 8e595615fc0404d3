"""What ships for the default model: a dozen numbers, fitted on the training part of STS-B alone.

`sen2pro_lab.training.default_confidence` makes them. How they were chosen: by leaving out one of the six sources of the
training part at a time, since a default has to serve text that it has not seen. There the cosine alone did best; the
distribution, which helps where labels of one's own are, did not carry over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.io import documents
from sen2pro.io.documents import NUMBER, TEXT, list_of, record
from sen2pro.signature import Signature
from sen2pro.validation import Array64

FILE = Path(__file__).with_name("default.json")
HIGHEST = 5.0  # of the scale of STS, which starts at 0
_NEAREST = 0.003  # added to 1 - cosine, before its logarithm
_MIDDLE = 0.75  # a cosine at which there are as many pairs of the same meaning as others
MATTERS = ("hash", "pooling", "geometry", "whitening", "prompt")  # all that a cosine depends on
_CURVE = list_of(NUMBER, 3)
_DOCUMENT = record(
    {
        "signature": record(dict.fromkeys(MATTERS, TEXT)), "same_meaning": _CURVE, "similarity": _CURVE,
        "half_width": NUMBER, "equally_vague": NUMBER,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Default:
    """The shipped numbers: two curves over the cosine, half the width of an interval, and a limit.

    `same_meaning` and `similarity` are the coefficients of 1, cosine and -log(1 - cosine) in a logistic curve.
    `equally_vague` is how far apart the logarithms of two data variances may be before one sentence is called the
    vaguer one.
    """

    signature: dict[str, str]
    same_meaning: Sequence[float]
    similarity: Sequence[float]
    half_width: float
    equally_vague: float

    def probability(self, cosine: ArrayLike) -> Array64:
        """Return the probability that two sentences mean the same (at least 4 of 5 on the scale of STS)."""
        return _logistic(terms(cosine) @ np.array(self.same_meaning))

    def grade(self, cosine: ArrayLike) -> tuple[Array64, Array64, Array64]:
        """Return the similarity from 0 to 5, and the ends of its 90 % interval."""
        middle = HIGHEST * _logistic(terms(cosine) @ np.array(self.similarity))
        low, high = (np.clip(middle + side * self.half_width, 0, HIGHEST) for side in (-1, 1))
        return np.asarray(middle), low, high

    def misfits(self, signature: Signature) -> list[str]:
        """Return what of a model differs from the one these numbers are for."""
        return [
            f"{name} {getattr(signature, name)!r} instead of {value!r}"
            for name, value in self.signature.items()
            if getattr(signature, name) != value
        ]


@cache
def shipped() -> Default:
    """Return the numbers that come with the package."""
    return Default(**documents.read(FILE, _DOCUMENT))


def terms(cosine: ArrayLike) -> Array64:
    """Return 1, cosine and -log(1 - cosine) of each pair (n, 3): the last one tells near copies from the rest."""
    c = np.asarray(cosine, np.float64)
    return np.stack([np.ones_like(c), c, -np.log(np.maximum(1 - c, 0) + _NEAREST)], axis=-1)


def shipped_slope(signature: Signature) -> float:
    """Return how fast the logit of a match rises with the cosine, as far as the package knows; 0 for other models."""
    _, of_cosine, of_logarithm = shipped().same_meaning
    return 0.0 if shipped().misfits(signature) else of_cosine + of_logarithm / (1 - _MIDDLE + _NEAREST)


def _logistic(values: Array64) -> Array64:
    """Return 1 / (1 + exp(-x)); scipy's own takes longer to import than all else that `compare` does."""
    return np.asarray((1 + np.tanh(values / 2)) / 2)
