"""Metrics that compare whole sentences: the cosine of plain vectors, and Sen2Pro's similarity of Gaussians."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sen2pro.metrics.base import Metric, Scores, cosine

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

Index = NDArray[np.int64]


class _ModelMetric(Metric):
    """A comparison of what a model makes of each text, all different texts of a call being encoded together, once."""

    takes_blank: ClassVar[bool] = False

    def __init__(self, model: Sen2Pro) -> None:
        self._model = model

    def _signature(self) -> str:
        return str(self._model.signature(self._model.encoder.prompt(None, None)))


class Sen2VecCosine(_ModelMetric):
    """Cosine of the plain vectors of one pass, `Sen2Pro.sen2vec`."""

    name: ClassVar[str] = "sen2vec"

    def _segments(self, candidates: list[str], references: list[str]) -> Scores:
        texts, a, b = _distinct(candidates, references)
        vectors = self._model.sen2vec(texts)
        return cosine(vectors[a], vectors[b])


class Sen2ProSimilarity(_ModelMetric):
    """`Sen2Pro.similarity_pairwise`, minus the distance of the two Gaussians (Eq. 6): 0 for the same text."""

    name: ClassVar[str] = "sen2pro"

    def _segments(self, candidates: list[str], references: list[str]) -> NDArray[np.float32]:
        texts, a, b = _distinct(candidates, references)
        gaussians = self._model.encode(texts)
        return self._model.similarity_pairwise(gaussians[a], gaussians[b])


def _distinct(candidates: list[str], references: list[str]) -> tuple[list[str], Index, Index]:
    """Return the different texts, and where among them each candidate and each reference stands.

    >>> _distinct(["x", "y"], ["y", "y"])
    (['x', 'y'], array([0, 1]), array([1, 1]))
    """
    place = {text: i for i, text in enumerate(dict.fromkeys([*candidates, *references]))}
    a, b = (np.array([place[text] for text in texts], np.int64) for texts in (candidates, references))
    return list(place), a, b
