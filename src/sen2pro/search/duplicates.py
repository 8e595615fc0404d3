"""Near duplicates among many texts: each that is dropped says the same as an earlier one that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.defaults import defaults
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.pairs import MatchConfidence
from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.search.documents import length_of, unit
from sen2pro.search.stores.faiss import library
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array, Array64, check_sentences, parse_fraction

WITH_LABELS, WITHOUT_LABELS = 0.95, 0.8  # precision, where none is asked for
_CHUNK = 2048  # texts that are compared at once
_NEAREST = 3  # kept texts that each text is compared with
_LEAST_COSINE = 0.6  # below it no pair is looked at
_INDISTINCT = 1 - 1e-6  # a cosine of texts that the network reads as one and the same
Edge = tuple[int, int, float]  # row, an earlier row, their cosine


@dataclass(frozen=True)
class Duplicate:
    """The text in `row` says the same as the one in the row `like`, which is kept, with a probability."""

    row: int
    like: int
    probability: float


@dataclass(frozen=True)
class Duplicates:
    """Which texts to keep (rows, in their order) and which to drop.

    `threshold` is the least probability of a duplicate. `rule` is the promise that it keeps, or None if none is kept.
    """

    kept: tuple[int, ...]
    dropped: tuple[Duplicate, ...]
    threshold: float
    rule: Rule | None

    @property
    def groups(self) -> dict[int, tuple[Duplicate, ...]]:
        """The kept rows that have duplicates, each with these."""
        found: dict[int, list[Duplicate]] = {}
        for each in self.dropped:
            found.setdefault(each.like, []).append(each)
        return {row: tuple(found[row]) for row in sorted(found)}


@dataclass(frozen=True)
class _Judge:
    """Encodes texts, gives pairs of them the probability that they are duplicates, and says what is enough."""

    threshold: float
    rule: Rule | None
    encode: Callable[[list[str]], Array]
    probability: Callable[[list[str], list[str], Array64], Array64]


def find_duplicates(
    model: Sen2Pro,
    texts: Iterable[str],
    *,
    precision: float | None = None,
    certainty: float = CERTAINTY,
    confidence: MatchConfidence | str | Path | None = None,
    show_progress_bar: Show = None,
    total: int | None = None,
) -> Duplicates:
    """Find texts that say the same as an earlier one.

    Parameters
    ----------
    model
        What encodes the texts.
    texts
        They may come from a generator; vectors and texts of those that are kept stay in memory.
    precision, certainty
        The least share of the dropped texts that are duplicates (default 0.95), and how sure that is; see
        `MatchConfidence.threshold`. Without a confidence, each text that is dropped is a duplicate with at least this
        probability (default 0.8), by the numbers that ship: that is no promise for your texts, and a warning says so.
    confidence
        A `MatchConfidence` that was fitted on labelled pairs, or its folder.
    total
        How many texts there are, for the progress bar, where it cannot be told.

    Examples
    --------
    >>> import warnings; warnings.simplefilter("ignore")  # it says that nothing is promised
    >>> texts = ["How do I reset my password?", "Where is the office?", "How do I reset my password ?"]
    >>> found = find_duplicates(Sen2Pro(), texts)
    >>> found.kept, [(each.row, each.like) for each in found.dropped]
    ((0, 1), [(2, 0)])
    """
    if precision is None:
        precision = WITHOUT_LABELS if confidence is None else WITH_LABELS
    if parse_fraction(precision) is None or not 0 < precision < 1:
        raise Sen2ProError(f"precision must be between 0 and 1 (both excluded), not {short_repr(precision)}")
    judge = _judge(model, precision, certainty, confidence)
    if isinstance(texts, str):
        raise Sen2ProError(f"give a list of texts, not one text: {short_repr(texts)}")
    finder, rows = _Finder(model, judge), iter(texts)
    with progress(
        length_of(texts, total), show_progress_bar, threshold=_CHUNK, unit="texts", title="comparing"
    ) as advance:
        while chunk := list(islice(rows, _CHUNK)):
            finder.add(check_sentences(chunk))
            advance(len(chunk))
    return Duplicates(tuple(finder.kept), tuple(finder.dropped), judge.threshold, judge.rule)


def _judge(
    model: Sen2Pro, precision: float, certainty: float, confidence: MatchConfidence | str | Path | None
) -> _Judge:
    if isinstance(confidence, (str, Path)):
        confidence = MatchConfidence.load(confidence, model=model.in_one_pass() or model)
    if isinstance(confidence, MatchConfidence):
        return _judge_by_labels(model, confidence, precision, certainty)
    if confidence is not None:
        raise Sen2ProError(f"confidence is a fitted MatchConfidence or the folder of one, not {short_repr(confidence)}")
    one_pass = model.in_one_pass()
    misfits = defaults().misfits(model.signature())
    if one_pass is None:
        misfits.append("no head for one pass")
    elif "data" not in one_pass.sources:
        misfits.append("no data uncertainty")
    if misfits or one_pass is None:
        raise Sen2ProError(
            f"the numbers that ship are for the default model, and this one has {'; '.join(misfits)}. Label pairs, "
            "fit sen2pro.calibration.MatchConfidence, and pass confidence=..."
        )
    warnings.warn(
        "the probabilities that ship with sen2pro have not seen your texts, so no precision is promised. Label pairs "
        "and fit a confidence (MatchConfidence, or sen2pro calibrate) for a promise",
        Sen2ProWarning,
        stacklevel=3,
    )

    curves = defaults().pairs
    known: dict[str, tuple[float, int]] = {}  # total data variance and words of each text

    def encode(texts: list[str]) -> Array:
        encoded = one_pass.estimate(texts)
        totals = encoded.parts["data"].total_variance.tolist()
        known.update(zip(texts, zip(totals, encoded.words.tolist(), strict=True), strict=True))
        return encoded.plain

    def probability(first: list[str], second: list[str], cosine: Array64) -> Array64:
        pairs = np.array([known[text] for text in first]) + np.array([known[text] for text in second])
        return curves.probability(curves.terms(cosine, *pairs.T))

    return _Judge(precision, None, encode, probability)


def _judge_by_labels(model: Sen2Pro, confidence: MatchConfidence, precision: float, certainty: float) -> _Judge:
    rule = confidence.threshold(precision=precision, certainty=certainty)

    def probability(first: list[str], second: list[str], cosine: Array64) -> Array64:
        if rule is None:
            return np.zeros(len(first))
        found = confidence.match(first, second, rule)
        return np.asarray(np.where(found.uncovered, 0.0, found.probability))

    return _Judge(2.0 if rule is None else rule.threshold, rule, model.encode_plain, probability)


class _Finder:
    """Compares texts with those that were kept before, a chunk at a time."""

    def __init__(self, model: Sen2Pro, judge: _Judge) -> None:
        self._model, self._judge = model, judge
        self.kept: list[int] = []
        self.dropped: list[Duplicate] = []
        self._texts: list[str] = []  # of those kept
        self._exact: dict[str, int] = {}  # text -> the row that is kept of it
        self._engine = library().IndexFlatIP(model.dim)
        self._rows = 0

    def add(self, chunk: list[str]) -> None:
        """Compare more texts."""
        first, self._rows = self._rows, self._rows + len(chunk)
        fresh: dict[str, int] = {}  # text -> its first row, of texts that are not there word for word
        for row, text in enumerate(chunk, first):
            if text not in self._exact:
                fresh.setdefault(text, row)
        texts, rows = list(fresh), list(fresh.values())
        vectors = unit(self._judge.encode(texts)) if texts else np.empty((0, self._model.dim), np.float32)
        likes = self._resolved(texts, rows, vectors)
        self._exact |= {text: likes[row].like if row in likes else row for text, row in fresh.items()}
        for row, text in enumerate(chunk, first):
            if fresh.get(text) != row:
                likes[row] = Duplicate(row, self._exact[text], 1.0)
        self.dropped += [likes[row] for row in sorted(likes)]

    def _resolved(self, texts: list[str], rows: list[int], vectors: Array) -> dict[int, Duplicate]:
        """Return which of some texts are duplicates of one that is kept; keep the others."""
        number, row_of = len(self.kept), [*self.kept, *rows]
        everything = [*self._texts, *texts]  # what the numbers of an edge mean: first those kept, then the new ones
        likes: dict[int, Duplicate] = {}
        left, edges = np.arange(len(texts)), list(self._to_earlier(vectors))
        while True:  # a text near one that was just dropped is compared again, with those that are left
            edges += _within(vectors[left], left + number)
            accepted, dropped = self._accepted(edges, everything), set[int]()
            for own, found in sorted(accepted.items()):
                nearest = [pair for pair in sorted(found) if pair[1] not in dropped]
                if nearest:
                    dropped.add(own)
                    likes[row_of[own]] = Duplicate(row_of[own], row_of[nearest[0][1]], -nearest[0][0])
            if not dropped:
                break
            left, edges = np.array([place for place in left if place + number not in dropped], np.int64), []
        self._engine.add(np.ascontiguousarray(vectors[left]))
        self.kept += [rows[place] for place in left]
        self._texts += [texts[place] for place in left]
        return likes

    def _accepted(self, edges: list[Edge], texts: list[str]) -> dict[int, list[tuple[float, int]]]:
        """Return for each text the earlier ones it is a duplicate of, with minus their probability."""
        cosine = np.array([edge[2] for edge in edges])
        probability = np.ones(len(edges))
        unclear = np.flatnonzero(cosine <= _INDISTINCT)
        if len(unclear):
            first, second = [texts[edges[i][0]] for i in unclear], [texts[edges[i][1]] for i in unclear]
            probability[unclear] = self._judge.probability(first, second, cosine[unclear])
        found: dict[int, list[tuple[float, int]]] = {}
        for (own, other, near), p in zip(edges, probability.tolist(), strict=True):
            if p >= self._judge.threshold or near > _INDISTINCT:
                found.setdefault(own, []).append((-p, other))
        return found

    def _to_earlier(self, vectors: Array) -> Iterator[Edge]:
        """Yield pairs of a new text and a kept one."""
        number = len(self.kept)
        if not number or not len(vectors):
            return
        scores, found = self._engine.search(np.ascontiguousarray(vectors), min(_NEAREST, number))
        for own, other in zip(*np.nonzero(scores >= _LEAST_COSINE), strict=True):
            yield number + int(own), int(found[own, other]), float(scores[own, other])


def _within(vectors: Array, numbers: NDArray[np.int64]) -> Iterator[Edge]:
    """Yield pairs of a text and an earlier one: the nearest few of each."""
    if len(vectors) < 2:
        return
    table: NDArray[np.float32] = vectors @ vectors.T
    table[np.triu_indices(len(table))] = -1
    most = min(_NEAREST, len(table) - 1)
    nearest = np.argpartition(-table, most - 1, axis=1)[:, :most]
    for own, others in enumerate(nearest):
        for other in others:
            if table[own, other] >= _LEAST_COSINE:
                yield int(numbers[own]), int(numbers[other]), float(table[own, other])
