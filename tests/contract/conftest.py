"""Fixtures of the contract: the default model, loaded once, and `golden`."""

from __future__ import annotations

import pytest

from contract import api
from contract.golden import TOLERANCE, Goldens


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="Write the golden values of tests/contract again.")


@pytest.fixture(scope="module")
def goldens(request):
    """The golden values of a module."""
    found = Goldens(request.module.__name__.rpartition(".")[2])
    yield found
    if request.config.getoption("--write-golden", False):
        found.save()


@pytest.fixture
def golden(request, goldens):
    """A function that compares a value with the golden of this test; `about` names method, seed and head."""
    write = request.config.getoption("--write-golden", False)

    def check(value, about, *, name=request.node.name, tolerance=TOLERANCE):
        assert set(about) == {"method", "seed", "head"}
        goldens.check(name, about, value, tolerance, write)

    return check


@pytest.fixture(scope="session")
def model():
    """The default model as it comes: sampling, 15+15, seed 0."""
    return api.Sen2Pro()


@pytest.fixture(scope="session")
def one_pass():
    """The default model in one pass, with the head that ships."""
    return api.Sen2Pro(method="one-pass")
