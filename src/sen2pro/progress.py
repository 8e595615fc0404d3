"""A progress bar for long work, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sen2pro.errors import Sen2ProError, shown

Show = bool | Callable[[float], None] | None


@contextmanager
def progress(
    total: int | None, show: Show, *, threshold: int = 0, unit: str = "samples", title: str = "encoding"
) -> Iterator[Callable[[float], None]]:
    """Give a function that is told how much was done.

    `show` says where to: a bar (True), nowhere (False), a bar if there is a terminal and enough to do (None), or a
    function of the caller's.
    """
    if callable(show):
        yield show
        return
    if not isinstance(show, bool | None):
        raise Sen2ProError(f"show_progress_bar must be True, False, None or a function, not {shown(show)}")
    if show is None:
        show = sys.stderr.isatty() and (total is None or total > threshold)
    if not show:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else f"– {unit}/s")

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
