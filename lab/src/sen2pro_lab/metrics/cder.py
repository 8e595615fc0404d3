"""CDER, the edit distance that lets blocks move (Leusch, Ueffing and Ney, EACL 2006)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sen2pro import __version__
from sen2pro_lab.metrics.base import Metric


class Cder(Metric):
    """1 - CDER: 1 for the reference itself, 0 for a blank candidate, less for one that is wrong and too long.

    Words are what stands between spaces. The corpus' score is 1 - (sum of all distances) / (sum of all lengths).

    >>> Cder().segments(["he comes", "he comes", ""], ["he comes", "he goes", "he goes"])
    array([1. , 0.5, 0. ])
    """

    name = "cder"
    signature = f"sen2pro:{__version__}|case:mixed|tok:spaces|jump:1"

    def _segment(self, candidate: str, reference: str) -> float:
        return self._corpus([candidate], [reference])

    def _corpus(self, candidates: list[str], references: list[str]) -> float:
        split = [(c.split(), r.split()) for c, r in zip(candidates, references, strict=True)]
        return 1 - sum(block_distance(*pair) for pair in split) / sum(len(reference) for _, reference in split)


def block_distance(candidate: Sequence[str], reference: Sequence[str]) -> int:
    """Return the least number of edits and jumps that turn the candidate into the reference.

    The path reads the reference from left to right, each word once: kept, replaced or put in. Between two words it may
    jump to any place in the candidate for 1, so a block that was moved costs jumps, not a word at a time. Words that
    are jumped over or read again cost nothing more. The path begins at the candidate's first word and ends behind its
    last.

    >>> block_distance("d e f a b c".split(), "a b c d e f".split())  # jump, a b c, jump, d e f, jump
    3
    """
    numbers: dict[str, int] = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for word in candidate], np.int64)
    cost = np.minimum(np.arange(len(words) + 1), 1)  # of being at each place in the candidate: a jump from the first
    for word in reference:
        reached = cost + 1  # the word is put in
        np.minimum(reached[1:], cost[:-1] + (words != numbers.get(word, -1)), out=reached[1:])  # kept or replaced
        # Passing over a word of the candidate costs as much as a jump, so jumps cover that as well.
        cost = np.minimum(reached, reached.min() + 1)
    return int(cost[-1])
