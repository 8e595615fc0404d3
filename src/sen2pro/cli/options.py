"""Options that several commands share, each written once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sen2pro.errors import Sen2ProWarning

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

Model = Annotated[str, typer.Option("--model", "-m", help="Hub id or folder of the encoder.")]
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
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    from sen2pro.model import Sen2Pro

    return Sen2Pro(model, samples=numbers, **settings)


def parse_samples(text: str) -> int | tuple[int, int]:
    """Read `15` or `15+30`.

    >>> parse_samples("15"), parse_samples("15+30")
    (15, (15, 30))
    """
    parts = text.split("+")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise typer.BadParameter(f"{text!r} is neither a number nor two joined by +", param_hint="--samples")
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


def report(gathered: list[Sen2ProWarning], signature: object) -> None:
    """Print each warning once, and the signature, below a result."""
    from rich.console import Console

    console = Console()
    for text in dict.fromkeys(map(str, gathered)):
        console.print(f"note: {text}", style="yellow", markup=False, highlight=False)
    console.print(f"signature: {signature}", style="dim", markup=False, highlight=False, soft_wrap=True)
