"""What a family of cases is, how its cases are run, and what may come of them."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import typer
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy
from test_arguments import has_nan

from sen2pro import Sen2ProError, Sen2ProWarning

FINE, CLEAR, TRACEBACK, NAN, WRONG, PARTIAL = "fine", "clear errors", "tracebacks", "NaN", "wrong", "partial"
OUTCOMES = (FINE, CLEAR, TRACEBACK, NAN, WRONG, PARTIAL)
SECONDS = 60  # a case that takes longer hangs, on a busy machine too
CHUNK = 1000  # cases that share a process
MOST_MEMORY = 12 << 30  # bytes of addresses of a process


class Case(SimpleNamespace):
    """What a strategy gives: the bytes of a file, names, options. Long ones are printed in short."""

    def __repr__(self) -> str:
        try:
            text = super().__repr__()
        except Exception:  # an object whose repr raises is one of the arguments tried
            text = f"Case of {sorted(vars(self))}"
        return text if len(text) <= 600 else f"{text[:600]}... ({len(text)} letters)"


@dataclass(frozen=True)
class Family:
    """A kind of cases; `weight` says how many of all cases are of it.

    `check` does with a case what a user would do, in an empty folder. It returns what must not hold NaN, and raises
    `Wrong` for a wrong result. `errors` are those that a user may see.
    """

    name: str
    weight: int
    cases: SearchStrategy[Any]
    check: Callable[[Any, Path], Any]
    errors: tuple[type[Exception], ...] = (Sen2ProError, typer.BadParameter)


class Wrong(Exception):
    """A result that differs from the file or the argument, without a warning."""

    kind = WRONG


class HasNaN(Exception):
    """A result with a NaN."""

    kind = NAN


class Partial(Exception):
    """A temporary file that was left."""

    kind = PARTIAL


class TookTooLong(BaseException):
    """A case that hangs; no `except Exception` may catch it."""


def judge(family: Family, case: Any, folder: Path) -> str:
    """Run a case; return whether the result is fine or a clear error, and raise for any other."""
    try:
        with _limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, outcome = family.check(case, folder), FINE
    except family.errors as error:
        if not 10 < len(str(error)) < 5000:
            raise AssertionError(f"an unclear message: {error!r}") from None
        found, outcome = None, CLEAR
    except TookTooLong:
        raise AssertionError(f"took more than {SECONDS} seconds") from None
    except SystemExit as error:
        raise AssertionError(f"exit {error.code}") from None
    if has_nan(found):
        raise HasNaN("a result holds NaN")
    left = [path.name for path in folder.rglob("*") if ".partial" in path.name]
    if left:
        raise Partial(f"left {left[0]}")
    return outcome


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


def explore(family: Family, cases: int, seed: int, trace: Path | None = None) -> tuple[Counter[str], list[str]]:
    """Try cases of a family; return how many came to which end, and each failure with its smallest case.

    A case is written to `trace` before it runs, so that it is known if it ends the process.
    """
    counts: Counter[str] = Counter()
    failed = False

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False,
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @hypothesis.given(family.cases)
    def attempt(case: Any) -> None:
        nonlocal failed
        if trace is not None:
            trace.write_text(repr(case), errors="backslashreplace")
        with tempfile.TemporaryDirectory(prefix="sen2pro-fuzz-", ignore_cleanup_errors=True) as folder:
            try:
                outcome = judge(family, case, Path(folder))
            except BaseException:
                failed = True
                raise
        if not failed:  # the cases after a failure are those that make it smaller
            counts[outcome] += 1

    try:
        attempt()
    except Exception as error:
        found = [_described(each) for each in getattr(error, "exceptions", (error,))]
        counts.update(kind for kind, _ in found)
        return counts, [f"{family.name}: {kind}: {message}" for kind, message in found]
    return counts, []


def _described(error: BaseException) -> tuple[str, str]:
    """Return the kind of a failure, and where it happened with the case that hypothesis found for it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first = (str(error).splitlines() or [""])[0][:300]
    message = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}: {first}"
    return getattr(error, "kind", TRACEBACK), "\n  ".join([message, *getattr(error, "__notes__", ())])


def families() -> dict[str, Family]:
    """Return all families, by name."""
    from fuzz import arguments, calls, inputs, saved

    every = (*inputs.FAMILIES, *saved.FAMILIES, *arguments.FAMILIES, *calls.FAMILIES)
    return {family.name: family for family in every}


def shares(total: int, known: dict[str, Family]) -> dict[str, int]:
    """Share cases among families by their weights; each gets one at least."""
    whole = sum(family.weight for family in known.values())
    return {name: max(1, round(total * family.weight / whole)) for name, family in known.items()}


def elsewhere(family: Family, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Try cases in processes of their own; one that dies is a failure like any other."""
    context = multiprocessing.get_context("fork")  # what is imported need not be again; no model has been used yet
    counts, failures = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "case"
        _KNOWN[family.name] = family
        for number, start in enumerate(range(0, cases, CHUNK)):
            with ProcessPoolExecutor(1, context, _limit_memory) as pool:
                try:
                    work = pool.submit(_work, family.name, min(CHUNK, cases - start), seed * 1000 + number, trace)
                    found, failed = work.result()
                except BrokenProcessPool:
                    case = trace.read_text(errors="replace") if trace.exists() else "none"
                    found, failed = Counter({TRACEBACK: 1}), [f"{family.name}: the process was killed by {case}"]
            counts += found
            failures += failed
    return counts, failures


_KNOWN: dict[str, Family] = {}  # forked processes have a copy; families cannot be sent


def _work(name: str, cases: int, seed: int, trace: Path) -> tuple[Counter[str], list[str]]:
    return explore(_KNOWN[name], cases, seed, trace)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def row(name: str, counts: Counter[str]) -> str:
    """Return a line of the table."""
    return f"{name:<24}{counts.total():>8}" + "".join(f"{counts[kind]:>14}" for kind in OUTCOMES)


def main() -> int:
    """Print a table and, for each failure, its smallest case; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Try malformed files and arguments.")
    parser.add_argument("--cases", type=int, default=100_000, help="how many, shared among the families")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other cases")
    parser.add_argument("--family", help="only this one")
    given = parser.parse_args()
    # The tiny models gain nothing from more threads, and no name of a model may be asked for on the hub.
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    start, known = time.monotonic(), {n: each for n, each in families().items() if given.family in (None, n)}
    total, failures = Counter[str](), list[str]()
    print(f"\n{'family':<24}{'tries':>8}" + "".join(f"{kind:>14}" for kind in OUTCOMES), flush=True)
    for name, share in shares(given.cases, known).items():
        counts, failed = elsewhere(known[name], share, given.seed)
        print(row(name, counts), flush=True)
        total += counts
        failures += failed
    print(f"{row('all', total)}\n\nseed {given.seed}, {(time.monotonic() - start) / 60:.1f} minutes")
    print("\n\n".join(["", *failures]))
    return int(bool(failures))
