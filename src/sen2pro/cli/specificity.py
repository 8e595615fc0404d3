"""`sen2pro specificity`: how specific each sentence of a file is."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.io.tables import SUFFIXES, new_table
from sen2pro.progress import progress

_CHUNK = 1024  # sentences in memory at once
_ENDS = 3  # sentences remembered at either end


class Scored(NamedTuple):
    """A sentence and how specific it is."""

    id: str | None
    text: str
    specificity: float
    at_length: float
    value: float


class Scores(NamedTuple):
    """How many sentences were scored and kept, and the ends of those kept, the vaguest first."""

    sentences: int
    kept: int
    ends: list[Scored]


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

    A score of 20 means: more specific than 20 % of English sentences. Below 20 a sentence is vague. Streams: memory
    does not grow with the file, unless it is sorted. The output appears under its name only when it is complete.
    """
    path = options.check_output(output, SUFFIXES, [input], overwrite=overwrite)
    source = sentences(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    number = source.count()
    with options.notes() as gathered:
        model = options.load(**settings)
        with progress(number, None, threshold=2048, unit="sentences") as advance:
            total, kept, ends = score_into(
                path, model, source, ids=id_column is not None, below=below, above=above, sort=sort,
                overwrite=overwrite, advance=advance,
            )  # fmt: skip
    _show(model, ends)
    chosen = "" if kept == total else f" of {total}"
    Console().say(f"{kept}{chosen} sentence{'s' * (total != 1)} -> {output}")
    options.report(options.together(gathered, total), options.signature_in_one_pass(model))


def score_into(
    path: Path, model: Any, source: Reader[Record], *, ids: bool = False, below: float | None = None,
    above: float | None = None, sort: bool = False, overwrite: bool = True,
    advance: Callable[[float], None] = lambda _: None,
) -> Scores:  # fmt: skip
    """Write how specific every sentence is, in the order of the source or, with `sort`, the vaguest first.

    `below` and `above` keep only sentences with such a score. Sorting keeps all of these in memory.
    """
    columns = {**({"id": None} if ids else {}), "text": None, "specificity": 1, "at_length": 1, "value": 4}
    sentences = kept = 0
    ends: list[Scored] = []
    waiting: list[Scored] = []
    with new_table(path, columns, overwrite=overwrite) as write:
        for records in source.chunks(_CHUNK):
            result = model.specificity([record.text for record in records], show_progress_bar=advance)
            numbers = zip(result.score.tolist(), result.at_length.tolist(), result.value.tolist(), strict=True)
            rows = [Scored(record.id, record.text, *each) for record, each in zip(records, numbers, strict=True)]
            rows = [row for row in rows if _between(row.specificity, above, below)]
            sentences, kept = sentences + len(records), kept + len(rows)
            ends = sorted([*ends, *rows], key=lambda row: row.value)
            ends = ends if len(ends) <= 2 * _ENDS else [*ends[:_ENDS], *ends[-_ENDS:]]
            if sort:
                waiting += rows
            for row in () if sort else rows:
                write({name: getattr(row, name) for name in columns})
        if not sentences:
            raise Sen2ProError(f"there are no sentences in {source.path}")
        for row in sorted(waiting, key=lambda row: row.value):
            write({name: getattr(row, name) for name in columns})
    return Scores(sentences, kept, ends)


def _between(score: float, above: float | None, below: float | None) -> bool:
    return (below is None or score < below) and (above is None or score > above)


def _show(model: Any, rows: list[Scored]) -> None:
    """Print the vaguest and the most specific sentences, each word the brighter the more it carries."""
    from rich.table import Column, Table

    table = Table(Column("specificity", justify="right"), "sentence: the words that carry it are bright", box=None)
    for place, row in enumerate(rows):
        table.add_row(f"{row.specificity:.0f}", shaded(model, row.text), end_section=place == len(rows) // 2 - 1)
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
