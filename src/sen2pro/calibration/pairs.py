"""The probability that two sentences match, learned from labelled pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from sen2pro.calibration import report as reports
from sen2pro.calibration import saving
from sen2pro.calibration.base import Confidence, Examples, Wording, check_kinds, held_out, rule_or_warning
from sen2pro.calibration.candidates import level
from sen2pro.calibration.choosing import better, choose_both, judged
from sen2pro.calibration.defaults import default_slope
from sen2pro.calibration.features import Encoded, encode, features, names
from sen2pro.calibration.guarantee import Rule
from sen2pro.calibration.matches import Matches, far_pairs, pair_digest, verdicts
from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.io.atomic import check_path
from sen2pro.model import Sen2Pro
from sen2pro.signature import MATTERS, Signature
from sen2pro.validation import Array64, as_list, check_sentences, parse_fraction

_OF_THE_FIT = (*MATTERS, "samples", "max_length", "prompt")  # what may not differ between fitting and using
Sentences = str | Sequence[str] | Encoded


_PAIRS = Wording(
    "pairs", 50, ("no match", "a match"), "all {n} labels are of one kind ({kind}); give both kinds",
    "there are {yes} matches and {no} others",
)  # fmt: skip


class MatchConfidence(Confidence):
    """Learn from labelled pairs how likely two sentences match, with their distributions as features.

    Pairs are split in two at random, matches and others alike; a pair that stands there twice is on one side. One part
    chooses and fits. The other, which chose nothing, is for `threshold`; with the first part out of fold it sets the
    level of the probabilities too, which leaves the order of all pairs as it is.

    Parameters
    ----------
    match_from
        For graded labels: those of at least so much are a match. By default labels are 1 (a match) and 0.
    held_out
        Share of the pairs for `threshold`. With 0 all pairs fit, and nothing can be promised.
    seed
        Makes splits reproducible.

    Examples
    --------
    >>> model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    >>> same = [(f"A man plays {x}.", f"Someone is playing {x}.") for x in ("chess", "cards", "golf", "jazz", "tennis")]
    >>> other = [(f"A man plays {x}.", "The market fell again.") for x in ("chess", "cards", "golf", "jazz", "tennis")]
    >>> first, second = zip(*(same + other) * 2)
    >>> import warnings; warnings.simplefilter("ignore")  # it says that every pair stands there twice
    >>> confidence = MatchConfidence().fit(model, first, second, ([1] * 5 + [0] * 5) * 2)
    >>> bool(confidence.probability("He plays the flute.", "Someone is playing the flute.") > 0.5)
    True
    """

    def __init__(self, match_from: float | None = None, held_out: float = 0.5, seed: int = 0) -> None:
        self.match_from = match_from
        self.held_out = held_out
        self.seed = seed

    def fit(
        self, model: Sen2Pro, first: Sequence[str] | Encoded, second: Sequence[str] | Encoded, labels: Sequence[Any]
    ) -> MatchConfidence:
        """Choose, fit and judge the probability of a match; returns itself.

        Parameters
        ----------
        model
            What encodes the sentences, in one pass for instance; it is kept, for `probability`.
        first, second
            The sentences of each pair, at least 20 pairs.
        labels
            1 for a match, else 0; or grades, where `match_from` says which are a match.
        """
        seed, part = self._check_settings()
        y = _checked_labels(labels, self.match_from)
        x, groups, far = self._pairs(model, first, second)
        if len(x) != len(y):
            raise Sen2ProError(f"there are {len(x)} pairs, but {len(y)} labels")
        _warn_of_uncovered(far, ", and a promise is for the others (but see uncovered=True)")
        self.model_, self.signature_ = model, model.signature()
        self.repeated_ = int(len(groups) - len(np.unique(groups)))
        if self.repeated_:
            warnings.warn(
                f"{self.repeated_} of {len(groups)} pairs stand there more than once; each is kept on one side of "
                "every split, and counts once for a promise",
                Sen2ProWarning,
                stacklevel=2,
            )
        held = held_out(y, groups, part, seed)
        rest, slope = ~held, default_slope(model.signature())
        self.chosen_ = better(*(both := choose_both(x[rest], y[rest], groups[rest], slope, seed)), y[rest])
        fitted, logits = self.chosen_.fitted, self.chosen_.logits
        tested = fitted.logits(x[held])
        self.level_ = level(np.r_[logits, tested], np.r_[y[rest], y[held]])
        once = np.unique(groups[held], return_index=True)[1]
        self.planning_ = self._at_level(logits), y[rest]
        self.testing_ = self._at_level(tested)[once], y[held][once]
        self.uncovered_ = far[rest], far[held][once]
        self.pairs_ = None
        if not isinstance(first, Encoded) and not isinstance(second, Encoded):
            self.pairs_ = frozenset(map(pair_digest, first, second))
        without, with_ = judged(x, y, groups, slope, seed)
        self.judged_ = (with_ if self.chosen_ is both[1] else without), y
        self.report_ = reports.compared(without, with_, y, fitted.name, self.repeated_)
        return self

    def probability(self, a: Sentences, b: Sentences) -> Any:
        """Return P(match) of each pair (n,), or of one pair a number.

        Takes sentences, or what `sen2pro.calibration.encode` gives, so that a sentence of many pairs is encoded once. A
        Gaussian alone has no plain vector and no length.
        """
        check_is_fitted(self)
        single = isinstance(a, str) and isinstance(b, str)
        left, right = self._encoded(self.model_, [a] if single else a, [b] if single else b)
        _warn_of_uncovered(far_pairs(left, right))
        found = self._at_level(self.chosen_.fitted.logits(features(left, right)))
        return float(found[0]) if single else found

    def match(
        self, a: str | Sequence[str], b: str | Sequence[str], rule: Rule | None, *, uncovered: bool = False
    ) -> Matches:
        """Say of each pair of sentences whether it is a match, by a rule that `threshold` gave.

        A pair with a sentence that the head does not know (another language for instance) is `unsure` at best: nothing
        can be promised for it. With `uncovered` it is treated as the others; then give `threshold` the same.
        """
        check_is_fitted(self)
        left, right = self._encoded(self.model_, *([side] if isinstance(side, str) else side for side in (a, b)))
        probability = self._at_level(self.chosen_.fitted.logits(features(left, right)))
        far = far_pairs(left, right)
        words = verdicts(probability, rule, np.zeros(len(far), bool) if uncovered else far)
        pairs = zip(check_sentences(a), check_sentences(b), strict=True)
        known = None if self.pairs_ is None else np.array([pair_digest(*pair) in self.pairs_ for pair in pairs])
        return Matches(probability, words, far, known)

    def threshold(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        false_matches: float | None = None,
        certainty: float = 0.95,
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
            One minus the chance that the labels mislead us.
        uncovered
            The promise is for pairs whose sentences the head knows (see `Gaussian.coverage`); with True, for all pairs.
        """
        check_is_fitted(self)
        testing, planning = self._tested(), self.planning_
        if not uncovered:
            planning, testing = map(_covered, (planning, testing), self.uncovered_)
        if not len(testing[1]) or not len(planning[1]):
            raise Sen2ProError(
                "the head knows too few of the labelled pairs to promise anything for text that it knows; label pairs "
                "of such text, or pass uncovered=True"
            )
        return rule_or_warning(
            testing, planning, precision=precision, recall=recall, false_matches=false_matches, certainty=certainty
        )

    def report(self) -> reports.Report:
        """Return how good the probabilities are, with the distribution and without; it prints as a table."""
        check_is_fitted(self)
        return self.report_

    def plot(self, path: str | Path) -> None:
        """Draw the reliability diagram into a file."""
        check_is_fitted(self)
        reports.plot(*self.judged_, check_path(path))

    def save(self, folder: str | Path) -> None:
        """Write all but the model to a folder that must be new or empty."""
        check_is_fitted(self)
        saving.save_pairs(self, check_path(folder))

    @classmethod
    def load(cls, folder: str | Path, model: Sen2Pro | None = None) -> MatchConfidence:
        """Read what `save` wrote; `model` is the one it was fitted with, by default the package's own in one pass."""
        found = saving.load_pairs(cls, check_path(folder))
        model = Sen2Pro(method="one-pass") if model is None else model
        _check_signature(found.signature_, model.signature())
        expected, given = len(names(model.sources)), len(found.chosen_.fitted.scale.centre)
        if expected != given:
            raise Sen2ProError(f"{folder} has numbers for {given} features of a pair, but there are {expected}")
        found.model_ = model
        return found

    def _pairs(self, model: Sen2Pro, first: Any, second: Any) -> tuple[Array64, NDArray[np.int64], NDArray[np.bool_]]:
        """Return the features of the pairs (n, f), a number for each (n,), the same for equal ones, and which are far.

        A pair is far if the head does not know one of its sentences.
        """
        left, right = self._encoded(model, first, second)
        x, far = features(left, right), far_pairs(left, right)
        if isinstance(first, Encoded) or isinstance(second, Encoded):
            return x, np.unique(x, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64), far
        numbers: dict[tuple[str, ...], int] = {}
        keys = [tuple(sorted(pair)) for pair in zip(first, second, strict=True)]
        return x, np.array([numbers.setdefault(key, len(numbers)) for key in keys]), far

    def _encoded(self, model: Sen2Pro, a: Any, b: Any) -> tuple[Encoded, Encoded]:
        for side in (a, b):
            if isinstance(side, Gaussian):
                raise Sen2ProError(
                    "a Gaussian has no plain vector and no length, which this probability needs; pass the sentences, "
                    "or what sen2pro.calibration.encode(model, sentences) gives"
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
            every = encode(model, list(texts))
            found = every[[texts[text] for text in left]], every[[texts[text] for text in right]]
        if len(found[0]) != len(found[1]) or not len(found[0]):
            raise Sen2ProError(f"pairs take two lists of one length, not of {len(found[0])} and {len(found[1])}")
        return found

    def _at_level(self, logits: Array64) -> Array64:
        shift, slope = self.level_
        return np.asarray(expit(shift + slope * logits))


def _checked_labels(labels: Any, match_from: float | None) -> Array64:
    values = np.asarray(as_list(labels, "a list of labels"))
    if values.ndim != 1:
        raise Sen2ProError(f"labels must be a list of numbers, not of shape {values.shape}")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise Sen2ProError(f"labels must be numbers: 1 for a match and 0 for none, not {short_repr(values[0].item())}")
    if match_from is not None:
        if parse_fraction(match_from) is None and not (
            isinstance(match_from, (int, float)) and np.isfinite(match_from)
        ):
            raise Sen2ProError(f"match_from must be a number, not {short_repr(match_from)}")
        y = (values >= match_from).astype(np.float64)
    else:
        kinds = np.unique(values)
        if not np.isin(kinds, (0, 1)).all():
            raise Sen2ProError(
                f"labels must be 1 (a match) and 0, but there are {len(kinds)} kinds: {short_repr(kinds.tolist())}. "
                "If they are grades, say from which grade on they are a match, for instance match_from=4"
            )
        y = values.astype(np.float64)
    check_kinds(y, _PAIRS)
    return y


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


def _covered(examples: Examples, far: NDArray[np.bool_]) -> Examples:
    return examples[0][~far], examples[1][~far]


def _warn_of_uncovered(far: NDArray[np.bool_], more: str = "") -> None:
    if far.any():
        warnings.warn(
            f"{far.sum()} of {len(far)} pairs have a sentence far from what the head was fitted on, of another "
            f"language or length for instance; their probabilities may be off{more}",
            Sen2ProWarning,
            stacklevel=3,
        )
