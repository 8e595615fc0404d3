"""Semantic textual similarity: sentence pairs, and the rank correlation of a similarity with their human scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.validation import Array, Array64
from sen2pro_lab.metrics.bootstrap import Statistic, Undefined, value_of
from sen2pro_lab.metrics.statistics import average_statistic, correlation_statistic

AGGREGATIONS = ("all", "mean", "wmean")


def spread(total: int, limit: int) -> list[int]:
    """Return at most `limit` of `total` positions, in the middles of equal stretches."""
    if limit < 1:
        raise Sen2ProError(f"limit is {limit}; it must be at least 1")
    number = min(limit, total)
    return [(2 * i + 1) * total // (2 * number) for i in range(number)]


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs with a gold similarity each; `subtasks` has a label per pair, "" where there are none."""

    name: str
    subtasks: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    gold: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.left)

    def head(self, limit: int) -> Pairs:
        """Return at most `limit` pairs, evenly spread: every sub-task keeps its share, and the order stays.

        >>> pairs = Pairs("toy", ("x",) * 4 + ("y",) * 2, tuple("abcdef"), tuple("ABCDEF"), np.arange(6.0))
        >>> pairs.head(3).left
        ('b', 'd', 'f')
        """
        grouped = sorted(range(len(self)), key=lambda i: self.subtasks[i])  # stable, so each group keeps its order
        chosen = sorted(grouped[i] for i in spread(len(self), limit))
        subtasks, left, right = (tuple(side[i] for i in chosen) for side in (self.subtasks, self.left, self.right))
        return Pairs(self.name, subtasks, left, right, self.gold[chosen])


def statistic(scores: Array | Array64, pairs: Pairs, aggregation: str = "all") -> Statistic:
    """Return Spearman's correlation with the gold scores, as a function of how often each pair counts.

    `all` is one correlation over all pairs (SimCSE, MTEB). `mean` averages those of the sub-tasks, and `wmean` weighs
    them by their size (BERT-whitening, the BERT rows of the paper).
    """
    one_of("aggregation", aggregation, AGGREGATIONS)
    if aggregation == "all":
        return correlation_statistic("spearman", scores, pairs.gold)
    where = [np.flatnonzero(np.array(pairs.subtasks) == label) for label in dict.fromkeys(pairs.subtasks)]
    if len(where) == 1:
        raise Undefined(f"no {aggregation}: no sub-tasks are known")
    parts = [correlation_statistic("spearman", np.asarray(scores)[i], pairs.gold[i]) for i in where]
    return average_statistic(parts, where, [len(i) if aggregation == "wmean" else 1 for i in where])


def correlation(scores: Array | Array64, pairs: Pairs, aggregation: str = "all") -> float:
    """Return Spearman's correlation with the gold scores.

    >>> pairs = Pairs("toy", ("x", "x", "x", "y", "y", "y"), ("a",) * 6, ("b",) * 6, np.array([1.0, 2, 3, 1, 2, 3]))
    >>> scores = np.array([1.0, 2, 3, 13, 12, 11])  # right in x, upside down in y
    >>> correlation(scores, pairs, "mean")
    0.0
    """
    return value_of(statistic(scores, pairs, aggregation), len(pairs))
