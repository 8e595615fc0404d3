"""The numbers that ship for the default model, and what gives an index its probabilities: these or a fitted confidence.

`comparison.py` says how the numbers of pairs are used. `sen2pro_lab.training.default_search_confidence` fits those of
hits; their shape was chosen by leaving out one collection at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro.calibration.comparison import PairCurves
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import HeadMissing, Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.io import bundle
from sen2pro.io.bundle import Config, Finite
from sen2pro.signature import Signature
from sen2pro.validation import Array64, parse_fraction

FOLDER, NAME = Path(__file__).parent, "defaults"
DEPTH = 10  # hits that the shipped numbers look at
LIKELY = 0.5  # least probability of an answer, where no precision is asked for


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
            "your data. Label a few hundred queries and fit sen2pro.calibration.SearchConfidence on them",
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


def check_comparison(signature: Signature, has_head: bool) -> None:
    """Refuse a model that no numbers ship for, or that has no head for one pass."""
    if misfits := defaults().misfits(signature) or ([] if has_head else ["no head for one pass"]):
        raise HeadMissing(
            f"a comparison in words comes with the default model only, and this one has {'; '.join(misfits)}. For "
            "your own model, learn from labelled pairs: "
            "sen2pro.calibration.MatchConfidence().fit(model, first, second, labels)"
        )


def default_slope(signature: Signature) -> float:
    """Return how fast the logit of a match rises with the cosine, by the numbers that ship; 0 for other models."""
    return 0.0 if defaults().misfits(signature) else defaults().pairs.slope


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


class FittedCalibration:
    """The probabilities of a `SearchConfidence`, for lists of any length; beyond its depth they are unknown."""

    def __init__(self, confidence: SearchConfidence) -> None:
        unknown = [name for name in confidence.needs if name not in ("lengths", "variances")]
        if unknown:
            raise Sen2ProError(
                f"this confidence was fitted with {' and '.join(unknown)}, which an index does not know; fit it without"
            )
        self._confidence, self.depth = confidence, confidence.hits

    def probabilities(
        self, lists: Sequence[Sequence[float]], *, lengths: Array64 | None = None, variances: Array64 | None = None
    ) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; the hits that a short list lacks count as its last."""
        found: list[list[float | None]] = [[None] * len(scores) for scores in lists]
        known = [number for number, scores in enumerate(lists) if len(scores)]
        if not known:
            return found
        heads = [lists[number][: self.depth] for number in known]
        filled = np.array([[*scores, *[scores[-1]] * (self.depth - len(scores))] for scores in heads])
        given = {"lengths": lengths, "variances": variances}
        extras: Any = {name: np.asarray(given[name])[known] for name in self._confidence.needs}
        if "variances" in extras and (extras["variances"] <= 0).any():
            raise Sen2ProError(
                "this confidence was fitted with variances, but the index or the model has none; use a model with a "
                "head, or a confidence that was fitted without variances"
            )
        each = self._confidence.probability_each(filled, **extras).tolist()
        for number, scores, row in zip(known, heads, each, strict=True):
            found[number][: len(scores)] = [None if p != p else p for p in row[: len(scores)]]  # NaN is unknown
        return found

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the threshold of a rule that keeps the precision; above 1, with a warning, if there is none."""
        if precision is None:
            return LIKELY
        rule = self._confidence.abstain(precision, certainty)
        return 2.0 if rule is None else rule.threshold


Calibration = DefaultCalibration | FittedCalibration
"""Turns the similarities of hits into probabilities."""


def load_search_confidence(confidence: object) -> SearchConfidence | None:
    """Return the `SearchConfidence` that a user passed: a fitted one, or the folder of one."""
    if isinstance(confidence, (str, Path)):
        return SearchConfidence.load(confidence)
    if confidence is not None and not isinstance(confidence, SearchConfidence):
        raise Sen2ProError(
            f"confidence is a fitted SearchConfidence or the folder of one, not {short_repr(confidence)}"
        )
    return confidence


def calibration(confidence: SearchConfidence | None, signature: Signature, ranking: str) -> Calibration | None:
    """Return a calibration: of a confidence, else the default one for this model and ranking; None if there is none."""
    if confidence is not None:
        return FittedCalibration(confidence)
    return None if defaults().misfits(signature) else defaults().hits.get(ranking)
