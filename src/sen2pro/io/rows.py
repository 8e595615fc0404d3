"""Read files row by row: text, CSV, TSV, JSONL and Parquet, plain or compressed, with the exact place of a fault."""

from __future__ import annotations

import csv
import gzip
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import xxhash

from sen2pro.errors import Sen2ProError, first_line
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

LONGEST_LINE = 10_000_000  # bytes: the default; far beyond any sentence, and far below what would fill the memory
KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}  # others are text
_COMPRESSED = {".gz": "gzip", ".xz": "xz"}
_BATCH = 4096  # rows of a Parquet file that are decoded at once

Choose = Callable[[list[str], bool], Sequence[str]]
"""Takes the names of the columns, and whether they are those of one row alone; returns the columns to read."""


Values = list[Any]
"""Values of a row or of a column."""
Lines = Iterator[tuple[int, bytes]]
"""Number and bytes of each line."""


class Row(NamedTuple):
    """The values of the chosen columns, in their order, and the place of the row in the file."""

    place: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Fault:
    """A row that cannot be used: its place in the file, and the reason."""

    place: str
    why: str


Rows = Iterator[Row | Fault]


def file_digest(path: str | Path) -> str:
    """Return the digest of the content of a file; that of a compressed file is of the unpacked bytes."""
    digest = xxhash.xxh3_128()
    with open_binary(path) as file, _whole_archive(str(path)):
        while block := file.read(1 << 20):
            digest.update(block)
    return named_digest(digest)


def named_digest(digest: xxhash.xxh3_128) -> str:
    """Return a digest as files keep it.

    >>> named_digest(xxhash.xxh3_128())
    'xxh3-128:99aa06d3014798d86001c324468d497f'
    """
    return f"xxh3-128:{digest.hexdigest()}"


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the kind of a file, before that of its compression.

    >>> suffix_of(Path("a.CSV.gz"))
    '.csv'
    """
    return (path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path).suffix.lower()


def kind_of(path: str | Path) -> str:
    """Return how a file is read: csv, tsv, jsonl, parquet or text; a file that cannot be read is an error."""
    place = check_path(path)
    if str(path) != "-" and place.is_dir():
        raise Sen2ProError(f"{path} is a folder; give a file")
    if str(path) != "-" and not place.exists():
        raise Sen2ProError(f"there is no file {path}")
    if suffix_of(place) == ".json":
        raise Sen2ProError(f"{path}: JSON is read as JSONL, one object per line, from files that end in .jsonl")
    return KINDS.get(suffix_of(place), "text")


def shown_name(path: str | Path) -> str:
    """Return a file as messages name it."""
    return "standard input" if str(path) == "-" else str(path)


def printable(text: str) -> str:
    r"""Return a text that UTF-8 can hold: the name of a file may have bytes that are none, which become `?`.

    >>> printable("a\udcff.txt")
    'a?.txt'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def read_rows(
    path: str | Path, choose: Choose, *, start: int = 0, longest_line: int = LONGEST_LINE,
    digest: xxhash.xxh3_128 | None = None,
) -> Rows:  # fmt: skip
    r"""Yield the rows of a file, or of standard input (`-`), from row `start` on (the first is 0).

    The suffix tells the kind; any other file is text, of which each line is a row of one value. A fault of one row is a
    `Fault`, and the next row follows. A fault of the whole file is an error. `digest` is given the content of the file
    while it is read (see `file_digest`); of a Parquet file it is given nothing.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cities.csv"
    >>> _ = path.write_text("city,country\nOslo,Norway\nRome\n")
    >>> for row in read_rows(path, lambda names, of_row: ["country"]):
    ...     print(row.place, row.values if isinstance(row, Row) else row.why.rpartition(": ")[2])
    line 2 ['Norway']
    line 3 1 field, but the header has 2
    """
    kind, name = kind_of(path), shown_name(path)
    if kind == "parquet":
        yield from _parquet_rows(path, choose, start, longest_line)
        return
    csv.field_size_limit(longest_line)
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else open_binary(path) as file:
        found = raw_lines(file, name, longest_line, digest)
        yield from islice(_READERS[kind](found, name, choose), start, None)


def _line_rows(found: Lines, name: str, choose: Choose, values: Callable[[str, str, Choose], Values]) -> Rows:
    """Yield the rows of a file in which each line is a row, and no line can spoil another one."""
    for number, line in found:
        place = f"line {number}"
        try:
            yield Row(place, values(_decoded(line, name, number), f"{name}, {place}", choose))
        except Sen2ProError as error:
            yield Fault(place, str(error))


