"""What several commands share: options, the model, the check of an output, and the notes below a result."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from sen2pro.cli.terminal import Console, in_flags
from sen2pro.errors import HeadMissing, Sen2ProError, Sen2ProWarning, TruncationWarning, one_of
from sen2pro.io.atomic import check_path
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.settings import CALLER, DATA, Settings, about, help_of

if TYPE_CHECKING:
    from sen2pro.jobs import Summary
    from sen2pro.model import Sen2Pro

Chosen = dict[str, Any]
"""The settings that a command was given, by name."""
INPUT = "Text (one sentence per line), CSV, TSV, JSONL or Parquet, plain or .gz"
OneInput = Annotated[
    str, typer.Argument(help=f"{INPUT}; - is standard input. With --workers, a folder or a pattern too.")
]
IN_ONE_PASS = ("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
_FLAGS = {"model": ("--model", "-m"), "column": ("--column", "-c")}
NAMES = tuple(name for name in dict.fromkeys(("model", *DATA, *CALLER)) if name in help_of(Settings))
COLUMN = "Column with the sentences. (default: text, sentence or the only one)"
LONGEST = "Maximum number of bytes of a line, or of a field of a table."
Column = Annotated[str | None, typer.Option("--column", "-c", help=COLUMN)]
LongestLine = Annotated[int, typer.Option(help=LONGEST, min=1)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
Workers = Annotated[int | None, typer.Option(help="Number of processes, each with one thread.", min=1)]
Restart = Annotated[bool, typer.Option("--restart", help="Delete an unfinished run and start again.")]
Encoded = Annotated[
    bool, typer.Option("--encoded", help="The input is an output of sen2pro encode: Parquet, or a folder of shards.")
]
Name = Annotated[str, typer.Option(help="Name of the table or collection in a database.")]
Certainty = Annotated[
    float,
    typer.Option(help="Confidence level of the guarantee (0.95: it fails for at most 1 in 20 sets of labels)."),
]
PairMethod = Annotated[
    str,
    typer.Option(help="auto (one-pass if there is a head and no --samples), one-pass or sampling."),
]


@dataclass
class Reading:
    """How a command reads a file of sentences: arguments of `sentences`."""

    column: Annotated[str | None, about(COLUMN)] = None
    id_column: Annotated[str | None, about("Column with ids. (default: none, or the numbers of the rows)")] = None
    skip_blank: Annotated[bool, about("Skip blank sentences.")] = False
    longest_line: Annotated[int, about(LONGEST)] = LONGEST_LINE


@cache
def _options(kind: type) -> dict[str, Parameter]:
    """Return the options of a class of settings; a value that has several types is given as text."""
    hints, helps = get_type_hints(kind), help_of(kind)
    defaults = {name: each.default for name, each in signature(kind).parameters.items()}
    return {name: _option(name, hints[name], defaults[name], helps[name]) for name in helps}


def _option(name: str, hint: Any, default: Any, help: str) -> Parameter:
    kinds = set(get_args(hint) or [hint]) - {NoneType}
    kind: Any = kinds.pop() if len(kinds) == 1 and kinds <= {str, bool, int, float} else str
    if get_origin(hint) is tuple:  # such an option may be given again
        kind, default = list[str], None
    flags = (f"--{name.replace('_', '-')}",) if default is False else _FLAGS.get(name, ())
    kind = kind if default is not None else kind | None
    found = Annotated[kind, typer.Option(*flags, help=help)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=found)


def with_settings(
    *only: str, without: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Settings` (all, or some); it gets them as its argument `settings`.

    `more` names further arguments, each with a class whose fields are options in the same way. Options that were
    not given, and have no default, are not in it.
    """
    names = [name for name in only or NAMES if name not in without]
    others = {argument: _options(kind) for argument, kind in (more or {}).items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            for argument, chosen in others.items():
                values = {name: given.pop(name) for name in chosen}
                given[argument] = {name: value for name, value in values.items() if value is not None}
            if names:
                given["settings"] = {name: given.pop(name) for name in names}
                if "samples" in names:
                    given["settings"]["samples"] = parse_samples(given["settings"]["samples"])
            command(**given)

        made = {"settings", *others}
        own = [each for each in signature(command, eval_str=True).parameters.values() if each.name not in made]
        parameters = [
            *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own),
            *chain(*(chosen.values() for chosen in others.values())),
            *(_options(Settings)[name] for name in names),
        ]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def parse_samples(text: str | None) -> int | tuple[int, int] | None:
    """Read `15` or `15+30`; None is the default of whoever asks.

    >>> parse_samples("15"), parse_samples("15+30")
    (15, (15, 30))
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split("+")]
    if len(parts) > 2 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        message = f"{reprlib.repr(text)} is neither a number (of at most 9 digits) nor two joined by +"
        raise typer.BadParameter(message, param_hint="--samples")
    return int(parts[0]) if len(parts) == 1 else (int(parts[0]), int(parts[1]))


def load(**settings: Any) -> Sen2Pro:
    """Load a model."""
    from sen2pro.model import Sen2Pro

    return Sen2Pro(**settings)


def load_for_pairs(method: str, settings: dict[str, Any]) -> Sen2Pro:
    """Load a model; `auto` is one pass, or sampling where samples are asked for or, with a note, there is no head."""
    headless = False
    if method == "auto" and settings["samples"] is None:
        try:
            return load(**settings, method="one-pass")
        except HeadMissing:
            if settings["head"] is not None:
                raise
            headless = True
    model = load(**settings, method="sampling" if method == "auto" else method)
    if headless:
        what = f"there is no head for {model.encoder.name}, so sentences are sampled, which takes many passes"
        warnings.warn(f"{what}; fit one with sen2pro distill and pass it with --head", Sen2ProWarning, stacklevel=2)
    return model


def check_output(output: str, suffixes: Sequence[str], inputs: Sequence[str] = (), *, overwrite: bool = True) -> Path:
    """Return the path of a file to be written, or raise before the work why it cannot be."""
    path = check_path(output)
    one_of("file suffix", path.suffix.lower(), suffixes)
    if path.is_dir():
        raise Sen2ProError(f"{path} is a folder; give a file name")
    if not path.parent.is_dir():
        raise Sen2ProError(f"there is no folder {path.parent}")
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in inputs):
        raise Sen2ProError(f"{path} is a file to be read; give another name for the output")
    if path.exists() and not overwrite:
        raise Sen2ProError(f"{path} exists; pass --overwrite to replace it")
    return path


def encode_first(workers: int | None, *, restart: bool, encoded: bool) -> bool:
    """Return whether a command encodes its input into files before it uses them; `encoded`: the input is encoded."""
    if workers is not None and encoded:
        raise Sen2ProError("with --encoded there is nothing left to encode; leave --workers out")
    if restart and workers is None:
        raise Sen2ProError("--restart is for runs with --workers; other runs leave no parts behind")
    return workers is not None


@contextmanager
def notes() -> Iterator[list[Sen2ProWarning]]:
    """Gather what the library warns of, to be printed with the result and not in the middle of it."""
    gathered: list[Sen2ProWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Sen2ProWarning)
        yield gathered
    gathered += [each.message for each in caught if isinstance(each.message, Sen2ProWarning)]


def together(gathered: list[Sen2ProWarning], total: int) -> list[Sen2ProWarning]:
    """Count the sentences that were cut, over all chunks of a file, in one warning."""
    cut = [note for note in gathered if isinstance(note, TruncationWarning)]
    others = [note for note in gathered if not isinstance(note, TruncationWarning)]
    return [*others, *(TruncationWarning(sum(note.count for note in cut), total, one.limit) for one in cut[:1])]


def signature_in_one_pass(model: Any) -> object:
    """Return the signature of an answer that takes one pass if the model has a head, whatever its method is."""
    return (model.in_one_pass() or model).signature()


def report(
    gathered: Sequence[Sen2ProWarning], signature: object, *, far: int = 0, total: int = 0,
    done: Summary | None = None, remedy: str = "sample them (--method sampling), or fit a head on text like this",
) -> None:  # fmt: skip
    """Print each warning once, one for sentences far from all that the head knows, and the signature.

    `done` is a run that encoded files and has further warnings; `remedy` is what to do about sentences that are far.
    """
    console, texts = Console(), [*map(str, gathered)]
    if done is not None:
        run = done.report
        far, total = run.far, run.rows
        texts += [*run.notes, *([str(TruncationWarning(run.cut, run.rows, run.limit))] if run.cut else [])]
    if far:
        texts.append(
            f"{far} of {total} sentences are far from all that the head was fitted on (coverage below 0.01); {remedy} "
            "(sen2pro distill)"
        )
    for text in dict.fromkeys(texts):
        console.print(f"note: {in_flags(text)}", style="yellow", markup=False, highlight=False)
    console.say(f"signature: {signature}", style="dim")
