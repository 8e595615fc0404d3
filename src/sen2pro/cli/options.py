"""Options that several commands share, each written once."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning

if TYPE_CHECKING:
    from sen2pro.gaussian import Gaussian
    from sen2pro.model import Sen2Pro

Model = Annotated[str, typer.Option("--model", "-m", help="Hub id or folder of the encoder.")]
Column = Annotated[
    str | None,
    typer.Option("--column", "-c", help="Column with the sentences. (default: text, sentence or the only one)"),
]
LongestLine = Annotated[
    int,
    typer.Option("--longest-line", help="Most bytes that a line, or a field of a table, may have.", min=1),
]
Method = Annotated[
    str,
    typer.Option(help="sampling (the paper's), one-pass (a head predicts) or shrinkage (few samples and the head)."),
]
HeadFolder = Annotated[
    str | None, typer.Option("--head", help="Folder of a head. (default: the model's own or the one that comes along)")
]
Samples = Annotated[str, typer.Option(help="Samples of each uncertainty: one number, or MODEL+DATA as in 15+15.")]
Uncertainty = Annotated[str, typer.Option(help="both, model (MC dropout) or data (word edits).")]
Combine = Annotated[str, typer.Option(help="How the two are joined: individual or unified.")]
Pooling = Annotated[str | None, typer.Option(help="mean, cls or first-last-avg. (default: the model's own)")]
Normalize = Annotated[
    bool | None,
    typer.Option("--normalize/--no-normalize", help="Unit sphere or raw vectors. (default: as the model is made)"),
]
Dropout = Annotated[float | None, typer.Option(help="Dropout rate for all of the network. (default: its own rates)")]
Seed = Annotated[int, typer.Option(help="Makes the result reproducible.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps. (default: the best there is)")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Let the model's own Python code run.")]
AllowPickle = Annotated[bool, typer.Option("--allow-pickle", help="Read weights in pickle format, which can run code.")]


def load(model: str, *, samples: str = "15", **settings: Any) -> Sen2Pro:
    """Load a model quietly: no bars and no advice of the libraries underneath."""
    numbers = parse_samples(samples)
    quiet()
    from sen2pro.model import Sen2Pro

    return Sen2Pro(model, samples=numbers, **settings)


def quiet() -> None:
    """Switch off the bars and the advice of the libraries underneath."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def parse_samples(text: str) -> int | tuple[int, int]:
    """Read `15` or `15+30`.

    >>> parse_samples("15"), parse_samples("15+30")
    (15, (15, 30))
    """
    parts = [part.strip() for part in text.split("+")]
    if len(parts) > 2 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise typer.BadParameter(
            f"{reprlib.repr(text)} is neither a number (of at most 9 digits) nor two joined by +",
            param_hint="--samples",
        )
    return int(parts[0]) if len(parts) == 1 else (int(parts[0]), int(parts[1]))


@contextmanager
def notes() -> Iterator[list[Sen2ProWarning]]:
    """Gather what the library warns of, to be printed with the result and not in the middle of it."""
    gathered: list[Sen2ProWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Sen2ProWarning)
        try:
            yield gathered
        finally:
            gathered.extend(w.message for w in caught if isinstance(w.message, Sen2ProWarning))


def together(gathered: list[Sen2ProWarning], total: int) -> list[Sen2ProWarning]:
    """Count the sentences that were cut, over all chunks of a file, in one warning."""
    cut = [note for note in gathered if isinstance(note, TruncationWarning)]
    others = [note for note in gathered if not isinstance(note, TruncationWarning)]
    return [*others, *(TruncationWarning(sum(note.count for note in cut), total, one.limit) for one in cut[:1])]


def need_head(model: Sen2Pro) -> None:
    """Refuse to shrink without a head: the prior would come from whatever sentences are in memory together."""
    if model.method == "shrinkage" and model.head is None:
        raise Sen2ProError(
            f"there is no head for {model.encoder.name} with these settings to shrink towards; fit one with sen2pro "
            "distill and pass it with --head"
        )


def far(gaussian: Gaussian) -> int:
    """Return how many sentences are far from all that a head was fitted on."""
    return 0 if gaussian.coverage is None else int((gaussian.coverage < 0.01).sum())


def far_notes(count: int, total: int) -> list[Sen2ProWarning]:
    """Say so."""
    text = (
        f"{count} of {total} sentences are far from all that the head was fitted on (coverage below 0.01); sample them "
        "(--method sampling), or fit a head on text like this (sen2pro distill)"
    )
    return [Sen2ProWarning(text)] if count else []


def report(gathered: list[Sen2ProWarning], signature: object) -> None:
    """Print each warning once, and the signature, below a result."""
    from sen2pro.cli.terminal import Console

    console = Console()
    for text in dict.fromkeys(map(str, gathered)):
        console.print(f"note: {text}", style="yellow", markup=False, highlight=False)
    console.print(f"signature: {signature}", style="dim", markup=False, highlight=False, soft_wrap=True)
