"""What every metric promises, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64, check_text


class Metric:
    """A score of candidate texts against their references, one reference each.

    Candidates and references are lists of equal length. A reference must not be blank. A blank candidate gets the worst
    score from metrics that compare words; metrics that encode texts raise an error.
    """

    name: str
    signature: str  # what is run, with options and versions, in one line
    higher_is_better = True
    takes_blank = True

    def segments(self, candidates: Sequence[str], references: Sequence[str]) -> Array64:
        """Return one score for each pair: (n,)."""
        return np.asarray(self._segments(*self._checked(candidates, references)), np.float64)

    def corpus(self, candidates: Sequence[str], references: Sequence[str]) -> float:
        """Return one score for all pairs together: the mean of the segments, unless the metric says otherwise."""
        whole = self._corpus(*self._checked(candidates, references))
        return float(self.segments(candidates, references).mean()) if whole is None else whole

    def both(self, candidates: Sequence[str], references: Sequence[str]) -> tuple[float, Array64]:
        """Return the results of `corpus` and `segments`, which computes the segments only once."""
        scores, whole = self.segments(candidates, references), self._corpus(*self._checked(candidates, references))
        return float(scores.mean()) if whole is None else whole, scores

    def _segments(self, candidates: list[str], references: list[str]) -> Any:
        """Return one number for each pair of checked texts; metrics that encode do it for all pairs at once."""
        return [self._segment(*pair) for pair in zip(candidates, references, strict=True)]

    def _segment(self, candidate: str, reference: str) -> float:
        raise NotImplementedError

    def _corpus(self, candidates: list[str], references: list[str]) -> float | None:
        """Return the score of the whole, or None where it is the mean of the segments."""
        return None

    def _checked(self, candidates: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[str]]:
        return check_pairs(candidates, references, None if self.takes_blank else self.name)


def check_pairs(
    candidates: Sequence[str], references: Sequence[str], needs_text: str | None = None
) -> tuple[list[str], list[str]]:
    """Return both as lists of pairs; `needs_text` names a metric that cannot score a blank candidate.

    >>> check_pairs(["a b"], ["a b", "c"])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: 1 candidate but 2 references; give one reference for each candidate
    """
    checked = _texts("candidate", candidates), _texts("reference", references)
    n, m = map(len, checked)
    if n != m:
        counts = f"{n} candidate{'s' * (n != 1)} but {m} reference{'s' * (m != 1)}"
        raise Sen2ProError(f"{counts}; give one reference for each candidate")
    if not n:
        raise Sen2ProError("there is nothing to score: the lists of candidates and references are empty")
    for number, (candidate, reference) in enumerate(zip(*checked, strict=True), 1):
        if not reference.strip():
            raise Sen2ProError(f"reference {number} is empty or blank; leave the pair out")
        if needs_text and not candidate.strip():
            blank = f"candidate {number} is empty or blank, and {needs_text} has to encode it"
            raise Sen2ProError(f"{blank}; leave the pair out, or use metrics that compare words")
    return checked


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise Sen2ProError(f"give a list of {name}s, not a single text: [{texts!r}]")
    return [check_text(f"{name} {number}", text) for number, text in enumerate(texts, 1)]


def release(package: str) -> str:
    """Return the name and version of a package, for a signature."""
    return f"{package}:{version(package)}"


def cosine(a: NDArray[Any], b: NDArray[Any]) -> Array64:
    """Return the cosine of the rows of `a` with those of `b`; that of a vector without a length is 0.

    >>> cosine(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])).round(4)
    array([0.7071, 0.    ])
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.asarray((a * b).sum(axis=-1) / np.maximum(lengths, 1e-30), np.float64)


def to_unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors (..., k) scaled to length 1.

    >>> to_unit(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))
