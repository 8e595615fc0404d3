"""How likely each hit is right: by labelled queries, or by the numbers that ship for the default model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from sen2pro.checks import share
from sen2pro.confidence.default import MATTERS
from sen2pro.confidence.search import SearchConfidence
from sen2pro.errors import Sen2ProError, Sen2ProWarning, shown
from sen2pro.files import documents
from sen2pro.files.documents import NUMBER, TEXT, mapping, record
from sen2pro.search.encoding import Encoded
from sen2pro.signature import Signature
from sen2pro.types import Array, Array64

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

    def probabilities(self, scores: Array64, queries: Encoded, first: Array) -> Array64:
        """Return P(right) of each hit (n, k); NaN is unknown.

        `scores` (n, k), k at least the depth, are in descending order, and NaN where there is no hit. `first` (n, 3) is
        what is kept of the first hit.
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

    def probabilities(self, scores: Array64, queries: Encoded, first: Array) -> Array64:
        """Return P(right) of each hit (n, k); beyond the depth it is unknown."""
        known = np.flatnonzero(~np.isnan(scores[:, 0]))
        result = np.full(scores.shape, np.nan)
        if not len(known):
            return result
        filled = scores[known, : self.depth]
        for column in range(1, filled.shape[1]):  # an index with few rows: the missing ones count as the last
            filled[:, column] = np.where(np.isnan(filled[:, column]), filled[:, column - 1], filled[:, column])
        extras: dict[str, Any] = {}
        if "lengths" in self._confidence.needs:
            extras["lengths"] = np.maximum(queries.about[known, 2], 1)
        if "variances" in self._confidence.needs:
            extras["variances"] = self._variances(queries.about[known], first[known])
        result[known, : self.depth] = self._confidence.probability_each(filled, **extras)
        return result

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

    def probabilities(self, scores: Array64, queries: Encoded | None = None, first: Array | None = None) -> Array64:
        """Return P(right) of each hit (n, k); beyond the depth it is unknown."""
        seen = scores[:, :DEPTH]
        likely = expit(self.constant + self.slope * lead(seen, self.floor))
        if scores.shape[1] == DEPTH and not np.isnan(seen[:, -1]).any():
            return np.asarray(likely)
        result = np.full(scores.shape, np.nan)
        result[:, :DEPTH] = np.where(np.isnan(seen), np.nan, likely)
        return result

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the precision itself, with a warning that it is no promise."""
        if precision is None:
            return LIKELY
        if share(precision) is None or precision == 0:
            raise Sen2ProError(f"precision must be between 0 and 1, not {shown(precision)}")
        warnings.warn(
            f"a precision of {precision:g} is not promised: the probabilities that ship with sen2pro have not seen "
            "your data. Label a few hundred queries and pass confidence=SearchConfidence().fit(...)",
            Sen2ProWarning,
            stacklevel=4,
        )
        return float(precision)


def lead(scores: Array64, floor: float) -> Array64:
    """Return by how much each score is above the mean of all others of its list (n, k); NaN counts as `floor` at most.

    >>> lead(np.array([[0.9, 0.3, 0.3]]), floor=0.3).round(2).tolist()
    [[0.6, -0.3, -0.3]]
    """
    s, missing = scores, np.isnan(scores)
    if missing.any():
        low = np.fmin(np.where(missing, np.inf, scores).min(axis=1, keepdims=True), floor)
        s = np.where(missing, low, scores)
    return np.asarray((s.shape[1] * s - s.sum(axis=1, keepdims=True)) / (s.shape[1] - 1))


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
        raise Sen2ProError(f"confidence is a fitted SearchConfidence or the folder of one, not {shown(confidence)}")
    return confidence


def calibration(confidence: SearchConfidence | None, signature: Signature, ranking: str) -> Calibration | None:
    """Return what turns similarities into probabilities: a confidence, or what ships; None if there is neither."""
    return shipped(signature, ranking) if confidence is None else Labelled(confidence)
