"""Thresholds that keep their promise: "precision at least 0.95, with a certainty of 95 %", or an honest no.

The promise is about new examples from the same source, and the certainty is over the draw of the labelled ones: of a
hundred sets of labels, at most five give a rule that breaks it. Where nearly all sets of labels give no rule, as with a
target hardly in reach, a good part of the few rules can be lucky ones: ask for less, or give more labels. It takes
labels that had no part in choosing the scores. A threshold is found by testing:

- *Precision* can go up and down with the threshold. So thresholds are tested one after the other (fixed-sequence
  testing) with exact binomial bounds (Clopper and Pearson), in an order that other labels have fixed before. The
  first test that fails ends it, and the last threshold that passed is taken. No correction for many tests is needed:
  a promise can only be broken if the first threshold on the list that breaks it passed its own test.
- *Recall* and the *rate of false matches* can only fall as the threshold rises. There the sequence may run through all
  scores, and its end is known in closed form: an order statistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array64, is_whole

STEPS = 50  # thresholds on the list of a fixed sequence, at most
_POWER = 0.8  # chance of a promise at which labels are said to be enough
_MOST_LABELS = 1_000_000  # more are not suggested
_PLANNING = 1 / 3  # of the labels, where no others can fix the order


@dataclass(frozen=True)
class Rule:
    """Say yes to scores of at least `threshold`.

    `promised` is what is kept with `certainty`: `precision` or `recall` of at least `target`, or `false matches`: at
    most `target` in a thousand examples. `share` of the `labels` examples that were tested got a yes.
    """

    promised: str
    target: float
    certainty: float
    threshold: float
    share: float
    labels: int

    def accepts(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Tell which scores get a yes."""
        return np.asarray(np.asarray(scores, np.float64) >= self.threshold)

    def __str__(self) -> str:
        what = f"at most {self.target:g} in a thousand" if self.promised == "false matches" else f"{self.target:g}"
        least = "" if self.promised == "false matches" else " of at least"
        return (
            f"Accept scores of {self.threshold:.4f} or more: {self.promised}{least} {what}, with a certainty of "
            f"{100 * self.certainty:g} %. It accepts {100 * self.share:.1f} % of the examples."
        )


@dataclass(frozen=True)
class Promise:
    """A rule, or the reason why there is none and how many labels would probably do (None: no number would)."""

    rule: Rule | None
    reason: str = ""
    labels_needed: int | None = None


def promise(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    precision: float | None = None,
    recall: float | None = None,
    false_matches: float | None = None,
    certainty: float = CERTAINTY,
    planned_by: tuple[ArrayLike, ArrayLike] | None = None,
) -> Promise:
    """Find the threshold that says yes most often (for recall: least often) and keeps one promise.

    Parameters
    ----------
    scores, labels
        Of examples that chose nothing: a greater score is a likelier yes, and a label is true or false (n,).
    precision, recall, false_matches
        The promise, one of them: the least precision or recall, or the most false matches in a thousand examples.
    certainty
        Confidence level of the promise: with 0.95 it is broken for at most 1 in 20 sets of labels.
    planned_by
        Scores and labels of *other* examples, which fix the order of the thresholds to test for a precision: those
        the scores were fitted on for instance, if possible scored out of fold. Without them a third of the examples,
        drawn at random, plans, and the others are tested.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(size=2000)
    >>> labels = rng.uniform(size=2000) < scores  # a score of 0.9 is right nine times out of ten
    >>> print(promise(scores, labels, precision=0.9).rule)  # the mean of the scores above 0.8 is 0.9
    Accept scores of 0.8219 or more: precision of at least 0.9, with a certainty of 95 %. It accepts 18.3 %...
    >>> promise(scores[:60], labels[:60], precision=0.99).rule is None
    True
    """
    s, y = _checked(scores, labels)
    given = {"precision": precision, "recall": recall, "false_matches": false_matches}
    asked = [(name, value) for name, value in given.items() if value is not None]
    if len(asked) != 1:
        raise Sen2ProError(f"ask for one promise: precision, recall or false_matches, not {len(asked)} of them")
    ((name, target),) = asked
    delta = 1 - _between("certainty", certainty, 1)
    target = _between(name, target, 1000 if name == "false_matches" else 1)
    if name == "recall":
        return _recall(s, y, target, delta)
    if name == "false_matches":
        return _false_matches(s, y, target, delta)
    if planned_by is None:
        planning = np.random.default_rng(0).permutation(len(s)) < len(s) * _PLANNING
        planned_by, s, y = (s[planning], y[planning]), s[~planning], y[~planning]
    return _precision(s, y, _checked(*planned_by), target, delta)


