"""`sen2pro reproduce`: tables and figures of the paper, made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sen2pro.cli.options import notes, parse_samples
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.metrics.report import PAGE, print_result, write
from sen2pro.paper.catalogue import reading_from
from sen2pro.paper.lab import FULL, Lab, Shots
from sen2pro.paper.store import Store
from sen2pro.paper.tables import check_packages, chosen, reproduce
from sen2pro.settings import DEFAULT_SAMPLES


def run(
    tables: Sequence[str],
    *,
    output: str,
    cache: str | None,
    data: str | None,
    settings: dict[str, Any],
    others: dict[str, Any],
) -> None:
    """Make each table, print it, and write it to a folder with a page of all that is there."""
    settings["classification_method"] = settings["method"]
    settings["method"] = settings["method"] or "sampling"
    names = chosen(tables, settings["method"])
    settings["samples"] = parse_samples(settings["samples"]) or DEFAULT_SAMPLES
    settings["shots"] = tuple(map(_shots, settings["shots"]))
    lab = Lab(**settings, store=Store(cache), settings={k: v for k, v in others.items() if v is not None})
    check_packages(names)
    with reading_from(data):
        left_out = _make(names, lab, output)
    console = _console()
    for text in left_out:
        console.print(f"left out {text}", style="yellow", markup=False, highlight=False)
    if len(left_out) == len(names):
        raise Sen2ProError("none of these tables could be made")
    console.print(f"written to {output}; the page is {output}/{PAGE}", markup=False, highlight=False)


def _make(names: Sequence[str], lab: Lab, output: str) -> list[str]:
    """Make, print and write each table; return those that could not be made, with the reason."""
    console, left_out = _console(), []
    for name in names:
        console.print(f"{name} ...", style="dim", highlight=False)
        try:
            with notes() as gathered:
                result = reproduce(name, lab)
        except Sen2ProError as error:
            if len(names) == 1:
                raise
            left_out.append(f"{name}: {error}")
            continue
        result.notes += dict.fromkeys(map(str, gathered))
        print_result(result, console)
        write(result, output)
    return left_out


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
