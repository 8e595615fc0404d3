"""`sen2pro info`: what is inside a model."""

from collections import Counter
from typing import Annotated, Any

from typer import Argument

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.settings import DEFAULT_MODEL


@options.with_settings("trust_remote_code", "allow_pickle")
def info(
    settings: dict[str, Any],
    model: Annotated[str, Argument(help="Hub id or folder of the encoder.")] = DEFAULT_MODEL,
) -> None:
    """Say what is inside a model: layers, dropout, pooling, geometry, and whether it can be sampled."""
    from rich.table import Table
    from rich.text import Text

    loaded = options.load(model=model, uncertainty="data", **settings)
    encoder = loaded.encoder
    layers = encoder.depth - 1 if encoder.depth else "?"
    whitened = f", whitened to {loaded.dim}" if loaded.whitening else ""
    silent = "dropout is 0 in this model; pass dropout=0.1 to sample it anyway"
    sites = Counter((site.kind, site.rate) for site in encoder.sites)
    rows = [
        ("architecture", f"{encoder.family}, {layers} layers, {encoder.parameters / 1e6:.1f} M parameters"),
        ("weights", f"sha256 over all tensors starts {encoder.hash}"),
        ("vector", f"{encoder.dim} dimensions, {encoder.pooling_name} pooling{whitened}"),
        ("geometry", "unit sphere (made for cosine)" if loaded.normalize else "raw vectors"),
        ("longest input", f"{encoder.max_length} tokens"),
        *((f"{kind} dropout", f"{n} sites at a rate of {rate:g}") for (kind, rate), n in sorted(sites.items())),
        ("vocabulary", f"{len(encoder.vocabulary)} whole words for edits"),
        ("model uncertainty", "can be sampled" if any(site.rate for site in encoder.sites) else silent),
        ("data uncertainty", "can be sampled" if encoder.vocabulary else "needs a vocabulary of your own"),
        ("one-pass", str(loaded.find_head() or "no head yet; sen2pro distill fits one in minutes")),
    ]
    table = Table(show_header=False, title=encoder.name, title_justify="left")
    for name, value in rows:
        table.add_row(name, Text(value))
    Console().print(table)
