"""Run many cases in processes of their own, so that one that kills its process is a failure like any other; count."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

from fuzz.engine import OUTCOMES, TRACEBACK, Case, Family, Outcome, attempt, make

MOST_MEMORY = 12 << 30  # bytes of addresses: beyond, there is no memory left
CHUNK = 200  # cases that share a process

Task = tuple[str, int]  # a family, and the number of a case


def families() -> dict[str, Family]:
    """Return all families, by name."""
    from fuzz import arguments, calls, inputs, saved

    every = (*inputs.FAMILIES, *saved.FAMILIES, *arguments.FAMILIES, *calls.FAMILIES)
    return {family.name: family for family in every}


def plan(total: int, weights: dict[str, int]) -> dict[str, int]:
    """Share cases among families by their weights; each gets one at least.

    >>> plan(8, {"cheap": 3, "dear": 1})
    {'cheap': 6, 'dear': 2}
    """
    whole = sum(weights.values())
    return {name: max(1, round(total * weight / whole)) for name, weight in weights.items()}


@dataclass
class Report:
    """The outcomes of all cases: counts for each family, and the first case of each cause of a failure."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[tuple[str, str, str], tuple[Task, Outcome, str]] = field(default_factory=dict)

    def add(self, task: Task, outcome: Outcome, case: str) -> None:
        """Count a case."""
        self.counts.setdefault(task[0], Counter())[outcome.kind] += 1
        if outcome.failed:
            self.failures.setdefault((task[0], outcome.kind, outcome.where), (task, outcome, case))

    def table(self) -> str:
        """Return the counts of each family, and of all."""
        every = {**self.counts, "all": sum(self.counts.values(), Counter())}
        lines = [f"{'family':<24}{'tries':>8}" + "".join(f"{kind:>14}" for kind in OUTCOMES)]
        for name, counts in every.items():
            lines.append(f"{name:<24}{counts.total():>8}" + "".join(f"{counts[kind]:>14}" for kind in OUTCOMES))
        return "\n".join(lines)

    def faults(self, seed: int) -> str:
        """Return a paragraph for each cause: what happened, to which case, and how to run it again."""
        again = f"PYTHONPATH=tests .venv/bin/python -m fuzz --seed {seed}"
        return "\n\n".join(
            f"{name}: {outcome.kind}: {outcome.message}\n  input: {case}\n"
            f"  again: {again} --family {name!r} --case {number}"
            for (name, number), outcome, case in self.failures.values()
        )


def shown(case: Case, most: int = 600) -> str:
    """Return a case as text: its bytes and its options."""
    try:
        text = f"{case.data!r} with {dict(case.options)!r}"
    except Exception:  # an object whose repr raises is one of the arguments tried
        text = f"{case.data!r} with {sorted(case.options)}"
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} letters)"


def run_here(tasks: list[Task], seed: int, known: dict[str, Family] | None = None) -> list[tuple[Outcome, str]]:
    """Run cases in this process; return the outcome of each, with its input if it failed."""
    known = known or families()
    cases = ((known[name], make(known[name], seed, number)) for name, number in tasks)
    outcomes = ((attempt(family, case), case) for family, case in cases)
    return [(outcome, shown(case) if outcome.failed else "") for outcome, case in outcomes]


def run(tasks: list[Task], seed: int, known: dict[str, Family] | None = None) -> Report:
    """Run cases in other processes; a chunk whose process dies is run again case by case to find the one at fault."""
    known, report = known or families(), Report()
    for start in range(0, len(tasks), CHUNK):
        chunk = tasks[start : start + CHUNK]
        found = _elsewhere(chunk, seed, known)
        for task in chunk if found is None else ():
            alone = _elsewhere([task], seed, known)
            report.add(task, *(alone[0] if alone else (Outcome(TRACEBACK, "the process was killed", "crash"), "")))
        for task, outcome in zip(chunk, found or (), strict=False):
            report.add(task, *outcome)
    return report


def _elsewhere(tasks: list[Task], seed: int, known: dict[str, Family]) -> list[tuple[Outcome, str]] | None:
    """Run cases in another process; return None if it died."""
    context = multiprocessing.get_context("fork")  # what is imported need not be again; no model has been used yet
    with ProcessPoolExecutor(1, context, _limit_memory) as pool:
        _KNOWN.update(known)
        try:
            return pool.submit(_work, tasks, seed).result()
        except BrokenProcessPool:
            return None


_KNOWN: dict[str, Family] = {}  # forked processes have a copy; families cannot be sent


def _work(tasks: list[Task], seed: int) -> list[tuple[Outcome, str]]:
    return run_here(tasks, seed, _KNOWN)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def tasks_of(shares: dict[str, int]) -> list[Task]:
    """Return all cases, one family after the other."""
    return [(name, number) for name, share in shares.items() for number in range(share)]


def main() -> int:
    """Print a table and, for each cause of a failure, its first input; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Try malformed files and arguments.")
    parser.add_argument("--cases", type=int, default=100_000, help="how many, shared among the families")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other cases")
    parser.add_argument("--family", help="only this one")
    parser.add_argument("--case", type=int, help="only this one of a family")
    given = parser.parse_args()
    # The tiny models gain nothing from more threads, and no name of a model may be asked for on the hub.
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    start = time.monotonic()
    weights = {name: family.weight for name, family in families().items() if given.family in (None, name)}
    one = [(given.family, given.case)] if given.case is not None else None
    report = run(one or tasks_of(plan(given.cases, weights)), given.seed)
    print(f"\n{report.table()}\n\nseed {given.seed}, {(time.monotonic() - start) / 60:.1f} minutes")
    if report.failures:
        print(f"\n{report.faults(given.seed)}")
    return int(bool(report.failures))
