"""`sen2pro show`: the first rows of a file of Gaussians."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files import parquet
from sen2pro.files.gaussians import read

_WIDEST = 60  # letters of a text that are shown


def run(path: str, *, rows: int, sort: str | None) -> None:
    """Print what a file holds: its rows with their total variance, and how they were made."""
    stored = read(path)
    gaussian = stored.gaussian
    if len(gaussian.shape) == 1:
        raise Sen2ProError(f"{path} holds a single Gaussian of {gaussian.dim} dimensions; a table needs a batch")
    totals = {"total variance": gaussian.total_variance, **_by_source(path)}
    key = totals.get("data variance", totals["total variance"])  # which tells the vague from the specific
    order = list(range(len(gaussian))) if sort is None else key.argsort(kind="stable").tolist()
    order = order[::-1] if sort == "uncertain" else order
    table = Table(title=f"{path}: {len(gaussian)} Gaussians, {gaussian.dim} dimensions", title_justify="left")
    columns = {"id": stored.ids, "text": stored.texts, "coverage": gaussian.coverage}
    for name in ("row", *(name for name, values in columns.items() if values is not None), *totals):
        table.add_column(name, justify="left" if name in ("id", "text") else "right")
    for row in order[:rows]:
        cells = [str(row)]
        for name, values in columns.items():
            if values is not None:
                cells.append(f"{values[row]:.2f}" if name == "coverage" else _short(str(values[row])))
        table.add_row(*map(Text, [*cells, *(f"{values[row]:.4f}" for values in totals.values())]))
    console = Console()
    console.print(table)
    if gaussian.coverage is not None:
        console.print("coverage: below 0.01, do not trust the variances; sample that sentence instead", style="dim")
    console.print(f"signature: {gaussian.signature}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _by_source(path: str) -> dict[str, Any]:
    """Return the variance of each source of uncertainty, where a file has them."""
    if not path.lower().endswith(".parquet"):
        return {}
    with parquet.opened(path) as file:
        names = [name for name in ("model_variance", "data_variance") if name in file.schema_arrow.names]
        table = file.read(columns=names) if names else None
    return {name.replace("_", " "): table.column(name).to_numpy() for name in names} if table is not None else {}


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
