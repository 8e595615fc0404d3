"""Turn a file of sentences into a file of Gaussians, a chunk at a time: memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.files.gaussians import GaussianWriter
from sen2pro.files.sentences import Source
from sen2pro.gaussian import Gaussian

CHUNK = 256  # sentences in memory at once
FAR = 0.01  # a coverage below which a prediction is not to be trusted


def far_from_head(gaussian: Gaussian) -> int:
    """Return how many sentences are unlike all that the head was fitted on."""
    return int(is_far(gaussian).sum())


def is_far(gaussian: Gaussian) -> NDArray[np.bool_]:
    """Tell which sentences (n,) are unlike all that the head was fitted on; without a head, none."""
    coverage = np.ones(len(gaussian)) if gaussian.coverage is None else gaussian.coverage
    return np.asarray(coverage < FAR)


def encode_into(
    writer: GaussianWriter, model: Any, source: Source, *, ids: bool = False, texts: bool = False,
    batch_size: int | None = None, advance: Callable[[float], None] = lambda _: None,
) -> tuple[int, int]:  # fmt: skip
    """Encode every sentence of a source with a `Sen2Pro`; return how many there were, and how many far from its head.

    `ids` and `texts` keep ids and sentences, which only Parquet can. `advance` is told how many sentences were done.
    """
    passes = 1 if model.method == "one-pass" else sum(model.samples[name] for name in model.sources)
    sentences = far = 0
    for records in source.chunks(CHUNK):
        lines = [record.text for record in records]
        parts = model.encode_sources(
            lines, batch_size=batch_size, show_progress_bar=lambda done: advance(done / passes)
        )
        gaussian = model.join(parts)
        names = [str(record.id) for record in records] if ids else None
        writer.write(gaussian, ids=names, texts=lines if texts else None, parts=parts)
        sentences += len(records)
        far += far_from_head(gaussian)
    if not sentences:
        writer.write(model.encode([]))
    return sentences, far
