"""`sen2pro dedup`: near duplicates of a file."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.calibration.guarantee import CERTAINTY
from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import replacing
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.io.rows import LONGEST_LINE

if TYPE_CHECKING:
    from sen2pro.search.duplicates import Duplicates

_SHOWN = 5  # groups that are printed
_COLUMNS = ("id", "text", "keep", "group", "probability")


@options.with_settings("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
def dedup(
    settings: dict[str, Any],
    input: Annotated[str, Argument(help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz.")],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file: id, text, keep, group, probability.")],
    precision: Annotated[
        float | None,
        Option(
            help="Least share of duplicates among the dropped texts. (default: 0.95 with --confidence, 0.8 without)"
        ),
    ] = None,
    certainty: options.Certainty = CERTAINTY,
    confidence: Annotated[
        str | None, Option(help="Folder of sen2pro calibrate. (default: what ships, which promises nothing)")
    ] = None,
    column: options.Column = None,
    id_column: Annotated[str | None, Option(help="Column with ids. (default: the number of the row, from 1)")] = None,
    kept_only: Annotated[bool, Option("--kept-only", help="Write only the texts that are kept.")] = False,
    skip_blank: options.SkipBlank = False,
    longest_line: options.LongestLine = LONGEST_LINE,
    overwrite: options.Overwrite = False,
) -> None:
    """Find near duplicates, keep the first of each group, and say what is dropped.

    A group is named by the id of the text that is kept. The probability is that of saying the same as that text.
    """
    path = options.check_output(output, (".csv", ".tsv", ".jsonl"), [input], overwrite=overwrite)
    source = sentences(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    if input == "-":
        raise Sen2ProError("duplicates are looked for in a file, which is read twice; standard input is not one")
    number = source.count()
    if not number:
        raise Sen2ProError(f"there are no sentences in {input}")
    from sen2pro.search.duplicates import find_duplicates

    with options.notes() as gathered:
        model = options.load(**settings)
        found = find_duplicates(
            model, (record.text for record in source), precision=precision, certainty=certainty, confidence=confidence,
            total=number,
        )  # fmt: skip
        shown = _write(path, source, found, kept_only, overwrite=overwrite)
    _show(shown, found)
    Console().say(f"{number} texts -> {output}: {len(found.kept)} kept, {len(found.dropped)} dropped")
    if found.rule is not None:
        Console().say(
            f"At least {100 * found.rule.target:g} % of the dropped texts are duplicates, with a certainty of "
            f"{100 * certainty:g} %, if pairs like these were labelled for the confidence."
        )
    options.report(options.together(gathered, number), options.signature_in_one_pass(model))


def _write(
    path: Path, source: Reader[Record], found: "Duplicates", kept_only: bool, *, overwrite: bool
) -> dict[int, Record]:  # fmt: skip
    """Write the table, and return the records of the groups that are shown."""
    likes = {each.row: each for each in found.dropped}
    wanted = {row for like, group in list(found.groups.items())[:_SHOWN] for row in (like, *(e.row for e in group))}
    names: dict[int, str] = {}
    firsts, shown, suffix = {each.like for each in found.dropped}, dict[int, Record](), path.suffix.lower()
    with replacing(path, overwrite=overwrite) as part, part.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        if suffix != ".jsonl":
            table.writerow(_COLUMNS)
        for row, record in enumerate(source):
            id = record.id if record.id is not None else str(row + 1)
            if row in firsts:
                names[row] = id
            if row in wanted:
                shown[row] = record
            like = likes.get(row)
            if like is not None and kept_only:
                continue
            cells = (
                id,
                record.text,
                like is None,
                names[like.like] if like else id,
                like and round(like.probability, 4),
            )
            if suffix == ".jsonl":
                file.write(json.dumps(dict(zip(_COLUMNS, cells, strict=True)), ensure_ascii=False) + "\n")
            else:
                table.writerow([*cells[:2], "yes" if cells[2] else "no", cells[3], "" if like is None else cells[4]])
    return shown


def _show(records: dict[int, Record], found: "Duplicates") -> None:
    """Print the first groups."""
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("probability", justify="right"), Column("text", overflow="ellipsis", no_wrap=True), box=None)
    for like, group in list(found.groups.items())[:_SHOWN]:
        table.add_row("kept", Text(records[like].text))
        for each in group[:_SHOWN]:
            table.add_row(f"{100 * each.probability:.0f} %", Text(records[each.row].text), style="dim")
        if len(group) > _SHOWN:
            table.add_row("", f"and {len(group) - _SHOWN} more", style="dim")
    if found.dropped:
        Console(wide=120).print(table)
        more = len(found.groups) - _SHOWN
        if more > 0:
            Console().say(f"... and {more} more groups")
