"""What holds for the package as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest

import sen2pro

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = ("langchain_core", "llama_index", "haystack", "sentence_transformers", "sklearn")
HEAVY = ("torch", "transformers", "numpy", "pyarrow", "matplotlib", *FRAMEWORKS)


@pytest.mark.parametrize(
    "code",
    [
        "import sen2pro",
        "from sen2pro.cli.app import app; from typer.testing import CliRunner as C; "
        "assert C().invoke(app, ['--help']).exit_code == 0",
    ],
)
def test_import_and_help_load_nothing_heavy(code):
    check = f"{code}\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported_and_is_documented():
    assert set(sen2pro.__all__) <= set(dir(sen2pro))
    for name in sen2pro.__all__:
        assert getattr(sen2pro, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sen2pro.nothing


def test_changelog_citation_and_laboratory_have_the_same_version():
    version = sen2pro.__version__
    files = {
        "CHANGELOG.md": [f"## {version}"], "CITATION.cff": [f"\nversion: {version}\n"],
        "lab/pyproject.toml": [f'version = "{version}"', f"]=={version}"],
    }  # fmt: skip
    for name, said in files.items():
        assert all(each in (ROOT / name).read_text(encoding="utf-8") for each in said), name
