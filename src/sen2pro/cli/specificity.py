"""`sen2pro specificity`: how specific each sentence of a file is."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.io.sentences import Source
from sen2pro.io.text import LONGEST_LINE
from sen2pro.progress import progress

if TYPE_CHECKING:
    from sen2pro.io.scoring import Scored


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
    from sen2pro.io.scoring import SUFFIXES, score_into

    path = options.check_output(output, SUFFIXES, [input], overwrite=overwrite)
    source = Source(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    number = source.count()
    with options.notes() as gathered:
        model = options.load(**settings)
        with progress(number, None, threshold=2048, unit="sentences") as advance:
            total, kept, ends = score_into(
                path, model, source, below=below, above=above, sort=sort, overwrite=overwrite, advance=advance
            )
    _show(model, ends)
    chosen = "" if kept == total else f" of {total}"
    Console().say(f"{kept}{chosen} sentence{'s' * (total != 1)} -> {output}")
    options.report(options.together(gathered, total), options.signature_in_one_pass(model))


def _show(model: Any, rows: list["Scored"]) -> None:
    """Print the vaguest and the most specific sentences, each word the brighter the more it carries."""
    from rich.table import Column, Table

    table = Table(Column("specificity", justify="right"), "sentence: the words that carry it are bright", box=None)
    for place, row in enumerate(rows):
        table.add_row(f"{row.score:.0f}", shaded(model, row.text), end_section=place == len(rows) // 2 - 1)
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
