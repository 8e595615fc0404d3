"""The probability that a search hit is right, learned from the scores of labelled queries. Any engine will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.confidence import Confidence, Examples, State, check_kinds, convert, held_out
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.report import Report, compared
from sen2pro.calibration.selection import (
    Candidate,
    Chosen,
    FittedCandidate,
    Mask,
    Number,
    Spread,
    Table,
    better,
    choose,
    expit,
    fit,
    folds,
    judged,
    losses,
)
from sen2pro.errors import Sen2ProError, first_line, short_repr
from sen2pro.io import bundle
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array64, check_numbers

if TYPE_CHECKING:
    from typing_extensions import Unpack

FEWEST_HITS = 2
DISTRIBUTION = ("variances", "agreement")  # what only a distribution gives
EXTRAS = ("lengths", "votes", *DISTRIBUTION)
# Features of the scores, from the simplest set to the largest: of candidates that are about as good, the first is
# taken. Each starts with the first score.
SETS = (
    ("first",), ("first", "gap"), ("first", "gap", "mean", "spread", "entropy"), ("sorted",),
    ("sorted", "gap", "spread", "entropy"),
)  # fmt: skip
OF_SCORES = tuple(dict.fromkeys(feature for features in SETS for feature in features))
PENALTIES = (1.0, 10.0, 100.0)  # of the squared weights of features that vary by 1
SLOPE = 1.0  # to which few labels are drawn: a first score higher by its spread makes the odds e times as large
TEMPERATURES = (0.25, 0.5, 1.0, 2.0)  # of the softmax, in units of the usual spread of a list
Depth = Annotated[int, msgspec.Meta(ge=FEWEST_HITS, le=1_000_000)]


class Extras(TypedDict, total=False):
    """What may be known of n queries beside the scores of their hits."""

    lengths: ArrayLike | None
    """Of the queries, in words for instance (n,)."""
    votes: ArrayLike | None
    """Share of the first hits that give the same answer as the first one (n,), where hits are examples of answers."""
    variances: ArrayLike | None
    """Total variances of the query (model, data), and perhaps of its first hit (model, data): (n, 2) or (n, 4)."""
    agreement: ArrayLike | None
    """Share of the first hits that come up again when the query is drawn from its distribution (n,)."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The scores of the first k hits of each query (n, k), in descending order, and what else is known (n, columns)."""

    scores: Array64
    extras: dict[str, Array64]

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Mask) -> Hits:
        return Hits(self.scores[rows], {name: column[rows] for name, column in self.extras.items()})

    @property
    def spread(self) -> float:
        """The usual spread of a list."""
        return float(self.scores.std(axis=1).mean()) or 1.0

    def table(self, features: Sequence[str], temperature: float) -> Table:
        """Return some features of each list, with the softmax at a temperature.

        >>> check_hits([[0.9, 0.4], [0.6, 0.5]]).table(("first", "gap"), 1.0).values.round(2)
        array([[0.9, 0.5],
               [0.6, 0.1]])
        """
        parts = {name: self._part(name, temperature) for name in features}
        names = tuple(name for name, part in parts.items() for _ in range(part.shape[1]))
        return Table(names, np.concatenate(list(parts.values()), axis=1), temperature)

    def logits(self, fitted: FittedCandidate) -> Array64:
        """Return the log-odds (n,) that the first hit is right."""
        return fitted.logits(self.table(fitted.features, fitted.temperature))

    def _part(self, name: str, temperature: float) -> Array64:
        s = self.scores
        if name in EXTRAS:
            if name not in self.extras:
                raise Sen2ProError(f"this confidence was fitted with {name}; pass them again: {name}=...")
            extra = self.extras[name]
            return extra if name in ("agreement", "votes") else _logarithms(extra)
        if name == "entropy":
            return entropy(s, temperature)
        if name == "sorted":
            return s
        summary = {"first": s[:, 0], "gap": s[:, 0] - s[:, 1], "mean": s.mean(axis=1), "spread": s.std(axis=1)}
        return np.asarray(summary[name][:, None])


def _logarithms(values: Array64) -> Array64:
    """Return the logarithms of variances or lengths, and how far those of queries and of hits are apart."""
    logs = np.log(values)
    half = logs.shape[1] // 2  # of queries, then of hits: sentences that mean the same are equally uncertain
    ratios = np.abs(logs[:, :half] - logs[:, half:]) if logs.shape[1] == 4 else logs[:, :0]
    return np.concatenate([logs, ratios], axis=1)


def entropy(scores: Array64, temperature: float) -> Array64:
    """Return the entropy of the softmax of each list as a share of the greatest possible one (n, 1).

    >>> entropy(np.array([[1.0, 1.0], [1.0, -99.0]]), 1.0).round(4).tolist()
    [[1.0], [0.0]]
    """
    powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    p = powers / powers.sum(axis=1, keepdims=True)
    terms = np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0)
    return np.asarray(-terms.sum(axis=1, keepdims=True) / np.log(scores.shape[1]))


