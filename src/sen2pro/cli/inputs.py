"""Read sentences from a file, one at a time, and say exactly where something is wrong."""

from __future__ import annotations

import csv
import gzip
import json
import reprlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from sen2pro.errors import Sen2ProError, has_surrogates, one_of

_USUAL_COLUMNS = ("text", "sentence")


@dataclass(frozen=True)
class Record:
    """A sentence, its id if one was asked for, and where it stands in the file."""

    id: str | None
    text: str
    place: str = field(default="", compare=False)


class Source:
    """The sentences of a text, CSV, TSV, JSONL or Parquet file (also gzipped), or of standard input (`-`).

    Parameters
    ----------
    path
        Text files hold a sentence a line; the other kinds go by their suffix. A field of a CSV or TSV file may stand in
        quotes, with those inside it doubled, as Python's csv and pandas write it.
    column
        Which column holds the sentences; by default `text`, `sentence`, or the only one there is.
    id_column
        Which column holds ids to keep.
    skip_blank
        Pass over blank sentences instead of stopping at them.
    """

    _id_option = "--id-column"

    def __init__(
        self, path: str, column: str | None = None, id_column: str | None = None, *, skip_blank: bool = False
    ) -> None:
        self.path, self.column, self.id_column, self.skip_blank = path, column, id_column, skip_blank
        suffixes = [s.lower() for s in Path(path).suffixes]
        self.gzipped = suffixes[-1:] == [".gz"]
        suffix = (suffixes[:-1] if self.gzipped else suffixes)[-1:]
        kinds = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
        self.kind = kinds.get("".join(suffix), "text")
        if path != "-":
            if Path(path).is_dir():
                raise Sen2ProError(f"{path} is a folder; give a file")
            if not Path(path).exists():
                raise Sen2ProError(f"there is no file {path}")
            if suffix == [".json"]:
                raise Sen2ProError(f"{path}: JSON is read as JSONL, an object a line, from files that end in .jsonl")
        if self.kind == "text" and (column or id_column):
            raise Sen2ProError(f"{path} is read as plain text, a sentence a line, and has no columns")

    def count(self) -> int | None:
        """Read the whole file once, so that errors are said before the work; None for what can be read but once."""
        return sum(1 for _ in self) if self.path != "-" and Path(self.path).is_file() else None

    def chunks(self, size: int) -> Iterator[list[Record]]:
        """Yield the records in lists of at most `size`."""
        records = iter(self)
        while chunk := list(islice(records, size)):
            yield chunk

    def __iter__(self) -> Iterator[Record]:
        return (record for record in self._records() if record.text.strip())

    def _records(self) -> Iterator[Record]:
        if self.kind == "parquet":
            yield from self._parquet()
            return
        with self._open() as file:
            if self.kind == "text":
                for number, line in self._lines(file):
                    yield self._record(f"line {number}", line.rstrip("\r\n"), None)
            else:
                for number, row in self._jsonl(file) if self.kind == "jsonl" else self._table(file):
                    yield self._from_row(f"line {number}", row)

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            return sys.stdin.buffer
        return cast("IO[bytes]", gzip.open(self.path, "rb")) if self.gzipped else Path(self.path).open("rb")

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[int, str]]:
        try:
            for number, line in enumerate(file, 1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise self._wrong(f"line {number}", f"not UTF-8 (byte {error.start + 1}: {error.reason})") from None
        except (gzip.BadGzipFile, EOFError) as error:
            raise Sen2ProError(f"{self.path} is not a whole gzip file: {error}") from None

    def _jsonl(self, file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in self._lines(file):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise self._wrong(f"line {number}", f"not JSON ({error})") from None
            if not isinstance(row, dict):
                raise self._wrong(f"line {number}", "not a JSON object")
            yield number, row

    def _table(self, file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        csv.field_size_limit(1 << 30)
        lines = (line for _, line in self._lines(file))
        reader = csv.reader(lines, delimiter="\t" if self.kind == "tsv" else ",", strict=True)
        first = 1  # line of the row: fields may hold line ends
        try:
            header = next(reader, [])
            self._check_header(header)
            first = reader.line_num + 1
            for row in reader:
                if len(row) != len(header):
                    fields = f"{len(row)} field{'s' * (len(row) != 1)}"
                    raise self._wrong(f"line {first}", f"{fields}, but the header has {len(header)}")
                yield first, dict(zip(header, row, strict=True))
                first = reader.line_num + 1
        except csv.Error as error:
            raise self._wrong(
                f"line {first}", f"{error}; a field with a quote in it is written in quotes, with that one doubled"
            ) from None

    def _check_header(self, header: list[str]) -> None:
        repeated = [name for name, times in Counter(header).items() if times > 1]
        if repeated:
            raise self._wrong("line 1", f"the column {repeated[0]!r} stands there more than once")
        if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
            raise self._wrong(
                "line 1", f"one column named {header[0]!r}; columns are separated by commas (or .tsv tabs)"
            )
        if header:
            self._column(header)

    def _parquet(self) -> Iterator[Record]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
                columns = [self._column(file.schema_arrow.names), *([self.id_column] if self.id_column else [])]
                number = 0
                for batch in file.iter_batches(batch_size=4096, columns=columns):
                    for row in batch.to_pylist():
                        number += 1
                        yield self._from_row(f"row {number}", row)
        except (pa.ArrowInvalid, OSError) as error:
            raise Sen2ProError(f"{self.path} is not a whole Parquet file: {error}") from None

    def _column(self, names: list[str], place: str = "") -> str:
        """Return which of the columns holds the sentences; a row that has its own names says its place."""
        for option, asked in ((self._id_option, self.id_column), ("--column", self.column)):
            if asked is not None and asked not in names:
                if place:
                    raise self._wrong(place, f"this row has no {asked!r}, only: {', '.join(names) or 'nothing'}")
                one_of(f"{option} in {self.path}", asked, names)
        if self.column is not None:
            return self.column
        usual = [name for name in _USUAL_COLUMNS if name in names] or (names if len(names) == 1 else [])
        if not usual:
            raise self._wrong(place, f"which column holds the sentences? --column one of: {', '.join(names)}")
        return usual[0]

    def _from_row(self, place: str, row: dict[str, Any]) -> Record:
        column = self._column(list(row), place)
        if self.id_column is None:
            return self._record(place, row[column], None)
        if row[self.id_column] is None:
            raise self._wrong(place, f"there is no id in column {self.id_column!r}")
        return self._record(place, row[column], str(row[self.id_column]))

    def _record(self, place: str, text: Any, id: str | None) -> Record:
        if not isinstance(text, str):
            raise self._wrong(place, f"the sentence is not a text but {reprlib.repr(text)}")
        if not text.strip() and not self.skip_blank:
            raise self._wrong(place, "the sentence is empty or blank (--skip-blank passes over it)")
        if "\0" in text:
            raise self._wrong(place, "a NUL byte: is this a text file?")
        if has_surrogates(text):
            raise self._wrong(place, "the sentence holds half a surrogate pair, which is not Unicode text")
        return Record(id, text, place)

    def _wrong(self, place: str, what: str) -> Sen2ProError:
        where = "standard input" if self.path == "-" else self.path
        return Sen2ProError(f"{where}, {place}: {what}" if place else f"{where}: {what}")