def lower_bound(right: ArrayLike, n: ArrayLike, delta: float) -> Array64:
    """Return the exact bound (Clopper-Pearson) that a share of `right` out of n lies above, but for a chance delta.

    >>> float(lower_bound(59, 59, 0.05).round(4))  # 0.05 ** (1 / 59)
    0.9505
    """
    from scipy.stats import beta

    right_, n_ = np.asarray(right, np.float64), np.asarray(n, np.float64)
    bound = beta.ppf(delta, np.maximum(right_, 1e-9), n_ - right_ + 1)
    return np.asarray(np.where(right_ > 0, bound, 0.0))


def _precision(s: Array64, y: Array64, planning: tuple[Array64, Array64], target: float, delta: float) -> Promise:
    order = plan(*planning, target, delta, len(s))
    yes = s >= order[:, None]
    passed = lower_bound(yes @ y, yes.sum(axis=1), delta) >= target
    count = [*passed, False].index(False)  # those before the first that fails: the fixed sequence
    if count:
        threshold = order[count - 1]
        return Promise(Rule("precision", target, 1 - delta, float(threshold), float((s >= threshold).mean()), len(s)))
    both = np.concatenate([planning[0], s]), np.concatenate([planning[1], y])
    total = len(both[0])
    best, needed = _labels_for_precision(*both, target, delta, len(s) / total)
    if needed is None:
        reason = f"the highest precision that {total} labels suggest at any threshold is {best:.3f}"
    else:
        needed = max(needed, -(-total * 5 // 4))  # fewer than a quarter more would be no advice
        reason = f"{total} labels are too few to be sure; about {needed} would probably do"
    return Promise(None, f"no precision of {target:g} can be promised: {reason}", needed)


def plan(scores: Array64, labels: Array64, target: float, delta: float, n: int) -> Array64:
    """Return thresholds in the order in which n other labels should test them for a precision.

    The first is the one that will most likely pass, as far as these examples tell; the next ones say yes more and more
    often.

    >>> scores = np.linspace(0, 1, 500)
    >>> order = plan(scores, scores > 0.5, 0.9, 0.05, 500)
    >>> bool(order[0] > 0.5), bool((np.diff(order) < 0).all())
    (True, True)
    """
    thresholds, shares, precisions = _curve(scores, labels)
    chances = _chance_to_pass(n * shares, precisions, target, delta)
    return thresholds[int(np.argmax(chances)) :]


def _curve(scores: Array64, labels: Array64) -> tuple[Array64, Array64, Array64]:
    """Return thresholds from the highest to the lowest, the share of scores above each, and a guess of its precision.

    The guess takes a greater score for at least as good (isotonic regression), which takes out most of the noise, and
    adds one example of each kind, so that three right out of three are not taken for certain.
    """
    from sklearn.isotonic import isotonic_regression

    values, where = np.unique(scores, return_inverse=True)
    counts = np.bincount(where).astype(np.float64)
    means = isotonic_regression(np.bincount(where, labels) / counts, sample_weight=counts)
    yes, right = np.cumsum(counts[::-1]), np.cumsum((counts * means)[::-1])
    picked = np.unique(np.linspace(0, len(values) - 1, STEPS).round().astype(int))
    return values[::-1][picked], yes[picked] / len(scores), ((right + 1) / (yes + 2))[picked]


def _chance_to_pass(n: Array64, precision: Array64, target: float, delta: float) -> Array64:
    """Return the chance that n labels prove a target, where the precision is known."""
    from scipy.stats import binom

    n_ = np.maximum(n.round(), 1)
    # The least number of right ones whose bound reaches the target.
    needed = binom.isf(delta, n_, target) + 1
    return np.asarray(binom.sf(needed - 1, n_, precision))


def _labels_for_precision(
    scores: Array64, labels: Array64, target: float, delta: float, tested: float
) -> tuple[float, int | None]:
    """Return the best precision in sight, and how many labels would prove the target with a chance of 80 %.

    `tested` is the share of the labels that tests; the others plan.
    """
    _, shares, precisions = _curve(scores, labels)
    counts = np.geomspace(10, _MOST_LABELS, 60)
    chances = _chance_to_pass(tested * counts[:, None] * shares, precisions, target, delta).max(axis=1)
    enough = counts[chances >= _POWER]
    return float(precisions.max()), int(float(f"{enough[0]:.1e}")) if len(enough) else None


def _recall(s: Array64, y: Array64, target: float, delta: float) -> Promise:
    """Leave out the lowest scores of a yes: so few that the share of new ones below is surely small enough.

    Of m scores, the share of the source below the k-th lowest has a Beta(k, m - k + 1) distribution (less with ties).
    """
    positive = np.sort(s[y == 1])
    k = _most_left_out(len(positive), 1 - target, delta)
    if k:
        threshold = float(positive[k - 1])
        return Promise(Rule("recall", target, 1 - delta, threshold, float((s >= threshold).mean()), len(s)))
    rate = max(len(positive), 1) / len(s)
    needed = int(np.ceil(np.log(delta) / np.log(target) / rate))
    reason = f"no recall of {target:g} can be promised, but by saying yes to all: there are {len(positive)} labels of a"
    return Promise(None, f"{reason} yes; about {needed} labels of both kinds would do", needed)


def _false_matches(s: Array64, y: Array64, target: float, delta: float) -> Promise:
    """Start above one of the highest scores of a no: the share of all examples that is a no above it is surely small.

    It is the order statistic again, of all n scores, where one of a yes counts as lowest of all.
    """
    rate, n = target / 1000, len(s)
    negative = np.sort(s[y == 0])[::-1]
    k = _most_left_out(n, rate, delta)
    if not k:
        needed = int(np.ceil(np.log(delta) / np.log1p(-rate)))
        reason = f"no rate of {target:g} false matches in a thousand can be promised from {n} labels"
        return Promise(None, f"{reason}, but by saying no to all; it takes at least {needed}", needed)
    threshold = float(np.nextafter(negative[k - 1], np.inf)) if k <= len(negative) else float(s.min())
    return Promise(Rule("false matches", target, 1 - delta, threshold, float((s >= threshold).mean()), n))


def _most_left_out(n: int, share: float, delta: float) -> int:
    """Return the greatest k for which the k-th of n order statistics has less than `share` below it.

    It may have more with a chance of delta.
    """
    from scipy.stats import binom

    return int(binom.ppf(delta, n, share)) if n else 0


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Array64, Array64]:
    s, y = np.asarray(scores, np.float64), np.asarray(labels)
    if s.ndim != 1 or s.shape != y.shape or not len(s):
        raise Sen2ProError(f"scores and labels are lists of one length, of at least one, not {s.shape} and {y.shape}")
    if not np.isfinite(s).all():
        raise Sen2ProError(f"scores must be finite numbers, but number {int(np.argmin(np.isfinite(s)))} is {s.min()}")
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise Sen2ProError(f"labels must be true or false (or 1 and 0), not {short_repr(y.tolist())}")
    return s, y.astype(np.float64)


def _between(name: str, value: float, high: int) -> float:
    number = isinstance(value, (float, np.floating)) or is_whole(value)
    if not number or not 0 < value < high:
        raise Sen2ProError(f"{name} must be between 0 and {high} (both excluded), not {short_repr(value)}")
    return float(value)
