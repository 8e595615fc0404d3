"""Golden values: written once as JSON, compared ever after."""

from __future__ import annotations

import json
import math
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from contract import api

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "goldens"
TOLERANCE = 1e-5
_DIGITS, _FIRST, _SHORT, _WIDTH = 7, 5, 8, 120
_LEAST = 0.1  # numbers below it are compared as if they were this large


def cases(name):
    """Read the cases of `cases/NAME.json`."""
    return json.loads((HERE / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def plain(value):
    """Return a value as a golden file has it: numbers of seven digits, long vectors in short."""
    if isinstance(value, api.Gaussian):
        return gaussian(value)
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f" and len(value) > _SHORT:
        wide = value.astype(np.float64)
        return {
            "size": len(wide), "first": [_rounded(x) for x in wide[:_FIRST]],
            "norm": _rounded(np.linalg.norm(wide)), "sum": _rounded(wide.sum()),
        }  # fmt: skip
    if isinstance(value, np.ndarray) and value.ndim:
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    assert value is None or isinstance(value, str | int), f"a golden cannot hold {type(value).__name__}"
    return value


def gaussian(value):
    """Return what a user sees of a Gaussian."""
    signature = {} if value.signature is None else json.loads(value.signature.to_json())
    signature.pop("version", None)
    return {
        "mean": plain(value.mean), "variance": plain(value.variance), "total": plain(value.total_variance),
        "coverage": None if value.coverage is None else plain(value.coverage), "signature": signature,
    }  # fmt: skip


def vectors(numbers):
    """Return a list of vectors, as JSON and tables hold it, as an array that is abbreviated in a golden."""
    return np.array(numbers, np.float64)


def _rounded(number):
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else str(number)


def differences(expected, found, tolerance=TOLERANCE, place="", least=_LEAST):
    """Yield where two values differ: numbers by more than the tolerance, all else at all."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in expected.keys() ^ found.keys():
            yield f"{place}/{name}: {'it is gone' if name in expected else 'it is new'}"
        least = max(expected["norm"], 1e-9) if "norm" in expected else _LEAST  # of a vector: as its length goes
        for name in sorted(expected.keys() & found.keys()):
            yield from differences(expected[name], found[name], tolerance, f"{place}/{name}", least)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, tolerance, f"{place}/{number}", least)
    elif not _same(expected, found, tolerance, least):
        yield f"{place}: {found!r} instead of {expected!r}"


def _same(expected, found, tolerance, least):
    if isinstance(expected, float) and isinstance(found, float):
        return abs(expected - found) <= tolerance * max(abs(expected), least)
    if isinstance(expected, str) and isinstance(found, str) and expected != found:
        return _as_printed(expected, found)
    return type(expected) is type(found) and expected == found


def _as_printed(expected, found):
    """Tell whether two texts are one number printed with few digits, but for one in the last digit."""
    try:
        near = abs(float(expected) - float(found))
    except ValueError:
        return False
    digits = [len(text.partition(".")[2]) for text in (expected, found)]
    return digits[0] == digits[1] > 0 and near <= 1.01 * 10.0 ** -digits[0]


@contextmanager
def noted():
    """Gather what the library warns of, in a list."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", api.Sen2ProWarning)
        yield caught


def refused(call):
    """Return the type of the error that a call raises; Sen2ProError stands for all of its kinds."""
    try:
        with noted():
            call()
    except api.Sen2ProError:
        return "Sen2ProError"
    except Exception as error:
        return type(error).__name__
    return None


def all_refused(**calls):
    """Return the types of the errors of some calls, by their names with spaces."""
    return {name.replace("_", " "): refused(call) for name, call in calls.items()}


class Goldens:
    """The golden values of one test module."""

    def __init__(self, module):
        self.module = module
        self.path = FOLDER / f"{module.removeprefix('test_')}.json"
        self.entries = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        self.is_changed = False

    def check(self, name, about, value, tolerance, write):
        """Compare a value with its golden, or write it."""
        found = {**about, "value": plain(value)}
        if write:
            if name not in self.entries or any(differences(self.entries[name], found, tolerance / 10)):
                self.entries[name], self.is_changed = found, True
            return
        assert name in self.entries, f"there is no golden {name} in {self.path.name}; README.md says how to write it"
        wrong = list(differences(self.entries[name], found, tolerance))
        assert not wrong, "\n".join([f"{len(wrong)} differences from the golden {name}:", *wrong[:20]])

    def stale(self):
        """Return the names of entries that neither the test module nor its cases name."""
        places = (HERE / f"{self.module}.py", HERE / "cases" / f"{self.module.removeprefix('test_')}.json")
        text = "".join(place.read_text(encoding="utf-8") for place in places if place.exists())
        return [name for name in self.entries if name.partition("[")[0].removeprefix("test_") not in text]

    def save(self):
        """Write all entries, if one was changed."""
        for name in self.stale():
            del self.entries[name]
            self.is_changed = True
        if self.is_changed:
            FOLDER.mkdir(exist_ok=True)
            self.path.write_text(pretty(dict(sorted(self.entries.items()))) + "\n", encoding="utf-8")


def pretty(value, indent=0):
    """Return JSON that can be read: what fits into a line stands in one."""
    line = json.dumps(value, ensure_ascii=False)
    if (indent and len(line) + indent <= _WIDTH) or not isinstance(value, dict | list):
        return line
    space = " " * (indent + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(name)}: {pretty(each, indent + 1)}" for name, each in value.items()]
    else:
        inner = [pretty(each, indent + 1) for each in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    return f"{ends[0]}\n{space}" + f",\n{space}".join(inner) + f"\n{' ' * indent}{ends[1]}"
