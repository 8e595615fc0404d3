"""`sen2pro specificity`: how specific each sentence of a file is."""

import csv
import io
import json
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.sentences import Source
from sen2pro.files.text import LONGEST_LINE

_SUFFIXES = (".csv", ".tsv", ".jsonl")
_SHOWN = 3  # sentences at either end


@options.with_settings("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
def specificity(
    settings: dict[str, Any],
    input: Annotated[str, Argument(help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz; - is stdin.")],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file: sentence, score, score at its length, value.")],
    column: options.Column = None,
    id_column: Annotated[str | None, Option(help="Column with ids to keep.")] = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    below: Annotated[float | None, Option(help="Keep only sentences with a score below this.", min=0, max=100)] = None,
    above: Annotated[float | None, Option(help="Keep only sentences with a score above this.", min=0, max=100)] = None,
    sort: Annotated[bool, Option("--sort", help="Write the vaguest first.")] = False,
    skip_blank: options.SkipBlank = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Say how specific each sentence is, in one pass and without labels.

    A score of 20 means: more specific than 20 % of English sentences. Below 20 a sentence is vague.
    """
    from sen2pro.files.atomic import write_text

    path = options.check_output(output, _SUFFIXES, [input], overwrite=overwrite)
    records = list(Source(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line))
    if not records:
        raise Sen2ProError(f"there are no sentences in {input}")
    with options.notes() as gathered:
        model = options.load(**settings)
        result = model.specificity([record.text for record in records])
    kept = [
        row for row in range(len(records))
        if (below is None or result.score[row] < below) and (above is None or result.score[row] > above)
    ]  # fmt: skip
    order = sorted(kept, key=lambda row: result.value[row]) if sort else kept
    rows = [
        {
            **({"id": records[row].id} if id_column else {}), "text": records[row].text,
            "specificity": round(float(result.score[row]), 1), "at_length": round(float(result.at_length[row]), 1),
            "value": round(float(result.value[row]), 4),
        }
        for row in order
    ]  # fmt: skip
    write_text(path, _written(rows, path.suffix.lower(), bool(id_column)))
    _show(model, [records[row].text for row in kept], result.score[kept], result.value[kept])
    chosen = "" if len(kept) == len(records) else f" of {len(records)}"
    Console().say(f"{len(kept)}{chosen} sentence{'s' * (len(records) != 1)} -> {output}")
    options.report(options.together(gathered, len(records)), model.signature())


def _written(rows: list[dict[str, Any]], suffix: str, ids: bool) -> str:
    if suffix == ".jsonl":
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    stream = io.StringIO()
    names = [*(["id"] if ids else []), "text", "specificity", "at_length", "value"]
    writer = csv.DictWriter(stream, names, delimiter="," if suffix == ".csv" else "\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _show(model: Any, texts: list[str], scores: Any, values: Any) -> None:
    """Print the vaguest and the most specific sentences, each word the brighter the more it carries."""
    from rich.table import Column, Table

    order = sorted(range(len(texts)), key=lambda row: values[row])
    shown = order if len(order) <= 2 * _SHOWN else [*order[:_SHOWN], *order[-_SHOWN:]]
    table = Table(Column("specificity", justify="right"), "sentence: the words that carry it are bright", box=None)
    for place, row in enumerate(shown):
        table.add_row(f"{scores[row]:.0f}", shaded(model, texts[row]), end_section=place == _SHOWN - 1)
    Console(wide=120).print(table)


def shaded(model: Any, text: str) -> Any:
    """Return a text for the terminal whose words are shaded by how much they carry; a long one is cut."""
    from rich.text import Text

    explanation = model.explain(" ".join(text.split()[:40]))
    result = Text(overflow="ellipsis", no_wrap=True)
    for word, share in zip(explanation.words, explanation.share * len(explanation.words), strict=True):
        result.append(word, style="bold" if share > 1.5 else "" if share > 0.6 else "dim")
        result.append(" ")
    return result
