"""A thousand cases of all families in each run of the tests; `make fuzz` tries 100,000."""

import os
import signal

import numpy as np
import pytest
from hypothesis import strategies as st

from fuzz.engine import CLEAR, FINE, NAN, PARTIAL, TRACEBACK, WRONG, Family, Wrong, elsewhere, explore, families, shares
from sen2pro import Sen2ProError

pytestmark = pytest.mark.slow

SHARES = shares(1000, families())


@pytest.mark.parametrize("name", SHARES)
def test_malformed_input_gives_a_clear_error_or_a_right_result(name):
    counts, failures = explore(families()[name], SHARES[name], seed=1)
    assert not failures, "\n\n".join(failures)
    assert counts.total()


def clear(folder):
    raise Sen2ProError("this file is damaged")


def wrong(folder):
    raise Wrong("it is not what it was")


def quits(folder):
    raise SystemExit(3)


def hangs(folder):
    while True:
        pass


def broken(fault):
    return Family("broken", 1, st.just(b""), lambda case, folder: fault(folder))


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
    counts, failures = explore(broken(fault), 3, seed=0)
    assert (dict(counts), len(failures)) == ({kind: 1}, kind not in (FINE, CLEAR))


def test_the_smallest_case_of_each_cause_is_shown():
    def fault(number, folder):
        assert number < 1000
        if number == 77:
            raise Wrong("77")

    counts, failures = explore(Family("numbers", 1, st.integers(0, 10**9), fault), 200, seed=0)
    assert counts[TRACEBACK] == len(failures) - counts[WRONG] == 1
    assert "case=1000" in " ".join(failures)


def test_a_case_that_kills_its_process_is_a_failure_like_any_other():
    counts, failures = elsewhere(broken(lambda folder: os.kill(os.getpid(), signal.SIGKILL)), 3, 0)
    assert (counts, failures) == ({TRACEBACK: 1}, ["broken: the process was killed by b''"])
