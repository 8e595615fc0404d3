"""How likely each hit is right: by labelled queries, or by the numbers that ship for the default model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sen2pro.calibration.default import MATTERS
from sen2pro.calibration.search import SearchConfidence
from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.io import documents
from sen2pro.io.documents import NUMBER, TEXT, mapping, record
from sen2pro.signature import Signature
from sen2pro.validation import Array, parse_fraction

Scores = Sequence[float]  # similarities of the hits of one query, in descending order
FILE = Path(__file__).with_name("default.json")
DEPTH = 10  # hits that the shipped numbers look at
LIKELY = 0.5  # of an answer, where no precision is asked for
_CURVE = record({"constant": NUMBER, "slope": NUMBER, "floor": NUMBER})
_DOCUMENT = record({"signature": record(dict.fromkeys(MATTERS, TEXT)), "rankings": mapping(_CURVE)})


class Calibration(Protocol):
    """What turns the similarities of hits into probabilities."""

    @property
    def depth(self) -> int:
        """Hits that it looks at."""

    def probabilities(self, lists: Sequence[Scores], queries: Array, first: Array) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; None is unknown.

        The scores of a query are in descending order. `queries` and `first` are the details (n, 3) of each query and of
        its first hit: total variances of model and data, and words.
        """

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the least probability of an answer, so that a precision is kept; above 1 if none can be."""


class Labelled:
    """A `SearchConfidence`, fitted on labelled queries.

    The probability of a hit after the first is the chance that it is right if none before it is. Without labels of
    later hits it is unknown.
    """

    def __init__(self, confidence: SearchConfidence) -> None:
        unknown = [name for name in confidence.needs if name not in ("lengths", "variances")]
        if unknown:
            raise Sen2ProError(
                f"this confidence was fitted with {' and '.join(unknown)}, which an index does not know; fit it without"
            )
        self._confidence = confidence

    @property
    def depth(self) -> int:
        """Hits that it looks at."""
        return int(self._confidence.hits_)

    def probabilities(self, lists: Sequence[Scores], queries: Array, first: Array) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; beyond the depth it is unknown."""
        found: list[list[float | None]] = [[None] * len(scores) for scores in lists]
        known = [number for number, scores in enumerate(lists) if scores]
        if not known:
            return found
        filled = np.empty((len(known), self.depth))
        for row, number in zip(filled, known, strict=True):
            scores = lists[number][: self.depth]
            row[: len(scores)], row[len(scores) :] = scores, scores[-1]  # of few rows: the missing count as the last
        extras: dict[str, Any] = {}
        if "lengths" in self._confidence.needs:
            extras["lengths"] = np.maximum(queries[known, 2], 1)
        if "variances" in self._confidence.needs:
            extras["variances"] = self._variances(queries[known], first[known])
        for number, row in zip(known, self._confidence.probability_each(filled, **extras).tolist(), strict=True):
            count = min(len(lists[number]), self.depth)
            found[number][:count] = [None if likely != likely else likely for likely in row[:count]]
        return found

    def _variances(self, queries: Array, first: Array) -> Array:
        both = np.concatenate([queries[:, :2], first[:, :2]], axis=1)
        if (both <= 0).any():
            raise Sen2ProError(
                "this confidence was fitted with variances, but the index or the model has none; use a model with a "
                "head, or a confidence that was fitted without variances"
            )
        return both

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the threshold of a rule that keeps the precision; above 1 if there is none, which a warning says."""
        if precision is None:
            return LIKELY
        rule = self._confidence.abstain(precision, certainty)
        return 2.0 if rule is None else rule.threshold


@dataclass(frozen=True)
class Shipped:
    """The numbers for the default model: a logistic curve over the lead of a hit (see `lead`).

    It is for collections where one document answers a query, or few do. Where many do, none leads, and probabilities
    are too low. `docs/search.md` says how good they are. `floor` is the usual similarity of a wrong hit: it stands for
    hits that a small index does not have.
    """

    constant: float
    slope: float
    floor: float

    @property
    def depth(self) -> int:
        """Hits that it looks at."""
        return DEPTH

    def probabilities(
        self, lists: Sequence[Scores], queries: Array | None = None, first: Array | None = None
    ) -> list[list[float | None]]:  # fmt: skip
        """Return P(right) of each hit of each query; beyond the depth it is unknown."""
        return [[*self._likely(scores[:DEPTH]), *[None] * (len(scores) - DEPTH)] for scores in lists]

    def _likely(self, scores: Scores) -> list[float]:
        """Return P(right) of each hit; plain Python, since ten numbers are fewer than NumPy is made for."""
        return [1 / (1 + exp(-self.constant - self.slope * above)) for above in lead(scores, self.floor)]

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the precision itself, with a warning that it is no promise."""
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


def lead(scores: Scores, floor: float) -> list[float]:
    """Return by how much each score is above the mean of the others of its list; those missing count as `floor`.

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


@cache
def _numbers() -> dict[str, Any]:
    return documents.read(FILE, _DOCUMENT)


def shipped(signature: Signature, ranking: str) -> Shipped | None:
    """Return the numbers that ship for a model and a ranking; None if there are none."""
    found = _numbers()
    fits = all(getattr(signature, name) == value for name, value in found["signature"].items())
    curve = found["rankings"].get(ranking) if fits else None
    return curve and Shipped(**curve)


def loaded(confidence: Any) -> SearchConfidence | None:
    """Return what a user passed as confidence: a fitted one, or the folder of one."""
    if isinstance(confidence, (str, Path)):
        return SearchConfidence.load(confidence)
    if confidence is not None and not isinstance(confidence, SearchConfidence):
        raise Sen2ProError(
            f"confidence is a fitted SearchConfidence or the folder of one, not {short_repr(confidence)}"
        )
    return confidence


def calibration(confidence: SearchConfidence | None, signature: Signature, ranking: str) -> Calibration | None:
    """Return what turns similarities into probabilities: a confidence, or what ships; None if there is neither."""
    return shipped(signature, ranking) if confidence is None else Labelled(confidence)
