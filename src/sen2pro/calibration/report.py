"""How good probabilities are: those of a confidence, with and without the distribution, and those of a classifier."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.calibration.selection import Number, expit, losses
from sen2pro.errors import Sen2ProError
from sen2pro.io.bundle import Config, Count
from sen2pro.validation import Array64, Labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 15
ANSWERED = 0.8  # the share of texts that a classifier answers, those that it is surest of
_TOLERANCE = 0.01  # of a sum of probabilities: some are rounded
_SMALLEST = 1e-15  # a probability of 0 for what happened would cost infinitely much
BLUE, GREY = "#2a6f97", "#adb5bd"
RESAMPLES = 2000
FEWEST = 6  # examples: with fewer, no resampling can tell anything from chance
_CHUNK_NUMBERS = 1 << 18  # of a block of resamples
_GAIN = ("with_distribution", "gain", "low", "high")


class Line(Config, frozen=True):
    """The measures of one way: log-loss and calibration error (smaller is better), and the area under the ROC curve."""

    log_loss: Number
    auroc: Number
    calibration_error: Number


class Report(Config, frozen=True):
    """How good the probabilities are, by nested cross-validation over all labelled examples; prints as a table.

    `examples` is the number of labels, and `positive` the number of those that are a match (of queries: whose first
    hit is right). `chosen` is the candidate in use, and `repeated` the number of pairs that came more than once.
    `gain` is how much smaller the log-loss is with the distribution, and `low` to `high` its 95 % interval (paired
    bootstrap). Without a distribution there is nothing to compare, and these are None.
    """

    things: Literal["pairs", "queries"]
    examples: Count
    positive: Count
    chosen: str
    without: Line
    with_distribution: Line | None = None
    gain: Number | None = None
    low: Number | None = None
    high: Number | None = None
    verdict: str = "no distribution was given: pass variances or agreement to see whether it pays"
    repeated: Count = 0

    def __post_init__(self) -> None:
        if len({getattr(self, name) is None for name in _GAIN}) > 1:
            raise ValueError("a report must have a gain if it has a line with the distribution")

    def __str__(self) -> str:
        rows = {"without the distribution": self.without, "with the distribution": self.with_distribution}
        lines = [f"{'':26}{'log-loss':>10}{'AUROC':>8}{'calibration error':>19}"]
        lines += [
            f"{name:26}{line.log_loss:10.4f}{line.auroc:8.3f}{line.calibration_error:19.3f}"
            for name, line in rows.items()
            if line is not None
        ]
        gain = "" if self.gain is None else f"gain in log-loss {self.gain:+.4f} [{self.low:+.4f}, {self.high:+.4f}]: "
        lines.append(f"{gain}{self.verdict}")
        if self.things == "pairs":
            repeated = f"; {self.repeated} of them are repeated" if self.repeated else ""
            last = f"{self.examples} pairs, {self.positive} of them a match{repeated}"
        else:
            last = f"{self.examples} queries, the first hit of {self.positive} is right"
        return "\n".join([*lines, f"{last}; in use: {self.chosen}"])


@dataclass(frozen=True)
class Scores:
    """How good the probabilities of a classifier are on n texts; log-loss is in nats."""

    accuracy: float
    log_loss: float
    calibration_error: float
    accuracy_of_answered: float  # if only the 80 % are answered that the classifier is surest of
    n: int


def evaluate(probabilities: ArrayLike, truth: ArrayLike) -> Scores:
    """Return how good probabilities (n, classes) are, given the true class numbers (n,).

    >>> evaluate([[0.9, 0.1], [0.2, 0.8]], [0, 0]).accuracy
    0.5
    """
    p, y = _checked(probabilities, truth)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    surest = np.argsort(-confidence, kind="stable")[: max(1, round(ANSWERED * len(y)))]  # the first of equal ones
    return Scores(
        accuracy=float(right.mean()),
        log_loss=float(-np.log(np.maximum(p[np.arange(len(y)), y], _SMALLEST)).mean()),
        calibration_error=calibration_error(confidence, right),
        accuracy_of_answered=float(right[surest].mean()),
        n=len(y),
    )


def _checked(probabilities: ArrayLike, truth: ArrayLike) -> tuple[Array64, Labels]:
    p, y = np.asarray(probabilities, np.float64), np.asarray(truth)
    if p.ndim != 2 or y.shape != p.shape[:1] or not len(y):
        raise Sen2ProError(f"probabilities (n, classes) and class numbers (n,) do not fit: {p.shape} and {y.shape}")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= p.shape[1]:
        numbers = f"class numbers, whole numbers from 0 to {p.shape[1] - 1} that say which column is the true one"
        raise Sen2ProError(f"the truth is given in {numbers}, not {reprlib.repr(y.tolist())}")
    wrong = ~((p >= 0) & (p <= 1)).all(axis=1) | (np.abs(p.sum(axis=1) - 1) > _TOLERANCE)  # NaN is wrong, too
    if wrong.any():
        row = int(wrong.argmax())
        told = f"row {row} is no distribution over the classes: {reprlib.repr(p[row].tolist())}"
        raise Sen2ProError(f"{told}; probabilities lie between 0 and 1 and sum to 1 (of logits, take the softmax)")
    return p, y.astype(np.int64)


def calibration_error(confidence: Array64, right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Return the expected calibration error: how far confidence and accuracy (n,) are apart, over bins of equal width.

    Each bin counts with its share of the rows. An answer of 0.9 that is right half of the time is 0.4 off:

    >>> round(calibration_error(np.array([0.9, 0.9]), np.array([True, False])), 4)
    0.4
    """
    place = np.searchsorted(np.linspace(0, 1, bins + 1), confidence, side="left") - 1  # on an edge: the bin below
    said, came_true = (np.bincount(place.clip(0, bins - 1), values, bins) for values in (confidence, right))
    return float(np.abs(said - came_true).sum() / len(right))


