"""What a case is, how it is run, and what may come of it."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from test_arguments import has_nan

from sen2pro import Sen2ProError, Sen2ProWarning

FINE, CLEAR, TRACEBACK, NAN, WRONG, PARTIAL = "fine", "clear errors", "tracebacks", "NaN", "wrong", "partial"
OUTCOMES = (FINE, CLEAR, TRACEBACK, NAN, WRONG, PARTIAL)
SECONDS = 20  # a case that takes longer hangs


@dataclass(frozen=True)
class Case:
    """The bytes of a file, if there is one, and all else that `Family.run` needs to know."""

    data: bytes = b""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of a case; `where` is the same for failures of the same cause."""

    kind: str
    message: str = ""
    where: str = ""

    @property
    def failed(self) -> bool:
        """Whether this must not happen."""
        return self.kind not in (FINE, CLEAR)


class Wrong(Exception):
    """A result that differs from the file or the argument, without a warning."""


class TookTooLong(BaseException):
    """A case that hangs; no `except Exception` may catch it."""


class Family:
    """A kind of cases. `weight` says how many of all cases are of this family."""

    name: str
    weight: int
    errors: tuple[type[Exception], ...] = (Sen2ProError,)  # that are clear

    def make(self, rng: random.Random) -> Case:
        """Return a case: the same for the same state of `rng`."""
        raise NotImplementedError

    def run(self, case: Case, folder: Path) -> Any:
        """Do what a user would do, in an empty folder; return what must not hold NaN, raise `Wrong` for wrong ones."""
        raise NotImplementedError


def make(family: Family, seed: int, number: int) -> Case:
    """Return a case by its number."""
    return family.make(random.Random(f"{seed} {family.name} {number}"))


def attempt(family: Family, case: Case) -> Outcome:
    """Run a case in a new folder, and judge the result."""
    folder = Path(tempfile.mkdtemp(prefix="sen2pro-fuzz-"))
    try:
        outcome = _judged(family, case, folder)
        left = [path.name for path in folder.rglob("*") if ".partial" in path.name]
        if left and not outcome.failed:
            return Outcome(PARTIAL, f"left {left[0]}", "partial")
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judged(family: Family, case: Case, folder: Path) -> Outcome:
    try:
        with _limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = family.run(case, folder)
    except Wrong as error:
        return Outcome(WRONG, str(error), str(error)[:20])
    except TookTooLong:
        return Outcome(TRACEBACK, f"took more than {SECONDS} seconds", "hang")
    except (*family.errors, typer.BadParameter) as error:
        return Outcome(CLEAR) if _is_clear(str(error)) else Outcome(TRACEBACK, f"unclear: {error!r}", "unclear")
    except (Exception, SystemExit) as error:
        return _traceback(error)
    return Outcome(NAN, "a result holds NaN", "NaN") if has_nan(found) else Outcome(FINE)


def _is_clear(message: str) -> bool:
    return 10 < len(message) < 5000


def _traceback(error: BaseException) -> Outcome:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
    first = (str(error).splitlines() or [""])[0]
    return Outcome(TRACEBACK, f"{where}: {first[:300]}", where)


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def told() -> Iterator[list[str]]:
    """Gather what the library warns of: a result that comes with a warning is not wrong silently."""
    gathered: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Sen2ProWarning)
        yield gathered
    gathered += [str(each.message) for each in caught if isinstance(each.message, Sen2ProWarning)]
