"""`sen2pro data`: which evaluation sets there are, and how to get the others."""

from __future__ import annotations

from rich import box
from rich.table import Table

from sen2pro.cli.terminal import Console
from sen2pro.paper import catalogue


def run_list(data: str | None = None) -> None:
    """Print every set: the tables of the paper it serves, whether it is there, and how to get it if it is not."""
    with catalogue.reading_from(data):
        _print(catalogue.listing())


def _print(listed: list[catalogue.Listed]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("set", "tables", "file", "found", "rows", "sha256", "source"):
        wide = name in ("file", "source", "tables")
        table.add_column(name, no_wrap=not wide, overflow="fold", justify="right" if name == "rows" else "left")
    for line in listed:
        rows = "" if line.rows is None else f"{line.rows:,}"
        source = line.source.split(" (")[0]
        table.add_row(
            line.name, line.tables, "\n".join(line.files), line.found, rows, "\n".join(line.sha256), source
        )  # fmt: skip
    console = Console()
    if not console.is_terminal:
        console.width = 150  # a file or a pipe has room for a line a set
    console.print(table)
    for text in _notes(listed):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _notes(listed: list[catalogue.Listed]) -> list[str]:
    """Return what is said below the table: where the sets are, and how to get those that are missing."""
    folder = catalogue.folder()
    notes = [
        "no folder of evaluation data: set SEN2PRO_DATA, or --data FOLDER" if folder is None else f"folder: {folder}"
    ]
    if any(line.found == "hub" for line in listed):
        notes.append("hub: fetched from the Hugging Face hub when it is used, if that can be reached")
    missing: dict[str, list[str]] = {}
    for line in listed:
        if line.found != "folder":
            missing.setdefault(f"from {line.source}; {line.way}", []).append(line.name)
    return notes + [f"not in a folder: {', '.join(names)}: {how}" for how, names in missing.items()]
