"""Read tables and JSON lines, compressed or not, and say exactly where something is wrong with a file."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sen2pro.errors import Sen2ProError, has_surrogates
from sen2pro.io import bundle
from sen2pro.io.rows import lines as numbered_lines
from sen2pro.io.rows import open_binary


class Row(NamedTuple):
    """The fields of a line, and the place it stands, for errors."""

    place: str
    fields: Mapping[str, Any]

    def wrong(self, column: str, what: str) -> Sen2ProError:
        """Return the error that says where."""
        return Sen2ProError(f"{self.place}, column {column!r}: {what}")

    def get(self, column: str) -> Any:
        """Return a field that must be there."""
        if column not in self.fields:
            raise self.wrong(column, f"is missing; there are {', '.join(self.fields)}")
        return self.fields[column]

    def text(self, column: str, *, blank: bool = False) -> str:
        """Return a field that must be text, blank only where that may be."""
        value = self.get(column)
        if not isinstance(value, str):
            raise self.wrong(column, f"not a text but {reprlib.repr(value)}")
        if not blank and not value.strip():
            raise self.wrong(column, "is blank")
        if "\0" in value or has_surrogates(value):
            raise self.wrong(column, "holds a NUL or half a surrogate pair: not a text")
        return value

    def number(self, column: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a field that must be a finite number from `low` to `high`; of a list, the mean."""
        field, total = self.get(column), 0.0
        values = field if isinstance(field, list) and field else [field]
        for value in values:
            try:
                number = math.nan if isinstance(value, bool) else float(value)
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if not math.isfinite(number):
                raise self.wrong(column, f"{reprlib.repr(value)} is not a number")
            if not low <= number <= high:
                raise self.wrong(column, f"{number:g} is not within {low:g} and {high:g}")
            total += number
        return total / len(values)

    def whole(self, column: str, high: float = math.inf) -> int:
        """Return a field that must be a whole number from 0 to `high`."""
        number = self.number(column, 0, high)
        if number != int(number):
            raise self.wrong(column, f"{number:g} is no whole number")
        return int(number)


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every line of a file, compressed or not."""
    with open_binary(path) as file:
        for number, line in numbered_lines(file, str(path)):
            yield f"{path}, line {number}", line.rstrip("\r\n")


def table(path: Path, *columns: str) -> Iterator[Row]:
    """Yield the rows of a tab separated file whose header must have `columns`."""
    numbered = lines(path)
    place, first = next(numbered, (f"{path}, line 1", ""))
    header = first.split("\t")
    if len(set(header)) < len(header):
        raise Sen2ProError(f"{place}: a column occurs more than once: {', '.join(header)}")
    for column in columns:
        if column not in header:
            raise Sen2ProError(f"{place}: there is no column {column!r}; the header is {reprlib.repr(first)}")
    for place, line in numbered:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise Sen2ProError(f"{place}: {len(fields)} fields, but the header has {len(header)}: {', '.join(header)}")
        yield Row(place, dict(zip(header, fields, strict=True)))


def objects(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines."""
    for place, line in lines(path):
        fields = bundle.parse(line, place)
        if not isinstance(fields, dict):
            raise Sen2ProError(f"{place}: not a JSON object")
        yield Row(place, fields)
