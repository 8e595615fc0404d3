"""What a classifier does on labelled sentences: tables, a confusion matrix and a reliability diagram."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.metrics import probabilities as metrics
from sen2pro.metrics.report import Grid, Result, to_json, to_markdown
from sen2pro.pictures import BLUE, GREY, single
from sen2pro.types import Array64

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NUMBERS = 20  # classes up to which the cells of a confusion matrix carry their numbers
_LONGEST = 25  # letters of a class's name in a picture
_EACH = ("recall", "precision", "F1")


def evaluate_on(
    probabilities: Array64,
    truth: NDArray[np.int64],
    classes: Sequence[Any],
    *,
    signature: str,
    name: str,
    pictures: bool,
) -> Result:
    """Return tables of the measures and of each class, and the pictures if wanted, with `name` above them."""
    scores = metrics.evaluate(probabilities, truth)
    table = metrics.confusion(probabilities.argmax(axis=1), truth, len(classes))
    low, high = metrics.interval(scores.accuracy, scores.n)
    lowest, highest = metrics.interval(scores.accuracy_of_answered, max(1, round(metrics.ANSWERED * scores.n)))
    measures = [
        ["accuracy", f"{scores.accuracy:.4f}", f"[{low:.4f}, {high:.4f}]"],
        ["accuracy of the surest 80 %", f"{scores.accuracy_of_answered:.4f}", f"[{lowest:.4f}, {highest:.4f}]"],
        ["log-loss", f"{scores.log_loss:.4f}", ""],
        ["expected calibration error", f"{scores.calibration_error:.4f}", ""],
    ]
    names = [str(label) for label in classes]
    each, macro = by_class(table)
    figures: dict[str, Figure] = {}
    if pictures:
        title = (
            f"{_short(name, 2 * _LONGEST)}\n{scores.n} sentence{'s' * (scores.n != 1)}, accuracy {scores.accuracy:.3f}"
        )
        figures = {
            "confusion": confusion_matrix(table, names, title),
            "reliability": reliability_diagram(
                probabilities, truth, f"{title}, calibration error {scores.calibration_error:.3f}"
            ),
        }
    return Result(
        "classification", f"{scores.n} sentences, {len(names)} classes",
        [Grid(["measure", "value", "95 %"], measures), _classes_grid(table, names, each, macro)],
        f"{scores.accuracy:.1%} right", signature,
        [
            "recall: share of a class that was recognised; precision: share of what was called so that is; F1: their "
            "harmonic mean; macro average: every class that occurs counts the same."
        ],
        [
            {
                **scores.to_dict(), "classes": names, "confusion": table.tolist(),
                **{measure: values.tolist() for measure, values in zip(_EACH, each.T, strict=True)},
                "macro average": dict(zip(_EACH, macro.tolist(), strict=True)),
            }
        ],
        figures,
    )  # fmt: skip


def by_class(table: NDArray[np.int64]) -> tuple[Array64, Array64]:
    """Return recall, precision and F1 of each class (classes, 3), and their means over the classes that occur (3,).

    What would be a division by nothing is 0, as it is for scikit-learn.

    >>> each, macro = by_class(np.array([[3, 1], [1, 1]]))
    >>> each.tolist(), macro.tolist()
    ([[0.75, 0.75, 0.75], [0.5, 0.5, 0.5]], [0.625, 0.625, 0.625])
    """
    right, true, called = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    pairs = ((right, true), (right, called), (2 * right, true + called))
    each = np.stack([share / np.maximum(of, 1) for share, of in pairs], axis=1)
    return each, np.asarray(each[true + called > 0].mean(axis=0))


def _classes_grid(table: NDArray[np.int64], names: Sequence[str], each: Array64, macro: Array64) -> Grid:
    rows = [
        [name, str(n), *(f"{value:.3f}" if n or called else "–" for value in values)]
        for name, n, called, values in zip(names, table.sum(axis=1), table.sum(axis=0), each, strict=True)
    ]
    average = ["macro average", str(table.sum()), *(f"{value:.3f}" for value in macro)]
    return Grid(["class", "n", *_EACH], [*rows, average])


def write(result: Result, folder: str | Path) -> list[Path]:
    """Write a result as JSON, Markdown, PNG and SVG; return the files."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise Sen2ProError(f"{target} is not a folder")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    texts = {"json": json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n", "md": to_markdown(result)}
    for suffix, text in texts.items():
        path = target / f"{result.id}.{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    for name, figure in result.figures.items():
        for suffix in ("png", "svg"):
            path = target / f"{result.id}-{name}.{suffix}"
            figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == "svg" else None)
            written.append(path)
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
    axes.set_xlabel("predicted")
    axes.set_ylabel("truth")
    _entitle(figure, title)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, ticks=[0, 0.5, 1])
    bar.set_label("share of the true class")
    bar.outline.set_visible(False)
    if len(names) <= _MOST_NUMBERS:
        for (row, column), number in np.ndenumerate(table):
            colour = "white" if shares[row, column] > 0.5 else "black" if number else GREY
            axes.text(column, row, str(number), ha="center", va="center", color=colour, fontsize=8)
    return figure


def _entitle(figure: Figure, title: str) -> None:
    figure.suptitle(title, fontsize=10, x=0.02, ha="left", parse_math=False)


def reliability_diagram(probabilities: Array64, truth: NDArray[np.int64], title: str) -> Figure:
    """Draw accuracy against confidence, with 95 % intervals; of a calibrated classifier they cross the diagonal.

    Below it stands how many sentences there are of each confidence; where there is none, there is no point.
    """
    figure, upper = single(5, 6)
    rows = figure.add_gridspec(2, 1, height_ratios=[4, 1])
    upper.set_subplotspec(rows[0])
    lower = figure.add_subplot(rows[1], sharex=upper)
    lower.spines[["top", "right"]].set_visible(False)
    found = metrics.reliability(probabilities, truth)
    counts = np.rint(found.share * len(truth)).astype(int)
    for confidence, accuracy, n in zip(found.confidence, found.accuracy, counts, strict=True):
        if n:
            upper.plot([confidence] * 2, metrics.interval(accuracy, n), color=BLUE, linewidth=1.5, alpha=0.5)
    filled = counts > 0
    upper.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    points = found.confidence[filled], found.accuracy[filled]
    upper.plot(*points, "o", color=BLUE, clip_on=False, label="found, with 95 % interval")
    upper.set_xlim(0, 1)
    upper.set_ylim(-0.02, 1.02)
    upper.set_ylabel("accuracy")
    upper.tick_params(labelbottom=False)
    upper.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9, borderaxespad=0)
    lower.bar(found.edges[:-1], counts, np.diff(found.edges), align="edge", color=GREY, edgecolor="white")
    for edge, width, n in zip(found.edges, np.diff(found.edges), counts, strict=False):
        if n:
            lower.text(edge + width / 2, n, str(n), ha="center", va="bottom", fontsize=7)
    lower.set_ylabel("sentences")
    lower.set_xlabel("confidence")
    lower.margins(y=0.25)
    _entitle(figure, title)
    return figure
