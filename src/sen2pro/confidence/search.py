"""The probability that a search result is right, learned from the scores of labelled queries. Any engine will do."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sen2pro.checks import check_seed, check_whole, share
from sen2pro.confidence import search_saving as saving
from sen2pro.confidence.guarantee import Rule, promise
from sen2pro.confidence.search_features import EXTRAS, Hits, check_hits, check_right
from sen2pro.confidence.search_fitting import Logistic, better, choose_both, fit_logistic, judged
from sen2pro.confidence.search_report import SearchReport, compared
from sen2pro.errors import Sen2ProError, Sen2ProWarning, shown
from sen2pro.files.text import check_path
from sen2pro.types import Array64

FEWEST = 20  # labelled queries
_FEWEST_OF_A_KIND = 4  # so that each half has two


@dataclass(frozen=True, eq=False)
class Later:
    """How likely each hit after the first is right, if none before it is."""

    logistic: Logistic
    unit: float  # the usual spread of a list

    def logits(self, first: Array64, scores: Array64) -> Array64:
        """Return the log-odds (n, k - 1), given those of the first hit (n,)."""
        return self.logistic.logits(later_columns(first, scores, self.unit)).reshape(len(scores), scores.shape[1] - 1)


def later_columns(first: Array64, scores: Array64, unit: float) -> Array64:
    """Return a row for each hit after the first (n * (k - 1), 3): log-odds of the first, gap to it, log of the rank."""
    gaps = (scores[:, :1] - scores[:, 1:]) / unit
    ranks = np.broadcast_to(np.log(np.arange(2, scores.shape[1] + 1)), gaps.shape)
    return np.stack([np.broadcast_to(first[:, None], gaps.shape), gaps, ranks], axis=-1).reshape(-1, 3)


class SearchConfidence(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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

    def __init__(self, held_out: float = 0.5, seed: int = 0) -> None:
        self.held_out = held_out
        self.seed = seed

    def fit(
        self,
        scores: ArrayLike,
        right: ArrayLike,
        *,
        lengths: ArrayLike | None = None,
        votes: ArrayLike | None = None,
        variances: ArrayLike | None = None,
        agreement: ArrayLike | None = None,
    ) -> SearchConfidence:
        """Choose and fit the probability that the first hit is right; returns itself.

        Parameters
        ----------
        scores
            Similarities of the first k hits of each query, in descending order (n, k), from any engine: at least 20
            queries, 2 hits of each.
        right
            Which hits are right (n, k); or whether the first hit is (n,), which is enough for `probability` and
            `abstain`.
        lengths
            Of the queries, in words for instance (n,).
        votes
            Share of the first hits that give the same answer as the first one (n,), where hits are examples of answers.
        variances
            Total variances of the query (model, data), and perhaps of its first hit (model, data): (n, 2) or (n, 4).
        agreement
            Share of the first hits that come up again when the query is drawn from its distribution (n,).
        """
        seed, part = check_seed(self.seed), share(self.held_out)
        if part is None or part > 0.9:
            raise Sen2ProError(f"held_out must be a share from 0 to 0.9, not {shown(self.held_out)}")
        hits = check_hits(scores, lengths, votes, variances, agreement)
        labels = check_right(right, (len(hits), hits.scores.shape[1]))
        y = labels[:, 0].astype(np.float64)
        _check_kinds(y)
        held = _held_out(y, part, seed)
        rest = ~held
        chosen = better(*choose_both(hits[rest], y[rest], seed), y[rest])
        self.fitted_, self.hits_ = chosen.fitted, hits.scores.shape[1]
        self.planning_ = expit(chosen.logits), y[rest]
        self.testing_ = expit(self.fitted_.logits(hits[held])), y[held]
        self.later_, self.depths_ = None, np.empty(0)
        if labels.shape[1] > 1:
            self.later_ = _fit_later(chosen.logits, hits.scores[rest], labels[rest])
            self.depths_ = self._depths(hits[held], labels[held])
        self.examples_: Any = (hits, y, seed)
        self.report_: SearchReport | None = None
        return self

    def probability(
        self,
        scores: ArrayLike,
        *,
        lengths: ArrayLike | None = None,
        votes: ArrayLike | None = None,
        variances: ArrayLike | None = None,
        agreement: ArrayLike | None = None,
    ) -> Array64:
        """Return P(the first hit is right) of each query (n,); what `needs` names must be passed again."""
        return np.asarray(expit(self.fitted_.logits(self._checked(scores, lengths, votes, variances, agreement))))

    def probability_within(
        self,
        scores: ArrayLike,
        k: int,
        *,
        lengths: ArrayLike | None = None,
        votes: ArrayLike | None = None,
        variances: ArrayLike | None = None,
        agreement: ArrayLike | None = None,
    ) -> Array64:
        """Return P(a right answer is among the first k hits) of each query (n,)."""
        hits = self._checked(scores, lengths, votes, variances, agreement)
        return self._within(hits)[:, check_whole("k", k, 1, self.hits_) - 1]

    def abstain(self, precision: float = 0.95, certainty: float = 0.95) -> Rule | None:
        """Return a rule that answers only where the first hit is right with a promised precision.

        `rule.accepts(confidence.probability(scores))` tells which queries to answer. The promise is for new queries
        from the same source, with the same share of those that have no answer. Where nothing can be promised it
        returns None, and a warning says why and how many labels would do.
        """
        check_is_fitted(self)
        if not len(self.testing_[1]):
            raise _nothing_held_out()
        found = promise(*self.testing_, precision=precision, certainty=certainty, planned_by=self.planning_)
        if found.rule is None:
            warnings.warn(found.reason, Sen2ProWarning, stacklevel=2)
        return found.rule

    def answer_set(
        self,
        scores: ArrayLike,
        share: float = 0.9,
        *,
        lengths: ArrayLike | None = None,
        votes: ArrayLike | None = None,
        variances: ArrayLike | None = None,
        agreement: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Return for each query the smallest number of hits that holds a right one (n,), by conformal prediction.

        Of the queries that have a right answer among their k hits, so large a share finds one in its set (on average
        over draws of the labelled queries). A query without any right hit cannot be helped by a set: it gets a number
        too, and `probability_within(scores, k)` says how likely it has an answer at all. A number of k + 1 says that
        nothing can be promised: the labelled queries are too few for such a share.
        """
        hits = self._checked(scores, lengths, votes, variances, agreement)
        depths = self._conditional(hits)
        if not isinstance(share, float) or not 0 < share < 1:
            raise Sen2ProError(f"share must be between 0 and 1 (both excluded), not {shown(share)}")
        if self.testing_[1].size == 0:
            raise _nothing_held_out()
        place = int(np.ceil((len(self.depths_) + 1) * share - 1e-9))
        if place > len(self.depths_):
            return np.full(len(hits), self.hits_ + 1)
        bound = np.sort(self.depths_)[place - 1]
        return 1 + np.asarray((depths[:, :-1] <= bound).sum(axis=1))

    @property
    def needs(self) -> tuple[str, ...]:
        """What `probability` needs beside the scores: some of lengths, votes, variances and agreement."""
        check_is_fitted(self)
        return tuple(name for name in EXTRAS if name in self.fitted_.design)

    def report(self) -> SearchReport:
        """Return how good the probabilities are, with the distribution and without; it prints as a table.

        The first call takes a while: candidates are chosen and fitted again for each fold of all labelled queries.
        """
        check_is_fitted(self)
        found: SearchReport | None = self.report_
        if found is None:
            hits, y, seed = self.examples_
            found = self.report_ = compared(*judged(hits, y, seed), y, ", ".join(self.fitted_.design))
        return found

    def save(self, folder: str | Path) -> None:
        """Write all of it, with the report, to a folder that must be new or empty."""
        self.report()
        saving.save(self, check_path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> SearchConfidence:
        """Read what `save` wrote."""
        found = saving.read(check_path(folder))
        confidence = cls(**found.pop("settings"))
        later = found.pop("later_")
        for name, value in {**found, "later_": later and Later(*later), "examples_": None}.items():
            setattr(confidence, name, value)
        return confidence

    def _checked(self, scores: ArrayLike, *extras: Any) -> Hits:
        check_is_fitted(self)
        hits = check_hits(scores, *extras)
        if hits.scores.shape[1] != self.hits_:
            raise Sen2ProError(f"scores have {hits.scores.shape[1]} hits of each query, but {self.hits_} when fitted")
        return hits

    def _within(self, hits: Hits) -> Array64:
        """Return P(a right answer is among the first 1, 2, ... k hits) (n, k): it never falls."""
        if self.later_ is None:
            raise Sen2ProError("it was fitted on labels of the first hit alone; fit it with right of the shape (n, k)")
        first = self.fitted_.logits(hits)
        each = np.concatenate([first[:, None], self.later_.logits(first, hits.scores)], axis=1)
        return np.asarray(-np.expm1(-np.logaddexp(0, each).cumsum(axis=1)))

    def _conditional(self, hits: Hits) -> Array64:
        """Return the same given that there is an answer among the k hits (n, k)."""
        within = self._within(hits)
        return np.asarray(within / within[:, -1:])

    def _depths(self, hits: Hits, labels: NDArray[np.bool_]) -> Array64:
        """Return for queries with a right hit the probability that stood before it: what a set must exceed."""
        has = np.flatnonzero(labels.any(axis=1))
        before = np.concatenate([np.zeros((len(hits), 1)), self._conditional(hits)], axis=1)
        return np.asarray(before[has, labels[has].argmax(axis=1)])


def _fit_later(first: Array64, scores: Array64, labels: NDArray[np.bool_]) -> Later:
    unit = float(scores.std(axis=1).mean()) or 1.0
    open_still = ~np.logical_or.accumulate(labels, axis=1)[:, :-1]  # no hit before was right
    rows = open_still.reshape(-1)
    y = labels[:, 1:].reshape(-1)[rows].astype(np.float64)
    return Later(fit_logistic(later_columns(first, scores, unit)[rows], y, penalty=1.0), unit)


def _check_kinds(y: Array64) -> None:
    n, right = len(y), int(y.sum())
    if n < FEWEST:
        raise Sen2ProError(f"{n} labelled queries are too few: it takes at least {FEWEST}, and 100 for a useful fit")
    if right in (0, n):
        kind = "right" if right else "wrong"
        raise Sen2ProError(f"the first hit of all {n} queries is {kind}; give queries of both kinds")
    if min(right, n - right) < _FEWEST_OF_A_KIND:
        raise Sen2ProError(
            f"the first hit is right for {right} queries and wrong for {n - right}; it takes at least "
            f"{_FEWEST_OF_A_KIND} of each kind"
        )


def _held_out(y: Array64, part: float, seed: int) -> NDArray[np.bool_]:
    """Tell which queries are held out: so large a part of both kinds."""
    held, rng = np.zeros(len(y), bool), np.random.default_rng(seed)
    for kind in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == kind))
        held[rows[: round(part * len(rows))]] = True
    return held


def _nothing_held_out() -> Sen2ProError:
    return Sen2ProError("all labels were used for fitting (held_out=0), so none can test a promise")
