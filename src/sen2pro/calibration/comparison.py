"""Two sentences compared, as an answer that a person can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sen2pro.calibration.defaults import HIGHEST_GRADE, defaults
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.signature import Signature
from sen2pro.validation import Array, Array64

_LIKELY, _UNLIKELY = 0.7, 0.3
_INDISTINCT = 1 - 1e-6  # a cosine of sentences that the network reads as one and the same


@dataclass(frozen=True)
class Comparison:
    """How two sentences compare.

    `probability` is that of the same meaning: people would give them at least 4 of 5. `similarity` is the grade to be
    expected, from 0 to 5, and `low` to `high` its 90 % interval. `vaguer` is the sentence that says less, or None if
    the difference is no larger than between two sentences that mean the same. `coverage` is how well the head knows
    such text (see `Gaussian.coverage`), the lower of both. `variances` are the total variances of the first and of the
    second sentence, for each source (`model` and `data`).
    """

    probability: float
    similarity: float
    low: float
    high: float
    vaguer: Literal["first", "second"] | None
    coverage: float
    variances: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`likely` from 70 % on, `unlikely` up to 30 %, else `unsure`."""
        return "likely" if self.probability >= _LIKELY else "unlikely" if self.probability <= _UNLIKELY else "unsure"

    def __str__(self) -> str:
        vaguer = (
            f" The {self.vaguer} sentence is the vaguer one." if self.vaguer else " Both are about equally specific."
        )
        return (
            f"{100 * self.probability:.0f} % likely the same meaning ({self.verdict}). "
            f"Similarity {self.similarity:.1f} of {HIGHEST_GRADE:.0f}, "
            f"probably between {self.low:.1f} and {self.high:.1f}.{vaguer}"
        )


def check_comparable_in_words(signature: Signature, has_head: bool) -> None:
    """Refuse a model that no numbers ship for, or that has no head for one pass."""
    if misfits := defaults().misfits(signature) or ([] if has_head else ["no head for one pass"]):
        raise HeadMissing(
            f"a comparison in words comes with the default model only, and this one has {'; '.join(misfits)}. For "
            "your own model, learn from labelled pairs: sen2pro.MatchConfidence().fit(model, first, second, "
            "labels)"
        )


def compare(vectors: Array, totals: Mapping[str, Array64], coverage: Array, count: int) -> list[Comparison]:
    """Compare each of the first `count` sentences with its partner in the rest: see `OnePass.totals`."""
    if len(vectors) != 2 * count:
        raise Sen2ProError(f"pairs take two lists of one length, not of {count} and {len(vectors) - count}")
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return [
        _compared(
            float(unit[i] @ unit[count + i]),
            {name: (float(total[i]), float(total[count + i])) for name, total in totals.items()},
            float(min(coverage[i], coverage[count + i])),
        )
        for i in range(count)
    ]


def _compared(cosine: float, variances: dict[str, tuple[float, float]], coverage: float) -> Comparison:
    default = defaults().pairs
    difference = float(np.log(variances["data"][0]) - np.log(variances["data"][1]))
    vaguer: Literal["first", "second"] | None = None
    if abs(difference) > default.equally_vague:
        vaguer = "first" if difference > 0 else "second"
    if cosine > _INDISTINCT:
        return Comparison(1.0, HIGHEST_GRADE, HIGHEST_GRADE, HIGHEST_GRADE, None, coverage, variances)
    middle, low, high = (float(end) for end in default.grade(cosine))
    return Comparison(float(default.probability(cosine)), middle, low, high, vaguer, coverage, variances)
