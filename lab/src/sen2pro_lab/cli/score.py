"""`sen2pro score`: candidates against references, by several metrics."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import write_text
from sen2pro.io.inputs import sentences
from sen2pro.io.rows import LONGEST_LINE

_BLANK = "the sentence is empty or blank; leave the pair out of both files"


@options.with_settings()
def score(
    settings: dict[str, Any],
    references: Annotated[
        str, Option("--references", "-r", help="Text (one sentence per line), CSV, TSV, JSONL or Parquet, also .gz.")
    ],
    candidates: Annotated[str, Option(help="Candidates: line i is scored against reference i.")],
    metrics: Annotated[str, Option(help="Names with commas between; see above.")] = "sen2pro,sen2vec,bleu,chrf",
    column: Annotated[str | None, Option(help=options.COLUMN)] = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    output: Annotated[
        str | None, Option("--output", "-o", help="A .tsv or .jsonl file for the score of each pair.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Score candidates against references, one each, by sen2pro's similarity and by the usual metrics.

    Metrics: sen2pro, sen2vec, bertscore, greedy, average, extrema, bleu, bleu-nltk, chrf, ter, cder, rouge-l, meteor.
    """
    from rich.table import Column, Table

    from sen2pro_lab.metrics import needs_model
    from sen2pro_lab.metrics import score as scoring

    names = list(dict.fromkeys(name.strip() for name in metrics.split(",") if name.strip()))
    needed = [needs_model(name) for name in names]
    path = options.check_output(output, (".tsv", ".jsonl"), (references, candidates)) if output is not None else None
    if references == candidates == "-":
        raise Sen2ProError("only one of references and candidates can come from standard input; give a file")
    sources = [sentences(place, column, longest_line=longest_line, blank=_BLANK) for place in (references, candidates)]
    expected, given = ([record.text for record in source] for source in sources)
    if len(expected) != len(given):
        counts = f"{references} has {len(expected)} sentences but {candidates} has {len(given)}"
        raise Sen2ProError(f"{counts}; they must stand in pairs")
    with options.notes() as gathered:
        model = options.load(**settings) if any(needed) else None
        scores = scoring.score(given, expected, metrics=names, model=model)
    if path is not None:
        _write(path, scores)
    if as_json:
        kept = ("metric", "corpus", "higher_is_better", "signature")
        entries = [{name: getattr(one, name) for name in kept} for one in scores]
        texts = list(dict.fromkeys(map(str, gathered)))
        print(json.dumps({"pairs": len(given), "scores": entries, "notes": texts}, indent=2, ensure_ascii=False))
        return
    title, corpus = f"{len(given)} pair{'s' * (len(given) != 1)}", Column("corpus score", justify="right")
    table = Table("metric", corpus, "direction", title=title, title_justify="left")
    for one in scores:
        table.add_row(one.metric, f"{one.corpus:.4f}", f"{'higher' if one.higher_is_better else 'lower'} is better")
    Console().print(table)
    options.report(gathered, "".join(f"\n  {one.metric}: {one.signature}" for one in scores))


def _write(path: Path, scores: Sequence[Any]) -> None:
    """Write a row for each pair."""
    names = ("segment", *(one.metric for one in scores))
    rows = [(number, *values) for number, values in enumerate(zip(*(one.segments for one in scores), strict=True), 1)]
    if path.suffix.lower() == ".tsv":
        lines = ["\t".join(map(str, row)) for row in (names, *rows)]
    else:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    write_text(path, "".join(f"{line}\n" for line in lines))


app = typer.Typer(rich_markup_mode=None, add_completion=False)
app.command()(score)
command = typer.main.get_command(app)
