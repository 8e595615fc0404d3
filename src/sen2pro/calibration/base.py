"""What the confidences of pairs and of search share: checks of labels, their split in two, and promises."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sen2pro.calibration.guarantee import Rule, promise
from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.validation import Array64, check_seed, parse_fraction

FEWEST = 20  # labelled examples
_FEWEST_OF_A_KIND = 4  # so that each half has two
Examples = tuple[Array64, Array64]  # probabilities and labels (n,)


class NothingPromised(Sen2ProWarning):
    """No threshold can keep the promise; `labels_needed` would probably do (None: no number of them)."""

    def __init__(self, reason: str, labels_needed: int | None) -> None:
        self.labels_needed = labels_needed
        super().__init__(reason)


class Wording(NamedTuple):
    """How errors speak of labelled examples: what they are, how many are useful, and of which kinds they are."""

    things: str
    useful: int
    kinds: tuple[str, str]
    of_one_kind: str
    of_both_kinds: str


class Confidence(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Labelled examples are split in two: one part chooses and fits, the other chose nothing and tests promises."""

    held_out: float
    seed: int
    planning_: Examples  # of the part that fits, out of fold
    testing_: Examples

    def _check_settings(self) -> tuple[int, float]:
        """Return the seed, and the share of the labels that tests promises."""
        part = parse_fraction(self.held_out)
        if part is None or part > 0.9:
            raise Sen2ProError(f"held_out must be a share from 0 to 0.9, not {short_repr(self.held_out)}")
        return check_seed(self.seed), part

    def _tested(self) -> Examples:
        if not len(self.testing_[1]):
            raise Sen2ProError("all labels were used for fitting (held_out=0), so none can test a promise")
        return self.testing_


def rule_or_warning(
    testing: Examples,
    planning: Examples,
    *,
    precision: float | None = None,
    recall: float | None = None,
    false_matches: float | None = None,
    certainty: float,
) -> Rule | None:
    """Return a rule that keeps a promise (see `promise`), or None with a warning that says why there is none."""
    found = promise(
        *testing, precision=precision, recall=recall, false_matches=false_matches, certainty=certainty,
        planned_by=planning,
    )  # fmt: skip
    if found.rule is None:
        warnings.warn(NothingPromised(found.reason, found.labels_needed), stacklevel=3)
    return found.rule


def check_kinds(y: Array64, words: Wording) -> None:
    """Raise unless there are enough labels of both kinds (n,)."""
    n, yes = len(y), int(y.sum())
    if n < FEWEST:
        raise Sen2ProError(
            f"{n} labelled {words.things} are too few: it takes at least {FEWEST}, and {words.useful} for a useful fit"
        )
    if yes in (0, n):
        raise Sen2ProError(words.of_one_kind.format(n=n, kind=words.kinds[yes > 0]))
    if min(yes, n - yes) < _FEWEST_OF_A_KIND:
        found = words.of_both_kinds.format(yes=yes, no=n - yes)
        raise Sen2ProError(f"{found}; it takes at least {_FEWEST_OF_A_KIND} of each kind")


def held_out(y: Array64, groups: NDArray[np.int64], part: float, seed: int) -> NDArray[np.bool_]:
    """Tell which examples are held out (n,): so large a part of both kinds, and a group of equal ones as a whole.

    >>> held_out(np.array([0.0, 0, 1, 1, 1]), np.array([0, 1, 2, 2, 3]), 0.5, seed=1).tolist()
    [True, False, True, True, False]
    """
    held, rng = np.zeros(len(y), bool), np.random.default_rng(seed)
    first_label = np.zeros(int(groups.max()) + 1)
    first_label[groups[::-1]] = y[::-1]
    for kind in (0, 1):
        members = rng.permutation(np.unique(groups[first_label[groups] == kind]))
        held |= np.isin(groups, members[: round(part * len(members))])
    return held
