"""What the command line shows, and how it ends: no control codes from files, and no half files after a signal."""

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rich.console
from rich.segment import Segment

# Escape and the other control characters, as they would be written in Python; line ends and tabs stay.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
# What turns the direction of the text that follows: it could make a line read as another one.
_CONTROL |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}
_ARGUMENT = re.compile(r"\b([a-z][a-z_]+)=('[^']*'|\.\.\.|[\w.]+)")
_COLUMNS = re.compile(r"unknown ((?:id_|label_)?column) (?=')")


def printable(text: str) -> str:
    """Return a text that does nothing to a terminal but appear on it: control codes become letters."""
    return text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode()


def in_flags(text: str) -> str:
    """Turn the arguments that an error of the library names into options of the command line.

    >>> in_flags("pass trust_remote_code=True, or method='sampling'")
    'pass --trust-remote-code, or --method sampling'
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), match[2].strip("'")
        return f"--{name}" if value in ("True", "...") else f"--no-{name}" if value == "False" else f"--{name} {value}"

    text = _COLUMNS.sub(lambda match: f"unknown --{match[1].replace('_', '-')} ", text)
    return _ARGUMENT.sub(flag, text)


class Console(rich.console.Console):
    """A console for texts of any origin, such as ids from files; `wide` is its width where there is no terminal."""

    def __init__(self, *, wide: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        if wide and not self.is_terminal:
            self.width = wide

    def render(self, renderable: Any, options: rich.console.ConsoleOptions | None = None) -> Iterator[Segment]:
        """Make all that is printed printable; the colours that the console adds are not texts, and stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def say(self, text: str, style: str | None = None) -> None:
        """Print a text as it is, without markup or line ends of the console's own."""
        self.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def stopping_cleanly() -> Iterator[None]:
    """Let a terminated run, or one whose terminal was closed, clean up like an interrupted one; exit codes 143 and 129.

    A signal that is ignored, as under nohup, stays ignored.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda which, _: sys.exit(128 + which))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
