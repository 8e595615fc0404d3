"""A progress bar for long work, on standard error."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sen2pro.errors import Sen2ProError, short_repr

Show = bool | Callable[[float], None] | None

_LOG = logging.getLogger("sen2pro")
_EVERY = 60.0  # seconds between two lines of the log


def _logged(total: int | None, unit: str, title: str, before: float) -> Callable[[float], None]:
    """Return a function that logs one line per minute: for work without a terminal."""
    done, started = before, time.monotonic()
    last = started

    def advance(more: float) -> None:
        nonlocal done, last
        done += more
        now = time.monotonic()
        if now - last >= _EVERY:
            last = now
            of = "" if total is None else f" of {total:,}"
            speed = (done - before) / (now - started)
            left = f", {_minutes((total - done) / speed)} left" if total is not None and speed > 0 else ""
            _LOG.info("%s: %s%s %s, %.0f a second%s", title, f"{done:,.0f}", of, unit, speed, left)

    return advance


def _minutes(seconds: float) -> str:
    """Return a time in hours and minutes.

    >>> _minutes(59), _minutes(7500)
    ('1 min', '2 h 5 min')
    """
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@contextmanager
def progress(
    total: int | None, show: Show, *, threshold: int = 0, unit: str = "samples", title: str = "encoding",
    before: float = 0,
) -> Iterator[Callable[[float], None]]:  # fmt: skip
    """Give a function that is told how much was done; `before` was done by an earlier run.

    `show` says where to: a bar (True), nowhere (False), or a function of the caller's. With None there is a bar if
    there is a terminal and enough to do; without a terminal, one line per minute goes to the logger `sen2pro`.
    """
    if callable(show):
        yield show
    elif not isinstance(show, bool | None):
        raise Sen2ProError(f"show_progress_bar must be True, False, None or a function, not {short_repr(show)}")
    elif show is None and not sys.stderr.isatty():
        yield _logged(total, unit, title, before)
    elif show is False or (show is None and total is not None and total <= threshold):
        yield lambda _: None
    else:
        from rich import progress as bars
        from rich.console import Console
        from rich.text import Text

        class Speed(bars.ProgressColumn):
            def render(self, task: bars.Task) -> Text:
                return Text(f"{task.speed:,.1f} {unit}/s" if task.speed else f"– {unit}/s")

        columns = (bars.TextColumn(title), bars.BarColumn(), bars.MofNCompleteColumn(), Speed())
        with bars.Progress(*columns, bars.TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=total, completed=before)  # type: ignore[arg-type]
            yield lambda done: bar.advance(task, done)
