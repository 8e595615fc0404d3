"""The numbers that ship for the default model: curves for pairs of sentences, and for the scores of search hits.

`sen2pro_lab.training.default_confidence` fits those of pairs on STS-12 to 15 and the training part of STS-B, and
`sen2pro_lab.training.default_search_confidence` those of hits. The shapes were chosen by leaving out one source at a
time, since a default has to serve text that it has not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from math import exp
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.io import bundle
from sen2pro.io.bundle import Config, Finite
from sen2pro.signature import Signature
from sen2pro.validation import Array64, parse_fraction

FOLDER, NAME = Path(__file__).parent, "defaults"
SIGNATURE_FIELDS = ("hash", "pooling", "geometry", "whitening", "prompt")  # all that a cosine depends on
HIGHEST_GRADE = 5.0  # of the scale of STS, which starts at 0
DEPTH = 10  # hits that the shipped numbers look at
LIKELY = 0.5  # least probability of an answer, where no precision is asked for
_NEAREST = 0.003  # added to 1 - cosine, before its logarithm
_MIDDLE = 0.75  # a cosine at which there are as many pairs of the same meaning as others
Curve = tuple[Finite, Finite, Finite, Finite, Finite]  # coefficients of the columns of `PairCurves.terms`


class PairCurves(Config, frozen=True):
    """Two logistic curves over a pair of sentences, half the width of an interval, and limits.

    A pair is its cosine, the sum of both data variances and the number of words of both; see `terms`.
    `equally_vague` is the largest difference of the logarithms of two data variances at which neither sentence is
    called the vaguer one. `variances` and `words` are the range that the curves were fitted on.
    """

    same_meaning: Curve
    similarity: Curve
    half_width: Finite
    equally_vague: Finite
    variances: tuple[Finite, Finite]
    words: tuple[Finite, Finite]

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
        return _logistic(terms @ np.array(self.same_meaning))

    def grade(self, terms: Array64) -> tuple[Array64, Array64, Array64]:
        """Return the similarity from 0 to 5, and the ends of its 90 % interval."""
        middle = HIGHEST_GRADE * _logistic(terms @ np.array(self.similarity))
        low, high = (np.clip(middle + side * self.half_width, 0, HIGHEST_GRADE) for side in (-1, 1))
        return np.asarray(middle), low, high


class DefaultCalibration(Config, frozen=True):
    """The shipped probability of a hit: a logistic curve over its lead (see `lead`).

    It is for collections where one document answers a query, or few do. Where many do, none leads, and probabilities
    are too low. `docs/search.md` says how good they are. `floor` is the usual similarity of a wrong hit: it stands for
    the hits that a small index does not have.
    """

    constant: Finite
    slope: Finite
    floor: Finite

    @property
    def depth(self) -> int:
        """Number of hits that it looks at."""
        return DEPTH

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing beside the scores."""
        return ()

    def probabilities(
        self, lists: Sequence[Sequence[float]], *, lengths: Array64 | None = None, variances: Array64 | None = None
    ) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; it is None beyond the first ten hits.

        The scores of a query are in descending order.
        """
        return [[*self._likely(scores[:DEPTH]), *[None] * (len(scores) - DEPTH)] for scores in lists]

    def _likely(self, scores: Sequence[float]) -> list[float]:
        """Return P(right) of each hit; plain Python, since it is faster than NumPy for ten numbers."""
        return [1 / (1 + exp(-self.constant - self.slope * above)) for above in lead(scores, self.floor)]

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the precision itself, and warn that it is not promised."""
        if precision is None:
            return LIKELY
        if parse_fraction(precision) is None or precision == 0:
            raise Sen2ProError(f"precision must be between 0 and 1, not {short_repr(precision)}")
        warnings.warn(
            f"a precision of {precision:g} is not promised: the probabilities that ship with sen2pro have not seen "
            "your data. Label a few hundred queries and pass confidence=SearchConfidence().fit(...)",
            Sen2ProWarning,
            stacklevel=4,
        )
        return float(precision)


class Defaults(Config, frozen=True):
    """All numbers that ship, and the signature of the model that they are for; `hits` has a curve per ranking."""

    signature: dict[str, str]
    pairs: PairCurves
    hits: dict[str, DefaultCalibration]

    def misfits(self, signature: Signature) -> list[str]:
        """Return the settings of a model that differ from the one these numbers are for."""
        return [
            f"{name} {getattr(signature, name)!r} instead of {value!r}"
            for name, value in self.signature.items()
            if getattr(signature, name) != value
        ]


@cache
def defaults() -> Defaults:
    """Return the numbers that come with the package."""
    return bundle.load(FOLDER, NAME, Defaults)[0]


def default_slope(signature: Signature) -> float:
    """Return how fast the logit of a match rises with the cosine, by the numbers that ship; 0 for other models."""
    _, of_cosine, of_logarithm, *_ = defaults().pairs.same_meaning
    return 0.0 if defaults().misfits(signature) else of_cosine + of_logarithm / (1 - _MIDDLE + _NEAREST)


def lead(scores: Sequence[float], floor: float) -> list[float]:
    """Return by how much each score is above the mean of the others of its list; missing ones count as `floor`.

    A list has ten scores, in descending order. A missing one is never above the last that is there.

    >>> [round(above, 2) for above in lead([0.9, *[0.3] * 9], floor=0.3)]
    [0.6, -0.07, -0.07, -0.07, -0.07, -0.07, -0.07, -0.07, -0.07, -0.07]
    >>> [round(above, 2) for above in lead([0.9], floor=0.3)]
    [0.6]
    """
    if not scores:
        return []
    total = sum(scores)
    if len(scores) < DEPTH:
        total += (DEPTH - len(scores)) * min(floor, scores[-1])
    return [(DEPTH * score - total) / (DEPTH - 1) for score in scores]


def _logistic(values: Array64) -> Array64:
    """Return 1 / (1 + exp(-x)) without an overflow."""
    return np.asarray((1 + np.tanh(values / 2)) / 2)
