"""The probability that two sentences match, learned from labelled pairs."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration import report as reports
from sen2pro.calibration.comparison import pair_cosine
from sen2pro.calibration.confidence import Confidence, Examples, State, held_out, match_labels
from sen2pro.calibration.defaults import default_slope
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.selection import (
    Candidate,
    Chosen,
    FittedCandidate,
    Mask,
    Number,
    Shape,
    Spread,
    Table,
    better,
    choose,
    expit,
    folds,
    judged,
    logistic,
)
from sen2pro.distances import distance_pairwise
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.estimation.encoded import Encoded
from sen2pro.gaussian import Gaussian, is_far
from sen2pro.io.atomic import check_path
from sen2pro.settings import CERTAINTY
from sen2pro.signature import MATTERS, Signature
from sen2pro.validation import Array64, check_sentences

PLAIN = ("cosine", "length", "length difference")  # features that need no distribution
_FLOOR = 1e-12  # of a variance, before its logarithm
TITLES = {
    "platt": "Platt, cosine", "isotonic": "isotonic, cosine", "beta": "beta, cosine",
    "lengths": "logistic, cosine and lengths", "distribution": "logistic, with the distribution",
}  # fmt: skip
# Simple ones first: the one-standard-error rule takes the first that is about as good as the best.
WITHOUT, WITH = ("platt", "beta", "isotonic", "lengths"), ("distribution",)
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the pull to the default slope: 1 is that of a few labels
_SHAPES: dict[str, Shape] = {
    "platt": "linear", "beta": "beta", "isotonic": "isotonic", "lengths": "products", "distribution": "products"
}  # fmt: skip
_FEW = 200  # pairs: with fewer, curves of many steps are noise, and the pull to the default slope is at least so strong
_OF_THE_FIT = (*MATTERS, "samples", "max_length", "prompt")  # must not differ between fitting and using
Sentences = str | Sequence[str] | Encoded


@runtime_checkable
class Model(Protocol):
    """What a confidence needs of a `Sen2Pro`."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of uncertainty in use."""

    def signature(self) -> Signature:
        """Return how it encodes."""

    def estimate(self, sentences: Sequence[str]) -> Encoded:
        """Return all that encoding gives."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Whether pairs of sentences match.

    `probability` is that of a match (n,). `verdict` (n,) is `yes` where the promise of a rule is kept, `unsure` where a
    match is likelier than not, and else `no`; without a rule it is empty. `uncovered` (n,) are pairs with a sentence
    that the head does not know: they are never a `yes`, unless that was asked for. `fitted_on` (n,) are pairs that the
    confidence has learned from, for which no promise holds; it is None if they are unknown.
    """

    probability: Array64
    verdict: list[str]
    uncovered: Mask
    fitted_on: Mask | None


class PairState(State, frozen=True):
    """All that a `MatchConfidence` has learned: `judged` are all pairs with their probabilities out of fold."""

    match_from: float | None
    signature: Signature
    candidate: FittedCandidate
    level: tuple[Number, Spread]
    judged: Examples
    digests: tuple[str, ...] | None


