"""Read what the library works on: sentences, pairs and labelled sentences, from one file or from several as one."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import xxhash

from sen2pro.errors import Sen2ProError, has_surrogates, one_of, short_repr
from sen2pro.io.atomic import check_path
from sen2pro.io.rows import (
    KINDS,
    LONGEST_LINE,
    Choose,
    Fault,
    Row,
    file_digest,
    kind_of,
    named_digest,
    printable,
    read_rows,
    shown_name,
    suffix_of,
)
from sen2pro.io.shards import COLUMNS, outline
from sen2pro.progress import progress
from sen2pro.validation import check_whole, is_blank

_LARGE = 20 << 20  # bytes of a file that takes a while to read
_LONGEST_LINE = (1 << 31) - 1  # what Python's csv can be told
_USUAL_COLUMNS = ("text", "sentence")
_TRUTH = {"true": 1.0, "false": 0.0}
_SUFFIXES = (".txt", *KINDS)
_TYPES = {bool: "bool", int: "int64", float: "double", str: "string"}
_BLANK = "the sentence is empty or blank (skip_blank=True passes over it)"


@dataclass(frozen=True)
class Record:
    """A sentence, its id if one was asked for, its place in the file, and the columns that were kept."""

    id: str | None
    text: str
    place: str = field(default="", compare=False)
    metadata: dict[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair(Record):
    """Two sentences (`text` is the first), and their label; without one it is NaN."""

    second: str = ""
    label: float = math.nan


@dataclass(frozen=True)
class Labelled(Record):
    """A sentence and its class: a text, or a whole number."""

    label: str | int = ""


R = TypeVar("R", bound=Record)


class Reader(Generic[R]):
    r"""The records of a file, or of standard input (`-`); they are read again each time that they are asked for.

    `make` turns a row into a record, or raises the reason why it cannot.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.txt"
    >>> _ = path.write_text("It rains.\nThe sun shines.\n")
    >>> reader = sentences(path)
    >>> reader.count(), [record.text for record in reader]
    (2, ['It rains.', 'The sun shines.'])
    """

    def __init__(self, path: str | Path, choose: Choose, make: Callable[[Row], R], longest_line: int) -> None:
        self.path, self._choose, self._make = str(path), choose, make
        self.longest_line = check_whole("longest_line", longest_line, 1, _LONGEST_LINE)
        self.kind = kind_of(path)

    @property
    def name(self) -> str:
        """The file as messages name it."""
        return shown_name(self.path)

    def rows(self, start: int = 0, digest: xxhash.xxh3_128 | None = None) -> Iterator[R | Fault]:
        """Yield the record of each row, even of a blank one, from row `start` on; see `read_rows`."""
        for row in read_rows(self.path, self._choose, start=start, longest_line=self.longest_line, digest=digest):
            if isinstance(row, Fault):
                yield row
                continue
            try:
                yield self._make(row)
            except Sen2ProError as error:
                yield Fault(row.place, f"{self.name}, {row.place}: {error}")

    def __iter__(self) -> Iterator[R]:
        """Yield the records that are not blank; a fault is an error."""
        for row in self.rows():
            if isinstance(row, Fault):
                raise Sen2ProError(row.why)
            if not is_blank(row.text):
                yield row

    def chunks(self, size: int) -> Iterator[list[R]]:
        """Yield the records in lists of at most `size`."""
        records = iter(self)
        while chunk := list(islice(records, size)):
            yield chunk

    def count(self) -> int | None:
        """Read the whole file once, so that errors come before the work; None for what can be read only once."""
        if self.path == "-" or not Path(self.path).is_file():
            return None
        slow = self.kind == "parquet" or Path(self.path).stat().st_size > _LARGE
        total = 0
        with progress(None, None if slow else False, unit="rows", title="reading") as advance:
            for chunk in self.chunks(4096):
                total += len(chunk)
                advance(len(chunk))
        return total


def sentences(
    path: str | Path, column: str | None = None, id_column: str | None = None, keep: Sequence[str] = (), *,
    skip_blank: bool = False, longest_line: int = LONGEST_LINE, blank: str = _BLANK,
) -> Reader[Record]:  # fmt: skip
    """Return a reader of sentences.

    They are in `column`, by default `text`, `sentence` or the only column; ids are in `id_column`; `keep` names columns
    of metadata. A blank sentence is the error `blank`, or is passed over (`skip_blank`). A line, or a field of a table,
    may have `longest_line` bytes.
    """
    if column or id_column or keep:
        _check_columns(path)

    def choose(names: list[str], of_row: bool) -> list[str]:
        for asked in keep if not of_row else ():
            one_of("metadata column", asked, names)
        ids = [] if id_column is None else [_asked("id_column", id_column, names, of_row)]
        return [_text_column(column, names, of_row), *ids, *keep]

    def make(row: Row) -> Record:
        text, *more = row.values
        id = None if id_column is None else _id(more.pop(0), id_column)
        kept = {name: value for name, value in zip(keep, more, strict=True) if value is not None}
        for name, value in kept.items():
            if not isinstance(value, (str, int, float, bool)):
                raise Sen2ProError(
                    f"column {name!r} holds {short_repr(value)}; metadata must be a text, number or boolean"
                )
        return Record(id, _sentence(text, None if skip_blank else blank), row.place, kept)

    return Reader(path, choose, make, longest_line)


def pairs(path: str | Path, *, with_labels: bool = False, longest_line: int = LONGEST_LINE) -> Reader[Pair]:
    """Return a reader of pairs, in the columns `first`, `second` and, if asked for, `label`: a number or a boolean."""
    wanted = ["first", "second", *(["label"] if with_labels else [])]
    if kind_of(path) == "text":
        raise Sen2ProError(
            f"{path} is read as plain text; pairs are in the columns {', '.join(wanted)} of a .csv, .tsv, .jsonl or "
            ".parquet file"
        )

    def choose(names: list[str], of_row: bool) -> list[str]:
        missing = [name for name in wanted if name not in names]
        if missing:
            found = f"there is no column {missing[0]!r}, only: {', '.join(names) or 'nothing'}"
            raise Sen2ProError(f"{found}; pairs are in the columns {', '.join(wanted)}")
        return wanted

    def make(row: Row) -> Pair:
        blank = "a sentence of the pair is empty or blank; leave the row out"
        first, second = (_sentence(text, blank) for text in row.values[:2])
        label = _grade(row.values[2]) if with_labels else math.nan
        return Pair(None, first, row.place, second=second, label=label)

    return Reader(path, choose, make, longest_line)


def labelled(
    path: str | Path, column: str | None, label_column: str, *, longest_line: int = LONGEST_LINE
) -> Reader[Labelled]:
    """Return a reader of sentences and their classes: texts, or in JSONL and Parquet whole numbers; all of one type."""
    _check_columns(path)
    first: list[Labelled] = []

    def choose(names: list[str], of_row: bool) -> list[str]:
        label = _asked("label_column", label_column, names, of_row)
        return [_text_column(column, names, of_row), label]

    def make(row: Row) -> Labelled:
        label = _class(row.values[1], label_column)
        if first and type(label) is not type(first[0].label):
            both = f"{label!r} here, {first[0].label!r} on {first[0].place}"
            raise Sen2ProError(f"labels of mixed types: {both}; turn all into texts or all into whole numbers")
        text = _sentence(row.values[0], "the sentence is empty or blank; leave the row out")
        found = Labelled(None, text, row.place, label=label)
        first[:] = first or [found]
        return found

    return Reader(path, choose, make, longest_line)


def _check_columns(path: str | Path) -> None:
    if kind_of(path) == "text":
        raise Sen2ProError(f"{path} is read as plain text, one sentence per line, and has no columns")


def _asked(option: str, asked: str, names: list[str], of_row: bool) -> str:
    """Return the column that was asked for."""
    if asked not in names and of_row:
        raise Sen2ProError(f"this row has no {asked!r}, only: {', '.join(names) or 'nothing'}")
    return one_of(option, asked, names)


def _text_column(asked: str | None, names: list[str], of_row: bool) -> str:
    """Return the column that holds the sentences."""
    if asked is not None:
        return _asked("column", asked, names, of_row)
    usual = [name for name in _USUAL_COLUMNS if name in names] or (names if len(names) == 1 else [])
    if not usual:
        raise Sen2ProError(f"which column holds the sentences? column=... is one of: {', '.join(names)}")
    return usual[0]


def _sentence(text: object, blank: str | None) -> str:
    """Return a sentence; a blank one is the error `blank`, if there is one."""
    if not isinstance(text, str):
        raise Sen2ProError(f"the sentence is not a text but {short_repr(text)}")
    if blank and is_blank(text):
        raise Sen2ProError(blank)
    if "\0" in text:
        raise Sen2ProError("a NUL byte: is this a text file?")
    if has_surrogates(text):
        raise Sen2ProError("the sentence holds half a surrogate pair, which is not Unicode text")
    return text


def _id(value: object, column: str) -> str:
    if value is None:
        raise Sen2ProError(f"there is no id in column {column!r}")
    try:
        id = str(value)
    except ValueError:  # a whole number of thousands of digits
        raise Sen2ProError(f"column {column!r} holds a number that is too long to be an id") from None
    if "\0" in id or has_surrogates(id):
        raise Sen2ProError(f"column {column!r} holds a NUL or half a surrogate pair: not a text")
    return id


def _class(value: object, column: str) -> str | int:
    label = value.strip() if isinstance(value, str) else value
    if label is None or label == "":
        raise Sen2ProError(f"there is no label in column {column!r}; leave the row out")
    if not isinstance(label, (str, int)) or (isinstance(label, int) and abs(label) >= 1 << 63):
        raise Sen2ProError(f"the label is neither a text nor a whole number of 64 bits but {short_repr(label)}")
    _id(label, column)
    return label


def _grade(given: Any) -> float:
    text = str(given).strip().lower() if isinstance(given, (str, bool)) else given
    try:
        label = _TRUTH[text] if text in _TRUTH else float(text)
    except (TypeError, ValueError, OverflowError):
        label = math.nan
    if not math.isfinite(label):
        what = f"the label is {short_repr(given)}" if given not in (None, "") else "there is no label"
        raise Sen2ProError(f"{what}; it is 1 for a match and 0 for none, or a grade")
    return label


def expand(inputs: str | Path | Sequence[str | Path], output: Path | None = None) -> list[str]:
    """Return the files that are meant, in their order: each by its name, all of a folder, or those that fit a pattern.

    Of a folder, files whose names end in .txt, .csv, .tsv, .jsonl, .ndjson or .parquet are taken, also with .gz or .xz.
    A folder or a pattern does not mean the files that a run writes: the Gaussians in `output` and its parts.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("b.txt", "a.csv.gz", "notes.md"):
    ...     (folder / name).touch()
    >>> [Path(path).name for path in expand(folder)]
    ['a.csv.gz', 'b.txt']
    >>> [Path(path).name for path in expand(f"{folder}/*.txt")]
    ['b.txt']
    """
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if not given:
        raise Sen2ProError("give at least one file of sentences")
    found: list[str] = []
    for each in given:
        path = check_path(each)
        if str(each) != "-" and path.is_dir():
            files = (file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            fitting = [str(file) for file in files if suffix_of(file) in _SUFFIXES]
            nothing = f"there is no file of sentences ({', '.join(_SUFFIXES)}) in the folder {path}"
        elif str(each) == "-" or path.exists():  # or a pipe
            found.append(str(each))
            continue
        elif glob.has_magic(str(each)):
            fitting = list(filter(os.path.isfile, glob.glob(str(each), recursive=True)))  # noqa: PTH207 (Path.glob refuses absolute patterns)
            nothing = f"no file fits the pattern {each}"
        else:
            raise Sen2ProError(f"there is no file {each}")
        names = sorted(name for name in fitting if not _is_written(Path(name), output))
        if not names:
            raise Sen2ProError(nothing)
        found += names
    if "-" in found and len(found) > 1:
        raise Sen2ProError("standard input (-) cannot be read together with other files")
    twice = [name for name in found if found.count(name) > 1] if len(set(found)) < len(found) else []
    if twice:
        raise Sen2ProError(f"{twice[0]} is given twice; give each file once")
    return found


def _is_written(file: Path, output: Path | None) -> bool:
    """Tell whether a run writes this file: one of its parts, or its result; another file of that name is not meant."""
    if output is None:
        return False
    if file.resolve().is_relative_to(output.with_name(f"{output.name}.parts").resolve()):
        return True
    with suppress(Sen2ProError):
        return file.resolve() == output.resolve() and outline(output).rows >= 0
    return False


@dataclass(frozen=True)
class InputFile:
    """A file as it was when a run began: bytes and rows, the digest of the content, and how it is read.

    The same content has other rows as text than as a table.
    """

    name: str
    bytes: int
    digest: str
    rows: int
    kind: str = "text"


class Inputs:
    r"""The rows of several files, one after the other; arguments as for `sentences`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in (("a.txt", "one"), ("b.txt", "two")):
    ...     _ = (folder / name).write_text(f"{text}\n")
    >>> [record.text for _, record in Inputs([str(folder / "a.txt"), str(folder / "b.txt")]).rows()]
    ['one', 'two']
    """

    def __init__(
        self, paths: list[str], column: str | None = None, id_column: str | None = None, keep: Sequence[str] = (),
        skip_blank: bool = False, longest_line: int = LONGEST_LINE,
    ) -> None:  # fmt: skip
        self.paths, self.keep = paths, list(dict.fromkeys(keep))
        for name in self.keep:
            if name in COLUMNS:
                raise Sen2ProError(f"a column {name!r} cannot be kept: the output has one. Rename yours")
        self.options: dict[str, object] = {
            "column": column, "id_column": id_column, "keep": self.keep, "skip_blank": skip_blank,
        }  # fmt: skip
        """What decides which texts are read from the files."""
        self.readers = [
            sentences(path, column, id_column, self.keep, skip_blank=skip_blank, longest_line=longest_line)
            for path in paths
        ]

    @property
    def lasting(self) -> bool:
        """Whether the files can be read again: standard input and pipes cannot."""
        return all(path != "-" and (Path(path).is_file() or not Path(path).exists()) for path in self.paths)

    def state(self) -> list[tuple[int, int]]:
        """Return size and time of change of each file."""
        found = [Path(path).stat() for path in self.paths]
        return [(each.st_size, each.st_mtime_ns) for each in found]

    def scan(self, *, skip_faults: bool) -> tuple[list[InputFile], dict[str, str]]:
        """Read all rows once; return what the files hold, and the types of the columns to keep.

        So errors come before the work. A faulty row is an error; with `skip_faults` it is only counted.
        """
        files: list[InputFile] = []
        types: dict[str, str] = {}
        sound, first_fault = 0, ""
        show = None if sum(size for size, _ in self.state()) > _LARGE else False
        with progress(None, show, unit="rows", title="reading") as advance:
            for path, reader in zip(self.paths, self.readers, strict=True):
                total, digest = 0, xxhash.xxh3_128()
                for row in reader.rows(digest=digest):
                    if not isinstance(row, Fault):
                        sound += 1
                        _note_types(path, row, types)
                    elif not skip_faults:
                        raise Sen2ProError(row.why)
                    else:
                        first_fault = first_fault or row.why
                    total += 1
                    if total % 4096 == 0:
                        advance(4096)
                advance(total % 4096)
                name, size = printable(Path(path).name), Path(path).stat().st_size
                content = file_digest(path) if reader.kind == "parquet" else named_digest(digest)
                files.append(InputFile(name, size, content, total, reader.kind))
        if first_fault and not sound:
            raise Sen2ProError(f"every row is faulty, the first one so: {first_fault}")
        return files, {name: types.get(name, "string") for name in self.keep}

    def rows(self, start: int = 0, counts: Sequence[int] = ()) -> Iterator[tuple[str, Record | Fault]]:
        """Yield path and content of each row from row `start` of all on; `counts`, if known, are the rows of each."""
        readers = list(self.readers)
        for count in counts:
            if count > start:
                break
            start -= count
            del readers[0]
        for reader in readers:
            yield from ((reader.name, row) for row in reader.rows(start))
            start = 0


def _note_types(path: str, row: Record, types: dict[str, str]) -> None:
    """Add the types of the kept columns of a row; a column that has two of them is an error."""
    for name, value in row.metadata.items():
        kind = _TYPES[type(value)]
        before = types.setdefault(name, kind)
        if {before, kind} == {"int64", "double"}:
            types[name] = "double"
        elif before != kind:
            what = f"column {name!r} holds {short_repr(value)} here and a value of type {before} before"
            raise Sen2ProError(f"{path}, {row.place}: {what}; a column to keep has one type in all files")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise Sen2ProError(f"{path}, {row.place}: column {name!r} holds a number of more than 64 bits")
