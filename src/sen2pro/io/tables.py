"""Write a table row by row as CSV, TSV or JSONL; it appears under its name when it is complete."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sen2pro.errors import one_of
from sen2pro.io.atomic import replacing

SUFFIXES = (".csv", ".tsv", ".jsonl")


@contextmanager
def new_table(
    path: str | Path, columns: Mapping[str, int | None], *, overwrite: bool = True
) -> Iterator[Callable[[Mapping[str, object]], object]]:
    r"""Give a function that writes one row; `columns` says how many decimals a number gets (None: as it is).

    CSV and TSV have a header and these columns; None is an empty field, a boolean `yes` or `no`. JSONL keeps everything
    that is in a row.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> with new_table(path, {"text": None, "score": 2, "keep": None}) as write:
    ...     _ = write({"text": "It rains.", "score": 0.5, "keep": True})
    >>> path.read_text()
    'text,score,keep\nIt rains.,0.50,yes\n'
    """
    path = Path(path)
    suffix = one_of("file suffix", path.suffix.lower(), SUFFIXES)
    with replacing(path, overwrite=overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":

            def write(row: Mapping[str, object]) -> None:
                cells = {name: _rounded(value, columns.get(name)) for name, value in row.items()}
                file.write(json.dumps(cells, ensure_ascii=False) + "\n")

            yield write
            return
        table = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        table.writerow(columns)
        yield lambda row: table.writerow([_cell(row.get(name), digits) for name, digits in columns.items()])


def _rounded(value: object, digits: int | None) -> object:
    return round(value, digits) if digits is not None and isinstance(value, float) else value


def _cell(value: object, digits: int | None) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{digits}f}" if digits is not None and isinstance(value, float) else value
