"""What a search confidence is worth: the best without the distribution beside the best with it."""

from __future__ import annotations

from dataclasses import dataclass

from sen2pro.calibration.report import Line, gained, measured, table
from sen2pro.validation import Array64


@dataclass(frozen=True)
class SearchReport:
    """How good the probabilities are, by nested cross-validation over all labelled queries; prints as a table.

    `gain` is how much smaller the log-loss is with the distribution, `low` to `high` is its 95 % interval (paired
    bootstrap). Without variances and agreement there is nothing to compare, and these are None.
    """

    queries: int
    right: int
    chosen: str
    without: Line
    with_distribution: Line | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = "no distribution was given: pass variances or agreement to see whether it pays"

    def __str__(self) -> str:
        last = f"{self.queries} queries, the first hit of {self.right} is right; in use: {self.chosen}"
        return "\n".join([*table(self.without, self.with_distribution, vars(self)), last])


def compared(without: Array64, with_: Array64 | None, y: Array64, chosen: str) -> SearchReport:
    """Compare the log-odds (n,) of two ways on the same labels."""
    about = len(y), int(y.sum()), chosen, measured(without, y)
    if with_ is None:
        return SearchReport(*about)
    return SearchReport(*about, measured(with_, y), *gained(without, with_, y))
