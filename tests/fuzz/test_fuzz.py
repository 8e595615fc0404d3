"""A thousand cases of all families in each run of the tests; `make fuzz` tries 100,000."""

import os
import signal

import numpy as np
import pytest

from fuzz.engine import CLEAR, FINE, NAN, PARTIAL, TRACEBACK, WRONG, Case, Family, Wrong, attempt, make
from fuzz.run import Report, families, plan, run, run_here, tasks_of
from sen2pro import Sen2ProError

pytestmark = pytest.mark.slow

SEED, CASES = 1, 1000
SHARES = plan(CASES, {name: family.weight for name, family in families().items()})


@pytest.mark.parametrize("name", SHARES)
def test_malformed_input_gives_a_clear_error_or_a_right_result(name):
    tasks, report = tasks_of({name: SHARES[name]}), Report()
    for task, outcome in zip(tasks, run_here(tasks, SEED), strict=True):
        report.add(task, *outcome)
    assert not report.failures, report.faults(SEED)
    assert make(families()[name], SEED, 3).data == make(families()[name], SEED, 3).data  # a case can be repeated


class Broken(Family):
    """A family of a library with one fault."""

    name, weight = "broken", 1

    def __init__(self, fault):
        self.fault = fault

    def make(self, rng):
        return Case(rng.randbytes(20))

    def run(self, case, folder):
        return self.fault(folder)


def clear(folder):
    raise Sen2ProError("this file is damaged")


def wrong(folder):
    raise Wrong("it is not what it was")


def quits(folder):
    raise SystemExit(3)


def hangs(folder):
    while True:
        pass


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (clear, CLEAR),
        (lambda folder: 1 / 0, TRACEBACK),
        (wrong, WRONG),
        (lambda folder: (folder / ".out.parquet.12.partial").touch(), PARTIAL),
        (quits, TRACEBACK),
        (hangs, TRACEBACK),
        (lambda folder: np.array([1.0, np.nan]), NAN),
        (lambda folder: None, FINE),
    ],
)
def test_each_kind_of_failure_is_told_from_the_others(monkeypatch, fault, kind):
    monkeypatch.setattr("fuzz.engine.SECONDS", 1)
    assert attempt(Broken(fault), Case()).kind == kind


def test_failures_are_counted_by_their_cause_and_a_killed_process_is_one_of_them():
    known = {
        "broken": Broken(lambda folder: 1 / 0), "fine": Broken(lambda folder: None),
        "killer": Broken(lambda folder: os.kill(os.getpid(), signal.SIGKILL)),
    }  # fmt: skip
    report = run([(name, number) for name in ("killer", "fine", "broken") for number in (0, 1)], 0, known)
    assert report.counts == {"killer": {TRACEBACK: 2}, "fine": {FINE: 2}, "broken": {TRACEBACK: 2}}
    assert len(report.failures) == 2
    assert "ZeroDivisionError in test_fuzz.py" in report.faults(0)
    assert "--seed 0 --family 'broken' --case 0" in report.faults(0)
    assert report.table().splitlines()[-1].split() == ["all", "6", "2", "0", "4", "0", "0", "0"]
