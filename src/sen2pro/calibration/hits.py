"""The probability that a search hit is right, learned from the scores of labelled queries. Any engine will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.confidence import Confidence, Examples, State, check_kinds, convert, held_out
from sen2pro.calibration.defaults import LIKELY, DefaultCalibration, defaults
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.hit_features import DISTRIBUTION, EXTRAS, FEWEST_HITS, Extras, Hits, check_hits, check_right
from sen2pro.calibration.report import Report, compared
from sen2pro.calibration.selection import (
    Candidate,
    Chosen,
    FittedCandidate,
    Mask,
    Number,
    Spread,
    Table,
    about_as_good,
    choose,
    expit,
    fit,
    folds,
    judged,
    losses,
)
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io import bundle
from sen2pro.settings import CERTAINTY
from sen2pro.signature import Signature
from sen2pro.validation import Array64

if TYPE_CHECKING:
    from typing_extensions import Unpack

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


class HitCandidate(bundle.Config, frozen=True):
    """A fitted candidate, and the temperature of its features."""

    temperature: Spread
    fitted: FittedCandidate

    def __post_init__(self) -> None:
        if not {*self.fitted.features} <= {*OF_SCORES, *EXTRAS}:
            raise ValueError(f"the features must be among {', '.join((*OF_SCORES, *EXTRAS))}")

    def logits(self, hits: Hits) -> Array64:
        """Return the log-odds (n,) that the first hit is right."""
        return self.fitted.logits(hits.table(self.fitted.features, self.temperature))


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
    candidate: HitCandidate
    later: LaterHits | None
    depths: tuple[Number, ...]


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
        chosen = better(*choose_both(known, y[rest], seed), y[rest])
        tested = chosen.fitted.logits(new)
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
        return tuple(name for name in EXTRAS if name in self.state.candidate.fitted.features)

    def probability(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(the first hit is right) of each query (n,); what `needs` names must be passed again."""
        return expit(self.state.candidate.logits(self._checked(scores, extras)))

    def probability_each(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(right) of each hit (n, k), whatever the others are.

        Where it was fitted on labels of the first hit alone, those of later hits are NaN.
        """
        hits, later = self._checked(scores, extras), self.state.later
        first = self.state.candidate.logits(hits)
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
        cumulative = _cumulative(state.candidate.logits(hits), state.later, hits.scores)
        return 1 + np.asarray((cumulative[:, 1:-1] <= bound).sum(axis=1))

    def report(self) -> Report:
        """Return how good the probabilities are, with the distribution and without; it prints as a table.

        The first call takes a while: candidates are chosen and fitted again for each fold of all labelled queries.
        """
        if self.state.report is None and self._examples is not None:
            hits, y, seed = self._examples

            def predict(some: Mask, others: Mask) -> tuple[Array64, Array64 | None]:
                without, with_ = choose_both(hits[some], y[some], seed)
                return without.fitted.logits(hits[others]), None if with_ is None else with_.fitted.logits(hits[others])

            ways = judged(y, folds(y, seed=seed + 1), predict)
            found = compared("queries", *ways, y, self.state.candidate.fitted.name)
            self._state = msgspec.structs.replace(self.state, report=found)
        return super().report()

    @classmethod
    def load(cls, folder: str | Path) -> SearchConfidence:
        """Read what `save` wrote."""
        return cls._read(folder)

    def to_json(self) -> dict[str, Any]:
        """Return all of it, with the report, as JSON has it; an index keeps it so."""
        self.report()
        content: dict[str, Any] = msgspec.to_builtins(self.state)
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any], place: str = "the confidence") -> SearchConfidence:
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


@dataclass(frozen=True, eq=False)
class ChosenHits:
    """The candidate that was chosen, fitted on all rows, and the log-odds of the rows (n,) out of fold."""

    fitted: HitCandidate
    logits: Array64


def choose_both(hits: Hits, y: Array64, seed: int = 0) -> tuple[ChosenHits, ChosenHits | None]:
    """Return the best without the distribution, and the best that adds it to that (None if there is none to add)."""
    features, best = [*OF_SCORES, *hits.extras], best_temperature(hits, y)
    parts = [(held, hits.table(features, best_temperature(hits[~held], y[~held]))) for held in folds(y, seed=seed)]
    table = hits.table(features, best)

    def best_of(sets: Sequence[tuple[str, ...]]) -> ChosenHits:
        chosen: Chosen = choose([_candidate(each) for each in sets], table, parts, y)
        return ChosenHits(HitCandidate(temperature=best, fitted=chosen.fitted), chosen.logits)

    sets = list(SETS)
    for name in ("lengths", "votes"):
        if name in hits.extras:
            sets += [(*each, name) for each in sets]
    without = best_of(sets)
    given = [name for name in DISTRIBUTION if name in hits.extras]
    added = [(name,) for name in given] + ([tuple(given)] if len(given) > 1 else [])
    base = without.fitted.fitted.features
    return without, best_of([(*base, *each) for each in added]) if added else None


def better(without: ChosenHits, with_: ChosenHits | None, y: Array64) -> ChosenHits:
    """Return the one with the distribution if it is better by more than one standard error, else the one without."""
    if with_ is None or about_as_good(losses(without.logits, y) - losses(with_.logits, y)):
        return without
    return with_


class FittedCalibration:
    """The probabilities of a `SearchConfidence`, for lists of any length; beyond its depth they are unknown."""

    def __init__(self, confidence: SearchConfidence) -> None:
        unknown = [name for name in confidence.needs if name not in ("lengths", "variances")]
        if unknown:
            raise Sen2ProError(
                f"this confidence was fitted with {' and '.join(unknown)}, which an index does not know; fit it without"
            )
        self._confidence = confidence

    @property
    def depth(self) -> int:
        """Number of hits that it looks at."""
        return self._confidence.hits

    @property
    def needs(self) -> tuple[str, ...]:
        """What `probabilities` needs beside the scores: `lengths` and `variances`, or nothing."""
        return self._confidence.needs

    def probabilities(
        self, lists: Sequence[Sequence[float]], *, lengths: Array64 | None = None, variances: Array64 | None = None
    ) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; the hits that a short list lacks count as its last."""
        found: list[list[float | None]] = [[None] * len(scores) for scores in lists]
        known = [number for number, scores in enumerate(lists) if len(scores)]
        if not known:
            return found
        filled = np.empty((len(known), self.depth))
        for row, number in zip(filled, known, strict=True):
            scores = lists[number][: self.depth]
            row[: len(scores)], row[len(scores) :] = scores, scores[-1]
        given = {"lengths": lengths, "variances": variances}
        extras: Any = {name: np.asarray(given[name])[known] for name in self.needs}
        if "variances" in extras and (extras["variances"] <= 0).any():
            raise Sen2ProError(
                "this confidence was fitted with variances, but the index or the model has none; use a model with a "
                "head, or a confidence that was fitted without variances"
            )
        for number, row in zip(known, self._confidence.probability_each(filled, **extras).tolist(), strict=True):
            count = min(len(lists[number]), self.depth)
            found[number][:count] = [None if likely != likely else likely for likely in row[:count]]
        return found

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the threshold of a rule that keeps the precision; above 1, with a warning, if there is none."""
        if precision is None:
            return LIKELY
        rule = self._confidence.abstain(precision, certainty)
        return 2.0 if rule is None else rule.threshold


Calibration = DefaultCalibration | FittedCalibration
"""Turns the similarities of hits into probabilities."""


def load_search_confidence(confidence: Any) -> SearchConfidence | None:
    """Return the `SearchConfidence` that a user passed: a fitted one, or the folder of one."""
    if isinstance(confidence, (str, Path)):
        return SearchConfidence.load(confidence)
    if confidence is not None and not isinstance(confidence, SearchConfidence):
        raise Sen2ProError(
            f"confidence is a fitted SearchConfidence or the folder of one, not {short_repr(confidence)}"
        )
    return confidence


def calibration(confidence: SearchConfidence | None, signature: Signature, ranking: str) -> Calibration | None:
    """Return a calibration: of a confidence, else the default one for this model and ranking; None if there is none."""
    if confidence is not None:
        return FittedCalibration(confidence)
    return None if defaults().misfits(signature) else defaults().hits.get(ranking)
