"""The commands of the laboratory, a separate distribution: named here, loaded only when they are called."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from typer.core import TyperCommand

from sen2pro.errors import Sen2ProError

DISTRIBUTION, GROUP = "sen2pro-lab", "sen2pro.commands"
COMMANDS = {
    "score": "Score candidates against references, by several metrics.",
    "reproduce": "Make tables and figures of the paper again.",
    "data": "List the evaluation data and where to get it.",
}


def named(name: str) -> Any:
    """Return a command of the laboratory for the list in the help, without its options; None for other names."""
    if name not in COMMANDS:
        return None
    return TyperCommand(name, help=f"{COMMANDS[name]} ({DISTRIBUTION})", rich_markup_mode=None)


def load(name: str) -> Any:
    """Load a command of the laboratory; no other distribution can provide it."""
    try:
        found = distribution(DISTRIBUTION).entry_points.select(group=GROUP, name=name)
    except PackageNotFoundError:
        raise Sen2ProError(f"sen2pro {name} is part of the laboratory: pip install {DISTRIBUTION}") from None
    if not found:
        raise Sen2ProError(f"this {DISTRIBUTION} has no command {name}; install the version of this sen2pro")
    return next(iter(found)).load()