def check_hits(scores: object, **extras: Unpack[Extras]) -> Hits:
    """Return what a user says of the hits, checked.

    >>> check_hits([[0.9, 0.4], [0.5, 0.6]])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: scores must be in descending order, but those of query 1 are not: [0.5, 0.6]
    """
    try:
        s = check_numbers("scores", scores, np.float64, axes=("query", "hit"))
    except Sen2ProError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise Sen2ProError("scores must have the same number of hits for every query; cut the longer lists") from None
    if s.ndim != 2:
        raise Sen2ProError(f"scores have the shape (queries, hits), not {s.shape}; of one query, give [scores]")
    if s.shape[1] < FEWEST_HITS:
        raise Sen2ProError(f"scores have {s.shape[1]} hits of each query; give at least {FEWEST_HITS}")
    rising = (np.diff(s, axis=1) > 0).any(axis=1)
    if rising.any():
        row = int(rising.argmax())
        some = [round(float(x), 4) for x in s[row, :5]]
        raise Sen2ProError(f"scores must be in descending order, but those of query {row} are not: {some}")
    given: dict[str, object] = {**extras}
    if unknown := given.keys() - {*EXTRAS}:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; there are {', '.join(EXTRAS)}")
    return Hits(s, {name: _column(name, given[name], len(s)) for name in EXTRAS if given.get(name) is not None})


def _column(name: str, values: object, n: int) -> Array64:
    array = check_numbers(name, values, np.float64, axes=("query", "column"))
    shape, array = array.shape, array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != n:
        raise Sen2ProError(f"{name} must have a row for each of the {n} queries, not the shape {shape}")
    if name in ("votes", "agreement"):
        if ((array < 0) | (array > 1)).any():
            raise Sen2ProError(f"{name} must be a share of the hits, from 0 to 1")
    elif (array <= 0).any():
        row = int((array <= 0).any(axis=1).argmax())
        raise Sen2ProError(f"{name} must be above 0, but query {row} has 0 or less")
    return array


