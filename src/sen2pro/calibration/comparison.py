"""Two sentences compared, as an answer that a person can read: the formula is `PairCurves`.

Its numbers are in `defaults.json`. `sen2pro_lab.training.default_confidence` fits them on STS-12 to 15 and the training
part of STS-B. The shape was chosen by leaving out one source at a time, since a default has to serve text that it has
not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.selection import expit
from sen2pro.errors import Sen2ProError
from sen2pro.io.bundle import Config, Finite
from sen2pro.validation import Array, Array64

HIGHEST_GRADE = 5.0  # of the scale of STS, which starts at 0
_SMALLEST = 1e-12  # length of two vectors that are not 0
_NEAREST = 0.003  # added to 1 - cosine, before its logarithm
_LIKELY, _UNLIKELY = 0.7, 0.3
_INDISTINCT = 1 - 1e-6  # a cosine of sentences that the network reads as one and the same
Curve = tuple[Finite, Finite, Finite, Finite, Finite]  # coefficients of the columns of `PairCurves.terms`


class PairCurves(Config, frozen=True):
    """Two logistic curves over a pair of sentences, half the width of an interval, and limits.

    A pair is its cosine, the sum of both data variances and the number of words of both; see `terms`.
    `equally_vague` is the largest difference of the logarithms of two data variances at which neither sentence is
    called the vaguer one. `variances` and `words` are the range that the curves were fitted on. `slope` is how
    fast the log-odds rise with the cosine where it alone is known: the start of a fit to labels.
    """

    same_meaning: Curve
    similarity: Curve
    half_width: Finite
    equally_vague: Finite
    variances: tuple[Finite, Finite]
    words: tuple[Finite, Finite]
    slope: Finite

    def terms(self, cosine: ArrayLike, variance: ArrayLike, words: ArrayLike) -> Array64:
        """Return what the curves weigh: 1, cosine, -log(1 - cosine), log variance and log words of each pair (n, 5).

        The third column tells near copies from the rest. Short and vague pairs get a lower cosine for the same
        meaning. Outside of the range that the curves were fitted on, the nearest value of the range counts.
        """
        c = np.asarray(cosine, np.float64)
        columns = [np.ones_like(c), c, -np.log(np.maximum(1 - c, 0) + _NEAREST)]
        columns += [np.log(np.clip(variance, *self.variances)), np.log(np.clip(words, *self.words))]
        return np.stack(columns, axis=-1)

    def probability(self, terms: Array64) -> Array64:
        """Return the probability that two sentences mean the same (at least 4 of 5 on the scale of STS)."""
        return expit(terms @ np.array(self.same_meaning))

    def grade(self, terms: Array64) -> tuple[Array64, Array64, Array64]:
        """Return the similarity from 0 to 5, and the ends of its 90 % interval."""
        middle = HIGHEST_GRADE * expit(terms @ np.array(self.similarity))
        low, high = (np.clip(middle + side * self.half_width, 0, HIGHEST_GRADE) for side in (-1, 1))
        return np.asarray(middle), low, high


def pair_cosine(x: Array, y: Array) -> Array64:
    """Return the cosine of each row of one array with the same row of the other, in double precision."""
    x_, y_ = (side.astype(np.float64) for side in (x, y))
    norms = np.linalg.norm(x_, axis=-1) * np.linalg.norm(y_, axis=-1)
    return np.asarray((x_ * y_).sum(axis=-1) / np.maximum(norms, _SMALLEST))


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
    count: int, words: NDArray[np.int64], vectors: Array, totals: Mapping[str, Array64], coverage: Array,
    curves: PairCurves,
) -> list[Comparison]:  # fmt: skip
    """Compare each of the first `count` sentences with its partner in the rest: see `OnePass.totals`."""
    if len(vectors) != 2 * count:
        raise Sen2ProError(f"pairs take two lists of one length, not of {count} and {len(vectors) - count}")
    cosine = pair_cosine(vectors[:count], vectors[count:])
    first, second = totals["data"][:count], totals["data"][count:]
    terms = curves.terms(cosine, first + second, words[:count] + words[count:])
    same = cosine > _INDISTINCT
    probability = np.where(same, 1.0, curves.probability(terms))
    grades = np.where(same, HIGHEST_GRADE, np.stack(curves.grade(terms)))
    vaguer = np.log(first / second)
    vaguer[same | (np.abs(vaguer) <= curves.equally_vague)] = 0
    found = []
    for i in range(count):
        middle, low, high = (float(each) for each in grades[:, i])
        found.append(
            Comparison(
                float(probability[i]), middle, low, high,
                "first" if vaguer[i] > 0 else "second" if vaguer[i] < 0 else None,
                float(min(coverage[i], coverage[count + i])),
                {name: (float(total[i]), float(total[count + i])) for name, total in totals.items()},
            )
        )  # fmt: skip
    return found
