"""Sentence analogies, a : b :: c : d."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sen2pro.paper.data import Quadruple
from sen2pro.paper.store import to_unit
from sen2pro.types import Array, Array64


def positions(quadruples: Sequence[Quadruple]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct sentences, and the positions of a, b, c and d among them (n, 4)."""
    sentences = list(dict.fromkeys(s for q in quadruples for s in (q.a, q.b, q.c, q.d)))
    index = {sentence: i for i, sentence in enumerate(sentences)}
    return sentences, np.array([[index[s] for s in (q.a, q.b, q.c, q.d)] for q in quadruples])


def differences(vectors: Array | Array64, where: NDArray[np.int64]) -> Array64:
    """Return x = | |a - b| - |c - d| | of each quadruple (n,): SPEC of the paper's Table 9, smaller is better.

    >>> vectors = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0], [1.0, 3.0]])
    >>> differences(vectors, np.array([[0, 1, 2, 3]]))  # |5 - 2|
    array([3.])
    """
    a, b, c, d = (np.asarray(vectors, np.float64)[where[:, i]] for i in range(4))
    return np.asarray(np.abs(np.linalg.norm(a - b, axis=1) - np.linalg.norm(c - d, axis=1)))


def found(vectors: Array | Array64, where: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each quadruple whether d is the sentence nearest to b - a + c (3CosAdd), among all but a, b and c.

    >>> vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    >>> found(vectors, np.array([[0, 1, 2, 3]]))
    array([ True])
    """
    unit = to_unit(np.asarray(vectors))
    targets = unit[where[:, 1]] - unit[where[:, 0]] + unit[where[:, 2]]
    scores = targets @ unit.T
    np.put_along_axis(scores, where[:, :3], -np.inf, axis=1)
    return np.asarray(scores.argmax(axis=1) == where[:, 3])
