"""Units become one file: row groups of a fixed size, whatever the units were, and never more than one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.io.gaussians import GaussianWriter, Piece, joined, read, stream
from sen2pro.io.rows import machine_trouble

GROUP = 4096  # rows of a row group


class Regrouped:
    """Write pieces of any size in row groups of one size."""

    def __init__(self, writer: GaussianWriter) -> None:
        self._writer = writer
        self._waiting: list[Piece] = []
        self._rows = 0

    def add(self, piece: Piece) -> None:
        """Add some rows."""
        self._waiting.append(piece)
        self._rows += len(piece.gaussian)
        while self._rows >= GROUP:
            every = joined(self._waiting)
            every.part(0, GROUP).write_to(self._writer)
            self._waiting, self._rows = [every.part(GROUP)], self._rows - GROUP

    def finish(self) -> None:
        """Write what is left."""
        if self._rows:
            joined(self._waiting).write_to(self._writer)
        self._waiting, self._rows = [], 0


def check_readable(path: Path, error: Sen2ProError) -> None:
    """Raise if a part could not be read because of the machine: then the part is not to blame, and stays."""
    behind = machine_trouble(error)
    if behind is not None:
        why = first_line(behind) or type(behind).__name__
        raise Sen2ProError(
            f"{path}, a part of the run, cannot be read now: {why}. It is kept; mend that, and the same command goes on"
        ) from None


def pieces_of(path: Path) -> Iterator[Piece]:
    """Yield the rows of a part, which is compared with its digest, and deleted if it is damaged."""
    try:
        yield from stream(path, GROUP)
    except Sen2ProError as error:
        check_readable(path, error)
        path.unlink(missing_ok=True)
        raise Sen2ProError(
            f"a part of the run was damaged on the disk and is deleted; start again to encode it anew ({error})"
        ) from None


def join(units: Iterable[Path], writer: GaussianWriter, advance: Callable[[float], None] = lambda _: None) -> None:
    """Write the rows of all units, in their order; each is compared with its digest, and deleted if it is damaged."""
    groups, rows, empty = Regrouped(writer), 0, None
    for path in units:
        empty = empty or path
        for piece in pieces_of(path):
            groups.add(piece)
            rows += len(piece.gaussian)
            advance(len(piece.gaussian))
    groups.finish()
    if not rows and empty is not None:
        writer.write(read(empty).gaussian)
