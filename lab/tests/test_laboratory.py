"""What holds for the laboratory as a whole: its version, its commands, and the page of its results."""

import json
import re
import runpy
from importlib.metadata import distribution
from pathlib import Path

import pytest

import sen2pro
from sen2pro.cli import laboratory

LAB = Path(__file__).parents[1]


def test_it_needs_the_library_of_its_own_version():
    text = (LAB / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^version = "(.*?)"', text, re.MULTILINE)[1] == sen2pro.__version__
    assert f'server]=={sen2pro.__version__}"' in text


@pytest.mark.parametrize("name", laboratory.COMMANDS)
def test_every_command_that_the_library_names_is_installed(name):
    assert laboratory.load(name).help


def test_no_other_command_is_installed():
    assert {entry.name for entry in distribution(laboratory.DISTRIBUTION).entry_points} == {*laboratory.COMMANDS}


def test_the_page_of_results_has_every_table(tmp_path):
    page = runpy.run_path(str(LAB / "results" / "page.py"))
    page["main"].__globals__["PAGE"] = tmp_path / "docs" / "results.md"
    (tmp_path / "docs").mkdir()
    page["main"]()
    text = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
    results = [path for folder in page["FOLDERS"] for path in (LAB / "results" / folder).glob("*.json")]
    assert len(results) == text.count('<a id="')
    for path in results:
        assert json.loads(path.read_text(encoding="utf-8"))["verdict"] in text