class MatchConfidence(Confidence[PairState]):
    """Learn from labelled pairs how likely two sentences match, with their distributions as features.

    Pairs are split in two at random, matches and others alike; all copies of a pair are on one side. One part chooses
    and fits. The other, which chose nothing, is for `threshold`; with the first part out of fold it sets the level of
    the probabilities too, which leaves the order of all pairs as it is.

    Parameters
    ----------
    match_from
        For graded labels: the lowest grade of a match. By default labels are 1 (a match) and 0.
    held_out
        Share of the pairs for `threshold`. With 0 all pairs fit, and nothing can be promised.
    seed
        Makes splits reproducible.

    Examples
    --------
    >>> from sen2pro import Sen2Pro
    >>> model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    >>> same = [(f"A man plays {x}.", f"Someone is playing {x}.") for x in ("chess", "cards", "golf", "jazz", "tennis")]
    >>> other = [(f"A man plays {x}.", "The market fell again.") for x in ("chess", "cards", "golf", "jazz", "tennis")]
    >>> first, second = zip(*(same + other) * 2)
    >>> import warnings; warnings.simplefilter("ignore")  # it says that every pair is repeated
    >>> confidence = MatchConfidence().fit(model, first, second, ([1] * 5 + [0] * 5) * 2)
    >>> bool(confidence.probability("He plays the flute.", "Someone is playing the flute.") > 0.5)
    True
    """

    FILE, KIND = "sen2pro_confidence", PairState

    def __init__(self, match_from: float | None = None, held_out: float = 0.5, seed: int = 0) -> None:
        super().__init__(held_out, seed)
        self.match_from = match_from
        self._model: Model | None = None

    def fit(
        self, model: Model, first: Sequence[str] | Encoded, second: Sequence[str] | Encoded, labels: ArrayLike
    ) -> MatchConfidence:
        """Choose, fit and judge the probability of a match; returns itself.

        Parameters
        ----------
        model
            The `Sen2Pro` that encodes the sentences, in one pass for instance; it is kept, for `probability`.
        first, second
            The sentences of each pair, at least 20 pairs.
        labels
            1 for a match, else 0; or grades, where `match_from` says which are a match.
        """
        seed, part = self._check_settings()
        y = match_labels(labels, self.match_from)
        left, right = _encoded(model, first, second)
        table, far = pair_features(left, right), far_pairs(left, right)
        if len(far) != len(y):
            raise Sen2ProError(f"there are {len(far)} pairs, but {len(y)} labels")
        _warn_of_uncovered(far, ", and a promise is for the others (but see uncovered=True)")
        texts = None if isinstance(first, Encoded) or isinstance(second, Encoded) else (first, second)
        groups = _groups(texts, table)
        repeated = _count_repeated(groups)
        held, slope = held_out(y, groups, part, seed), default_slope(model.signature())

        def both(rows: Mask) -> tuple[Chosen, Chosen]:
            of_rows = table[rows], y[rows], groups[rows], slope, seed
            return choose_among(WITHOUT, *of_rows), choose_among(WITH, *of_rows)

        without, with_ = both(~held)
        chosen = better(without, with_, y[~held], errors=0)  # the distribution costs nothing to take along
        tested = chosen.fitted.logits(table[held])
        level = _level(np.r_[chosen.logits, tested], np.r_[y[~held], y[held]])
        ways = judged(y, folds(y, groups, seed + 1), both, lambda fitted, rows: fitted.logits(table[rows]))
        once = np.unique(groups[held], return_index=True)[1]
        self._model, self._state = (
            model,
            PairState(
                **self._common(
                    Examples.of(_at_level(chosen.logits, level), y[~held], far[~held]),
                    Examples.of(_at_level(tested, level)[once], y[held][once], far[held][once]),
                    reports.compared("pairs", *ways, y, TITLES[chosen.fitted.name], repeated),
                ),
                match_from=self.match_from,
                signature=model.signature(),
                candidate=chosen.fitted,
                level=level,
                judged=Examples.of(expit(ways[0] if chosen is without or ways[1] is None else ways[1]), y),
                digests=texts and tuple(sorted(set(map(pair_digest, *texts)))),
            ),
        )
        return self

    @property
    def signature(self) -> Signature:
        """How the model encodes that it was fitted with."""
        return self.state.signature

    def probability(self, a: Sentences, b: Sentences) -> Any:
        """Return P(match) of each pair (n,), or of one pair a number.

        Takes sentences, or what `Sen2Pro.estimate` gives, so that a sentence of many pairs is encoded once. A
        Gaussian alone has no plain vector and no length.
        """
        single = isinstance(a, str) and isinstance(b, str)
        found, far = self._probability([a] if isinstance(a, str) else a, [b] if isinstance(b, str) else b)
        _warn_of_uncovered(far)
        return float(found[0]) if single else found

    def match(
        self, a: str | Sequence[str], b: str | Sequence[str], rule: Rule | None, *, uncovered: bool = False
    ) -> Matches:
        """Tell of each pair of sentences whether it is a match, by a rule that `threshold` gave.

        A pair with a sentence that the head does not know (another language for instance) is `unsure` at best: nothing
        can be promised for it. With `uncovered` it is treated as the others; then give `threshold` the same.
        """
        digests = self.state.digests
        first, second = check_sentences(a), check_sentences(b)
        probability, far = self._probability(first, second)
        words = verdicts(probability, rule, np.zeros(len(far), bool) if uncovered else far)
        known = None
        if digests is not None:
            fitted_on = frozenset(digests)
            known = np.array([pair_digest(*pair) in fitted_on for pair in zip(first, second, strict=True)])
        return Matches(probability, words, far, known)

    def threshold(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        false_matches: float | None = None,
        certainty: float = CERTAINTY,
        uncovered: bool = False,
    ) -> Rule | None:
        """Return a threshold on `probability` that keeps one promise for new pairs from the same source.

        Where nothing can be promised it returns None, and a `NothingPromised` warning says why and how many labels
        would do. See `sen2pro.calibration.guarantee`.

        Parameters
        ----------
        precision, recall, false_matches
            The promise: the least precision or recall, or the most false matches in a thousand pairs.
        certainty
            Confidence level of the promise; see `sen2pro.calibration.promise`.
        uncovered
            The promise is for pairs whose sentences the head knows (see `Gaussian.coverage`); with True, for all pairs.
        """
        return self._rule(precision, recall, false_matches, certainty=certainty, covered=not uncovered)

    def plot(self, path: str | Path) -> None:
        """Draw the reliability diagram into a file."""
        reports.plot(*self.state.judged.arrays(), check_path(path))

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> MatchConfidence:
        """Read what `save` wrote; `model` is the one it was fitted with."""
        found = cls._read(folder)
        found.match_from, found._model = found.state.match_from, model
        _check_signature(found.signature, model.signature())
        candidate, known = found.state.candidate, names(model.sources)
        if not set(candidate.features) <= set(known) or len(candidate.centre) != len(candidate.features):
            raise Sen2ProError(
                f"{folder} has numbers for {len(candidate.centre)} features of a pair that do not fit the "
                f"{len(known)} features of this model; fit again"
            )
        return found

    def _probability(self, a: Sentences, b: Sentences) -> tuple[Array64, Mask]:
        """Return P(match) of each pair (n,), and whether the head does not know one of its sentences."""
        state = self.state
        assert self._model is not None
        left, right = _encoded(self._model, a, b)
        logits = state.candidate.logits(pair_features(left, right))
        return _at_level(logits, state.level), far_pairs(left, right)


