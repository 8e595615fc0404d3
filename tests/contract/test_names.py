"""Names that users write: commands with their options, functions with their parameters."""

import inspect

import pytest
from typer.main import get_command

from contract import api
from contract.about import NONE

# What the decisions of the next release take away is no part of the contract, nor are commands of the laboratory.
GOING = {"ranking", "alpha"}
LABORATORY = {"score", "reproduce", "data"}
CALLABLES = {
    "distance": api.distance,
    "distance_pairwise": api.distance_pairwise,
    "find_duplicates": api.find_duplicates,
    **{
        f"{kind.__name__}.{name}": getattr(kind, name)
        for kind, names in {
            api.Sen2Pro: "__init__ encode encode_sources join sample fit_whitening distill specificity explain compare "
            "similarity similarity_pairwise save load",
            api.Gaussian: "__init__ concatenate log_prob sample save load",
            api.Index: "build from_file open add delete get search save close",
            api.MatchConfidence: "__init__ fit probability match threshold save load",
            api.SearchConfidence: "__init__ fit probability abstain answer_set save load",
            api.Sen2ProClassifier: "__init__ fit predict predict_proba score save load",
        }.items()
        for name in names.split()
    },
}


def commands(group, prefix=""):
    for name, command in group.commands.items():
        if name not in LABORATORY:
            yield f"{prefix}{name}", command
            yield from commands(command, f"{prefix}{name} ") if hasattr(command, "commands") else ()


COMMANDS = dict(commands(get_command(api.app)))


def test_commands(golden):
    golden(sorted(COMMANDS), NONE)


@pytest.mark.parametrize("name", COMMANDS)
def test_options(name, golden):
    """Arguments by their place, options by their names, and which of them are needed."""
    parameters = [each for each in COMMANDS[name].params if each.name not in GOING]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [" ".join([*each.opts, *each.secondary_opts]) for each in parameters if each not in arguments]
    golden({"arguments": len(arguments), "needed": sum(each.required for each in arguments), "options": sorted(options),
            "needed options": sorted(each.name for each in parameters if each.required and each not in arguments)},
           NONE)  # fmt: skip


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters(name, golden):
    """In their order, those that go by their name alone after a star."""
    found = inspect.signature(CALLABLES[name]).parameters.values()
    kept = [each for each in found if each.name not in {"self", *(GOING if name.startswith("Index") else ())}]
    free = [each.name for each in kept if each.kind is not each.KEYWORD_ONLY]
    only = sorted(each.name for each in kept if each.kind is each.KEYWORD_ONLY)
    needed = sorted(each.name for each in kept if each.default is each.empty)
    golden({"parameters": free, "by name": only, "needed": needed}, NONE)
