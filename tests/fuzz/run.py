"""Run many cases in a process of their own, so that one that kills it is a failure like any other, and count."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from fuzz.engine import OUTCOMES, TRACEBACK, Case, Family, Outcome, attempt, make
from fuzz.shrink import shrunk

PATIENCE = 180  # seconds without an answer after which the process is ended: imports, or a failure that is made small
MOST_MEMORY = 12 << 30  # bytes of addresses: beyond, there is no memory left
MOST_SHRUNK = 5  # failures of a family whose input is made small

Task = tuple[str, int]  # a family, and the number of a case


def families() -> dict[str, Family]:
    """Return all families, by name."""
    from fuzz import answers, arguments, calls, indexes, inputs, runs, stored

    every = (
        *inputs.FAMILIES,
        *stored.FAMILIES,
        *indexes.FAMILIES,
        *answers.FAMILIES,
        *arguments.FAMILIES,
        *runs.FAMILIES,
        *calls.FAMILIES,
    )
    return {family.name: family for family in every}


def plan(total: int, weights: dict[str, int]) -> dict[str, int]:
    """Share cases among families by their weights; each gets one at least.

    >>> plan(10, {"cheap": 3, "dear": 1})
    {'cheap': 8, 'dear': 2}
    """
    whole = sum(weights.values())
    shares = {name: max(1, total * weight // whole) for name, weight in weights.items()}
    first = next(iter(shares))
    shares[first] = max(1, shares[first] + total - sum(shares.values()))
    return shares


@dataclass
class Failure:
    """One cause, with the first case that showed it."""

    task: Task
    outcome: Outcome
    smallest: str = ""
    times: int = 1


@dataclass
class Report:
    """What came of all cases."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: dict[tuple[str, str, str], Failure] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether anything happened that must not."""
        return bool(self.failures)

    def add(self, task: Task, outcome: Outcome, smallest: str) -> None:
        """Count a case."""
        self.counts[task[0]][outcome.kind] += 1
        if outcome.failed:
            key = (task[0], outcome.kind, outcome.where)
            if key in self.failures:
                self.failures[key].times += 1
            else:
                self.failures[key] = Failure(task, outcome, smallest)

    def table(self) -> str:
        """Return the counts of each family, and of all."""
        rows = [["family", "tries", *OUTCOMES]]
        whole: Counter[str] = Counter()
        for name, counts in self.counts.items():
            rows.append([name, *_row(counts)])
            whole += counts
        rows.append(["all", *_row(whole)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in rows
        )

    def faults(self, seed: int) -> str:
        """Return a paragraph for each cause: how often, what, the smallest input, and how to see it again."""
        return "\n\n".join(
            f"{failure.task[0]}, {failure.times} times: {failure.outcome.kind}: {failure.outcome.message}\n"
            f"  smallest input: {failure.smallest}\n"
            f"  again: PYTHONPATH=tests .venv/bin/python -m fuzz --seed {seed} --family {failure.task[0]!r} "
            f"--case {failure.task[1]}"
            for failure in self.failures.values()
        )


def _row(counts: Counter[str]) -> list[str]:
    return [str(counts.total()), *(str(counts[kind]) for kind in OUTCOMES)]


def shown(case: Case, most: int = 600) -> str:
    """Return a case as text: its bytes and what else was given."""
    try:
        options = repr({name: each for name, each in case.options.items() if name not in ("expected", "parts")})
    except Exception:  # an object whose repr raises is one of the arguments tried
        options = str({name: type(each).__name__ for name, each in case.options.items()})
    text = f"{case.data!r} with {options}" if case.data or not case.options else options
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} letters)"


def run_here(tasks: list[Task], seed: int, known: dict[str, Family] | None = None) -> Report:
    """Run cases in this process."""
    known, report = known or families(), Report()
    for task in tasks:
        report.add(task, *_tried(known[task[0]], task, seed, report))
    return report


def _tried(family: Family, task: Task, seed: int, report: Report) -> tuple[Outcome, str]:
    case = make(family, seed, task[1])
    outcome = attempt(family, case)
    if not outcome.failed or (task[0], outcome.kind, outcome.where) in report.failures:
        return outcome, ""
    few = sum(key[0] == task[0] for key in report.failures) < MOST_SHRUNK and outcome.where != "hang"
    return outcome, shown(shrunk(family, case, outcome) if few and case.data else case)


def run(tasks: list[Task], seed: int, known: dict[str, Family] | None = None) -> Report:
    """Run cases in a process of its own; one that crashes or hangs is noted, and the rest go on in a new process."""
    known, report, done, start = known or families(), Report(), 0, time.monotonic()
    while done < len(tasks):
        with _worker(tasks[done:], seed, known) as (answers, process):
            for task in tasks[done:]:
                _progress(done, len(tasks), task, start)
                found = _answer(answers, process)
                done += 1
                if found is None:
                    why = f"the process ended with {process.exitcode}" if process.exitcode else "the process hung"
                    report.add(task, Outcome(TRACEBACK, why, f"crash {process.exitcode}"), "the case as it is")
                    break
                report.add(task, *found)
    return report


def _answer(answers: Connection, process: Any) -> tuple[Outcome, str] | None:
    """Return what came of the next case, None if the process did not live to tell."""
    with contextlib.suppress(EOFError, ConnectionResetError):
        if answers.poll(PATIENCE):
            outcome, smallest = answers.recv()
            return outcome, smallest
        process.kill()
    process.join(PATIENCE)
    return None


@contextlib.contextmanager
def _worker(tasks: list[Task], seed: int, known: dict[str, Family]) -> Iterator[tuple[Connection, Any]]:
    context = multiprocessing.get_context("fork")  # what is imported need not be again; no model has been used yet
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(tasks, seed, known, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours, process
    finally:
        if process.is_alive():
            process.join(PATIENCE)
        process.kill()
        ours.close()


def _work(tasks: list[Task], seed: int, known: dict[str, Family], answers: Connection) -> None:
    """Run cases and send what came of each."""
    report = Report()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for task in tasks:
        found = _tried(known[task[0]], task, seed, report)
        report.add(task, *found)
        answers.send(found)


def _progress(done: int, total: int, task: Task, start: float) -> None:
    if done % 200 and done != total - 1:
        return
    minutes = (time.monotonic() - start) / 60
    line = f"{done:,} of {total:,} cases, {minutes:.1f} minutes, now: {task[0]} {task[1]}"
    if sys.stderr.isatty():
        print(f"\r{line:<100}", end="", file=sys.stderr, flush=True)
    elif done % 5000 == 0:
        print(line, file=sys.stderr, flush=True)


def tasks_of(shares: dict[str, int]) -> list[Task]:
    """Return all cases, a family after the other."""
    return [(name, number) for name, share in shares.items() for number in range(share)]


def single_thread() -> None:
    """The tiny models gain nothing from more threads, and no name of a model may be asked for on the hub."""
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
