"""Several files of sentences as one: named one by one, by a folder or by a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io.digests import file_digest
from sen2pro.io.gaussians import COLUMNS, outline
from sen2pro.io.rows import Document, DocumentSource
from sen2pro.io.sentences import LARGE, Fault, Record
from sen2pro.io.text import LONGEST_LINE, check_path, printable
from sen2pro.progress import progress

_SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_COMPRESSED = (".gz", ".xz")
_LARGEST = 1 << 63
_TYPES = {bool: "bool", int: "int64", float: "double", str: "string"}


def expand(inputs: str | Path | Sequence[str | Path], output: Path | None = None) -> list[str]:
    """Return the files that are meant: each by its name, all of a folder, or those that fit a pattern, in their order.

    Of a folder, files whose names end in .txt, .csv, .tsv, .jsonl, .ndjson or .parquet are taken, also with .gz or .xz.
    What a run writes, the Gaussians in `output` and its parts, is not meant by a folder or a pattern.

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
        if str(each) == "-" or path.is_file():
            found.append(str(each))
        elif path.is_dir():
            names = sorted(str(file) for file in path.iterdir() if _is_input(file) and not _is_written(file, output))
            if not names:
                raise Sen2ProError(f"there is no file of sentences ({', '.join(_SUFFIXES)}) in the folder {path}")
            found += names
        elif not path.exists() and glob.has_magic(str(each)):
            fitting = filter(os.path.isfile, glob.glob(str(each), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute patterns)
            names = sorted(name for name in fitting if not _is_written(Path(name), output))
            if not names:
                raise Sen2ProError(f"no file fits the pattern {each}")
            found += names
        elif path.exists():
            found.append(str(each))  # a pipe
        else:
            raise Sen2ProError(f"there is no file {each}")
    if "-" in found and len(found) > 1:
        raise Sen2ProError("standard input (-) cannot be read together with other files")
    twice = [name for name in found if found.count(name) > 1] if len(set(found)) < len(found) else []
    if twice:
        raise Sen2ProError(f"{twice[0]} is given twice; give each file once")
    return found


def _is_written(file: Path, output: Path | None) -> bool:
    """Tell whether a file is what a run writes: one of its parts, or its result; not a file that is only called so."""
    if output is None:
        return False
    place = file.resolve()
    if place.is_relative_to(output.with_name(f"{output.name}.parts").resolve()):
        return True
    if place != output.resolve() or output.suffix.lower() != ".parquet":
        return False
    try:
        return bool(outline(output).sizes)
    except Sen2ProError:
        return False


def _is_input(file: Path) -> bool:
    plain = file.with_suffix("") if file.suffix.lower() in _COMPRESSED else file
    return file.is_file() and not file.name.startswith(".") and plain.suffix.lower() in _SUFFIXES


@dataclass(frozen=True)
class InputFile:
    """A file as it was when a run began: bytes and rows, the digest of the bytes, and how they are read."""

    name: str
    bytes: int
    digest: str
    rows: int
    kind: str = "text"


@dataclass
class Inputs:
    r"""The rows of several files, one after the other; arguments as for `Source`, `keep` names columns to keep.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in (("a.txt", "one"), ("b.txt", "two")):
    ...     _ = (folder / name).write_text(f"{text}\n")
    >>> [record.text for _, record in Inputs([str(folder / "a.txt"), str(folder / "b.txt")]).rows()]
    ['one', 'two']
    """

    paths: list[str]
    column: str | None = None
    id_column: str | None = None
    keep: tuple[str, ...] = ()
    skip_blank: bool = False
    longest_line: int = LONGEST_LINE
    sources: list[DocumentSource] = field(init=False)

    def __post_init__(self) -> None:
        """Open nothing yet, but say what cannot be read."""
        for name in self.keep:
            if name in COLUMNS:
                raise Sen2ProError(f"a column {name!r} cannot be kept: the output has one of its own. Rename yours")
        self.sources = [
            DocumentSource(
                path, self.column, self.id_column, self.keep, skip_blank=self.skip_blank, longest_line=self.longest_line
            )
            for path in self.paths
        ]

    @property
    def lasting(self) -> bool:
        """Whether the files can be read again: standard input and pipes cannot."""
        return all(path != "-" and (Path(path).is_file() or not Path(path).exists()) for path in self.paths)

    def state(self) -> list[tuple[int, int]]:
        """Return size and time of change of each file."""
        found = [Path(path).stat() for path in self.paths]
        return [(each.st_size, each.st_mtime_ns) for each in found]

    def kinds(self) -> list[str]:
        """Return how each file is read: the same bytes are other rows as text than as a table."""
        return [source.kind for source in self.sources]

    def digests(self) -> list[str]:
        """Return the digest of each file."""
        return [file_digest(path) for path in self.paths]

    def scan(self, *, skip_faults: bool) -> tuple[list[InputFile], dict[str, str]]:
        """Read all rows once; return what the files hold, and the types of the columns to keep.

        So whatever is wrong is said before the work. A faulty row is an error, or with `skip_faults` counted only.
        """
        files: list[InputFile] = []
        types: dict[str, str] = {}
        sound, first_fault = 0, ""
        show = None if sum(size for size, _ in self.state()) > LARGE else False
        with progress(None, show, unit="rows", title="reading") as advance:
            for path, source in zip(self.paths, self.sources, strict=True):
                total = 0
                for part in source.scan():
                    rows = part if isinstance(part, int) else len(part)
                    for row in () if isinstance(part, int) else part:
                        if not isinstance(row, Fault):
                            self._note_types(path, row, types)
                            continue
                        if not skip_faults:
                            raise Sen2ProError(row.why)
                        first_fault, sound = first_fault or row.why, sound - 1
                    total, sound = total + rows, sound + rows
                    advance(rows)
                name, size = printable(Path(path).name), Path(path).stat().st_size
                files.append(InputFile(name, size, file_digest(path), total, source.kind))
        if first_fault and not sound:
            raise Sen2ProError(f"every row is faulty, the first one so: {first_fault}")
        return files, {name: types.get(name, "string") for name in self.keep}

    def _note_types(self, path: str, row: Record, types: dict[str, str]) -> None:
        for name, value in row.metadata.items() if isinstance(row, Document) else ():
            kind = _TYPES[type(value)]
            before = types.setdefault(name, kind)
            if {before, kind} == {"int64", "double"}:
                types[name] = "double"
            elif before != kind:
                what = f"column {name!r} holds {short_repr(value)} here and a value of type {before} before"
                raise Sen2ProError(f"{path}, {row.place}: {what}; a column to keep has one type in all files")
            if kind == "int64" and not -_LARGEST <= value < _LARGEST:
                raise Sen2ProError(f"{path}, {row.place}: column {name!r} holds a number of more than 64 bits")

    def rows(self, start: int = 0, counts: Sequence[int] = ()) -> Iterator[tuple[str, Record | Fault]]:
        """Yield path and content of each row from row `start` of all on; `counts`, if known, are the rows of each."""
        skipped, sources = 0, list(self.sources)
        for count in counts:
            if skipped + count > start:
                break
            skipped += count
            del sources[0]
        first = start - skipped
        each = (self._of(source, first if source is sources[0] else 0) for source in sources)
        return chain.from_iterable(each)

    def _of(self, source: DocumentSource, start: int) -> Iterator[tuple[str, Record | Fault]]:
        name = "standard input" if source.path == "-" else source.path
        return ((name, row) for row in source.rows(start))

    def options(self) -> Mapping[str, object]:
        """Return what decides which texts are read from the files."""
        return {
            "column": self.column, "id_column": self.id_column, "keep": list(self.keep), "skip_blank": self.skip_blank,
        }  # fmt: skip
