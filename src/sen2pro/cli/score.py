"""`sen2pro score`: candidates against references, by several metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sen2pro.checks import is_blank
from sen2pro.cli.options import load, need_head, notes, report
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.files.atomic import write_text
from sen2pro.files.sentences import Record, Source
from sen2pro.files.text import LONGEST_LINE, check_path
from sen2pro.metrics import needs_model

if TYPE_CHECKING:
    from sen2pro.metrics.score import Score


class _PairedSource(Source):
    """Sentences that stand in pairs with those of another file, so that none may be passed over."""

    def _record(self, place: str, text: Any, id: str | None) -> Record:
        if isinstance(text, str) and is_blank(text):
            raise self._wrong(place, "empty or blank; leave the pair out of both files")
        return super()._record(place, text, id)


def run(
    references: str,
    candidates: str,
    *,
    metrics: str,
    column: str | None,
    longest_line: int = LONGEST_LINE,
    output: str | None,
    as_json: bool,
    settings: dict[str, Any],
) -> None:
    """Score `candidates` against `references`; all that can be wrong with either is said before a model is loaded."""
    from sen2pro.metrics.score import score

    names = list(dict.fromkeys(name.strip() for name in metrics.split(",") if name.strip()))
    needed = [needs_model(name) for name in names]
    if output is not None:
        _check_output(output, (references, candidates))
    expected, found = _read(references, candidates, column, longest_line)
    with notes() as gathered:
        model = load(**settings) if any(needed) else None
        if model is not None and "sen2pro" in names:
            need_head(model)
        scores = score(found, expected, metrics=names, model=model)
    if output is not None:
        _write(Path(output), scores)
    if as_json:
        _print_json(scores, [str(note) for note in gathered])
    else:
        _print_table(scores)
        report(gathered, "".join(f"\n  {one.metric}: {one.signature}" for one in scores))


def _read(references: str, candidates: str, column: str | None, longest_line: int) -> tuple[list[str], list[str]]:
    if references == candidates == "-":
        raise Sen2ProError(
            "references and candidates cannot both come from standard input; give a file for one of them"
        )
    sources = [_PairedSource(path, column, longest_line=longest_line) for path in (references, candidates)]
    both = [[record.text for record in source] for source in sources]
    if len(both[0]) != len(both[1]):
        raise Sen2ProError(
            f"{references} has {len(both[0])} sentences but {candidates} has {len(both[1])}; they must stand in pairs"
        )
    return both[0], both[1]


def _check_output(output: str, inputs: Sequence[str]) -> None:
    path = check_path(output)
    one_of("file suffix", path.suffix.lower(), (".tsv", ".jsonl"))
    if path.is_dir():
        raise Sen2ProError(f"{path} is a folder; give a file name")
    if not path.parent.is_dir():
        raise Sen2ProError(f"there is no folder {path.parent}")
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in inputs):
        raise Sen2ProError(f"{path} is one of the files to be scored; give another name for the scores")


def _write(path: Path, scores: list[Score]) -> None:
    """Write a row for each pair, under a temporary name that is changed when all is written."""
    names = ("segment", *(one.metric for one in scores))
    rows = [(number, *values) for number, values in enumerate(zip(*(one.segments for one in scores), strict=True), 1)]
    if path.suffix.lower() == ".tsv":
        lines = ["\t".join(map(str, row)) for row in (names, *rows)]
    else:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    write_text(path, "".join(f"{line}\n" for line in lines))


def _print_json(scores: list[Score], gathered: list[str]) -> None:
    kept = ("metric", "corpus", "higher_is_better", "signature")
    entries = [{name: getattr(one, name) for name in kept} for one in scores]
    result = {"pairs": len(scores[0].segments), "scores": entries, "notes": list(dict.fromkeys(gathered))}
    print(json.dumps(result, indent=2, ensure_ascii=False))


def _print_table(scores: list[Score]) -> None:
    pairs = len(scores[0].segments)
    table = Table(title=f"{pairs} pair{'s' * (pairs != 1)}", title_justify="left")
    table.add_column("metric")
    table.add_column("corpus score", justify="right")
    table.add_column("direction")
    for one in scores:
        table.add_row(one.metric, f"{one.corpus:.4f}", f"{'higher' if one.higher_is_better else 'lower'} is better")
    Console().print(table)
