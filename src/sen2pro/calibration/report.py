"""What a confidence is worth: the best without the distribution beside the best with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from sen2pro.calibration.candidates import TITLES, losses
from sen2pro.calibration.measures import calibration_error, interval, mean_statistic, paired_bootstrap
from sen2pro.validation import Array64


@dataclass(frozen=True)
class Line:
    """The measures of one way: log-loss and calibration error (smaller is better), and the area under the ROC curve."""

    log_loss: float
    auroc: float
    calibration_error: float


@dataclass(frozen=True)
class Report:
    """How good the probabilities are, by nested cross-validation over all labelled pairs; prints as a table.

    `gain` is how much smaller the log-loss is with the distribution, and `low` to `high` its 95 % interval (paired
    bootstrap). `chosen` is the candidate in use, `repeated` the number of pairs that stand there more than once.
    """

    pairs: int
    matches: int
    repeated: int
    chosen: str
    without: Line
    with_distribution: Line
    gain: float
    low: float
    high: float
    verdict: str

    def __str__(self) -> str:
        repeated = f"; {self.repeated} stand there more than once" if self.repeated else ""
        used = TITLES.get(self.chosen, self.chosen)
        last = f"{self.pairs} pairs, {self.matches} of them a match{repeated}; in use: {used}"
        return "\n".join([*table(self.without, self.with_distribution, vars(self)), last])


def table(without: Line, with_: Line | None, about: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table with both ways, and what the distribution gains (None if there is none)."""
    rows = {"without the distribution": without, "with the distribution": with_}
    lines = [f"{'':26}{'log-loss':>10}{'AUROC':>8}{'calibration error':>19}"]
    lines += [
        f"{name:26}{line.log_loss:10.4f}{line.auroc:8.3f}{line.calibration_error:19.3f}"
        for name, line in rows.items()
        if line is not None
    ]
    gain = "gain in log-loss {gain:+.4f} [{low:+.4f}, {high:+.4f}]: ".format(**about) if with_ is not None else ""
    return [*lines, gain + str(about["verdict"])]


def measured(logits: Array64, labels: Array64) -> Line:
    """Return the measures of logits (n,)."""
    from sklearn.metrics import roc_auc_score

    return Line(
        float(losses(logits, labels).mean()),
        float(roc_auc_score(labels, logits)),
        calibration_error(two_columns(expit(logits)), labels.astype(np.int64)),
    )


def two_columns(probabilities: Array64) -> Array64:
    """Return the probabilities of no and yes (n, 2), as `calibration_error` takes them."""
    return np.stack([1 - probabilities, probabilities], axis=1)


def compared(without: Array64, with_: Array64, labels: Array64, chosen: str, repeated: int) -> Report:
    """Compare the logits (n,) of two ways on the same labels."""
    return Report(
        len(labels), int(labels.sum()), repeated, chosen, measured(without, labels), measured(with_, labels),
        *gained(without, with_, labels),
    )  # fmt: skip


def gained(without: Array64, with_: Array64, labels: Array64) -> tuple[float, float, float, str]:
    """Return how much smaller the log-loss is with the distribution, the ends of its interval, and the verdict."""
    ours, baseline = (mean_statistic(losses(logits, labels)) for logits in (with_, without))
    found = paired_bootstrap([ours], baseline, len(labels), smaller_is_better=True)
    return -found.gain, -found.high, -found.low, found.verdict


def plot(logits: Array64, labels: Array64, path: str | Path) -> None:
    """Draw how often a match came true against the probability that was said, and how often each was said."""
    from sen2pro.pictures import BLUE, GREY, panels

    figure, (axes, counts) = panels(2, 5, 4)
    said = expit(logits)
    edges = np.linspace(0, 1, 11).tolist()
    bins = [mask for low in edges[:-1] if (mask := (said >= low) & (said < low + 0.1)).any()]
    mean = [float(said[mask].mean()) for mask in bins]
    share = [float(labels[mask].mean()) for mask in bins]
    ends = np.array([interval(y, int(mask.sum())) for y, mask in zip(share, bins, strict=True)]).T
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="as it should be")
    axes.errorbar(mean, share, yerr=np.abs(ends - share), color=BLUE, marker="o", label="out of fold, 95 %")
    axes.set_ylabel("share of pairs that are a match")
    kinds = [said[labels == 0], said[labels == 1]]
    counts.hist(kinds, bins=edges, stacked=True, color=[GREY, BLUE], label=["no", "match"])
    counts.set_ylabel("pairs")
    for each in (axes, counts):
        each.set_xlabel("probability of a match that was said")
        each.legend(frameon=False)
    figure.savefig(path, dpi=130)
