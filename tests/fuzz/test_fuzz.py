"""A few hundred cases of every family in each run of the tests; `make fuzz` tries 100,000."""

import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fuzz.engine import CLEAR, FINE, NAN, PARTIAL, TRACEBACK, WRONG, Case, Family, Wrong, attempt, make
from fuzz.run import families, plan, run, run_here, tasks_of
from fuzz.shrink import shrunk, smallest
from sen2pro import Sen2ProError

pytestmark = pytest.mark.slow

SEED, CASES = 1, 1000
SHARES = plan(CASES, {name: family.weight for name, family in families().items()})


@pytest.mark.parametrize("name", SHARES)
def test_malformed_input_gives_a_clear_error_or_a_right_result(name):
    report = run_here(tasks_of({name: SHARES[name]}), SEED)
    assert not report.failed, report.faults(SEED)
    assert report.counts[name].total() == SHARES[name]


@pytest.mark.parametrize("name", SHARES)
def test_a_case_can_be_repeated(name):
    family = families()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, again, other = (make(family, SEED, number) for number in (3, 3, 4))
    assert first.data == again.data
    assert first.options.keys() == again.options.keys()
    assert not first.data or (first.data, first.options) != (other.data, other.options)


class Broken(Family):
    """A family of a library with one fault."""

    name, weight = "broken", 1

    def make(self, rng):
        return Case(b"some letters, an X, and a Y" + rng.randbytes(20))

    def run(self, case, folder):
        if b"X" in case.data and b"Y" in case.data:
            return self.fault(case, folder)
        raise Sen2ProError("there is no X, or no Y")

    @staticmethod
    def fault(case, folder):
        return 1 / 0


def faulty(function):
    family = Broken()
    family.fault = function
    return family


def wrong(case, folder):
    raise Wrong("it is not what it was")


def half_written(case, folder):
    (folder / ".out.parquet.12.partial").touch()


def quits(case, folder):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Broken.fault, TRACEBACK),
        (wrong, WRONG),
        (half_written, PARTIAL),
        (quits, TRACEBACK),
        (lambda case, folder: np.array([1.0, np.nan]), NAN),
        (lambda case, folder: None, FINE),
    ],
)
def test_each_kind_of_failure_is_told_from_the_others(fault, kind):
    family = faulty(fault)
    assert attempt(family, make(family, 0, 0)).kind == kind
    assert attempt(family, Case(b"nothing")).kind == CLEAR


def test_a_failure_is_counted_and_its_input_made_small():
    report = run_here([("broken", number) for number in range(3)], 0, {"broken": Broken()})
    assert report.failed
    assert report.counts["broken"] == {TRACEBACK: 3}
    (failure,) = report.failures.values()
    assert failure.times == 3
    assert failure.smallest == "b'XY' with {}"
    assert "ZeroDivisionError in test_fuzz.py" in report.faults(0)
    assert "--seed 0 --family 'broken' --case 0" in report.faults(0)
    assert report.table().splitlines()[-1].split() == ["all", "3", "0", "0", "3", "0", "0", "0"]


def test_a_case_that_hangs_is_a_failure(monkeypatch):
    monkeypatch.setattr("fuzz.engine.SECONDS", 1)

    def forever(case, folder):
        while True:
            pass

    outcome = attempt(faulty(forever), Case(b"XY"))
    assert outcome.kind == TRACEBACK
    assert "took more than 1 seconds" in outcome.message


def test_making_small_keeps_the_cause():
    family = faulty(lambda case, folder: int("x") if b"some" in case.data else 1 / 0)
    case = make(family, 0, 0)
    small = shrunk(family, case, attempt(family, case))
    assert sorted(small.data) == sorted(b"someXY")
    assert attempt(family, replace(case, data=b"XY")).where != attempt(family, small).where
    assert smallest(b"", lambda data: True) == b""


def test_cases_are_shared_by_weight():
    assert plan(100, {"a": 3, "b": 1}) == {"a": 75, "b": 25}
    assert plan(1, {"a": 3, "b": 1}) == {"a": 1, "b": 1}


def test_a_case_that_kills_the_process_is_noted_and_the_rest_go_on():
    killer = faulty(lambda case, folder: os.kill(os.getpid(), signal.SIGKILL))
    known = {"killer": killer, "fine": faulty(lambda case, folder: None)}
    report = run([("killer", 0), ("fine", 0), ("killer", 1), ("fine", 1)], 0, known)
    assert report.counts == {"killer": {TRACEBACK: 2}, "fine": {FINE: 2}}
    (failure,) = report.failures.values()
    assert "the process ended with -9" in failure.outcome.message
