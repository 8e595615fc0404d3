"""Whether what a search found is likely right: for frameworks whose search is not an `Index` of ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sen2pro.calibration.guarantee import CERTAINTY
from sen2pro.calibration.hits import FittedCalibration, SearchConfidence, load_search_confidence
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.integrations.plain import load
from sen2pro.search.index import Index
from sen2pro.validation import parse_fraction


class Judged(NamedTuple):
    """Hits in their order, each with the probability that it is right (None is unknown), and whether to answer."""

    order: list[int]
    probabilities: list[float | None]
    sure: bool

    def kept(self, top_k: int | None = None) -> list[tuple[int, float | None]]:
        """Return place and probability of the hits to keep, the likeliest first: none if unsure.

        >>> Judged([1, 0], [0.9, 0.2], True).kept(top_k=1), Judged([1, 0], [0.4, 0.2], False).kept()
        ([(1, 0.9)], [])
        """
        return list(zip(self.order, self.probabilities, strict=True))[:top_k] if self.sure else []


class Judge:
    """Tells for one query how likely each hit is right, and whether the first is likely enough.

    Without a confidence, `model` compares the query with the texts of the hits again, as an `Index` would, and its
    shipped numbers say how likely they are right. This costs one pass over the hits; scores of the search are not used.
    With a confidence, which was fitted on scores of the same search, it takes those.

    Parameters
    ----------
    model
        Hub id, folder or `Sen2Pro`; not loaded if there is a confidence.
    confidence
        A `SearchConfidence` fitted on labelled queries, or the folder of one.
    precision
        The precision to keep; see `SearchConfidence.abstain`. By default the first hit must be more likely right than
        not.

    Examples
    --------
    >>> judge = Judge("all-MiniLM-L6-v2")
    >>> texts = ["Our office is in Lyon.", "To reset your password, open Settings."]
    >>> judge("how do I reset my password?", texts, [None, None]).order
    [1, 0]
    >>> judge("who won the cup in 1998?", texts, [None, None]).sure
    False
    """

    def __init__(
        self, model: Any, confidence: SearchConfidence | str | Path | None = None, precision: float | None = None
    ) -> None:
        if precision is not None and parse_fraction(precision) in (None, 0.0):
            raise Sen2ProError(f"precision must be between 0 and 1, not {short_repr(precision)}")
        self._precision = precision
        self._confidence = load_search_confidence(confidence)
        if self._confidence is None:
            self._model = load(model)
            if not Index.build(self._model).calibrated:
                raise Sen2ProError(
                    f"nothing is calibrated for the model {self._model.encoder.name}. Label queries, and pass "
                    "confidence=SearchConfidence().fit(scores, right)"
                )
            return
        if "variances" in self._confidence.needs:
            raise Sen2ProError(
                "this confidence was fitted with variances, which a framework does not pass on; fit it without"
            )
        self._calibration = FittedCalibration(self._confidence)
        self._threshold = self._calibration.threshold(precision, CERTAINTY)

    def __call__(self, query: str, texts: Sequence[str], scores: Sequence[float | None]) -> Judged:
        """Judge the hits of one query by their texts, or by the scores of the search."""
        if not texts:
            return Judged([], [], False)
        if self._confidence is None:
            found = Index.build(self._model, texts).search(query, len(texts), precision=self._precision)
            return Judged([int(hit.id) for hit in found], [hit.probability for hit in found], found.answer is not None)
        return self._by_scores(query, scores)

    def _by_scores(self, query: str, scores: Sequence[float | None]) -> Judged:
        given = [score for score in scores if score is not None]
        if len(given) < len(scores):
            raise Sen2ProError("a hit has no score, which this confidence needs; put it right behind the search")
        order = sorted(range(len(given)), key=lambda place: -given[place])
        length = np.array([max(1.0, len(query.split()))])
        (known,) = self._calibration.probabilities([[given[place] for place in order]], lengths=length)
        first = known[0]
        return Judged(order, known, first is not None and first >= self._threshold)
