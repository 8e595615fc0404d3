"""The golden values themselves: what counts as a difference, and that none is left over."""

import numpy as np
import pytest

from contract.golden import FOLDER, HERE, Goldens, differences, plain

MODULES = sorted(f"test_{path.stem}" for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize(
    ("expected", "found", "is_different"),
    [
        (1.0, 1.0 + 9e-6, False),
        (1.0, 1.0 + 2e-5, True),
        (1e-4, 1e-4 + 9e-7, False),
        (1e-4, 1e-4 + 2e-6, True),
        (3, 3, False),
        (3, 4, True),
        (1, 1.0, True),
        (True, 1, True),
        (None, 0.0, True),
        ("nan", "nan", False),
        ("0.7983", "0.7984", False),
        ("0.7983", "0.7985", True),
        ("0.7983", "0.79830", True),
        ("12", "13", True),
        ("yes", "no", True),
        ([1, 2], [1, 2, 3], True),
        ([1, 2], [2, 1], True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {}, True),
    ],
)
def test_differences(expected, found, is_different):
    assert bool(list(differences(expected, found))) == is_different


def test_a_vector_is_compared_as_far_as_its_length_goes():
    small = np.random.default_rng(0).uniform(1e-4, 2e-4, 384)
    assert set(plain(small)) == {"size", "first", "norm", "sum"}
    off = small.copy()
    off[2] += 1e-7
    assert list(differences(plain(small), plain(off)))
    assert not list(differences(plain(small), plain(small + 1e-10)))
    assert list(differences(plain(small), plain(small[:-1])))


@pytest.mark.parametrize("module", MODULES)
def test_every_golden_has_a_test_and_names_its_method(module):
    found = Goldens(module)
    assert not found.stale(), "pytest tests/contract --write-golden takes them out"
    for entry in found.entries.values():
        assert {"method", "seed", "head", "value"} == set(entry)


def test_the_whole_is_small():
    files = [path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 1_500_000
    assert max(path.stat().st_size for path in (HERE / "files").rglob("*.parquet")) < 30_000
