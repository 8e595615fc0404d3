"""`sen2pro compare`: two sentences side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from sen2pro.cli.options import far_notes, load, need_head, notes, report
from sen2pro.cli.terminal import Console
from sen2pro.distances import METRICS, distance_pairwise
from sen2pro.files.encoding import far_from_head

_READING = {
    "sen2pro": "smaller is closer; Eq. 6 of the paper",
    "expected-cosine": "not 0 for identical sentences: it counts their spread",
    "expected-l2": "not 0 for identical sentences: it counts their spread",
}


def run(a: str, b: str, *, settings: dict[str, Any]) -> None:
    """Print similarity, distances and uncertainties of two sentences."""
    with notes() as gathered:
        model = load(**settings)
        need_head(model)
        parts = model.encode_sources([a, b])
        both = model.join(parts)
        plain = model.sen2vec([a, b]).astype(np.float64)
    cosine = plain[0] @ plain[1] / max(np.linalg.norm(plain[0]) * np.linalg.norm(plain[1]), 1e-30)

    closeness = Table(title="How close", title_justify="left")
    closeness.add_column("measure")
    closeness.add_column("value", justify="right")
    closeness.add_column("how to read it")
    closeness.add_row(
        "similarity",
        f"{model.similarity_pairwise(both[:1], both[1:])[0]:.4f}",
        "greater is closer, 0 is identical",
    )
    for metric in METRICS:
        found = distance_pairwise(both[:1], both[1:], metric)[0]
        closeness.add_row(f"{metric} distance", f"{found:.4f}", _READING.get(metric, "smaller is closer"))
    closeness.add_row("cosine", f"{cosine:.4f}", "of the plain vectors, for reference")

    doubt = Table(title="How uncertain (total variance)", title_justify="left")
    doubt.add_column("sentence", ratio=1)
    for name in (*model.sources, *(("both",) if len(parts) > 1 else ())):
        doubt.add_column(name, justify="right", no_wrap=True)
    columns = [*parts.values(), *((both,) if len(parts) > 1 else ())]
    for i, sentence in enumerate((a, b)):
        doubt.add_row(Text(sentence), *(f"{each.total_variance[i]:.4f}" for each in columns))

    Console().print(closeness, doubt)
    report([*gathered, *far_notes(far_from_head(both), 2)], both.signature)
