"""What the documentation shows is what happens: its Python runs and prints what stands below it, its commands exist."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product, zip_longest
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sen2pro.cli import laboratory
from sen2pro.cli.app import app
from sen2pro.encoder.find import resolve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sen2pro"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```(python|bash|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d*|-?\d+")
FRAMEWORKS = {"langchain_core": "langchain", "llama_index.core": "llama_index", "haystack": "haystack", "mteb": "mteb"}
OTHER_MODEL = "sentence-transformers/all-mpnet-base-v2"  # of the tutorial; not in the offline package


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return language, code and expected output of each block; a `text` block right below a block is its output."""
    text = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    result = []
    for block, following in zip_longest(found, found[1:]):
        below = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        if block[1] != "text":
            result.append((block[1], block[2], following[2] if below else ""))
    return result


def commands(code: str) -> list[list[str]]:
    """Return the arguments of each `sen2pro` command of a bash block."""
    lines = [shlex.split(line, comments=True) for line in code.splitlines()]
    return [line[1:] for line in lines if line and line[0] == "sen2pro"]


def needs_laboratory(page: Path) -> None:
    """Skip a page that shows commands or modules of the laboratory where that is not installed."""
    text = page.read_text(encoding="utf-8")
    used = [line for _, code, _ in blocks(page) for line in commands(code) if line[0] in laboratory.COMMANDS]
    if used or "from sen2pro_lab" in text:
        try:
            distribution(laboratory.DISTRIBUTION)
        except PackageNotFoundError:
            pytest.skip("the laboratory is not installed: pip install --editable ./lab")


def assert_same_output(printed: str, shown: str) -> None:
    """Compare text exactly, and numbers to one unit of the last digit shown."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split(), f"printed:\n{printed}\nshown:\n{shown}"
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        digits = len(theirs.partition(".")[2])
        assert float(ours) == pytest.approx(float(theirs), abs=1.01 * 10**-digits if "." in theirs else 0), printed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, with a stand-in for the model that only the hub has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    return tmp_path


def stand_in(folder: Path) -> None:
    """Put the default model, and a corpus, where the tutorial expects another model and a corpus."""
    shutil.copytree(resolve("all-MiniLM-L6-v2"), folder / OTHER_MODEL)
    who = ("A man", "My neighbour from the third floor", "Some stuff", "The train to Leeds", "It", "A tired old dog")
    does = ("sleeps", "was cancelled", "happened", "cooks soup", "reads the news about the bank")
    when = ("", " there again", " on Monday at 9.40", " in a small house by the sea", " for some reason",
            " with a red hat", " because the rain has stopped")  # fmt: skip
    corpus = [f"{a} {b}{c}." for a, b, c in product(who, does, when)]
    (folder / "corpus.txt").write_text("\n".join(corpus), encoding="utf-8")


WITH_PYTHON = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_and_prints_what_is_shown(page, folder, capsys):
    needs_laboratory(page)
    code = [(python, shown) for language, python, shown in blocks(page) if language == "python"]
    if page.stem == "integrations":
        for module, extra in FRAMEWORKS.items():
            pytest.importorskip(
                module, reason=f"{module} is not installed: pip install 'sen2pro[{extra.replace('_', '')}]'"
            )
    replaced = page.stem == "another-model"
    if replaced:
        stand_in(folder)
    names: dict[str, object] = {}
    for python, shown in code:
        exec(compile(python, page.name, "exec"), names)
        printed = capsys.readouterr().out
        assert bool(printed) == bool(shown)
        if not replaced:
            assert_same_output(printed, shown)
    if page in TUTORIALS:  # their commands work on the files that their Python wrote
        for arguments in (line for language, code, _ in blocks(page) if language == "bash" for line in commands(code)):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist_with_these_options(page):
    needs_laboratory(page)
    for arguments in (line for language, code, _ in blocks(page) if language == "bash" for line in commands(code)):
        command, rest, context, name = typer.main.get_command(app), arguments, None, "sen2pro"
        while hasattr(command, "commands"):
            context = command.context_class(command, parent=context)
            name, command, rest = command.resolve_command(context, rest)
        command.make_context(name, rest, parent=context)  # parses, and does not run


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_without_arguments(script, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_of_the_repository(page):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "name", re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
)
def test_every_name_of_the_reference_exists(name):
    module, _, name = name.rpartition(".")
    framework = {f"sen2pro.integrations.{extra}": needed for needed, extra in FRAMEWORKS.items()}.get(module)
    if framework is not None:
        pytest.importorskip(framework)
    assert getattr(import_module(module), name).__doc__


def test_the_readme_is_short_and_all_pages_are_in_the_navigation_without_placeholders():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 700
    assert text.index("```python") < 600
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [page for page in PAGES[1:] if page.relative_to(ROOT / "docs").as_posix() not in navigation]
    written = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    assert not [page for page in written if re.search(r"@[A-Z]+@", page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_files_and_functions_that_are_named_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")

    def find(path: str) -> Path:
        return next((top / path for top in (ROOT, PACKAGE) if (top / path).exists()), ROOT / path)

    for path in re.findall(r"`([\w./-]+(?:\.(?:py|js|html|json|toml|txt|md)|/))`", text):
        assert find(path).exists(), path
    pairs = re.findall(r"`([\w/]+\.py)`: `([\w.]+)`", text)
    pairs += [(path, inside) for inside, path in re.findall(r"`([\w.]+)` (?:in|of|\()\s?`([\w/]+\.py)`", text)]
    assert pairs or name == "SECURITY.md"
    for path, inside in pairs:
        assert re.search(rf"\b{inside.rpartition('.')[2]}\b", find(path).read_text(encoding="utf-8")), (path, inside)


@pytest.mark.skipif(not os.environ.get("SEN2PRO_SITE"), reason="set SEN2PRO_SITE to the folder that make docs wrote")
def test_the_site_loads_nothing_from_elsewhere():
    pages = list(Path(os.environ["SEN2PRO_SITE"]).rglob("*.html"))
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//", text), page
        assert not re.search(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*href=\"?(?:https?:)?//", text), page
