"""The command `sen2pro`: the commands of the other files, put together."""

import logging
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from sen2pro import __version__
from sen2pro.cli import classify, laboratory
from sen2pro.cli.terminal import Console, in_flags, stopping_cleanly
from sen2pro.errors import Sen2ProError

# Command -> module, in the order of the help.
_COMMANDS = {
    "specificity": "answers", "compare": "answers", "index": "search", "search": "search", "dedup": "search",
    "calibrate": "pairs", "match": "pairs", "encode": "encode", "show": "encode", "page": "serve", "serve": "serve",
    "demo": "demo", "distill": "encode", "info": "encode",
}  # fmt: skip


class Group(TyperGroup):
    """Commands whose errors a user can act on: one message, no traceback, a clean exit code."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; those of the laboratory are only named here, so that --help loads none of them."""
        return laboratory.named(cmd_name) or super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return [*super().list_commands(ctx), *laboratory.COMMANDS]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, with its name and its arguments; load it if it is the laboratory's."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, laboratory.load(name) if name in laboratory.COMMANDS else command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 2 for wrong input, 1 for a failing disk, 130 for Ctrl-C, 143 for SIGTERM."""
        logging.basicConfig(format="%(message)s")
        logging.getLogger("sen2pro").setLevel(logging.INFO)  # one line per minute where there is no terminal for a bar
        try:
            with stopping_cleanly():
                return super().invoke(ctx)
        except Sen2ProError as error:
            _fail(in_flags(str(error)), 2)
        except KeyboardInterrupt:
            _fail("stopped; nothing was left half written", 130)
        except BrokenPipeError:  # the reader of our output, `head` for instance, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
        except MemoryError:
            _fail("there is not enough memory; give fewer or shorter sentences at once, or a smaller --batch-size", 1)


def _fail(message: str, code: int) -> None:
    console = Console(stderr=True)
    console.print("[bold red]error:[/] ", end="")
    console.say(message)
    raise typer.Exit(code)


app = typer.Typer(
    cls=Group, name="sen2pro", no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False,
    rich_markup_mode=None,  # plain help reads better in 80 columns
    help="Probabilistic sentence embeddings: any pre-trained encoder turns sentences into Gaussians.",
)  # fmt: skip


def _version(show: bool) -> None:
    if show:
        print(f"sen2pro {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


for _name, _module in _COMMANDS.items():
    app.command()(getattr(import_module(f"sen2pro.cli.{_module}"), _name))
app.add_typer(classify.app, name="classify")


def main() -> None:
    """Run the command line."""
    app(prog_name="sen2pro")