def measured(logits: Array64, labels: Array64) -> Line:
    """Return the measures of log-odds (n,)."""
    from sklearn.metrics import roc_auc_score

    p = expit(logits)
    return Line(
        log_loss=float(losses(logits, labels).mean()),
        auroc=float(roc_auc_score(labels, logits)),
        calibration_error=calibration_error(np.maximum(p, 1 - p), (p > 0.5) == (labels == 1)),
    )


def compared(
    things: Literal["pairs", "queries"], without: Array64, with_: Array64 | None, labels: Array64, chosen: str,
    repeated: int = 0,
) -> Report:  # fmt: skip
    """Compare the log-odds (n,) of two ways on the same labels."""
    examples, positive, first = len(labels), int(labels.sum()), measured(without, labels)
    if with_ is None:
        return Report(things=things, examples=examples, positive=positive, chosen=chosen, without=first)
    gain, low, high, verdict = gained(losses(without, labels) - losses(with_, labels))
    return Report(
        things=things, examples=examples, positive=positive, chosen=chosen, without=first,
        with_distribution=measured(with_, labels), gain=gain, low=low, high=high, verdict=verdict, repeated=repeated,
    )  # fmt: skip


def gained(gains: Array64) -> tuple[float, float, float, str]:
    """Return the mean of some gains (n,), the ends of its 95 % interval by resampling, and the verdict.

    >>> gained(np.array([1.0, 2.0, 3.0, 2.0, 1.0, 3.0]))[3], gained(np.array([-1.0, 1.0] * 3))[3]
    ('better', 'no difference')
    """
    rng, n = np.random.default_rng(0), len(gains)
    step = max(1, _CHUNK_NUMBERS // n)
    sizes = [min(step, RESAMPLES - start) for start in range(0, RESAMPLES, step)]
    means = np.concatenate([gains[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])
    low, high = map(float, np.percentile(means, [2.5, 97.5]))
    p = 2 * (min((means <= 0).sum(), (means >= 0).sum()) + 1) / (len(means) + 1)
    verdict = "too few" if n < FEWEST else "no difference" if p >= 0.05 else "better" if gains.mean() > 0 else "worse"
    return float(gains.mean()), low, high, verdict


def panels(count: int, width: float = 7, height: float = 4) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes side by side, each of this size in inches; no window opens."""
    if find_spec("matplotlib") is None:
        raise Sen2ProError("pictures need matplotlib: pip install 'sen2pro[plot]'")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    every = list(figure.subplots(1, count, squeeze=False)[0])
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, every


def plot(predicted: Array64, labels: Array64, path: str | Path) -> None:
    """Draw the share of matches against the predicted probability, and how often each probability was predicted."""
    from scipy.stats import binomtest

    figure, (axes, counts) = panels(2, 5, 4)
    edges = np.linspace(0, 1, 11).tolist()
    bins = [mask for low in edges[:-1] if (mask := (predicted >= low) & (predicted < low + 0.1)).any()]
    mean = [float(predicted[mask].mean()) for mask in bins]
    share = [float(labels[mask].mean()) for mask in bins]
    ends = np.array(
        [binomtest(int(labels[mask].sum()), int(mask.sum())).proportion_ci(method="wilson") for mask in bins]
    )
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="perfectly calibrated")
    axes.errorbar(mean, share, yerr=np.abs(ends.T - share), color=BLUE, marker="o", label="out of fold, 95 %")
    axes.set_ylabel("share of pairs that are a match")
    kinds = [predicted[labels == 0], predicted[labels == 1]]
    counts.hist(kinds, bins=edges, stacked=True, color=[GREY, BLUE], label=["no", "match"])
    counts.set_ylabel("pairs")
    for each in (axes, counts):
        each.set_xlabel("predicted probability of a match")
        each.legend(frameon=False)
    figure.savefig(path, dpi=130)
