"""`sen2pro encode`: a file of sentences becomes a file of Gaussians."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sen2pro.cli.options import far, far_notes, load, need_head, notes, report, together
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.sentences import Source
from sen2pro.progress import progress

_CHUNK = 256  # sentences in memory at once


def run(
    input: str,
    output: str,
    *,
    column: str | None,
    id_column: str | None,
    text: bool,
    overwrite: bool,
    skip_blank: bool,
    longest_line: int,
    batch_size: int | None,
    settings: dict[str, Any],
) -> None:
    """Encode `input` into `output`; all that can be wrong with either is said before the model is loaded."""
    from sen2pro.files.gaussians import GaussianWriter

    parquet = Path(output).suffix.lower() == ".parquet"
    if id_column and not parquet:
        raise Sen2ProError("ids are kept in Parquet files only; name the output .parquet")
    source = Source(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    total = source.count()
    sentences = unknown = 0
    with GaussianWriter(output, overwrite=overwrite) as writer, notes() as gathered:
        model = load(**settings)
        need_head(model)
        per_sentence = 1 if model.method == "one-pass" else sum(model.samples[name] for name in model.sources)
        with progress(total, None, unit="sentences") as advance:
            for chunk in source.chunks(_CHUNK):
                texts = [record.text for record in chunk]
                gaussian = model.encode(
                    texts, batch_size=batch_size, show_progress_bar=lambda done: advance(done / per_sentence)
                )
                ids = [str(record.id) for record in chunk] if id_column else None
                writer.write(gaussian, ids=ids, texts=texts if text and parquet else None)
                sentences += len(chunk)
                unknown += far(gaussian)
        if sentences == 0:
            writer.write(model.encode([]))
    Console().print(
        f"{sentences} sentence{'s' * (sentences != 1)} -> {output} ({model.dim} dimensions)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    report([*together(gathered, sentences), *far_notes(unknown, sentences)], model.signature())
