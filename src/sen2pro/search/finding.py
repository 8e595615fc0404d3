"""From the rows that a store finds to results: similarities, their order, and probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sen2pro.search.calibration import Calibration
from sen2pro.search.encoding import Encoded
from sen2pro.search.ranking import Ranking
from sen2pro.search.results import Hit, Result
from sen2pro.search.rows import Found, Where
from sen2pro.search.store import Store, patiently
from sen2pro.types import Array64

_TIE = 6  # decimals of a similarity; hits that agree on them are in the order of their ids


class Hits(NamedTuple):
    """The rows of one query in their final order: `order` says where each stands in `found`."""

    similarities: list[float]
    order: list[int] | range
    found: Found


def nearest(store: Store, by: Ranking, queries: Encoded, k: int, where: Where) -> list[Hits]:
    """Return the k nearest rows of each query; rows of one similarity are in the order of their ids."""
    vectors = by.query(queries)
    many, again = by.candidates(k), by.again is not None
    lists = patiently(lambda: store.nearest(vectors, many, where, with_vectors=again))
    return [_ordered(_similarities(by, queries, number, found), found, k) for number, found in enumerate(lists)]


def _similarities(by: Ranking, queries: Encoded, number: int, found: Found) -> Array64:
    if by.again is None or not len(found.ids):
        return by.similarity(np.asarray(found.scores, np.float64))
    assert queries.gaussian is not None
    assert found.vectors is not None
    return by.exact(queries.gaussian[number], found.vectors)


def _ordered(similarities: Array64, found: Found, k: int) -> Hits:
    rounded = similarities.round(_TIE)
    if (rounded[1:] < rounded[:-1]).all():  # nearly always: engines return rows in order
        return Hits(similarities[:k].tolist(), range(min(k, len(rounded))), found)
    keys, ids = rounded.tolist(), found.ids
    order = sorted(range(len(keys)), key=lambda row: (-keys[row], ids[row]))[:k]
    return Hits(similarities[order].tolist(), order, found)


def results(
    texts: list[str], queries: Encoded, lists: list[Hits], k: int, calibration: Calibration | None,
    threshold: float | None,
) -> list[Result]:  # fmt: skip
    """Return the first k hits of each query, each with its probability where something is calibrated."""
    likely = _probabilities(queries, lists, k, calibration) if calibration is not None and lists else None
    made = []
    for number, (text, (similarities, order, found)) in enumerate(zip(texts, lists, strict=True)):
        ids, words, metadata = found.ids, found.texts, found.metadata
        sure: Any = likely[number] if likely is not None else [None] * len(order)
        hits = [
            Hit(ids[row], words[row], similarity, probability, dict(metadata[row]))
            for row, similarity, probability in zip(order[:k], similarities, sure, strict=False)
        ]
        made.append(Result(text, tuple(hits), threshold))
    return made


def _probabilities(queries: Encoded, lists: list[Hits], k: int, calibration: Calibration) -> list[list[float | None]]:
    """Return the probability of each hit, None where it is unknown."""
    longest = max(k, calibration.depth)
    scores = np.full((len(lists), longest), np.nan)
    first = np.zeros((len(lists), 3), np.float32)
    for number, (similarities, order, found) in enumerate(lists):
        if similarities:
            scores[number, : len(similarities)] = similarities
            first[number] = found.about[order[0]]
    if any(isinstance(hits.order, list) for hits in lists):  # those that tie stand in the order of their ids
        scores = -np.sort(-scores, axis=1)  # NaN goes last
    likely = calibration.probabilities(scores, queries, first)
    every: list[list[float | None]] = likely.tolist()
    if np.isnan(likely).any():
        every = [[None if value != value else value for value in row] for row in every]
    return every
