"""`sen2pro distill`: fit a head for a model on a file of sentences."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from rich.console import Console

from sen2pro.cli.inputs import Source
from sen2pro.cli.options import load, notes, report
from sen2pro.errors import Sen2ProError
from sen2pro.head import CONFIG


def run(corpus: str, output: str, *, column: str | None, limit: int, samples: int, settings: dict[str, Any]) -> None:
    """Fit a head and save it; all that can be wrong with the files is said before the model is loaded."""
    folder = Path(output)
    if folder.is_file():
        raise Sen2ProError(f"{folder} is a file; give a folder")
    if (folder / CONFIG).exists():
        raise Sen2ProError(f"there is a head in {folder} already; give another folder, or delete it")
    source = Source(corpus, column, skip_blank=True)
    texts = list(dict.fromkeys(record.text for chunk in source.chunks(4096) for record in chunk))
    if len(texts) > limit:
        texts = random.Random(0).sample(texts, limit)
    with notes() as gathered:
        model = load(**settings)
        model.distill(texts, samples=samples, verbose=False)
    head = model.head
    assert head is not None
    head.save(folder)
    console = Console()
    console.print(head.report(), markup=False, highlight=False, soft_wrap=True)
    console.print(f"-> {folder}", markup=False, highlight=False, soft_wrap=True)
    report(gathered, model.signature())