def _text(text: str, place: str, choose: Choose) -> Values:
    return [text.rstrip("\r\n")]


def _object(text: str, place: str, choose: Choose) -> Values:
    """Return the chosen values of a line of JSONL."""
    row = bundle.parse(text, place)
    if not isinstance(row, dict):
        raise Sen2ProError(f"{place}: not a JSON object")
    return [row.get(column) for column in _chosen(choose, list(row), place, of_row=True)]


def _chosen(choose: Choose, names: list[str], place: str, *, of_row: bool = False) -> Sequence[str]:
    try:
        return choose(names, of_row)
    except Sen2ProError as error:
        raise Sen2ProError(f"{place}: {error}") from None


def _table_rows(found: Lines, name: str, choose: Choose, delimiter: str) -> Rows:
    """Yield the rows of a CSV or TSV file."""
    texts = (_decoded(line, name, number) for number, line in found)
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    first = 1  # line of the row: fields may hold line ends
    try:
        header = next(reader, None)
        if header is None:
            return
        if not header:
            raise Sen2ProError(f"{name}, line 1: the line is empty, but it must name the columns")
        _check_unique(header, name)
        if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
            why = f"one column named {header[0]!r}; columns are separated by commas (.tsv: tabs)"
            raise Sen2ProError(f"{name}, line 1: {why}")
        columns = [header.index(column) for column in _chosen(choose, header, name)]
        first = reader.line_num + 1
        for row in reader:
            if len(row) == len(header):
                yield Row(f"line {first}", [row[column] for column in columns])
            else:
                fields = f"{len(row)} field{'s' * (len(row) != 1)}, but the header has {len(header)}"
                yield Fault(f"line {first}", f"{name}, line {first}: {fields}")
            first = reader.line_num + 1
    except csv.Error as error:
        why = f"{error}; a field with a quote in it is written in quotes, with that one doubled"
        raise Sen2ProError(f"{name}, line {first}: {why}") from None


# A new kind of file needs its suffixes in KINDS, and a function here.
_READERS: dict[str, Callable[[Lines, str, Choose], Rows]] = {
    "text": partial(_line_rows, values=_text),
    "jsonl": partial(_line_rows, values=_object),
    "csv": partial(_table_rows, delimiter=","),
    "tsv": partial(_table_rows, delimiter="\t"),
}


def _check_unique(names: Sequence[str], place: str) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise Sen2ProError(f"{place}: the column {repeated[0]!r} occurs more than once")


def open_binary(path: str | Path) -> IO[bytes]:
    """Open a file that is gzipped, xz-compressed or plain, by its suffix."""
    path = Path(path)
    kind = _COMPRESSED.get(path.suffix.lower())
    if kind and path.is_file() and not path.stat().st_size:  # Python's gzip takes it for an archive of nothing
        raise Sen2ProError(f"{path} is not a whole {kind} file: it is empty")
    if kind == "gzip":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if kind == "xz":  # by default it would also take the old .lzma format, which has no checksum
        return cast("IO[bytes]", lzma.open(path, "rb", format=lzma.FORMAT_XZ))
    return path.open("rb")


def lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, with its end, of a file that `open_binary` gives; errors call it `name`.

    A line may have `longest` bytes: a small compressed file can hold one that fills the memory.
    """
    return ((number, _decoded(line, name, number)) for number, line in raw_lines(file, name, longest))


def raw_lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE, digest: xxhash.xxh3_128 | None = None) -> Lines:
    """Yield number and bytes of each line; arguments as for `lines`."""
    number = 0
    with _whole_archive(name):
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest and not line.endswith(b"\n"):
                raise Sen2ProError(
                    f"{name}, line {number}: longer than {longest:,} bytes; is this a file of lines? Allow longer ones "
                    "with longest_line=..."
                )
            if digest is not None:
                digest.update(line)
            yield number, line


@contextmanager
def _whole_archive(name: str) -> Iterator[None]:
    """Turn the errors of damaged compressed data into one that names the file."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the archive
            raise
        kind = _COMPRESSED.get(Path(name).suffix.lower(), "compressed")
        raise Sen2ProError(f"{name} is not a whole {kind} file: {error}") from None


