"""`sen2pro encode`: a file of sentences becomes a file of Gaussians."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sen2pro.cli.options import far_notes, load, need_head, notes, report, together
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.encoding import encode_into
from sen2pro.files.sentences import Source
from sen2pro.progress import progress


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
    with GaussianWriter(output, overwrite=overwrite) as writer, notes() as gathered:
        model = load(**settings)
        need_head(model)
        with progress(total, None, unit="sentences") as advance:
            done = encode_into(
                writer, model, source, ids=bool(id_column), texts=text and parquet, batch_size=batch_size,
                advance=advance,
            )  # fmt: skip
    sentences = done.sentences
    Console().print(
        f"{sentences} sentence{'s' * (sentences != 1)} -> {output} ({model.dim} dimensions)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    report([*together(gathered, sentences), *far_notes(done.far, sentences)], model.signature())
