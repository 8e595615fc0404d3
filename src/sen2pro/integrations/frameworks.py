"""What the adapters share: models by name, plain vectors, and whether the hits of another search are likely right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sen2pro.calibration.defaults import FittedCalibration, load_search_confidence
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.model import Sen2Pro
from sen2pro.search.documents import Side, prompt_name
from sen2pro.search.index import Index
from sen2pro.search.results import Hit, Result
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array, parse_fraction


def load(model: str | Path | Sen2Pro) -> Sen2Pro:
    """Return a model from a hub id or folder; a `Sen2Pro` is returned as it is."""
    if isinstance(model, Sen2Pro):
        return model
    if not isinstance(model, (str, Path)):
        raise Sen2ProError(f"model is a hub id, a folder or a Sen2Pro, not {type(model).__name__}")
    return Sen2Pro(str(model))


def vectors(model: Sen2Pro, texts: Sequence[str], side: Side) -> Array:
    """Return `Sen2Pro.encode_plain` (n, k), with the model's prompt for the side, `query` or `document`.

    >>> vectors(Sen2Pro("all-MiniLM-L6-v2"), ["It rains."], "query").shape
    (1, 384)
    """
    return model.encode_plain(texts, prompt_name=prompt_name(model, side))


def missing(package: str, extra: str) -> ImportError:
    """Return the error for a framework that is not installed."""
    return ImportError(f"this needs {package}; install it with: pip install 'sen2pro[{extra}]'")


class Judge:
    """Tells for one query of another search how likely each hit is right, and whether the first is likely enough.

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
    >>> [place for place, probability in judge.kept("how do I reset my password?", texts, [None, None])]
    [1, 0]
    >>> judge.kept("who won the cup in 1998?", texts, [None, None])
    []
    """

    def __init__(
        self, model: str | Path | Sen2Pro, confidence: SearchConfidence | str | Path | None = None,
        precision: float | None = None,
    ) -> None:  # fmt: skip
        if precision is not None and parse_fraction(precision) in (None, 0.0):
            raise Sen2ProError(f"precision must be between 0 and 1, not {short_repr(precision)}")
        self._precision, self._calibration = precision, None
        fitted = load_search_confidence(confidence)
        if fitted is None:
            self._model = load(model)
            if not Index.build(self._model).calibrated:
                raise Sen2ProError(
                    f"there are no probabilities for the model {self._model.encoder.name}. Fit a SearchConfidence on "
                    "labelled queries and pass it as confidence=..."
                )
            return
        if "variances" in fitted.needs:
            raise Sen2ProError(
                "this confidence was fitted with variances, which a framework does not pass on; fit it without"
            )
        self._calibration = FittedCalibration(fitted)
        self._threshold = self._calibration.threshold(precision, CERTAINTY)

    def __call__(self, query: str, texts: Sequence[str], scores: Sequence[float | None]) -> Result:
        """Return the hits of a query, the likeliest first; the id of a hit is its place in the search."""
        if not texts:
            return Result(query, ())
        if self._calibration is None:
            return Index.build(self._model, texts).search(query, len(texts), precision=self._precision)
        given = [score for score in scores if score is not None]
        if len(given) < len(scores):
            raise Sen2ProError("a hit has no score, which this confidence needs; put it right behind the search")
        order = sorted(range(len(given)), key=lambda place: -given[place])
        length = np.array([max(1.0, len(query.split()))])
        (known,) = self._calibration.probabilities([[given[place] for place in order]], lengths=length)
        hits = (Hit(str(place), texts[place], given[place], chance) for place, chance in zip(order, known, strict=True))
        return Result(query, tuple(hits), self._threshold)

    def kept(
        self, query: str, texts: Sequence[str], scores: Sequence[float | None], top_k: int | None = None
    ) -> list[tuple[int, float | None]]:
        """Return place and probability of the hits to keep, the likeliest first; none if the first is not likely."""
        found = self(query, texts, scores)
        return [(int(hit.id), hit.probability) for hit in found[:top_k]] if found.answer else []
