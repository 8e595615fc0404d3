"""The commands of the laboratory: named by the library, loaded from its distribution alone, when they are called."""

import sys

import pytest
from typer.testing import CliRunner

from sen2pro.cli import laboratory
from sen2pro.cli.app import app

COMMAND = """
import typer

app = typer.Typer(rich_markup_mode=None)


@app.command()
def {name}(table: str, limit: int = 0) -> None:
    print("made", table, limit)


command = typer.main.get_command(app)
"""


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def distribution(folder, name, module, commands=laboratory.COMMANDS):
    """Write a distribution with these commands, and the module that has them all."""
    about = folder / f"{name.replace('-', '_')}-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    lines = [f"{command} = {module}:command" for command in commands]
    (about / "entry_points.txt").write_text("\n".join([f"[{laboratory.GROUP}]", *lines]) + "\n")
    (folder / f"{module}.py").write_text(COMMAND.format(name="reproduce"))


@pytest.mark.parametrize("name", laboratory.COMMANDS)
def test_without_the_laboratory_a_command_says_in_one_line_what_to_install(name, monkeypatch):
    monkeypatch.setattr(laboratory, "DISTRIBUTION", "sen2pro-lab-that-is-not-here")
    result = run(name, "T1", "--limit", "3")
    assert result.exit_code == 2
    assert result.output == (
        f"error: sen2pro {name} is part of the laboratory: pip install sen2pro-lab-that-is-not-here\n"
    )


def test_a_command_is_loaded_when_it_is_called_and_not_before(tmp_path, monkeypatch):
    distribution(tmp_path, "sen2pro-lab", "laboratory_of_a_test")
    monkeypatch.syspath_prepend(tmp_path)
    for arguments in (("--help",), ("--version",), ("info", "--help"), ("reproduc",)):
        run(*arguments)
        assert "laboratory_of_a_test" not in sys.modules
    assert "reproduce    Make tables and figures of the paper again" in run("--help").output
    result = run("reproduce", "T1", "--limit", "3")
    assert (result.exit_code, result.output) == (0, "made T1 3\n")
    assert "Usage: sen2pro reproduce [OPTIONS] {table}" in " ".join(run("reproduce", "--help").output.split())
    assert run("reproduce", "--nothing").exit_code == 2


def test_no_other_distribution_and_no_other_name_is_loaded(tmp_path, monkeypatch):
    distribution(tmp_path / "other", "another-package", "somebody_elses", [*laboratory.COMMANDS, "encode", "new"])
    distribution(tmp_path / "ours", "sen2pro-lab", "ours_with_more", ["encode", "new"])
    for folder in ("other", "ours"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    result = run("reproduce", "T1")
    assert result.exit_code == 2
    assert "this sen2pro-lab has no command reproduce" in result.output
    assert "No such command 'new'" in run("new").output
    assert "Turn files of sentences" in run("encode", "--help").output
    assert not {"somebody_elses", "ours_with_more"} & set(sys.modules)
