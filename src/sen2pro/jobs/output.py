"""The output of a run: what may not stand in its place, and whether it is there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io import shards
from sen2pro.io.gaussians import GaussianWriter, Piece, outline, read, stream
from sen2pro.jobs.joining import GROUP
from sen2pro.jobs.units import NOTE, Report


def check_output(output: Path, kind: str, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Say what is wrong with an output before the work; `kind` is that of the plan."""
    if kind != "shards":
        GaussianWriter(output, overwrite=overwrite)
        check_no_input(output, inputs)
        return
    check_parent(output)
    if not output.exists():
        return
    if output.is_dir() and not any(output.iterdir()):
        output.rmdir()
    elif not output.is_dir() or not shards.is_folder(output):
        raise Sen2ProError(f"{output} is not a folder of shards; name a new one")
    elif not overwrite:
        raise Sen2ProError(f"{output} exists; pass overwrite=True to replace it")
    else:
        _check_replaceable(output, inputs)


def check_parent(output: Path) -> None:
    """Refuse an output in a folder that is not there."""
    if not output.absolute().parent.is_dir():
        raise Sen2ProError(f"there is no folder {output.parent}")


def check_no_input(output: Path, inputs: Sequence[str]) -> None:
    """Refuse an output that is one of the files to be read."""
    if output.exists() and any(_same(output, path) for path in inputs):
        raise Sen2ProError(f"{output} is a file to be read; give another name for the output")


def _same(output: Path, path: str) -> bool:
    return path != "-" and Path(path).exists() and output.samefile(path)


def _check_replaceable(output: Path, inputs: Sequence[str]) -> None:
    """Refuse to replace a folder that holds what is to be read, or what no run has written."""
    inside = [path for path in inputs if Path(path).resolve().is_relative_to(output.resolve())]
    if inside:
        raise Sen2ProError(f"{inside[0]} is to be read and lies in {output}; give another name for the output")
    foreign = shards.foreign(output)
    if foreign:
        raise Sen2ProError(
            f"{output} also holds {short_repr(foreign[0])}, which is not of a folder of shards, so it is not "
            "replaced; move that away, or name a new folder"
        )


def holds(output: Path, units: Sequence[Path], report: Report) -> bool:
    """Tell whether a file is what these units become: a run may be killed between writing it and deleting them."""
    try:
        if output.suffix.lower() == ".parquet":
            skipped = {NOTE: report.to_json()} if report.skipped_rows else {}
            if {name: text for name, text in outline(output).metadata.items() if name == NOTE} != skipped:
                return False
            pieces = stream(output, GROUP)
        else:
            stored = read(output)
            pieces = iter([Piece(stored.gaussian, None, None, {}, {})])
        full = [unit for unit in units if outline(unit).rows] or units[:1]
        theirs = (piece for unit in full for piece in stream(unit, GROUP))
        keep_all = output.suffix.lower() == ".parquet"
        pairs = zip(_rows(pieces, keep_all), _rows(theirs, keep_all), strict=True)
        return all(mine == other for mine, other in pairs)
    except (Sen2ProError, ValueError):
        return False


def _rows(pieces: Iterator[Piece], keep_all: bool) -> Iterator[tuple[object, ...]]:
    """Yield all that is kept of each row: with ids, texts, totals and columns, or the Gaussian alone."""
    for piece in pieces:
        gaussian = piece.gaussian
        about = (
            gaussian.signature,
            tuple(piece.totals),
            tuple((name, each.type) for name, each in piece.columns.items()),
        )
        for row in range(len(gaussian)):
            numbers = [gaussian.mean[row].tobytes(), gaussian.variance[row].tobytes()]
            if gaussian.coverage is not None:
                numbers.append(gaussian.coverage[row].tobytes())
            if not keep_all:
                yield gaussian.signature, *numbers
                continue
            numbers += [each[row].tobytes() for each in piece.totals.values()]
            kept = [each[row].as_py() for each in piece.columns.values()]
            yield (
                about, *numbers, piece.ids and piece.ids[row], piece.texts and piece.texts[row], *kept,
            )  # fmt: skip
