"""The features of a list of hits: its scores, and what else is known of the query and its hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.selection import Mask, Table
from sen2pro.errors import Sen2ProError, first_line
from sen2pro.validation import Array64, check_numbers

FEWEST_HITS = 2
DISTRIBUTION = ("variances", "agreement")  # what only a distribution gives
EXTRAS = ("lengths", "votes", *DISTRIBUTION)


class Extras(TypedDict, total=False):
    """What may be known of n queries beside the scores of their hits."""

    lengths: ArrayLike | None
    """Of the queries, in words for instance (n,)."""
    votes: ArrayLike | None
    """Share of the first hits that give the same answer as the first one (n,), where hits are examples of answers."""
    variances: ArrayLike | None
    """Total variances of the query (model, data), and perhaps of its first hit (model, data): (n, 2) or (n, 4)."""
    agreement: ArrayLike | None
    """Share of the first hits that come up again when the query is drawn from its distribution (n,)."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The scores of the first k hits of each query (n, k), in descending order, and what else is known (n, columns)."""

    scores: Array64
    extras: dict[str, Array64]

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Mask) -> Hits:
        return Hits(self.scores[rows], {name: column[rows] for name, column in self.extras.items()})

    @property
    def spread(self) -> float:
        """The usual spread of a list."""
        return float(self.scores.std(axis=1).mean()) or 1.0

    def table(self, features: Sequence[str], temperature: float) -> Table:
        """Return some features of each list, with the softmax at a temperature.

        >>> check_hits([[0.9, 0.4], [0.6, 0.5]]).table(("first", "gap"), 1.0).values.round(2)
        array([[0.9, 0.5],
               [0.6, 0.1]])
        """
        parts = {name: self._part(name, temperature) for name in features}
        names = tuple(name for name, part in parts.items() for _ in range(part.shape[1]))
        return Table(names, np.concatenate(list(parts.values()), axis=1))

    def _part(self, name: str, temperature: float) -> Array64:
        s = self.scores
        if name in EXTRAS:
            if name not in self.extras:
                raise Sen2ProError(f"this confidence was fitted with {name}; pass them again: {name}=...")
            extra = self.extras[name]
            return extra if name in ("agreement", "votes") else _logarithms(extra)
        if name == "entropy":
            return entropy(s, temperature)
        if name == "sorted":
            return s
        summary = {"first": s[:, 0], "gap": s[:, 0] - s[:, 1], "mean": s.mean(axis=1), "spread": s.std(axis=1)}
        return np.asarray(summary[name][:, None])


def _logarithms(values: Array64) -> Array64:
    """Return the logarithms of variances or lengths, and how far those of queries and of hits are apart."""
    logs = np.log(values)
    half = logs.shape[1] // 2  # of queries, then of hits: sentences that mean the same are equally uncertain
    ratios = np.abs(logs[:, :half] - logs[:, half:]) if logs.shape[1] == 4 else logs[:, :0]
    return np.concatenate([logs, ratios], axis=1)


def entropy(scores: Array64, temperature: float) -> Array64:
    """Return the entropy of the softmax of each list as a share of the greatest possible one (n, 1).

    >>> entropy(np.array([[1.0, 1.0], [1.0, -99.0]]), 1.0).round(4).tolist()
    [[1.0], [0.0]]
    """
    powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    p = powers / powers.sum(axis=1, keepdims=True)
    terms = np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0)
    return np.asarray(-terms.sum(axis=1, keepdims=True) / np.log(scores.shape[1]))


def check_hits(
    scores: Any, lengths: Any = None, votes: Any = None, variances: Any = None, agreement: Any = None
) -> Hits:
    """Return what a user says of the hits, checked.

    >>> check_hits([[0.9, 0.4], [0.5, 0.6]])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: scores must be in descending order, but those of query 1 are not: [0.5, 0.6]
    """
    try:
        s = check_numbers("scores", scores, np.float64, axes=("query", "hit"))
    except Sen2ProError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise Sen2ProError("scores must have the same number of hits for every query; cut the longer lists") from None
    if s.ndim != 2:
        raise Sen2ProError(f"scores have the shape (queries, hits), not {s.shape}; of one query, give [scores]")
    if s.shape[1] < FEWEST_HITS:
        raise Sen2ProError(f"scores have {s.shape[1]} hits of each query; give at least {FEWEST_HITS}")
    rising = (np.diff(s, axis=1) > 0).any(axis=1)
    if rising.any():
        row = int(rising.argmax())
        some = [round(float(x), 4) for x in s[row, :5]]
        raise Sen2ProError(f"scores must be in descending order, but those of query {row} are not: {some}")
    length, voted, variance, agreed = (
        _column(name, values, len(s))
        for name, values in zip(EXTRAS, (lengths, votes, variances, agreement), strict=True)
    )  # fmt: skip
    for name, values in (("lengths", length), ("variances", variance)):
        if values is not None and (values <= 0).any():
            raise Sen2ProError(
                f"{name} must be above 0, but query {int((values <= 0).any(axis=1).argmax())} has 0 or less"
            )
    for name, values in (("votes", voted), ("agreement", agreed)):
        if values is not None and ((values < 0) | (values > 1)).any():
            raise Sen2ProError(f"{name} must be a share of the hits, from 0 to 1")
    given = zip(EXTRAS, (length, voted, variance, agreed), strict=True)
    return Hits(s, {name: column for name, column in given if column is not None})


def _column(name: str, values: Any, n: int) -> Array64 | None:
    if values is None:
        return None
    array = check_numbers(name, values, np.float64, axes=("query", "column"))
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != n:
        raise Sen2ProError(f"{name} must have a row for each of the {n} queries, not the shape {np.shape(values)}")
    return array


def check_right(right: Any, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which hits are right: (n, k), or (n, 1) of labels for the first hit alone."""
    try:
        array = np.asarray(right)
    except ValueError as error:
        raise Sen2ProError(f"right cannot be read as an array: {first_line(error)}") from None
    if array.shape not in (shape, shape[:1]):
        raise Sen2ProError(
            f"right has the shape {array.shape}; for scores of the shape {shape} it is {shape}, true where a hit is "
            f"right, or {shape[:1]}, true where the first hit is"
        )
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise Sen2ProError("right must be true or false (or 1 and 0) for each hit; of grades, say array >= grade")
    return array.astype(bool).reshape(len(array), -1)