def names(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features of a pair, those without a distribution first.

    >>> names(["data"])
    ('cosine', 'length', 'length difference', 'distance', 'mean cosine', 'data total', 'data ratio', 'data product')
    """
    of_source = [f"{source} {name}" for source in sources for name in ("total", "ratio", "product")]
    return (*PLAIN, "distance", "mean cosine", *of_source)


def pair_features(a: Encoded, b: Encoded) -> Table:
    """Return the features of each pair, by `names`; a pair and its reverse have the same.

    *Length* is the logarithm of the product of both numbers of words, *length difference* that of their ratio.
    Of each source of uncertainty: *total* is the logarithm of the sum of both total variances, *ratio* the size of the
    logarithm of their ratio (sentences that mean the same are about equally vague), and *product* the logarithm of the
    variance of the dot product, by the delta method.
    """
    lengths = np.log(np.maximum([a.words, b.words], 1))
    distance = distance_pairwise(a.gaussian, b.gaussian).astype(np.float64)
    columns = [pair_cosine(a.plain, b.plain), lengths.sum(axis=0), np.abs(lengths[0] - lengths[1])]
    columns += [distance, pair_cosine(a.gaussian.mean, b.gaussian.mean)]
    for source in a.parts:
        x, y = a.parts[source], b.parts[source]
        total_x, total_y = (np.maximum(part.total_variance, _FLOOR) for part in (x, y))
        product = (x.mean.astype(np.float64) ** 2 * y.variance + y.mean.astype(np.float64) ** 2 * x.variance).sum(-1)
        columns += [np.log(total_x + total_y), np.abs(np.log(total_x / total_y)), np.log(np.maximum(product, _FLOOR))]
    return Table(names(list(a.parts)), np.stack(columns, axis=-1))


def far_pairs(left: Encoded, right: Encoded) -> Mask:
    """Tell which pairs (n,) have a sentence that the head does not know."""
    return is_far(left.gaussian) | is_far(right.gaussian)


def candidate(name: str, features: tuple[str, ...], n: int, slope: float) -> Candidate:
    """Return a candidate for n pairs with some features, whose coefficient of the cosine is drawn to a slope."""
    used = {"lengths": PLAIN, "distribution": features}.get(name, PLAIN[:1])
    drawn = tuple(strength for strength in STRENGTHS if not slope or strength >= _FEW / n)
    strengths = {"isotonic": STRENGTHS[:1], "beta": STRENGTHS}.get(name, drawn)
    return Candidate(name, used, strengths, 0.0 if name == "beta" else slope, shape=_SHAPES[name])


def choose_among(
    wanted: Sequence[str], table: Table, labels: Array64, groups: NDArray[np.int64], slope: float, seed: int = 0
) -> Chosen:
    """Choose one of the candidates in `TITLES` by cross-validation; with few pairs only straight lines are tried."""
    n, parts = len(labels), [(held, table) for held in folds(labels, groups, seed)]
    tried = [name for name in wanted if n >= _FEW or _SHAPES[name] not in ("beta", "isotonic") or len(wanted) == 1]
    return choose([candidate(name, table.names, n, slope) for name in tried], table, parts, labels)


def _level(logits: Array64, labels: Array64) -> tuple[float, float]:
    """Return shift and slope that set logits to the level of some labels; the order of the pairs stays as it is."""
    shift, slope = logistic(logits[:, None], labels, np.ones(1), 10.0)
    return (float(shift), float(slope)) if slope > 0 else (0.0, 1.0)


def _at_level(logits: Array64, level: tuple[float, float]) -> Array64:
    return expit(level[0] + level[1] * logits)


def verdicts(probability: Array64, rule: Rule | None, withheld: Mask) -> list[str]:
    """Return yes, unsure or no for each pair, or nothing where there is no rule; a `withheld` pair gets no yes.

    >>> rule = Rule("precision", 0.95, 0.95, threshold=0.8, share=0.5, labels=100)
    >>> verdicts(np.array([0.9, 0.9, 0.7, 0.4]), rule, np.array([False, True, False, False]))
    ['yes', 'unsure', 'unsure', 'no']
    """
    if rule is None:
        return [""] * len(probability)
    accepted = rule.accepts(probability)
    unsure = np.where(accepted | (probability >= 0.5), "unsure", "no")
    return list(np.where(accepted & ~withheld, "yes", unsure).tolist())


def pair_digest(first: str, second: str) -> str:
    """Return 12 hex digits that tell a pair from others, in either order.

    >>> pair_digest("It rains.", "Rain falls.") == pair_digest("Rain falls.", "It rains.")
    True
    """
    text = "\0".join(sorted((first, second)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _groups(texts: tuple[Sequence[str], Sequence[str]] | None, table: Table) -> NDArray[np.int64]:
    """Return a number for each pair (n,), the same for equal ones: by their texts, or else by their features."""
    if texts is None:
        return np.unique(table.values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    numbers: dict[tuple[str, ...], int] = {}
    keys = [tuple(sorted(pair)) for pair in zip(*texts, strict=True)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _count_repeated(groups: NDArray[np.int64]) -> int:
    """Return how many pairs came before, with a warning if there are any."""
    repeated = len(groups) - len(np.unique(groups))
    if repeated:
        warnings.warn(
            f"{repeated} of {len(groups)} pairs are repeated; all copies of a pair are kept on one side of every "
            "split, and count once for a promise",
            Sen2ProWarning,
            stacklevel=3,
        )
    return repeated


def _encoded(model: Model, a: Sentences, b: Sentences) -> tuple[Encoded, Encoded]:
    """Return both sides of some pairs encoded, each sentence once."""
    if not isinstance(model, Model):
        raise Sen2ProError(f"model must be a Sen2Pro, not {type(model).__name__}")
    for side in (a, b):
        if isinstance(side, Gaussian):
            raise Sen2ProError(
                "a Gaussian has no plain vector and no length, which this probability needs; pass the sentences, "
                "or what Sen2Pro.estimate(sentences) gives"
            )
    if isinstance(a, Encoded) and isinstance(b, Encoded):
        found = a, b
        for side in found:
            if side.signature is not None:
                _check_signature(model.signature(), side.signature)
    elif isinstance(a, Encoded) or isinstance(b, Encoded):
        raise Sen2ProError("give two lists of sentences, or two that were encoded, not one of each")
    else:
        left, right = check_sentences(a), check_sentences(b)
        texts = {text: number for number, text in enumerate(dict.fromkeys([*left, *right]))}
        every = model.estimate(list(texts))
        found = every[[texts[text] for text in left]], every[[texts[text] for text in right]]
    if len(found[0]) != len(found[1]) or not len(found[0]):
        raise Sen2ProError(f"pairs take two lists of one length, not of {len(found[0])} and {len(found[1])}")
    return found


def _check_signature(fitted: Signature, given: Signature) -> None:
    differing = [
        f"{name} {getattr(fitted, name)!r} when it was fitted, but {getattr(given, name)!r} now"
        for name in _OF_THE_FIT
        if getattr(fitted, name) != getattr(given, name)
    ]
    if differing:
        raise Sen2ProError(
            f"this confidence was fitted with another model or other settings: {'; '.join(differing)}. Use the same "
            "model, or fit again"
        )


def _warn_of_uncovered(far: NDArray[np.bool_], more: str = "") -> None:
    if far.any():
        warnings.warn(
            f"{far.sum()} of {len(far)} pairs have a sentence far from what the head was fitted on, of another "
            f"language or length for instance; their probabilities may be off{more}",
            Sen2ProWarning,
            stacklevel=3,
        )