def check_right(right: object, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which hits are right: (n, k), or (n, 1) of labels for the first hit alone."""
    try:
        array = np.asarray(right)
    except ValueError as error:
        raise Sen2ProError(f"right cannot be read as an array: {first_line(error)}") from None
    if array.shape not in (shape, shape[:1]):
        raise Sen2ProError(
            f"right has the shape {array.shape}; for scores of the shape {shape} it is {shape}, true where a hit is "
            f"right, or {shape[:1]}, true where the first hit is"
        )
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise Sen2ProError("right must be true or false (or 1 and 0) for each hit; of grades, say array >= grade")
    return array.astype(bool).reshape(len(array), -1)


class LaterHits(bundle.Config, frozen=True):
    """The probability of the hits after the first; `unit` is the usual spread of a list."""

    unit: Spread
    fitted: FittedCandidate

    def __post_init__(self) -> None:
        if self.fitted.features != _LATER.features or len(self.fitted.centre) != len(_LATER.features):
            raise ValueError(f"later hits must have {len(_LATER.features)} features")

    def logits(self, first: Array64, scores: Array64) -> Array64:
        """Return the log-odds (n, k - 1), given those of the first hit (n,)."""
        return self.fitted.logits(_later_table(first, scores, self.unit)).reshape(len(scores), scores.shape[1] - 1)


_LATER = Candidate("later hits", ("first", "gap", "rank"), (1.0,))


def _later_table(first: Array64, scores: Array64, unit: float) -> Table:
    """Return a row for each hit after the first: the log-odds of the first, the gap to it, and the log of the rank."""
    gaps = (scores[:, :1] - scores[:, 1:]) / unit
    ranks = np.broadcast_to(np.log(np.arange(2, scores.shape[1] + 1)), gaps.shape)
    columns = np.stack([np.broadcast_to(first[:, None], gaps.shape), gaps, ranks], axis=-1)
    return Table(_LATER.features, columns.reshape(-1, 3))


class HitState(State, frozen=True):
    """All that a `SearchConfidence` has learned.

    `depths` are of held-out queries with a right hit: the share of the probability that is before the first right one.
    """

    hits: Depth
    candidate: FittedCandidate
    later: LaterHits | None
    depths: tuple[Number, ...]

    def __post_init__(self) -> None:
        if not {*self.candidate.features} <= {*OF_SCORES, *EXTRAS}:
            raise ValueError(f"the features must be among {', '.join((*OF_SCORES, *EXTRAS))}")


class SearchConfidence(Confidence[HitState]):
    """Learn from labelled queries how likely a search result is right.

    Queries are split in two at random, those whose first hit is right and others alike. One part chooses and fits. The
    other chose nothing; it is for the promises of `abstain` and `answer_set`.

    Parameters
    ----------
    held_out
        Share of the queries for promises. With 0 all queries fit, and nothing can be promised.
    seed
        Makes splits reproducible.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = -np.sort(-rng.normal(size=(400, 5)), axis=1)
    >>> first_is_right = rng.uniform(size=400) < 1 / (1 + np.exp(-3 * (scores[:, 0] - 1)))
    >>> confidence = SearchConfidence().fit(scores, first_is_right)
    >>> low, high = confidence.probability([[0.1, 0, 0, -1, -1], [2.5, 0, 0, -1, -1]])
    >>> bool(low < 0.3), bool(high > 0.9)
    (True, True)
    """

    FILE, KIND = "sen2pro_search_confidence", HitState
    _examples: tuple[Hits, Array64, int] | None = None

    def fit(self, scores: ArrayLike, right: ArrayLike, **extras: Unpack[Extras]) -> SearchConfidence:
        """Choose and fit the probability that the first hit is right; returns itself.

        Parameters
        ----------
        scores
            Similarities of the first k hits of each query, in descending order (n, k), from any engine: at least 20
            queries, 2 hits of each.
        right
            Which hits are right (n, k); or whether the first hit is (n,), which is enough for `probability` and
            `abstain`.
        **extras
            What else is known of the queries, by name; see `Extras`: lengths, votes, variances and agreement. Methods
            that say something of new queries take the same.
        """
        seed, part = self._check_settings()
        hits = check_hits(scores, **extras)
        labels = check_right(right, (len(hits), hits.scores.shape[1]))
        y = labels[:, 0].astype(np.float64)
        check_kinds(y, "queries", ("a wrong first hit", "a right first hit"), useful=100)
        held = held_out(y, np.arange(len(y)), part, seed)
        rest, known, new = ~held, hits[~held], hits[held]
        chosen, with_ = choose_both(known, y[rest], seed)
        if with_ is not None:
            chosen = better(chosen, with_, y[rest], errors=1)
        tested = new.logits(chosen.fitted)
        later, depths = None, np.empty(0)
        if labels.shape[1] > 1:
            table = _later_table(chosen.logits, known.scores, known.spread)
            fitted = fit(_LATER, table, labels[rest, 1:].reshape(-1).astype(np.float64), _LATER.strengths[0])
            later = LaterHits(unit=known.spread, fitted=fitted)
            depths = _depths(_cumulative(tested, later, new.scores), labels[held])
        planning, testing = Examples.of(expit(chosen.logits), y[rest]), Examples.of(expit(tested), y[held])
        self._state = HitState(
            **self._common(planning, testing, None),
            hits=hits.scores.shape[1],
            candidate=chosen.fitted,
            later=later,
            depths=tuple(depths.tolist()),
        )
        self._examples = hits, y, seed
        return self

    @property
    def hits(self) -> int:
        """Number of hits of each query that it looks at."""
        return self.state.hits

    @property
    def needs(self) -> tuple[str, ...]:
        """What `probability` needs beside the scores: some of lengths, votes, variances and agreement."""
        return tuple(name for name in EXTRAS if name in self.state.candidate.features)

    def probability(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(the first hit is right) of each query (n,); what `needs` names must be passed again."""
        return expit(self._checked(scores, extras).logits(self.state.candidate))

    def probability_each(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(right) of each hit (n, k), whatever the others are.

        Where it was fitted on labels of the first hit alone, those of later hits are NaN.
        """
        hits, later = self._checked(scores, extras), self.state.later
        first = hits.logits(self.state.candidate)
        if later is None:
            return np.where(np.arange(self.hits) == 0, expit(first)[:, None], np.nan)
        return expit(np.concatenate([first[:, None], later.logits(first, hits.scores)], axis=1))

    def abstain(self, precision: float = 0.95, certainty: float = CERTAINTY) -> Rule | None:
        """Return a rule that answers only where the first hit is right with a promised precision.

        `rule.accepts(confidence.probability(scores))` tells which queries to answer. The promise is for new queries
        from the same source, with the same share of those that have no answer. Where nothing can be promised it
        returns None, and a warning says why and how many labels would do.
        """
        return self._rule(precision, certainty=certainty)

    def answer_set(self, scores: ArrayLike, share: float = 0.9, **extras: Unpack[Extras]) -> NDArray[np.int64]:
        """Return for each query the smallest number of hits that holds a right one (n,), by conformal prediction.

        Of the queries that have a right answer among their k hits, this share finds one in its set (on average over
        draws of the labelled queries). A query without any right hit cannot be helped by a set: it gets a number too. A
        number of k + 1 says that nothing can be promised: the labelled queries are too few for such a share.
        """
        hits, state = self._checked(scores, extras), self.state
        if state.later is None:
            raise Sen2ProError("it was fitted on labels of the first hit alone; fit it with right of the shape (n, k)")
        if not isinstance(share, float) or not 0 < share < 1:
            raise Sen2ProError(f"share must be between 0 and 1 (both excluded), not {short_repr(share)}")
        if not state.testing.labels:
            raise Sen2ProError("all labels were used for fitting (held_out=0), so none can test a promise")
        place = int(np.ceil((len(state.depths) + 1) * share - 1e-9))
        if place > len(state.depths):
            return np.full(len(hits), self.hits + 1)
        bound = np.sort(state.depths)[place - 1]
        cumulative = _cumulative(hits.logits(state.candidate), state.later, hits.scores)
        return 1 + np.asarray((cumulative[:, 1:-1] <= bound).sum(axis=1))

    def report(self) -> Report:
        """Return how good the probabilities are, with the distribution and without; it prints as a table.

        The first call takes a while: candidates are chosen and fitted again for each fold of all labelled queries.
        """
        if self.state.report is None and self._examples is not None:
            hits, y, seed = self._examples

            ways = judged(
                y, folds(y, seed=seed + 1), lambda rows: choose_both(hits[rows], y[rows], seed),
                lambda fitted, rows: hits[rows].logits(fitted),
            )  # fmt: skip
            found = compared("queries", *ways, y, self.state.candidate.name)
            self._state = msgspec.structs.replace(self.state, report=found)
        return super().report()

    @classmethod
    def load(cls, folder: str | Path) -> SearchConfidence:
        """Read what `save` wrote."""
        return cls._read(folder)

    def to_json(self) -> dict[str, object]:
        """Return all of it, with the report, as JSON has it; an index keeps it so."""
        self.report()
        content: dict[str, object] = msgspec.to_builtins(self.state)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, object], place: str = "the confidence") -> SearchConfidence:
        """Return the confidence of what `to_json` gave; an error names the place it is from."""
        return cls._of(convert(content, HitState, place))

    def _checked(self, scores: ArrayLike, extras: Extras) -> Hits:
        expected, hits = self.hits, check_hits(scores, **extras)
        if hits.scores.shape[1] != expected:
            raise Sen2ProError(f"scores have {hits.scores.shape[1]} hits of each query, but {expected} when fitted")
        return hits


def _cumulative(first: Array64, later: LaterHits, scores: Array64) -> Array64:
    """Return the share of the probability of all k hits that the first 0, 1, ... k of them have (n, k + 1)."""
    each = expit(np.concatenate([first[:, None], later.logits(first, scores)], axis=1))
    total = np.concatenate([np.zeros((len(each), 1)), each.cumsum(axis=1)], axis=1)
    return np.asarray(total / np.maximum(total[:, -1:], 1e-300))


def _depths(cumulative: Array64, labels: NDArray[np.bool_]) -> Array64:
    """Return for queries with a right hit the share before the first right one: what a set must exceed."""
    has = np.flatnonzero(labels.any(axis=1))
    return np.asarray(cumulative[has, labels[has].argmax(axis=1)])


def _candidate(features: tuple[str, ...]) -> Candidate:
    return Candidate(", ".join(features), features, PENALTIES, SLOPE, per_spread=True)


def best_temperature(hits: Hits, y: Array64) -> float:
    """Return the temperature at which the entropy alone tells most."""
    tried = [share * hits.spread for share in TEMPERATURES]
    alone, costs = Candidate("entropy", ("entropy",), (1.0,)), []
    for temperature in tried:
        table = hits.table(alone.features, temperature)
        costs.append(losses(fit(alone, table, y, 1.0).logits(table), y).mean())
    return tried[int(np.argmin(costs))]


def choose_both(hits: Hits, y: Array64, seed: int = 0) -> tuple[Chosen, Chosen | None]:
    """Return the best without the distribution, and the best that adds it to that (None if there is none to add)."""
    features = [*OF_SCORES, *hits.extras]
    parts = [(held, hits.table(features, best_temperature(hits[~held], y[~held]))) for held in folds(y, seed=seed)]
    table = hits.table(features, best_temperature(hits, y))

    def best_of(sets: Sequence[tuple[str, ...]]) -> Chosen:
        return choose([_candidate(each) for each in sets], table, parts, y)

    sets = list(SETS)
    for name in ("lengths", "votes"):
        if name in hits.extras:
            sets += [(*each, name) for each in sets]
    without = best_of(sets)
    given = [name for name in DISTRIBUTION if name in hits.extras]
    added = [(name,) for name in given] + ([tuple(given)] if len(given) > 1 else [])
    return without, best_of([(*without.fitted.features, *each) for each in added]) if added else None
