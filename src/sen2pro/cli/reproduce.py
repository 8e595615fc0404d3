"""`sen2pro reproduce`: tables and figures of the paper, made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sen2pro.cli.options import notes, parse_samples, quiet
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.paper.lab import FULL, Lab, Shots
from sen2pro.paper.report import print_result, write
from sen2pro.paper.store import Store
from sen2pro.paper.tables import check_packages, chosen, reproduce


def run(
    tables: Sequence[str], *, output: str, cache: str | None, settings: dict[str, Any], others: dict[str, Any]
) -> None:
    """Make each table, print it, and write it to a folder with a page of all that is there."""
    settings["classification_method"] = settings["method"]
    settings["method"] = settings["method"] or "sampling"
    names = chosen(tables, settings["method"])
    settings["samples"] = parse_samples(settings["samples"])
    settings["shots"] = tuple(map(_shots, settings["shots"]))
    quiet()
    lab = Lab(**settings, store=Store(cache), settings={k: v for k, v in others.items() if v is not None})
    check_packages(names)
    console, missing = _console(), []
    for name in names:
        console.print(f"{name} ...", style="dim", highlight=False)
        try:
            with notes() as gathered:
                result = reproduce(name, lab)
        except Sen2ProError as error:
            if len(names) == 1:
                raise
            missing.append(f"{name}: {error}")
            continue
        result.notes += [str(note) for note in dict.fromkeys(map(str, gathered))]
        print_result(result, console)
        write([result], output)
    for text in missing:
        console.print(f"left out {text}", style="yellow", markup=False, highlight=False)
    if len(missing) == len(names):
        raise Sen2ProError("none of these tables could be made")
    console.print(f"written to {output}; the page is {output}/report.html", markup=False, highlight=False)


def _shots(text: str) -> Shots:
    if text.lower() == FULL:
        return FULL
    try:
        return int(text)
    except ValueError:
        raise Sen2ProError(f"--shots takes a number of examples of each class, or full, not {text!r}") from None


def _console() -> Console:
    """Return a console that is wide enough for a table where there is no terminal to say how wide it is."""
    console = Console()
    return console if console.is_terminal else Console(width=140)
