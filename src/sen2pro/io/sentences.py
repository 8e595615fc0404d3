"""Read sentences from a file, one at a time, and say exactly where something is wrong."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sen2pro.errors import Sen2ProError, has_surrogates, one_of, short_repr
from sen2pro.io import documents, parquet, text
from sen2pro.progress import progress
from sen2pro.validation import check_whole, is_blank

LARGE = 20 << 20  # bytes of a file that takes a while to read
_LONGEST_LINE = (1 << 31) - 1  # what Python's csv can be told
_USUAL_COLUMNS = ("text", "sentence")
_KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}  # others are text


@dataclass(frozen=True)
class Record:
    """A sentence, its id if one was asked for, and where it stands in the file."""

    id: str | None
    text: str
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class Fault:
    """A row that is no sentence: where it stands in the file, and what is wrong with it."""

    place: str
    why: str


class Source:
    """The sentences of a text, CSV, TSV, JSONL or Parquet file (also .gz and .xz), or of standard input (`-`).

    The kind goes by the suffix; all others are text, a sentence a line. Sentences stand in `column`, by default `text`,
    `sentence` or the only one; ids to keep in `id_column`. Blank sentences are an error, or passed over (`skip_blank`).
    A line, or a field of a table, may have `longest_line` bytes.
    """

    _id_option = "id_column"
    _blank = "the sentence is empty or blank (skip_blank=True passes over it)"

    def __init__(
        self, path: str, column: str | None = None, id_column: str | None = None, *, skip_blank: bool = False,
        longest_line: int = text.LONGEST_LINE,
    ) -> None:  # fmt: skip
        self.path, self.column, self.id_column, self.skip_blank = path, column, id_column, skip_blank
        self.longest_line = check_whole("longest_line", longest_line, 1, _LONGEST_LINE)
        place = text.check_path(path)
        suffix = (place.with_suffix("") if place.suffix.lower() in (".gz", ".xz") else place).suffix.lower()
        self.kind = _KINDS.get(suffix, "text")
        if path != "-" and place.is_dir():
            raise Sen2ProError(f"{path} is a folder; give a file")
        if path != "-" and not place.exists():
            raise Sen2ProError(f"there is no file {path}")
        if suffix == ".json":
            raise Sen2ProError(f"{path}: JSON is read as JSONL, an object a line, from files that end in .jsonl")
        if self.kind == "text" and (column or id_column):
            raise Sen2ProError(f"{path} is read as plain text, a sentence a line, and has no columns")

    def count(self) -> int | None:
        """Read the whole file once, so that errors are said before the work; None for what can be read but once."""
        if self.path == "-" or not Path(self.path).is_file():
            return None
        slow = self.kind == "parquet" or Path(self.path).stat().st_size > LARGE
        total = 0
        with progress(None, None if slow else False, unit="rows", title="reading") as advance:
            for rows in self._counted():
                total += rows
                advance(rows)
        return total

    def _counted(self) -> Iterator[int]:
        """Yield how many sentences there are, a part of the file at a time."""
        if self.kind != "parquet":
            yield from map(len, self.chunks(4096))
            return
        for first, batch in self._batches():
            plain = self._is_plain(batch)
            yield len(batch) if plain else sum(not is_blank(_sound(row).text) for row in self._of(first, batch))

    def scan(self) -> Iterator[int | list[Record | Fault]]:
        """Yield all rows, some at a time, or their number where all of them are sentences and nothing else is kept."""
        if self.kind != "parquet":
            rows = self.rows()
            while chunk := list(islice(rows, 4096)):
                yield chunk
            return
        for first, batch in self._batches():
            yield len(batch) if self._is_plain(batch) else list(self._of(first, batch))

    def chunks(self, size: int) -> Iterator[list[Record]]:
        """Yield the records in lists of at most `size`."""
        records = iter(self)
        while chunk := list(islice(records, size)):
            yield chunk

    def __iter__(self) -> Iterator[Record]:
        return (record for record in self._records() if not is_blank(record.text))

    def _records(self) -> Iterator[Record]:
        return map(_sound, self.rows())

    def rows(self, start: int = 0) -> Iterator[Record | Fault]:
        """Yield what stands in each row, also in blank ones, from row `start` on (the first is 0).

        What is wrong with one row is a `Fault`, and the next row follows. What is wrong with the file is an error.
        """
        if self.kind == "parquet":
            for first, batch in self._batches(start):
                yield from self._of(first, batch)
            return
        with self._opened() as file:
            if self.kind in ("csv", "tsv"):
                lines = text.lines(file, self._name, self.longest_line)
                table = self._table(line for _, line in lines)
                for number, row in islice(table, start, None):
                    yield row if isinstance(row, Fault) else self._tried(f"line {number}", self._from_row, row)
                return
            for number, line in islice(text.raw_lines(file, self._name, self.longest_line), start, None):
                yield self._tried(f"line {number}", self._from_line, (number, line))

    def _opened(self) -> IO[bytes]:
        return sys.stdin.buffer if self.path == "-" else text.open_binary(self.path)

    def _tried(self, place: str, make: Callable[[str, Any], Record], given: Any) -> Record | Fault:
        try:
            return make(place, given)
        except Sen2ProError as error:
            return Fault(place, str(error))

    def _from_line(self, place: str, given: tuple[int, bytes]) -> Record:
        line = text.decoded(given[1], self._name, given[0])
        if self.kind == "text":
            return self._record(place, line.rstrip("\r\n"), None)
        row = documents.parse(line, f"{self._name}, {place}")
        if not isinstance(row, dict):
            raise self._wrong(place, "not a JSON object")
        return self._from_row(place, row)

    @property
    def _name(self) -> str:
        return "standard input" if self.path == "-" else self.path

    def _table(self, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
        csv.field_size_limit(self.longest_line)
        reader = csv.reader(lines, delimiter="\t" if self.kind == "tsv" else ",", strict=True)
        first = 1  # line of the row: fields may hold line ends
        try:
            header = next(reader, [])
            repeated = [name for name, times in Counter(header).items() if times > 1]
            if repeated:
                raise self._wrong("line 1", f"the column {repeated[0]!r} stands there more than once")
            if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
                raise self._wrong(
                    "line 1", f"one column named {header[0]!r}; columns are separated by commas (.tsv: tabs)"
                )
            if header:
                self._column(header)
            first = reader.line_num + 1
            for row in reader:
                if len(row) == len(header):
                    yield first, dict(zip(header, row, strict=True))
                else:
                    fields = f"{len(row)} field{'s' * (len(row) != 1)}"
                    wrong = self._wrong(f"line {first}", f"{fields}, but the header has {len(header)}")
                    yield first, Fault(f"line {first}", str(wrong))
                first = reader.line_num + 1
        except csv.Error as error:
            why = f"{error}; a field with a quote in it is written in quotes, with that one doubled"
            raise self._wrong(f"line {first}", why) from None

    def _batches(self, start: int = 0) -> Iterator[tuple[int, Any]]:
        """Yield batches of the wanted columns, equal texts kept once, each with the number of its first row, from 1.

        Rows before `start` are left out; their row groups are not read.
        """
        import pyarrow as pa

        with parquet.opened(self.path) as file:
            schema = file.schema_arrow
            columns = self._columns(schema.names)
            for name in columns:
                if schema.names.count(name) > 1:
                    raise self._wrong("", f"the column {name!r} stands there more than once")
                kind = schema.field(name).type
                if pa.types.is_nested(kind):
                    raise self._wrong("", f"the column {name!r} holds {kind}, not a single value a row")
        with parquet.opened(self.path, read_dictionary=columns) as file:
            group, first = 0, 1
            while (
                start
                and group < file.num_row_groups
                and first + (n := file.metadata.row_group(group).num_rows) <= start
            ):
                group, first = group + 1, first + n
            for batch in parquet.batches(file, 4096, columns, first=group):
                passed = max(0, min(len(batch), start + 1 - first))
                rest = batch.slice(passed) if passed else batch
                for name in columns if len(rest) else ():
                    self._check_texts(first + passed, rest, name)
                if len(rest):
                    yield first + passed, rest
                first += len(batch)

    def _check_texts(self, first: int, batch: Any, column: str) -> None:
        """Refuse texts that are too long, and those of a spoiled file that stand nowhere."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows, values = f"rows {first} to {first + len(batch) - 1}", batch.column(column)
        if pa.types.is_dictionary(values.type):
            bounds, values = pc.min_max(values.indices).as_py(), values.dictionary
            if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(values):
                raise self._wrong(rows, "this is not a whole Parquet file: texts are missing")
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            longest = pc.max(pc.binary_length(values)).as_py() or 0
            if longest > self.longest_line:
                raise self._wrong(rows, f"a text is longer than {self.longest_line:,} bytes")

    def _of(self, first: int, batch: Any) -> Iterator[Record | Fault]:
        for number in range(len(batch)):
            yield self._tried(f"row {first + number}", self._from_batch, (batch, number))

    def _from_batch(self, place: str, given: tuple[Any, int]) -> Record:
        import pyarrow as pa

        batch, number = given
        try:
            row = {name: batch.column(name)[number].as_py() for name in batch.schema.names}
        except UnicodeDecodeError as error:
            raise self._wrong(place, f"not UTF-8 (byte {error.start + 1}: {error.reason})") from None
        except (pa.ArrowException, OverflowError, ValueError) as error:  # a date of the year 100,000, for instance
            raise self._wrong(place, f"a value that cannot be read: {error}") from None
        return self._from_row(place, row)

    def _is_plain(self, batch: Any) -> bool:
        """Tell whether all rows are sentences and nothing else, by a look at each text that differs from the others."""
        column = batch.column(0)
        values = getattr(column, "dictionary", None)
        alone = self.id_column is None and len(batch.columns) == 1
        if not alone or values is None or len(values) > len(column) or column.null_count:
            return False
        try:
            return not any(is_blank(self._record("", each, None).text) for each in values.to_pylist())
        except (Sen2ProError, UnicodeDecodeError):
            return False

    def _columns(self, names: list[str]) -> list[str]:
        """Return the columns to read."""
        return [name for name in (self._column(names), self.id_column) if name is not None]

    def _column(self, names: list[str], place: str = "") -> str:
        """Return which of the columns holds the sentences; a row that has its own names says its place."""
        for option, asked in ((self._id_option, self.id_column), ("column", self.column)):
            if asked is not None and asked not in names:
                if place:
                    raise self._wrong(place, f"this row has no {asked!r}, only: {', '.join(names) or 'nothing'}")
                one_of(f"{option} in {self.path}", asked, names)
        if self.column is not None:
            return self.column
        usual = [name for name in _USUAL_COLUMNS if name in names] or (names if len(names) == 1 else [])
        if not usual:
            raise self._wrong(place, f"which column holds the sentences? column=... is one of: {', '.join(names)}")
        return usual[0]

    def _from_row(self, place: str, row: dict[str, Any]) -> Record:
        sentence = row[self._column(list(row), place)]
        if self.id_column is None:
            return self._record(place, sentence, None)
        if row[self.id_column] is None:
            raise self._wrong(place, f"there is no id in column {self.id_column!r}")
        try:
            id = str(row[self.id_column])
        except ValueError:  # a whole number of thousands of digits
            raise self._wrong(place, f"column {self.id_column!r} holds a number that is too long to be an id") from None
        if "\0" in id or has_surrogates(id):
            raise self._wrong(place, f"column {self.id_column!r} holds a NUL or half a surrogate pair: not a text")
        return self._record(place, sentence, id)

    def _record(self, place: str, text: Any, id: str | None) -> Record:
        if not isinstance(text, str):
            raise self._wrong(place, f"the sentence is not a text but {short_repr(text)}")
        if is_blank(text) and not self.skip_blank:
            raise self._wrong(place, self._blank)
        if "\0" in text:
            raise self._wrong(place, "a NUL byte: is this a text file?")
        if has_surrogates(text):
            raise self._wrong(place, "the sentence holds half a surrogate pair, which is not Unicode text")
        return Record(id, text, place)

    def _wrong(self, place: str, what: str) -> Sen2ProError:
        return Sen2ProError(f"{self._name}, {place}: {what}" if place else f"{self._name}: {what}")


class UploadedSource(Source):
    r"""The sentences of a file that somebody sent: its bytes are here, and nothing is read from the disk.

    Its name says its kind: CSV, TSV, JSONL, else text. `kind` says it where there is no name.

    >>> [record.text for record in UploadedSource("a.csv", b"text,page\nIt rains.,3\n")]
    ['It rains.']
    """

    def __init__(
        self, name: str, content: bytes, *, kind: str | None = None, id_column: str | None = None,
        skip_blank: bool = False,
    ) -> None:  # fmt: skip
        self.path, self.column, self.id_column, self.skip_blank = name, None, id_column, skip_blank
        self.longest_line = text.LONGEST_LINE
        self.kind = kind or _KINDS.get(Path(name).suffix.lower(), "text")
        self._content = content
        if self.kind == "parquet":
            raise Sen2ProError(f"{name}: send text, CSV, TSV or JSONL; Parquet is read from the disk only")

    def _opened(self) -> IO[bytes]:
        return BytesIO(self._content)


def _sound(row: Record | Fault) -> Record:
    """Return a row that is a sentence; a fault is raised."""
    if isinstance(row, Fault):
        raise Sen2ProError(row.why)
    return row
