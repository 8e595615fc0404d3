"""What a classifier does on labelled sentences: tables, a confusion matrix and a reliability diagram."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_fscore_support

from sen2pro.files.atomic import replacing, write_text
from sen2pro.metrics import probabilities as metrics
from sen2pro.metrics.report import Grid, Result, to_json, to_markdown
from sen2pro.pictures import BLUE, GREY, single
from sen2pro.types import Array64

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NUMBERS = 20  # classes up to which the cells of a confusion matrix carry their numbers
_LONGEST = 25  # letters of a class's name in a picture
_TITLE: dict[str, Any] = {"fontsize": 10, "x": 0.02, "ha": "left", "parse_math": False}
_NOTE = (
    "recall: share of a class that was recognised; precision: share of what was called so that is; F1: their harmonic "
    "mean; macro average: every class that occurs counts the same."
)


def evaluate_on(
    probabilities: Array64, truth: NDArray[np.int64], classes: Sequence[Any], *,
    signature: str, name: str, pictures: bool,
) -> Result:  # fmt: skip
    """Return tables of the measures and of each class, and the pictures if wanted, with `name` above them."""
    scores, names, predicted = metrics.evaluate(probabilities, truth), list(map(str, classes)), probabilities.argmax(1)
    table = metrics.confusion(predicted, truth, len(names))
    answered = max(1, round(metrics.ANSWERED * scores.n))
    measures = [
        [measure, f"{value:.4f}", "[{:.4f}, {:.4f}]".format(*metrics.interval(value, n)) if n else ""]
        for measure, value, n in (
            ("accuracy", scores.accuracy, scores.n),
            ("accuracy of the surest 80 %", scores.accuracy_of_answered, answered),
            ("log-loss", scores.log_loss, 0),
            ("expected calibration error", scores.calibration_error, 0),
        )
    ]
    precision, recall, f1, of_class = precision_recall_fscore_support(
        truth, predicted, labels=range(len(names)), zero_division=0
    )
    each = {"recall": recall, "precision": precision, "F1": f1}
    occurs = of_class + table.sum(axis=0) > 0
    macro = {measure: float(values[occurs].mean()) for measure, values in each.items()}
    by_class = [
        [label, str(n), *(f"{value:.3f}" if there else "–" for value in values)]
        for label, n, there, *values in zip(names, of_class, occurs, *each.values(), strict=True)
    ]
    by_class.append(["macro average", str(scores.n), *(f"{value:.3f}" for value in macro.values())])
    figures: dict[str, Figure] = {}
    if pictures:
        count = f"{scores.n} sentence{'s' * (scores.n != 1)}"
        title = f"{_short(name, 2 * _LONGEST)}\n{count}, accuracy {scores.accuracy:.3f}"
        calibrated = f"{title}, calibration error {scores.calibration_error:.3f}"
        figures["confusion"] = confusion_matrix(table, names, title)
        figures["reliability"] = reliability_diagram(probabilities, truth, calibrated)
    numbers = {
        **scores.to_dict(), "classes": names, "confusion": table.tolist(),
        **{measure: values.tolist() for measure, values in each.items()}, "macro average": macro,
    }  # fmt: skip
    grids = [Grid(["measure", "value", "95 %"], measures), Grid(["class", "n", *each], by_class)]
    title, verdict = f"{scores.n} sentences, {len(names)} classes", f"{scores.accuracy:.1%} right"
    return Result("classification", title, grids, verdict, signature, [_NOTE], [numbers], figures)


def write(result: Result, folder: str | Path) -> list[Path]:
    """Write a result as JSON, Markdown, PNG and SVG; return the files."""
    target = Path(folder)
    written = [
        write_text(target / f"{result.id}.json", json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n"),
        write_text(target / f"{result.id}.md", to_markdown(result)),
    ]
    for name, figure in result.figures.items():
        for suffix, metadata in (("png", None), ("svg", {"Date": None})):
            written.append(target / f"{result.id}-{name}.{suffix}")
            with replacing(written[-1]) as temporary:
                figure.savefig(temporary, format=suffix, dpi=130, metadata=metadata)
    return written


def _short(name: str, most: int = _LONGEST) -> str:
    """Leave out the middle of a long name: what tells names apart often stands at the end.

    >>> _short("complaint about a card", 11)
    'compl… card'
    """
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - half - 1]}…{name[-half:]}"


def confusion_matrix(table: NDArray[np.int64], names: Sequence[str], title: str) -> Figure:
    """Draw how often each class was predicted for each other, shaded by the share of the true class."""
    shown = [_short(name) for name in names]
    cell = min(1.0, max(0.42, 3 / len(names)), 16 / len(names))  # inches
    letters = min(9.0, 60 * cell)  # points
    side = max(map(len, shown)) * letters / 72 * 0.6  # inches that the longest name takes
    upright = side < cell
    width, height = cell * len(names) + side + 1.9, cell * len(names) + (0.3 if upright else side * 0.75) + 1.2
    figure, axes = single(max(width, 5), height)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    tilted: dict[str, Any] = {} if upright else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), shown, fontsize=letters, parse_math=False, **tilted)
    axes.set_yticks(range(len(names)), shown, fontsize=letters, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="predicted", ylabel="truth")
    figure.suptitle(title, **_TITLE)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, ticks=[0, 0.5, 1], label="share of the true class")
    bar.outline.set_visible(False)
    if len(names) <= _MOST_NUMBERS:
        for (row, column), number in np.ndenumerate(table):
            colour = "white" if shares[row, column] > 0.5 else "black" if number else GREY
            axes.text(column, row, str(number), ha="center", va="center", color=colour, fontsize=8)
    return figure


def reliability_diagram(probabilities: Array64, truth: NDArray[np.int64], title: str) -> Figure:
    """Draw accuracy against confidence, with 95 % intervals; of a calibrated classifier they cross the diagonal.

    Below it stands how many sentences there are of each confidence; where there is none, there is no point.
    """
    figure, upper = single(5, 6)
    rows = figure.add_gridspec(2, 1, height_ratios=[4, 1])
    upper.set_subplotspec(rows[0])
    lower = figure.add_subplot(rows[1], sharex=upper)
    lower.spines[["top", "right"]].set_visible(False)
    bins = metrics.reliability(probabilities, truth)
    counts, widths = np.rint(bins.share * len(truth)).astype(int), np.diff(bins.edges)
    filled = np.flatnonzero(counts)
    for i in filled:
        interval = metrics.interval(bins.accuracy[i], counts[i])
        upper.plot([bins.confidence[i]] * 2, interval, color=BLUE, linewidth=1.5, alpha=0.5)
        middle = bins.edges[i] + widths[i] / 2
        lower.text(middle, counts[i], str(counts[i]), ha="center", va="bottom", fontsize=7)
    upper.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    points = bins.confidence[filled], bins.accuracy[filled]
    upper.plot(*points, "o", color=BLUE, clip_on=False, label="found, with 95 % interval")
    upper.set(xlim=(0, 1), ylim=(-0.02, 1.02), ylabel="accuracy")
    upper.tick_params(labelbottom=False)
    upper.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9, borderaxespad=0)
    lower.bar(bins.edges[:-1], counts, widths, align="edge", color=GREY, edgecolor="white")
    lower.set(ylabel="sentences", xlabel="confidence")
    lower.margins(y=0.25)
    figure.suptitle(title, **_TITLE)
    return figure
