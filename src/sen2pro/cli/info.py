"""`sen2pro info`: what is inside a model."""

from __future__ import annotations

from collections import Counter

from rich.table import Table
from rich.text import Text

from sen2pro.cli.options import load
from sen2pro.cli.terminal import Console


def run(model: str, *, trust_remote_code: bool, allow_pickle: bool) -> None:
    """Print layers, dropout sites and rates, pooling, geometry, and whether the model can be sampled."""
    permissions = {"trust_remote_code": trust_remote_code, "allow_pickle": allow_pickle}
    loaded = load(model=model, uncertainty="data", **permissions)
    head = loaded.find_head()
    encoder = loaded.encoder
    config = encoder.network.config
    parameters = sum(p.numel() for p in encoder.network.parameters())
    layers = getattr(config, "num_hidden_layers", None) or getattr(config, "encoder_layers", "?")
    silent = "dropout is 0 in this model; pass dropout=0.1 to sample it anyway"

    table = Table(show_header=False, title=encoder.name, title_justify="left")
    table.add_row("architecture", f"{config.model_type}, {layers} layers, {parameters / 1e6:.1f} M parameters")
    table.add_row("weights", f"sha256 over all tensors starts {encoder.hash}")
    whitened = f", whitened to {loaded.dim}" if loaded.whitening else ""
    table.add_row("vector", f"{encoder.dim} dimensions, {encoder.pooling_name} pooling{whitened}")
    table.add_row("geometry", "unit sphere (made for cosine)" if loaded.normalize else "raw vectors")
    table.add_row("longest input", f"{encoder.max_length} tokens")
    for (kind, rate), number in sorted(Counter((site.kind, site.rate) for site in encoder.sites).items()):
        table.add_row(f"{kind} dropout", f"{number} sites at a rate of {rate:g}")
    table.add_row("vocabulary", f"{len(encoder.vocabulary)} whole words for edits")
    table.add_row("model uncertainty", "can be sampled" if any(s.rate for s in encoder.sites) else silent)
    table.add_row("data uncertainty", "can be sampled" if encoder.vocabulary else "needs a vocabulary of your own")
    one_pass = f"{head}" if head else "no head yet; sen2pro distill fits one in minutes"
    table.add_row("one-pass", Text(one_pass))
    Console().print(table)
