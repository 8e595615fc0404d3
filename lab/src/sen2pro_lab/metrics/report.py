"""A result: tables, notes, figures, a verdict and a signature. It is kept as JSON; pages are Markdown made of that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sen2pro.calibration.report import GREY, panels
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

PAGE = "report.md"
_KEYS = ("id", "title", "verdict", "signature", "notes", "grids", "numbers", "figures")


@dataclass
class Grid:
    """A table of texts; the first `labels` columns are names, the others numbers."""

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    labels: int = 1


@dataclass
class Result:
    """A table or figure of the paper, made again, or the evaluation of a classifier.

    `numbers` holds every figure for the JSON file, `figures` the pictures by name.
    """

    id: str
    title: str
    grids: list[Grid]
    verdict: str
    signature: str = ""
    notes: list[str] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)


class Panel(NamedTuple):
    """Points (x, y) of each series, and the names of the axes.

    `level` is a height to compare with and its name; `at` is a place on the x axis.
    """

    series: Mapping[str, Sequence[tuple[Any, float]]]
    x: str
    y: str
    level: tuple[str, float] | None = None
    at: float | None = None
    scales: tuple[str, str] = ("linear", "linear")
    lines: bool = True


def draw(*drawn: Panel) -> Figure:
    """Draw panels side by side."""
    figure, axes = panels(len(drawn), 7 if len(drawn) == 1 else 6)
    for ax, panel in zip(axes, drawn, strict=True):
        for name, points in panel.series.items():
            ax.plot(*zip(*points, strict=True), marker="o", linestyle="-" if panel.lines else "none", label=name)
        if panel.level is not None:
            ax.axhline(panel.level[1], color=GREY, linestyle="--", label=panel.level[0] or None)
        if panel.at is not None:
            ax.axvline(panel.at, color=GREY, linestyle="--")
        ax.set(xscale=panel.scales[0], yscale=panel.scales[1], xlabel=panel.x, ylabel=panel.y)
        ax.legend(frameon=False)
    return figure


def print_result(result: Result, console: Console) -> None:
    """Print a result on a terminal."""
    from rich.table import Table
    from rich.text import Text

    colours = {"better": "green", "worse": "red"}
    console.print(f"\n{result.id}: {result.title}", style="bold", highlight=False)
    for grid in result.grids:
        table = Table(title=grid.title or None, title_justify="left")
        for i, name in enumerate(grid.header):
            is_text = i < grid.labels or name == "verdict"
            narrow = name in ("p", "sd", "verdict")
            table.add_column(name, justify="left" if is_text else "right", no_wrap=narrow, overflow="fold")
        for row, after in zip(grid.rows, [*grid.rows[1:], None], strict=True):
            ends = grid.labels > 1 and after is not None and after[0] != row[0]
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row), end_section=ends)
        console.print(table)
    console.print(f"verdict: {result.verdict}", highlight=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    console.print(f"signature: {result.signature}", style="dim", markup=False, highlight=False, soft_wrap=True)


def to_markdown(result: Result, *, level: int = 2, pictures: str = "") -> str:
    """Return a result as Markdown; pictures are looked for in the folder `pictures`."""
    parts = [f"{'#' * level} {result.id}: {result.title}", f"**Verdict:** {result.verdict}"]
    for grid in result.grids:
        parts += [f"*{grid.title}*"] if grid.title else []
        rule = ["---" if i < grid.labels else "---:" for i in range(len(grid.header))]
        rows = [grid.header, rule, *grid.rows]
        parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows))
    parts += [f"![{result.id}, {name}]({pictures}{result.id}-{name}.png)" for name in result.figures]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    return "\n\n".join([*parts, f"`{result.signature}`"]) + "\n"


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as plain data."""
    data = {**vars(result), "grids": [vars(grid) for grid in result.grids], "figures": sorted(result.figures)}
    return {key: data[key] for key in _KEYS}


def write(result: Result, folder: str | Path) -> list[Path]:
    """Write a result as JSON, its pictures as PNG, and one page of all results in the folder; return the files."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise Sen2ProError(f"{target} is not a folder")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in result.figures.items():
        written.append(target / f"{result.id}-{name}.png")
        with replacing(written[-1]) as temporary:
            figure.savefig(temporary, format="png", dpi=130)
    text = json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(target / f"{result.id}.json", text))
    page = "\n".join(["# Sen2Pro: the tables and figures of the paper, made again\n", *map(to_markdown, read(target))])
    return [*written, write_text(target / PAGE, page)]


def read(folder: Path) -> list[Result]:
    """Return the results in a folder, tables before figures before theorems; other files are passed over."""
    results = []
    for path in sorted(folder.glob("*.json"), key=_order):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(data, dict) and "grids" in data:
            data["grids"] = [Grid(**grid) for grid in data["grids"]]
            results.append(Result(**{**data, "figures": dict.fromkeys(data["figures"])}))
    return results


def _order(path: Path) -> tuple[str, int]:
    letters = path.stem.rstrip("0123456789")
    return {"T": "0", "F": "1", "Th": "2"}.get(letters, "3"), int(path.stem[len(letters) :] or 0)
