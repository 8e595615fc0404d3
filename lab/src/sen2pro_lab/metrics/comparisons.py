"""Comparisons of scores with baselines on the same points: of one set or averaged over sets, gathered on a board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sen2pro_lab.metrics.bootstrap import Comparison, Statistic, Undefined, mean_of, paired_bootstrap
from sen2pro_lab.metrics.report import Grid
from sen2pro_lab.metrics.statistics import average_statistic

ARROW = "→"
Run = TypeVar("Run")
Quoted = tuple[float, float] | None  # what a paper says: the baseline, and its own score


@dataclass(frozen=True, eq=False)
class Points:
    """What is compared on one set: the statistics of each run, and how many points they share.

    `groups` has a label for each point (n,), to resample within groups; by default all points are one group.
    """

    ours: Sequence[Statistic]
    baseline: Sequence[Statistic]
    n: int
    groups: NDArray[Any] | None = None

    @classmethod
    def of(
        cls, statistic: Callable[[Run], Statistic], ours: Iterable[Run], baseline: Iterable[Run], n: int,
        groups: NDArray[Any] | None = None,
    ) -> Points:  # fmt: skip
        """Compare what a statistic makes of each run of two systems."""
        return cls([statistic(run) for run in ours], [statistic(run) for run in baseline], n, groups)


def average(sets: Mapping[str, Points]) -> Points:
    """Return the average over sets; points are resampled within each set, and within its own groups."""
    parts = sets.values()
    ends = np.cumsum([points.n for points in parts])
    places = [np.arange(end - points.n, end) for end, points in zip(ends, parts, strict=True)]
    groups: list[str] = []
    for name, points in sets.items():
        groups += [f"{name} {label}" for label in ([""] * points.n if points.groups is None else points.groups)]
    runs = [points.ours for points in parts], [points.baseline for points in parts]
    ours, baseline = ([average_statistic(run, places) for run in zip(*side, strict=True)] for side in runs)
    return Points(ours, baseline, int(ends[-1]), np.array(groups))


@dataclass
class Line:
    """One comparison: its labels, what a paper says, what we measured, or why there is nothing."""

    labels: list[str]
    paper: Quoted = None
    ours: Comparison | None = None
    missing: str = ""


@dataclass
class Board:
    """The comparisons of a table; `names` are the columns before the numbers."""

    names: list[str]
    lines: list[Line] = field(default_factory=list)

    def add(
        self, labels: list[str], points: Callable[[], Points], quoted: Quoted = None, *, unit: float = 100,
        smaller_is_better: bool = False,
    ) -> Points | None:  # fmt: skip
        """Add a comparison in points of 1 / `unit`, or the reason why there is none; return its points, if any."""
        compared = None
        try:
            compared = points()
            sides = compared.ours, mean_of(compared.baseline), compared.n
            ours = paired_bootstrap(*sides, groups=compared.groups, smaller_is_better=smaller_is_better)
            self.lines.append(Line(labels, quoted, ours.scaled(unit)))
        except Undefined as error:
            self.leave_out(labels, str(error), quoted)
        return compared

    def leave_out(self, labels: list[str], why: str, quoted: Quoted = None) -> None:
        """Add a line without a comparison."""
        self.lines.append(Line(labels, quoted, missing=why))

    def having(self, *labels: str) -> list[Line]:
        """Return the lines with all these labels, without those of averages over sets."""
        return [line for line in self.lines if {*labels} <= {*line.labels} and not line.labels[0].startswith("Average")]

    def verdict(self, *labels: str) -> str:
        """Sum up the lines with all these labels."""
        return count_verdicts(self.having(*labels))

    def verdicts(self, labels: Iterable[str], between: str = "; ") -> str:
        """Sum up the lines of each of these labels."""
        return between.join(f"{label}: {self.verdict(label)}" for label in labels)

    def grid(self, paper: str, title: str, digits: int = 2) -> Grid:
        """Lay the lines out as a table; `paper` names the row of the paper that is quoted beside ours."""
        several = any(line.ours and line.ours.sd is not None for line in self.lines)
        header = [*self.names, f"paper ({paper})", "ours", *["sd"] * several, "gain [95 %]", "p", "verdict"]
        rows = []
        for line in self.lines:
            quoted = f"{line.paper[0]:.{digits}f} {ARROW} {line.paper[1]:.{digits}f}" if line.paper else "–"
            both, sd, *others = line.missing or "–", "", "", "", ""
            if line.ours is not None:
                c = line.ours
                both = f"{c.baseline:.{digits}f} {ARROW} {c.value:.{digits}f}"
                sd = "" if c.sd is None else f"{c.sd:.{digits}f}"
                gain = f"{c.gain:+.{digits}f} [{c.low:+.{digits}f}, {c.high:+.{digits}f}]"
                others = [gain, "<.001" if c.p < 0.001 else f"{c.p:.3f}".removeprefix("0"), c.verdict]
            rows.append([*line.labels, quoted, both, *[sd] * several, *others])
        return Grid(header, rows, title, labels=len(self.names))

    def numbers(self, **about: str) -> list[dict[str, Any]]:
        """Return the lines for JSON, each with `about` before it."""
        rows: list[dict[str, Any]] = []
        for line in self.lines:
            paper, ours = line.paper and list(line.paper), line.ours and line.ours.to_dict()
            rows.append({**about, **dict(zip(self.names, line.labels, strict=True)), "paper": paper, "ours": ours})
            rows[-1] |= {"missing": line.missing} if line.missing else {}
        return rows


def count_verdicts(lines: Sequence[Line]) -> str:
    """Sum up the verdicts of several comparisons in words.

    >>> c = Comparison(1, 2, 0.5, 1.5, 0.01, 100)
    >>> count_verdicts([Line(["x"], ours=c), Line(["y"], ours=c)])
    'better in 2 of 2'
    """
    verdicts = [line.ours.verdict.replace("too few", "too few points") for line in lines if line.ours]
    kinds = [kind for kind in ("better", "no difference", "worse", "too few points") if kind in verdicts]
    said = [f"{kind} in {verdicts.count(kind)} of {len(verdicts)}" for kind in kinds]
    return ", ".join(said) or "nothing to compare"
