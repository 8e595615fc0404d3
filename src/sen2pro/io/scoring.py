"""Write a table of sentences and their specificity, a chunk at a time: memory does not grow with the file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import replacing
from sen2pro.io.sentences import Source

SUFFIXES = (".csv", ".tsv", ".jsonl")
CHUNK = 1024  # sentences in memory at once
_ENDS = 3  # sentences remembered at either end


class Scored(NamedTuple):
    """A sentence and how specific it is."""

    id: str | None
    text: str
    score: float
    at_length: float
    value: float


class Scores(NamedTuple):
    """What was scored, and the ends of what was kept, the vaguest first; all that was kept if it is that little."""

    sentences: int
    kept: int
    ends: list[Scored]


def score_into(
    path: Path, model: Any, source: Source, *, below: float | None = None, above: float | None = None,
    sort: bool = False, overwrite: bool = True, advance: Callable[[float], None] = lambda _: None,
) -> Scores:  # fmt: skip
    """Write how specific every sentence of a source is, by a `Sen2Pro`; rows stand in the order of the source.

    `below` and `above` keep only sentences with such a score. `sort` writes the vaguest first, for which all that is
    kept stays in memory.
    """
    sentences = kept = 0
    ends: list[Scored] = []
    waiting: list[Scored] = []
    with _table(path, ids=source.id_column is not None, overwrite=overwrite) as write:
        for records in source.chunks(CHUNK):
            result = model.specificity([record.text for record in records], show_progress_bar=advance)
            numbers = zip(result.score.tolist(), result.at_length.tolist(), result.value.tolist(), strict=True)
            rows = [Scored(record.id, record.text, *each) for record, each in zip(records, numbers, strict=True)]
            rows = [row for row in rows if _between(row.score, above, below)]
            sentences, kept = sentences + len(records), kept + len(rows)
            ends = _ends([*ends, *rows])
            if sort:
                waiting += rows
            else:
                write(rows)
        if not sentences:
            raise Sen2ProError(f"there are no sentences in {source.path}")
        write(sorted(waiting, key=lambda row: row.value))
    return Scores(sentences, kept, ends)


def _between(score: float, above: float | None, below: float | None) -> bool:
    return (below is None or score < below) and (above is None or score > above)


def _ends(rows: list[Scored]) -> list[Scored]:
    """Return the vaguest and the most specific rows, the vaguest first; all of them if they are few."""
    order = sorted(rows, key=lambda row: row.value)
    return order if len(order) <= 2 * _ENDS else [*order[:_ENDS], *order[-_ENDS:]]


@contextmanager
def _table(path: Path, *, ids: bool, overwrite: bool) -> Iterator[Callable[[Iterable[Scored]], None]]:
    """Give a function that writes rows to a table, which appears under its name when it is complete."""
    suffix = path.suffix.lower()
    with replacing(path, overwrite=overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":
            yield lambda rows: file.writelines(f"{json.dumps(_cells(row, ids), ensure_ascii=False)}\n" for row in rows)
        else:
            names = [*(["id"] if ids else []), "text", "specificity", "at_length", "value"]
            writer = csv.DictWriter(file, names, delimiter="," if suffix == ".csv" else "\t", lineterminator="\n")
            writer.writeheader()
            yield lambda rows: writer.writerows(_cells(row, ids) for row in rows)


def _cells(row: Scored, ids: bool) -> dict[str, Any]:
    numbers = {"specificity": round(row.score, 1), "at_length": round(row.at_length, 1), "value": round(row.value, 4)}
    return {**({"id": row.id} if ids else {}), "text": row.text, **numbers}
