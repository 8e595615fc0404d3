"""What a classifier does on labelled sentences: tables, a confusion matrix and a reliability diagram."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import metrics
from sen2pro.errors import Sen2ProError
from sen2pro.evaluation.report import Grid, Result, to_json, to_markdown
from sen2pro.gaussian import Array64
from sen2pro.pictures import BLUE, GREY, single

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NUMBERS = 20  # classes up to which the cells of a confusion matrix carry their numbers


def evaluate_on(
    probabilities: Array64, truth: NDArray[np.int64], classes: Sequence[Any], *, signature: str, pictures: bool
) -> Result:
    """Return tables of the measures and of each class, and the pictures if wanted."""
    scores = metrics.evaluate(probabilities, truth)
    table = metrics.confusion(probabilities.argmax(axis=1), truth, len(classes))
    low, high = metrics.interval(scores.accuracy, scores.n)
    lowest, highest = metrics.interval(scores.accuracy_at_coverage, max(1, round(metrics.COVERAGE * scores.n)))
    measures = [
        ["accuracy", f"{scores.accuracy:.4f}", f"[{low:.4f}, {high:.4f}]"],
        ["accuracy of the surest 80 %", f"{scores.accuracy_at_coverage:.4f}", f"[{lowest:.4f}, {highest:.4f}]"],
        ["log-loss", f"{scores.log_loss:.4f}", ""],
        ["expected calibration error", f"{scores.calibration_error:.4f}", ""],
    ]
    names = [str(name) for name in classes]
    grids = [Grid(["measure", "value", "95 %"], measures), Grid(["class", "n", "found", "right"], _each(table, names))]
    figures: dict[str, Figure] = {}
    if pictures:
        figures = {
            "confusion": confusion_matrix(table, names),
            "reliability": reliability_diagram(probabilities, truth),
        }
    return Result(
        "classification", f"{scores.n} sentences, {len(names)} classes", grids,
        f"{scores.accuracy:.1%} right", signature,
        ["found: share of a class that was recognised (recall); right: share of what was called so (precision)."],
        [{**scores.to_dict(), "classes": names, "confusion": table.tolist()}],
        figures,
    )  # fmt: skip


def _each(table: NDArray[np.int64], names: Sequence[str]) -> list[list[str]]:
    return [
        [name, str(of_class), *(f"{right / n:.3f}" if n else "–" for n in (of_class, called))]
        for name, right, of_class, called in zip(
            names, np.diag(table), table.sum(axis=1), table.sum(axis=0), strict=True
        )
    ]


def write(result: Result, folder: str | Path) -> list[Path]:
    """Write a result as JSON, Markdown, PNG and SVG; return the files."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise Sen2ProError(f"{target} is not a folder")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in result.figures.items():
        for suffix in ("png", "svg"):
            path = target / f"{result.id}-{name}.{suffix}"
            figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == "svg" else None)
            written.append(path)
    texts = {"json": json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n", "md": to_markdown(result)}
    for suffix, text in texts.items():
        path = target / f"{result.id}.{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def confusion_matrix(table: NDArray[np.int64], names: Sequence[str]) -> Figure:
    """Draw how often each class was taken for each other, shaded by the share of the true class."""
    size = min(4 + 0.45 * len(names), 14)
    figure, axes = single(size + 1, size)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("taken for")
    axes.set_ylabel("truth")
    if len(names) <= _MOST_NUMBERS:
        for (row, column), number in np.ndenumerate(table):
            colour = "white" if shares[row, column] > 0.6 else "black"
            axes.text(column, row, str(number), ha="center", va="center", color=colour, fontsize=8)
    return figure


def reliability_diagram(probabilities: Array64, truth: NDArray[np.int64]) -> Figure:
    """Draw accuracy against confidence; the bars of a calibrated classifier end on the diagonal."""
    figure, axes = single(5, 5)
    found = metrics.reliability(probabilities, truth)
    width = np.diff(found.edges)
    axes.bar(found.edges[:-1], found.accuracy, width, align="edge", color=BLUE, edgecolor="white", label="accuracy")
    axes.bar(found.edges[:-1], found.share, width * 0.3, align="edge", color=GREY, label="share of the sentences")
    axes.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    axes.legend(frameon=False, loc="upper left")
    return figure
