"""`sen2pro distill`: fit a head for a model on a file of sentences."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from sen2pro.cli.options import load, notes, report
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.estimation.head import CONFIG
from sen2pro.files.sentences import Source


def run(
    corpus: str,
    output: str,
    *,
    column: str | None,
    longest_line: int,
    limit: int,
    samples: int,
    force: bool,
    settings: dict[str, Any],
) -> None:
    """Fit a head, and save it if it is good enough; what is wrong with the files is said before the model is loaded."""
    folder = Path(output)
    if folder.is_file():
        raise Sen2ProError(f"{folder} is a file; give a folder")
    if (folder / CONFIG).exists():
        raise Sen2ProError(f"there is a head in {folder} already; give another folder, or delete it")
    source = Source(corpus, column, skip_blank=True, longest_line=longest_line)
    texts = list(dict.fromkeys(record.text for chunk in source.chunks(4096) for record in chunk))
    if len(texts) > limit:
        texts = random.Random(0).sample(texts, limit)
    with notes() as gathered:
        model = load(**settings)
        model.distill(texts, samples=samples, verbose=False)
    head = model.head
    assert head is not None
    console = Console()
    console.print(head.report(), markup=False, highlight=False, soft_wrap=True)
    if head.flaw and not force:
        raise Sen2ProError(
            "the head was not saved, because it is worse than a constant: fit it on more sentences, or with more "
            "--samples; to save it anyway, pass --force"
        )
    head.save(folder)
    console.print(f"-> {folder}", markup=False, highlight=False, soft_wrap=True)
    report([note for note in gathered if str(note) != head.flaw], model.signature())
