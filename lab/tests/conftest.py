"""The laboratory's tests run on the tiny models and the helpers of the library's tests."""

import importlib.util
import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "tests"
sys.path.append(str(_TESTS))
_spec = importlib.util.spec_from_file_location("library_conftest", _TESTS / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
globals().update({name: value for name, value in vars(_shared).items() if not name.startswith("_")})
