"""From the rows that a store finds to results: similarities, their order, and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sen2pro.calibration.hits import Calibration
from sen2pro.search.encoding import Encoded
from sen2pro.search.ranking import Ranking
from sen2pro.search.results import Hit, Result
from sen2pro.search.rows import Found, Where
from sen2pro.search.store import Store, patiently
from sen2pro.validation import Array64

_TIE = 6  # decimals of a similarity; hits that agree on them are in the order of their ids
_STEP = 1e-6  # numbers that are further apart do not agree on them


class Hits(NamedTuple):
    """The rows of one query in their final order: `order` says where each stands in `found`."""

    similarities: list[float]
    order: Sequence[int]
    found: Found


def nearest(store: Store, by: Ranking, queries: Encoded, k: int, where: Where) -> list[Hits]:
    """Return the k nearest rows of each query; rows of one similarity are in the order of their ids."""
    vectors = by.query(queries)
    many, again = by.candidates(k), by.again is not None
    lists = patiently(lambda: store.nearest(vectors, many, where, with_vectors=again))
    return [_ordered(_similarities(by, queries, number, found), found, k) for number, found in enumerate(lists)]


def _similarities(by: Ranking, queries: Encoded, number: int, found: Found) -> list[float]:
    if by.again is not None and found.ids:
        assert queries.gaussian is not None
        assert found.vectors is not None
        exact: list[float] = by.exact(queries.gaussian[number], found.vectors).tolist()
        return exact
    return found.scores if by.similarity is None else [by.similarity(score) for score in found.scores]


def _ordered(similarities: list[float], found: Found, k: int) -> Hits:
    if all(map(_clearly_above, similarities, similarities[1:])):  # nearly always: engines return rows in order
        return Hits(similarities[:k], range(min(k, len(similarities))), found)
    keys, ids = [round(similarity, _TIE) for similarity in similarities], found.ids
    order = sorted(range(len(keys)), key=lambda row: (-keys[row], ids[row]))[:k]
    return Hits([similarities[row] for row in order], order, found)


def _clearly_above(first: float, second: float) -> bool:
    return first - second > _STEP


def results(
    texts: list[str], queries: Encoded, lists: list[Hits], k: int, calibration: Calibration | None,
    threshold: float | None,
) -> list[Result]:  # fmt: skip
    """Return the first k hits of each query, each with its probability where something is calibrated."""
    likely: list[list[float | None]] = [[None] * len(hits.order) for hits in lists]
    if calibration is not None:
        scores = [hits.similarities for hits in lists]
        if any(isinstance(hits.order, list) for hits in lists):  # those that tie are in the order of their ids
            scores = [sorted(each, reverse=True) for each in scores]
        likely = calibration.probabilities(scores, **_extras(calibration.needs, queries, lists))
    return [
        Result(text, tuple(_hits(hits, each, k)), threshold)
        for text, hits, each in zip(texts, lists, likely, strict=True)
    ]


def _extras(needs: tuple[str, ...], queries: Encoded, lists: list[Hits]) -> dict[str, Array64]:
    """Return what a calibration needs beside the scores: lengths of the queries, variances of query and first hit."""
    extras = {}
    if "lengths" in needs:
        extras["lengths"] = np.maximum(queries.about[:, 2], 1).astype(np.float64)
    if "variances" in needs:
        first = [hits.found.about(hits.order[0])[:2] if len(hits.order) else (1, 1) for hits in lists]
        extras["variances"] = np.concatenate([queries.about[:, :2], np.array(first, np.float32)], axis=1)
    return extras


def _hits(hits: Hits, likely: list[float | None], k: int) -> list[Hit]:
    ids, texts, metadata = hits.found.ids, hits.found.texts, hits.found.metadata
    return [
        Hit(ids[row], texts[row], similarity, probability, dict(metadata[row]))
        for row, similarity, probability in zip(hits.order[:k], hits.similarities, likely, strict=False)
    ]
