"""Write a file or a folder whole or not at all: to `.NAME.PID-RANDOM.partial` beside it, which is renamed at the end.

An error deletes that. A killed process cannot; the next one that writes to the same target deletes what it left.
Several processes may write to one target: each has another temporary name, and the last one to end wins.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from sen2pro.errors import Sen2ProError, short_repr

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted, so that no lock is needed
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
WAIT = 120.0  # seconds that a save waits for those of other processes; a save needs the folder for milliseconds
_PAUSE = 0.01  # seconds between two attempts
_OURS: set[str] = set()  # temporary names that this process has in use
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_PARTIAL = re.compile(r"\..*\.\d{1,10}(-\w+)?\.partial(\..*)?")
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes


def check_path(path: str | Path) -> Path:
    """Return a path; a value that is not a path, or that no file system can have, is an error."""
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


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Give the temporary name of a file; when the block ends without an error, it is renamed to `path`.

    Files whose names begin with the temporary one are deleted. Without `overwrite`, a file that is there by then stays,
    and an error says so.

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
        if overwrite:
            temporary.replace(path)
        else:
            _rename_to_new(temporary, path)


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Give a file its name, but to no other file's cost; the temporary name may stay."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno in _NO_LINKS and not path.exists():  # a file system without hard links
            temporary.replace(path)
        elif path.exists():
            raise Sen2ProError(f"{path} was written by another process meanwhile; give another name") from None
        else:
            raise


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file whole or not at all; the folder is made if it is not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def check_new_folder(path: str | Path) -> Path:
    """Return the path of a folder to make; a file, or a folder that is not empty, is an error."""
    path = check_path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Sen2ProError(f"{path} is not an empty folder; name a new one")
    return path


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder, renamed to `path` at the end; `path` must not exist, or be empty."""
    path = check_new_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(path, folder=True) as temporary:
        yield temporary
        _settle(temporary)
        try:
            with suppress(FileNotFoundError):
                path.rmdir()
            temporary.rename(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise Sen2ProError(f"{path} was written by another process meanwhile; name a new one") from None


@contextmanager
def replacing_folder(
    folder: str | Path, last: str, parts: re.Pattern[str] | None = None, check: Callable[[], None] = lambda: None
) -> Iterator[Path]:
    """Give a temporary folder; at the end, its files are moved into `folder`, which may hold files of an earlier save.

    The file `last` is moved after all others. Then files of the earlier save are deleted: those whose names match
    `parts`. If `last` names the others, and different contents have different names (let a name hold a digest), a
    process that is killed leaves the old content whole, or the new one; read such a folder by `read_unchanged`. Read
    one whose names are fixed while it is `settled`.

    Saves take turns: a second process waits for the first. `check` raises if the folder may not be written. It is
    called at the start, and again when it is our turn.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for text in ("old", "new"):
    ...     with replacing_folder(folder, "list", re.compile("part-.*")) as temporary:
    ...         _ = (temporary / f"part-{text}").write_text(text)
    ...         _ = (temporary / "list").write_text(f"part-{text}")
    >>> sorted(place.name for place in folder.iterdir())
    ['list', 'part-new']
    """
    folder = check_path(folder)
    check()
    folder.mkdir(parents=True, exist_ok=True)
    with _temporary(folder / last, folder=True) as temporary:
        yield temporary
        _settle(temporary)
        with settled(folder):
            check()
            before = [place for place in folder.iterdir() if parts and parts.fullmatch(place.name)]
            new = sorted((place.name for place in temporary.iterdir()), key=lambda name: (name == last, name))
            for name in new:
                (temporary / name).replace(folder / name)
            for place in before:
                if place.name not in new:
                    place.unlink(missing_ok=True)


def read_unchanged(path: Path, read: Callable[[], T]) -> T:
    """Return what `read` reads of a file, or of a folder whose file `path` names the others.

    If that fails and another process has replaced the file meanwhile, the new one is read.
    """
    until = time.monotonic() + WAIT
    while True:
        before = _state(path)
        try:
            return read()
        except (Sen2ProError, OSError):
            if _state(path) == before or time.monotonic() > until:
                raise


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def settled(folder: str | Path, *, shared: bool = False) -> Iterator[None]:
    """Wait for the saves of others into a folder to end (unless `shared`, for its readers too), and hold off new ones.

    The lock ends with the process, so a killed process blocks no other. A file system without locks is not locked.
    """
    file = None
    if fcntl is not None and Path(folder).name not in _OURS:  # no other process writes into a temporary folder of ours
        with suppress(OSError):
            file = os.open(folder, os.O_RDONLY)
    if file is None:
        yield
        return
    try:
        _wait_for(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, folder)
        yield
    finally:
        os.close(file)


def _wait_for(file: int, kind: int, folder: str | Path) -> None:
    until = time.monotonic() + WAIT
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                return
        else:
            return
        if time.monotonic() > until:
            raise Sen2ProError(
                f"another process has been saving to {folder} or reading it for {WAIT:g} seconds; wait for it or end "
                "it, then try again"
            )
        time.sleep(_PAUSE)


def is_temporary(name: str) -> bool:
    """Tell whether this is the name of a file or folder that a save is writing, or left when it was killed."""
    return bool(_PARTIAL.fullmatch(name))


def _settle(temporary: Path) -> None:
    """Make all files of a folder safe, and as readable as the folder."""
    mode = temporary.stat().st_mode & 0o666
    for file in temporary.rglob("*"):  # safetensors writes for the owner alone
        if file.is_file():
            file.chmod(mode)
            _to_disk(file)


@contextmanager
def _temporary(path: Path, *, folder: bool) -> Iterator[Path]:
    """Give a temporary name that this process holds, and delete all that is left of it in the end."""
    with _named(path):
        remove_abandoned(path)
        with _own_name(path) as temporary:
            try:  # Ctrl-C may come at any moment from here on
                temporary.mkdir() if folder else temporary.touch()
                with locked(temporary):
                    yield temporary
            finally:
                _delete(temporary)


@contextmanager
def _own_name(path: Path) -> Iterator[Path]:
    """Give a temporary name, and know it for one in use while the block lasts."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
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
    with _own_name(path) as temporary, locked(path):
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
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,10}})(-\w+)?\.partial")
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
    """Delete a temporary file or folder, and the files whose names begin with its name."""
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

    We do not if another process has it, if it is gone or has another name now, or on a file system without locks. With
    `strict`, the last is an error.
    """
    file, free = None, False
    try:
        try:
            if fcntl is not None:
                file = os.open(place, os.O_RDONLY)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = file is None or os.path.samestat(os.fstat(file), place.stat())
        except OSError as error:
            if strict and error.errno not in (*_BUSY, errno.ENOENT):
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
