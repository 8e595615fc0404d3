"""Open and read text, plain or compressed: one place that says what is wrong with a file of lines."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from sen2pro.errors import Sen2ProError, short_repr

LONGEST_LINE = 10_000_000  # bytes: the default; far beyond any sentence, and far below what would fill the memory
_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes
_COMPRESSED = {".gz": "gzip", ".xz": "xz"}


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


def check_path(path: str | Path) -> Path:
    """Return a path; what is none, or what no file system can have, is refused."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise Sen2ProError(f"give a path, not {short_repr(path)}")
    if "\0" in str(path):
        raise Sen2ProError(f"a path cannot hold a NUL byte: {str(path)!r}")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise Sen2ProError(f"a path cannot hold half a surrogate pair: {str(path)!r}") from None
    if len(encoded) > _LONGEST_PATH or max(map(len, encoded.split(os.fsencode(os.sep)))) > _LONGEST_NAME:
        raise Sen2ProError(f"no file system has names this long: {short_repr(str(path))}")
    return Path(path)


def printable(text: str) -> str:
    r"""Return a text that UTF-8 can hold: the name of a file may have bytes that are none, which become `?`.

    >>> printable("a\udcff.txt")
    'a?.txt'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, with its end, of what `open_binary` gives or standard input.

    Errors call it `name`. A line may have `longest` bytes: a small compressed file can hold one that fills the memory.
    """
    return ((number, decoded(line, name, number)) for number, line in raw_lines(file, name, longest))


def raw_lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line, for `decoded`; arguments as for `lines`."""
    number = 0
    try:
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest and not line.endswith(b"\n"):
                raise Sen2ProError(
                    f"{name}, line {number}: longer than {longest:,} bytes; is this a file of lines? A longer one can "
                    "be allowed: longest_line=..."
                )
            yield number, line
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the archive
            raise
        kind = _COMPRESSED.get(Path(name).suffix.lower(), "compressed")
        raise Sen2ProError(f"{name} is not a whole {kind} file: {error}") from None


def decoded(line: bytes, name: str, number: int) -> str:
    """Return the text of a line in UTF-8; the first one may begin with a byte order mark."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{name}, line {number}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None