def _decoded(line: bytes, name: str, number: int) -> str:
    """Return the text of a line in UTF-8; the first one may begin with a byte order mark."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{name}, line {number}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None


@contextmanager
def open_parquet(path: str | Path, **options: object) -> Iterator[pq.ParquetFile]:
    """Give a `pyarrow.parquet.ParquetFile` that checks the checksum of each page; whatever is wrong is one error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True, **options) as file:
            yield file
    except Sen2ProError:
        raise
    except FileNotFoundError:
        raise Sen2ProError(f"there is no file {path}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise Sen2ProError(f"{path} is not a whole Parquet file: {first_line(error)}") from None


def parquet_batches(
    file: pq.ParquetFile, size: int, columns: list[str] | None = None, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an opened file in batches of at most `size` rows, from the group of rows `first` on.

    pyarrow keeps all that it has read of the groups it was asked for, so it is asked for one group at a time.
    """
    for group in range(first, file.num_row_groups):
        yield from file.iter_batches(batch_size=size, row_groups=[group], columns=columns)


def column_values(column: pa.Array) -> Values:
    """Return the values of a column; where a dictionary holds them, equal ones are one object."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values, indices = column.dictionary.to_pylist(), column.indices.to_pylist()
    if any(index is not None and not 0 <= index < len(values) for index in indices):
        raise pa.ArrowInvalid("texts are missing")
    return [None if index is None else values[index] for index in indices]


def machine_trouble(error: BaseException) -> BaseException | None:
    """Return the fault of the machine behind an error: no memory, or a disk that fails; None for a damaged file.

    >>> try:
    ...     with open_parquet("no-such-file.parquet"):
    ...         pass
    ... except Sen2ProError as error:
    ...     print(machine_trouble(error))
    None
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, MemoryError):
            return behind
        # pyarrow also raises an OSError, without a number, for a file whose end makes no sense.
        if isinstance(behind, OSError) and behind.errno is not None and not isinstance(behind, FileNotFoundError):
            return behind
        behind = behind.__cause__ or behind.__context__
    return None


def _parquet_rows(path: str | Path, choose: Choose, start: int, longest_text: int) -> Rows:
    """Yield the rows of a Parquet file; groups of rows before `start` are not read."""
    import pyarrow as pa

    with open_parquet(path) as file:
        schema = file.schema_arrow
        columns = _chosen(choose, schema.names, str(path))
        distinct = list(dict.fromkeys(columns))
        _check_unique([name for name in schema.names if name in distinct], str(path))
        for name in distinct:
            if pa.types.is_nested(schema.field(name).type):
                raise Sen2ProError(f"{path}: the column {name!r} holds {schema.field(name).type}, not single values")
    with open_parquet(path, read_dictionary=distinct) as file:  # texts that repeat are decoded once
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        group = done = 0
        while group < len(sizes) and done + sizes[group] <= start:
            group, done = group + 1, done + sizes[group]
        for batch in parquet_batches(file, _BATCH, distinct, group):
            rest = batch.slice(max(0, min(len(batch), start - done)))
            done += len(batch)
            yield from _batch_rows(f"{path}", done - len(rest) + 1, rest, columns, longest_text)


def _batch_rows(path: str, first: int, batch: pa.RecordBatch, columns: Sequence[str], longest_text: int) -> Rows:
    """Yield the rows of a batch, the first of which has the number `first`."""
    faults: dict[int, str] = {}
    values = {}
    for name in dict.fromkeys(columns) if len(batch) else ():
        _check_texts(f"{path}, rows {first} to {first + len(batch) - 1}", batch.column(name), longest_text)
        values[name] = _readable(batch.column(name), faults)
    for number, row in enumerate(zip(*(values[name] for name in columns), strict=True) if values else ()):
        place = f"row {first + number}"
        yield Fault(place, f"{path}, {place}: {faults[number]}") if number in faults else Row(place, row)


def _check_texts(place: str, values: pa.Array, longest: int) -> None:
    """Refuse texts that are too long, and references of a damaged file to texts that it does not have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        bounds, values = pc.min_max(values.indices).as_py(), values.dictionary
        if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(values):
            raise Sen2ProError(f"{place}: this is not a whole Parquet file: texts are missing")
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if is_text and (pc.max(pc.binary_length(values)).as_py() or 0) > longest:
        raise Sen2ProError(f"{place}: a text is longer than {longest:,} bytes")


def _readable(column: pa.Array, faults: dict[int, str]) -> Values:
    """Return the values of a column; note the rows whose value cannot be read."""
    import pyarrow as pa

    try:
        return column_values(column)
    except (UnicodeDecodeError, pa.ArrowException, OverflowError, ValueError):
        found: Values = [None] * len(column)
    for row in range(len(column)):
        try:
            found[row] = column[row].as_py()
        except UnicodeDecodeError as error:
            faults[row] = f"not UTF-8 (byte {error.start + 1}: {error.reason})"
        except (pa.ArrowException, OverflowError, ValueError) as error:  # a date of the year 100,000, for instance
            faults[row] = f"a value that cannot be read: {error}"
    return found
