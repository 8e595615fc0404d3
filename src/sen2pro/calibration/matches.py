"""What is said of pairs: a verdict for each, and which of them no promise holds for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.features import Encoded
from sen2pro.calibration.guarantee import Rule
from sen2pro.io.encoding import is_far
from sen2pro.validation import Array64


@dataclass(frozen=True, eq=False)
class Matches:
    """What is said of pairs of sentences.

    `probability` is that of a match (n,). `verdict` (n,) is `yes` where the promise of a rule is kept, `unsure` where a
    match is likelier than not, and else `no`; without a rule it is empty. `uncovered` (n,) are pairs with a sentence
    that the head does not know: they are never a `yes`, unless that was asked for. `fitted_on` (n,) are pairs that the
    confidence has learned from, for which no promise holds; it is None where nobody knows.
    """

    probability: Array64
    verdict: list[str]
    uncovered: NDArray[np.bool_]
    fitted_on: NDArray[np.bool_] | None


def verdicts(probability: Array64, rule: Rule | None, withheld: NDArray[np.bool_]) -> list[str]:
    """Return yes, unsure or no for each pair, or nothing where there is no rule; who is `withheld` gets no yes.

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
    """Return 12 hex digits that tell a pair from others, whatever its order.

    >>> pair_digest("It rains.", "Rain falls.") == pair_digest("Rain falls.", "It rains.")
    True
    """
    text = "\0".join(sorted((first, second)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def far_pairs(left: Encoded, right: Encoded) -> NDArray[np.bool_]:
    """Tell which pairs (n,) have a sentence that the head does not know."""
    return is_far(left.joined) | is_far(right.joined)
