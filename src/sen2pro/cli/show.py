"""`sen2pro show`: the first rows of a file of Gaussians."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.gaussians import read

_WIDEST = 60  # letters of a text that are shown


def run(path: str, *, rows: int, sort: str | None) -> None:
    """Print what a file holds: its rows with their total variance, and how they were made."""
    stored = read(path)
    gaussian = stored.gaussian
    if len(gaussian.shape) == 1:
        raise Sen2ProError(f"{path} holds a single Gaussian of {gaussian.dim} dimensions; a table needs a batch")
    totals = gaussian.total_variance
    order = range(len(gaussian)) if sort is None else totals.argsort(kind="stable").tolist()
    order = list(order)[::-1] if sort == "uncertain" else list(order)
    table = Table(title=f"{path}: {len(gaussian)} Gaussians, {gaussian.dim} dimensions", title_justify="left")
    columns = {"id": stored.ids, "text": stored.texts, "coverage": gaussian.coverage}
    for name in ("row", *(name for name, values in columns.items() if values is not None), "total variance"):
        table.add_column(name, justify="left" if name in ("id", "text") else "right")
    for row in order[:rows]:
        cells = [str(row)]
        for name, values in columns.items():
            if values is not None:
                cells.append(f"{values[row]:.2f}" if name == "coverage" else _short(str(values[row])))
        table.add_row(*map(Text, [*cells, f"{totals[row]:.4f}"]))
    console = Console()
    console.print(table)
    console.print(f"signature: {gaussian.signature}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
