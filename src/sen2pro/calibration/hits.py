"""The probability that a search result is right, learned from the scores of labelled queries. Any engine will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from sen2pro.calibration import saving
from sen2pro.calibration.base import Confidence, Wording, check_kinds, held_out, rule_or_warning
from sen2pro.calibration.defaults import LIKELY, defaults
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.search_features import EXTRAS, Extras, Hits, check_hits, check_right
from sen2pro.calibration.search_fitting import better, choose_both, fit_later, judged
from sen2pro.calibration.search_report import SearchReport, compared
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io.atomic import check_path
from sen2pro.signature import Signature
from sen2pro.validation import Array64, check_whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

_QUERIES = Wording(
    "queries", 100, ("wrong", "right"), "the first hit of all {n} queries is {kind}; give queries of both kinds",
    "the first hit is right for {yes} queries and wrong for {no}",
)  # fmt: skip


class SearchConfidence(Confidence):
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
        check_kinds(y, _QUERIES)
        held = held_out(y, np.arange(len(y)), part, seed)
        rest = ~held
        chosen = better(*choose_both(hits[rest], y[rest], seed), y[rest])
        self.fitted_, self.hits_ = chosen.fitted, hits.scores.shape[1]
        self.planning_ = expit(chosen.logits), y[rest]
        self.testing_ = expit(self.fitted_.logits(hits[held])), y[held]
        self.later_, self.depths_ = None, np.empty(0)
        if labels.shape[1] > 1:
            self.later_ = fit_later(chosen.logits, hits.scores[rest], labels[rest])
            self.depths_ = self._depths(hits[held], labels[held])
        self.examples_: Any = (hits, y, seed)
        self.report_: SearchReport | None = None
        return self

    def probability(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(the first hit is right) of each query (n,); what `needs` names must be passed again."""
        return np.asarray(expit(self.fitted_.logits(self._checked(scores, extras))))

    def probability_each(self, scores: ArrayLike, **extras: Unpack[Extras]) -> Array64:
        """Return P(right) of each hit (n, k); of hits after the first, the chance if no hit before is right.

        Where it was fitted on labels of the first hit alone, those of later hits are NaN.
        """
        hits = self._checked(scores, extras)
        each = np.full(hits.scores.shape, np.nan)
        first = self.fitted_.logits(hits)
        each[:, 0] = expit(first)
        if self.later_ is not None:
            each[:, 1:] = expit(self.later_.logits(first, hits.scores))
        return each

    def probability_within(self, scores: ArrayLike, k: int, **extras: Unpack[Extras]) -> Array64:
        """Return P(a right answer is among the first k hits) of each query (n,)."""
        hits = self._checked(scores, extras)
        return self._within(hits)[:, check_whole("k", k, 1, self.hits_) - 1]

    def abstain(self, precision: float = 0.95, certainty: float = 0.95) -> Rule | None:
        """Return a rule that answers only where the first hit is right with a promised precision.

        `rule.accepts(confidence.probability(scores))` tells which queries to answer. The promise is for new queries
        from the same source, with the same share of those that have no answer. Where nothing can be promised it
        returns None, and a warning says why and how many labels would do.
        """
        check_is_fitted(self)
        return rule_or_warning(self._tested(), self.planning_, precision=precision, certainty=certainty)

    def answer_set(self, scores: ArrayLike, share: float = 0.9, **extras: Unpack[Extras]) -> NDArray[np.int64]:
        """Return for each query the smallest number of hits that holds a right one (n,), by conformal prediction.

        Of the queries that have a right answer among their k hits, so large a share finds one in its set (on average
        over draws of the labelled queries). A query without any right hit cannot be helped by a set: it gets a number
        too, and `probability_within(scores, k)` says how likely it has an answer at all. A number of k + 1 says that
        nothing can be promised: the labelled queries are too few for such a share.
        """
        hits = self._checked(scores, extras)
        depths = self._conditional(hits)
        if not isinstance(share, float) or not 0 < share < 1:
            raise Sen2ProError(f"share must be between 0 and 1 (both excluded), not {short_repr(share)}")
        self._tested()
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
        saving.save_search(self, check_path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> SearchConfidence:
        """Read what `save` wrote."""
        return saving.load_search(cls, check_path(folder))

    def to_json(self) -> dict[str, Any]:
        """Return all of it, with the report, as JSON has it; an index keeps it so."""
        check_is_fitted(self)
        return saving.search_content(self)

    @classmethod
    def from_json(cls, content: dict[str, Any], place: str = "the confidence") -> SearchConfidence:
        """Return the confidence of what `to_json` gave; an error names the place it is from."""
        return saving.search_of(cls, content, place)

    def _checked(self, scores: ArrayLike, extras: Extras) -> Hits:
        check_is_fitted(self)
        hits = check_hits(scores, **extras)
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
        return np.asarray(within / np.maximum(within[:, -1:], 1e-300))

    def _depths(self, hits: Hits, labels: NDArray[np.bool_]) -> Array64:
        """Return for queries with a right hit the probability that stood before it: what a set must exceed."""
        has = np.flatnonzero(labels.any(axis=1))
        before = np.concatenate([np.zeros((len(hits), 1)), self._conditional(hits)], axis=1)
        return np.asarray(before[has, labels[has].argmax(axis=1)])


class Calibration(Protocol):
    """Turns the similarities of hits into probabilities."""

    @property
    def depth(self) -> int:
        """Number of hits that it looks at."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What `probabilities` needs beside the scores: `lengths` and `variances`, or nothing."""

    def probabilities(
        self, lists: Sequence[Sequence[float]], *, lengths: Array64 | None = None, variances: Array64 | None = None
    ) -> list[list[float | None]]:
        """Return P(right) of each hit of each query; None is unknown.

        The scores of a query are in descending order. `lengths` (n,) and `variances` (n, 4) are as in `Extras`.
        """

    def threshold(self, precision: float | None, certainty: float) -> float:
        """Return the least probability of an answer that keeps a precision; above 1 if none does."""


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
        return self._confidence.hits_

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
