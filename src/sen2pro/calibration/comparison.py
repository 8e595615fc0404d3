"""Two sentences compared, as an answer that a person can read: the formula is `PairCurves`.

Its numbers are in `defaults.json`; `sen2pro_lab.training.default_confidence` fits them on the training part of STS-B.
The shapes were chosen by leaving out one source at a time, since a default has to serve text that it has not seen.
There the cosine alone did best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.calibration.selection import expit
from sen2pro.errors import Sen2ProError
from sen2pro.io.bundle import Config, Finite
from sen2pro.validation import Array, Array64

HIGHEST_GRADE = 5.0  # of the scale of STS, which starts at 0
_NEAREST = 0.003  # added to 1 - cosine, before its logarithm
_MIDDLE = 0.75  # a cosine at which there are as many pairs of the same meaning as others
_LIKELY, _UNLIKELY = 0.7, 0.3
_INDISTINCT = 1 - 1e-6  # a cosine of sentences that the network reads as one and the same
Curve = tuple[Finite, Finite, Finite]  # coefficients of 1, cosine and -log(1 - cosine)


class PairCurves(Config, frozen=True):
    """Two logistic curves over the cosine of a pair, half the width of an interval, and a limit.

    `equally_vague` is the largest difference of the logarithms of two data variances at which neither sentence is
    called the vaguer one.
    """

    same_meaning: Curve
    similarity: Curve
    half_width: Finite
    equally_vague: Finite

    def probability(self, cosine: ArrayLike) -> Array64:
        """Return the probability that two sentences mean the same (at least 4 of 5 on the scale of STS)."""
        return expit(terms(cosine) @ np.array(self.same_meaning))

    def grade(self, cosine: ArrayLike) -> tuple[Array64, Array64, Array64]:
        """Return the similarity from 0 to 5, and the ends of its 90 % interval."""
        middle = HIGHEST_GRADE * expit(terms(cosine) @ np.array(self.similarity))
        low, high = (np.clip(middle + side * self.half_width, 0, HIGHEST_GRADE) for side in (-1, 1))
        return np.asarray(middle), low, high

    @property
    def slope(self) -> float:
        """How fast the log-odds of the same meaning rise with the cosine, where they are about even."""
        _, of_cosine, of_logarithm = self.same_meaning
        return of_cosine + of_logarithm / (1 - _MIDDLE + _NEAREST)


def terms(cosine: ArrayLike) -> Array64:
    """Return 1, cosine and -log(1 - cosine) of each pair (n, 3): the last one tells near copies from the rest."""
    c = np.asarray(cosine, np.float64)
    return np.stack([np.ones_like(c), c, -np.log(np.maximum(1 - c, 0) + _NEAREST)], axis=-1)


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


def compare(
    vectors: Array, totals: Mapping[str, Array64], coverage: Array, count: int, curves: PairCurves
) -> list[Comparison]:
    """Compare each of the first `count` sentences with its partner in the rest: see `OnePass.totals`."""
    if len(vectors) != 2 * count:
        raise Sen2ProError(f"pairs take two lists of one length, not of {count} and {len(vectors) - count}")
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return [
        _compared(
            curves,
            float(unit[i] @ unit[count + i]),
            {name: (float(total[i]), float(total[count + i])) for name, total in totals.items()},
            float(min(coverage[i], coverage[count + i])),
        )
        for i in range(count)
    ]


def _compared(
    curves: PairCurves, cosine: float, variances: dict[str, tuple[float, float]], coverage: float
) -> Comparison:
    difference = float(np.log(variances["data"][0]) - np.log(variances["data"][1]))
    vaguer: Literal["first", "second"] | None = None
    if abs(difference) > curves.equally_vague:
        vaguer = "first" if difference > 0 else "second"
    if cosine > _INDISTINCT:
        return Comparison(1.0, HIGHEST_GRADE, HIGHEST_GRADE, HIGHEST_GRADE, None, coverage, variances)
    middle, low, high = (float(end) for end in curves.grade(cosine))
    return Comparison(float(curves.probability(cosine)), middle, low, high, vaguer, coverage, variances)
