"""Which intent does a request have? The intent of the nearest example, or None where that is not sure enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import Sen2ProError
from sen2pro.model import Sen2Pro
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array, Array64, as_list, check_sentences
from sen2pro_lab.metrics.base import to_unit

MOST = 10  # intents of a list


def by_intent(similarities: Array, numbers: NDArray[np.int64], most: int = MOST) -> tuple[Array64, NDArray[np.int64]]:
    """Return the scores of the best intents (n, k), in descending order, and their numbers.

    The score of an intent is that of its nearest example.

    >>> scores, intents = by_intent(np.array([[0.9, 0.8, 0.3]]), np.array([0, 0, 1]))
    >>> scores.tolist(), intents.tolist()
    ([[0.9, 0.3]], [[0, 1]])
    """
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) > 0])
    best = np.maximum.reduceat(np.asarray(similarities, np.float64)[:, order], starts, axis=1)
    intents = np.argsort(-best, axis=1, kind="stable")[:, :most]
    return np.take_along_axis(best, intents, axis=1), np.unique(numbers)[intents]


def votes(
    similarities: Array, numbers: NDArray[np.int64], first: NDArray[np.int64], available: NDArray[np.int64]
) -> Array64:
    """Return how many of the nearest examples have the first intent, as a share of the most that could (n,).

    `available` says how many examples of the first intent there are for each request.

    >>> near, numbers, first = np.array([[0.9, 0.8, 0.3]]), np.array([0, 0, 1]), np.array([0])
    >>> votes(near, numbers, first, np.array([2])).tolist()
    [1.0]
    """
    nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :MOST]
    same = (numbers[nearest] == first[:, None]).sum(axis=1)
    return np.asarray(np.minimum(same / np.clip(available, 1, MOST), 1.0))


class IntentRouter(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Route requests to intents, known by a few examples of each; say None where the precision cannot be promised.

    Every example is asked for among the others, and texts that no intent is for (`out_of_scope`) among all; from these
    the router learns when the nearest example is right. The promise is for requests like these, with the same share
    of those out of scope.

    Parameters
    ----------
    precision, certainty
        What is promised of the requests that get an intent, as for `SearchConfidence.abstain`.
    seed
        Makes splits reproducible.
    """

    def __init__(self, precision: float = 0.95, certainty: float = CERTAINTY, seed: int = 0) -> None:
        self.precision = precision
        self.certainty = certainty
        self.seed = seed

    def fit(
        self, model: Sen2Pro, texts: Sequence[str], labels: Sequence[Any], *, out_of_scope: Sequence[str] = ()
    ) -> IntentRouter:
        """Learn from examples of each intent, and from texts that no intent is for; returns itself.

        `confidence_` tells how sure it is, and `rule_` is None where nothing can be promised: then `route` gives None
        for every request, and a warning says why.
        """
        examples, known = check_sentences(texts), as_list(labels, "a label for each text")
        if len(examples) != len(known):
            raise Sen2ProError(f"there are {len(examples)} texts, but {len(known)} labels")
        self.intents_, self.numbers_ = np.unique(np.asarray(known), return_inverse=True)
        if len(self.intents_) < 2:
            raise Sen2ProError("all texts have the same label; give examples of two intents at least")
        self.model_, self.vectors_ = model, to_unit(model.encode_plain(examples))
        others = check_sentences(out_of_scope) if len(out_of_scope) else []
        among = self.vectors_ @ self.vectors_.T
        np.fill_diagonal(among, -1)  # no example is its own neighbour
        scores, intents = by_intent(among, self.numbers_)
        right = intents == self.numbers_[:, None]
        counts = np.bincount(self.numbers_)[intents[:, 0]] - right[:, 0]
        voted = votes(among, self.numbers_, intents[:, 0], counts)
        if others:
            more, _, more_voted = self._asked(others)
            scores, voted = np.concatenate([scores, more]), np.concatenate([voted, more_voted])
            right = np.concatenate([right, np.zeros(more.shape, bool)])
        self.confidence_ = SearchConfidence(seed=self.seed).fit(scores, right, votes=voted)
        self.rule_ = self.confidence_.abstain(self.precision, self.certainty)
        return self

    def route(self, texts: str | Sequence[str]) -> list[Any]:
        """Return the intent of each text, or None where it is not sure enough."""
        check_is_fitted(self)
        scores, first, voted = self._asked(check_sentences(texts))
        sure = np.zeros(len(scores), bool)
        if self.rule_ is not None:
            sure = self.rule_.accepts(self.confidence_.probability(scores, votes=voted))
        names = self.intents_[first].tolist()
        return [name if yes else None for name, yes in zip(names, sure, strict=True)]

    def _asked(self, texts: list[str]) -> tuple[Array64, NDArray[np.int64], Array64]:
        """Return the scores of the best intents of each text (n, k), the first of them (n,), and its votes (n,)."""
        similarities = to_unit(self.model_.encode_plain(texts)) @ self.vectors_.T
        scores, intents = by_intent(similarities, self.numbers_)
        first = intents[:, 0]
        return scores, first, votes(similarities, self.numbers_, first, np.bincount(self.numbers_)[first])
