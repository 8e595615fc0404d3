"""What a search confidence is worth: the best without the distribution beside the best with it."""

from __future__ import annotations

from dataclasses import dataclass

from sen2pro.confidence.candidates import losses
from sen2pro.confidence.report import Line, measured
from sen2pro.metrics.statistics import mean_statistic, paired_bootstrap
from sen2pro.types import Array64


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
        lines = [f"{'':26}{'log-loss':>10}{'AUROC':>8}{'calibration error':>19}"]
        rows = {"without the distribution": self.without, "with the distribution": self.with_distribution}
        lines += [
            f"{name:26}{line.log_loss:10.4f}{line.auroc:8.3f}{line.calibration_error:19.3f}"
            for name, line in rows.items()
            if line is not None
        ]
        gain = "" if self.gain is None else f"gain in log-loss {self.gain:+.4f} [{self.low:+.4f}, {self.high:+.4f}]: "
        lines.append(f"{gain}{self.verdict}")
        lines.append(f"{self.queries} queries, the first hit of {self.right} is right; in use: {self.chosen}")
        return "\n".join(lines)


def compared(without: Array64, with_: Array64 | None, y: Array64, chosen: str) -> SearchReport:
    """Compare the log-odds (n,) of two ways on the same labels."""
    about = len(y), int(y.sum()), chosen, measured(without, y)
    if with_ is None:
        return SearchReport(*about)
    ours, baseline = (mean_statistic(losses(logits, y)) for logits in (with_, without))
    found = paired_bootstrap([ours], baseline, len(y), smaller_is_better=True)
    return SearchReport(*about, measured(with_, y), -found.gain, -found.high, -found.low, found.verdict)
