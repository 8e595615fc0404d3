"""What every metric promises, and the checks that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, has_surrogates

Scores = NDArray[np.float64]
_NAMES = ("candidate", "reference")


class Metric(ABC):
    """A score of candidate texts against their references, one reference each.

    Candidates and references are lists of equal length. A reference must say something; a blank candidate gets the
    worst score of the metrics that only compare words, and is an error for those that have to encode it.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    takes_blank: ClassVar[bool] = True

    @property
    def signature(self) -> str:
        """What was run, with options and versions, in one line."""
        return self._signature()

    def segments(self, candidates: Sequence[str], references: Sequence[str]) -> Scores:
        """Return one score for each pair: (n,)."""
        return self._scored(*self._checked(candidates, references))

    def corpus(self, candidates: Sequence[str], references: Sequence[str]) -> float:
        """Return one score for all pairs together: the mean of the segments, unless the metric says otherwise."""
        checked = self._checked(candidates, references)
        whole = self._corpus(*checked)
        return float(self._scored(*checked).mean()) if whole is None else whole

    def both(self, candidates: Sequence[str], references: Sequence[str]) -> tuple[float, Scores]:
        """Return what `corpus` and `segments` return; where one is the mean of the other, for the price of one."""
        return self._both(*self._checked(candidates, references))

    @abstractmethod
    def _signature(self) -> str: ...

    @abstractmethod
    def _segments(self, candidates: list[str], references: list[str]) -> Any:
        """Return one number for each pair of texts, which have been checked."""

    def _corpus(self, candidates: list[str], references: list[str]) -> float | None:
        """Return the score of the whole, or None where it is the mean of the segments."""
        return None

    def _both(self, candidates: list[str], references: list[str]) -> tuple[float, Scores]:
        scores, whole = self._scored(candidates, references), self._corpus(candidates, references)
        return float(scores.mean()) if whole is None else whole, scores

    def _scored(self, candidates: list[str], references: list[str]) -> Scores:
        return np.asarray(self._segments(candidates, references), np.float64)

    def _checked(self, candidates: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[str]]:
        return check_pairs(candidates, references, self.name if not self.takes_blank else None)


def check_pairs(
    candidates: Sequence[str], references: Sequence[str], needs_text: str | None = None
) -> tuple[list[str], list[str]]:
    """Return both as lists that stand in pairs; `needs_text` names a metric that cannot score a blank candidate.

    >>> check_pairs(["a b"], ["a b", "c"])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: 1 candidate but 2 references; give one reference for each candidate
    """
    checked = _texts(_NAMES[0], candidates), _texts(_NAMES[1], references)
    counts = [f"{len(texts)} {name}{'s' * (len(texts) != 1)}" for name, texts in zip(_NAMES, checked, strict=True)]
    if len(checked[0]) != len(checked[1]):
        raise Sen2ProError(f"{counts[0]} but {counts[1]}; give one reference for each candidate")
    if not checked[0]:
        raise Sen2ProError("there is nothing to score: the lists of candidates and references are empty")
    for number, (candidate, reference) in enumerate(zip(*checked, strict=True), 1):
        if not reference.strip():
            raise Sen2ProError(f"reference {number} is empty or blank; leave the pair out")
        if needs_text and not candidate.strip():
            raise Sen2ProError(
                f"candidate {number} is empty or blank, and {needs_text} has to encode it; leave the pair out, or use "
                "metrics that compare words"
            )
    return checked


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise Sen2ProError(f"give a list of {name}s, not a single text: [{texts!r}]")
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise Sen2ProError(f"{name} {number} is not a text but {type(text).__name__}: {text!r}")
        if has_surrogates(text):
            raise Sen2ProError(f"{name} {number} holds half a surrogate pair, which is not Unicode text: {text!r}")
    return texts


def need(module: str) -> Any:
    """Import a module of an optional package, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Sen2ProError(f"this metric cannot be used ({error}); pip install 'sen2pro[eval]'") from None


def release(package: str) -> str:
    """Name a package and its version, for a signature.

    >>> release("numpy")
    'numpy:...'
    """
    return f"{package}:{version(package)}"


def cosine(a: NDArray[Any], b: NDArray[Any]) -> Scores:
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
