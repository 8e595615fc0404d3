"""Write a file or a folder whole or not at all: to `.NAME.PID-NUMBER.partial` beside it, which is renamed at the end.

An error deletes that. A killed process cannot; the next one that writes to the same target deletes what it left.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from sen2pro.errors import Sen2ProError
from sen2pro.files.text import check_path

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted, so that no lock is needed
    fcntl = None  # type: ignore[assignment]

_NUMBERS = count()  # threads of one process may write to the same target
_OURS: set[str] = set()  # temporary names that this process has in use
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN)
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give the temporary name of a file; when the block ends without an error, it is renamed to `path`.

    Files whose names go on from the temporary one are deleted.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('all of it', 1)
    """
    path = check_path(path)
    with _temporary(path, folder=False) as temporary:
        yield temporary
        _to_disk(temporary)
        temporary.replace(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file whole or not at all; the folder is made if it is not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder, renamed to `path` at the end; `path` must not exist, or be empty."""
    path = check_path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Sen2ProError(f"{path} is not an empty folder; name a new one")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(path, folder=True) as temporary:
        yield temporary
        mode = temporary.stat().st_mode & 0o666
        for file in temporary.rglob("*"):  # safetensors writes for the owner alone
            if file.is_file():
                file.chmod(mode)
                _to_disk(file)
        if path.exists():
            path.rmdir()
        temporary.rename(path)


@contextmanager
def _temporary(path: Path, *, folder: bool) -> Iterator[Path]:
    """Give a temporary name that this process holds, and delete all that is left of it in the end."""
    with _named(path):
        remove_abandoned(path)
        with _own_name(path) as temporary:
            try:  # Ctrl-C may come at any moment from here on
                _delete(temporary)
                temporary.mkdir() if folder else temporary.touch()
                with locked(temporary):
                    yield temporary
            finally:
                _delete(temporary)


@contextmanager
def _own_name(path: Path) -> Iterator[Path]:
    """Give a temporary name, and know it for one in use while the block lasts."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_NUMBERS)}.partial")
    _OURS.add(temporary.name)
    try:
        yield temporary
    finally:
        _OURS.discard(temporary.name)


@contextmanager
def abandoning(path: str | Path) -> Iterator[None]:
    """Give a file or folder a temporary name at once, and delete it when the block ends.

    An error in between gives the name back. A killed process leaves the temporary name, which `remove_abandoned` knows.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "old"
    >>> folder.mkdir()
    >>> with abandoning(folder):
    ...     folder.exists()
    False
    """
    path = Path(path)
    with _own_name(path) as temporary:
        path.rename(temporary)
        try:
            yield
        except BaseException:
            if not path.exists():
                temporary.rename(path)
            raise
        _delete(temporary)


def remove_abandoned(path: str | Path) -> None:
    """Delete the temporary files of `path` whose process is gone.

    In a container every process may have the same id. So a file with our own id is ours only if we know its name.
    """
    path = Path(path)
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,10}})(-\d+)?\.partial")
    for place in list(path.parent.iterdir()) if path.parent.is_dir() else ():
        match = pattern.fullmatch(place.name)
        if not match:
            continue
        own = int(match[1]) == os.getpid()
        if place.name not in _OURS if own else not _is_alive(int(match[1])):
            with locked(place) as free:
                if free:
                    _delete(place)


def _to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _delete(temporary: Path) -> None:
    """Delete a temporary file or folder, and the files whose names go on from its own."""
    others = [place for place in temporary.parent.iterdir() if place.name.startswith(f"{temporary.name}.")]
    for place in (temporary, *others):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            with suppress(OSError):
                place.unlink(missing_ok=True)


@contextmanager
def locked(place: Path, *, strict: bool = False) -> Iterator[bool]:
    """Lock a file or folder, and tell whether we have it: process ids mean nothing on another machine.

    We do not if another process has it, if it is gone, or on a file system without locks. With `strict`, all but the
    first is an error.
    """
    file, free = None, False
    try:
        try:
            if fcntl is not None:
                file = os.open(place, os.O_RDONLY)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:
            if strict and error.errno not in _BUSY:
                raise OSError(error.errno, f"cannot be locked: {error.strerror}", str(place)) from error
        yield free
    finally:
        if file is not None:
            os.close(file)


def _is_alive(process: int) -> bool:
    """Tell whether a process of this machine runs; on Windows, deleting what a living one has open fails anyway."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except (OverflowError, OSError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give an error of the disk, a full one for instance, the name of the file that was to be written."""
    try:
        yield
    except OSError as error:
        about_us = ".partial" in str(error.filename) or (error.filename is None and error.errno in FULL_DISK)
        if about_us and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
