"""Options for worker processes, and the warnings of a run that encoded files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning

if TYPE_CHECKING:
    from sen2pro.jobs import Summary

Workers = Annotated[int | None, Option(help="Number of processes, each with one thread.", min=1)]
Restart = Annotated[bool, Option("--restart", help="Delete an unfinished run and start again.")]


def encode_first(workers: int | None, *, restart: bool, encoded: bool) -> bool:
    """Return whether a command encodes its input into files before it uses them; `encoded`: the input is encoded."""
    if workers is not None and encoded:
        raise Sen2ProError("with --encoded nothing is left to encode; leave --workers out")
    if restart and workers is None:
        raise Sen2ProError("--restart is for runs with --workers; other runs leave no parts behind")
    return workers is not None


def notes_of(done: Summary) -> list[Sen2ProWarning]:
    """Return the warnings to print below the result of a run: about texts that were cut, and all others."""
    report = done.report
    cut = [TruncationWarning(report.cut, report.rows, report.limit)] if report.cut else []
    return [*map(Sen2ProWarning, report.notes), *cut]
