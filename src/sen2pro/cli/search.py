"""`sen2pro search`: ask an index."""

import csv
import json
import sys
from contextlib import suppress
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.calibration.guarantee import CERTAINTY
from sen2pro.cli import options
from sen2pro.cli.terminal import Console, in_flags
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io.atomic import replacing
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.progress import progress

_CHUNK = 256  # queries at once
_COLUMNS = ("query", "answer_id", "answer", "probability", "similarity")
_UNCALIBRATED = (
    "nothing is calibrated for this model and ranking, so there are no probabilities and the first hit is always the "
    "answer. Label queries, and pass --confidence"
)


@options.with_settings("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
def search(
    settings: dict[str, Any],
    index: Annotated[str, Argument(help="The folder of sen2pro index, or the address of a database.")],
    queries: Annotated[list[str] | None, Argument(help="What to look for.", metavar="[QUERY]...")] = None,
    hits: Annotated[int, Option("--hits", "-k", help="How many hits of each query.", min=1)] = 5,
    where: Annotated[
        list[str] | None, Option(help="What the metadata must be: lang=en; may be given again.", metavar="KEY=VALUE")
    ] = None,
    precision: Annotated[
        float | None, Option(help="Answer only at this precision. (default: a hit more likely right than not)")
    ] = None,
    certainty: options.Certainty = CERTAINTY,
    confidence: Annotated[
        str | None, Option(help="Folder of a SearchConfidence. (default: the one saved with the index, or what ships)")
    ] = None,
    batch: Annotated[
        tuple[str, str] | None, Option(help="A file of queries, and a .csv, .tsv or .jsonl file.", metavar="IN OUT")
    ] = None,
    column: options.Column = None,
    name: Annotated[str, Option(help="Of the table or collection in a database.")] = "sen2pro",
    as_json: Annotated[bool, Option("--json", help="Print JSON, a line for each query.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Find texts, each with the probability that it is right, or say that there is no good match."""
    if (batch is None) == (not queries):
        raise Sen2ProError("give a query, or --batch with a file of queries and one for the answers")
    path = source = None
    if batch is not None:
        path = options.check_output(batch[1], (".csv", ".tsv", ".jsonl"), [batch[0]], overwrite=overwrite)
        source = sentences(batch[0], column)
        number = source.count()
    asked: dict[str, Any] = {
        "k": hits, "where": _where(where or []), "precision": precision, "certainty": certainty
    }  # fmt: skip
    from sen2pro.search.index import Index

    with options.notes() as gathered:
        found = Index.open(
            index, options.load(**settings), name=name, confidence=confidence, allow_pickle=settings["allow_pickle"]
        )
        if source is None or path is None:
            results = found.search(queries or [], **asked)
            answered = sum(result.answer is not None for result in results)
        else:
            with progress(number, None, threshold=2 * _CHUNK, unit="queries", title="searching") as advance:
                total, answered = _into(path, found, source, asked, advance, overwrite=overwrite)
    if path is not None:
        Console().say(f"{total} quer{'ies' if total != 1 else 'y'} -> {path}: {answered} with an answer")
    elif as_json:
        for result in results:
            print(json.dumps(result.to_json(), ensure_ascii=False))
        for text in dict.fromkeys(map(str, gathered)):
            print(f"note: {in_flags(text)}", file=sys.stderr)  # standard output is JSON alone
        return
    else:
        _show(results)
    if not found.calibrated:
        gathered.append(Sen2ProWarning(_UNCALIBRATED))
    options.report(gathered, found.signature)


def _where(pairs: list[str]) -> dict[str, Any] | None:
    """Read KEY=VALUE; 1999 and true mean the text too, since a table of texts (CSV) has no numbers."""
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise Sen2ProError(f"--where takes KEY=VALUE, not {pair!r}")
        values = found.setdefault(key, [])
        values.append(text)
        with suppress(ValueError):
            value = json.loads(text)
            values += [value] if isinstance(value, (int, float)) else []
    return found or None


def _show(results: list[Any]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(wide=120)
    for result in results:
        answer = result.answer
        console.print(Text(f"{result.query}: {result if answer is None else 'best match: ' + answer.text}"))
        if not len(result):
            continue
        table = Table(
            Column("probability", justify="right"), Column("similarity", justify="right"), "id",
            Column("text", ratio=1, overflow="ellipsis", no_wrap=True), box=None,
        )  # fmt: skip
        for hit in result:
            sure = "–" if hit.probability is None else f"{100 * hit.probability:.0f} %"
            style = "" if answer is not None and hit is result[0] else "dim"
            table.add_row(sure, f"{hit.similarity:.3f}", Text(hit.id), Text(hit.text), style=style)
        console.print(table)


def _into(
    path: Any, index: Any, source: Reader[Record], asked: dict[str, Any], advance: Any, *, overwrite: bool
) -> tuple[int, int]:  # fmt: skip
    """Write the answers of a file of queries; return how many queries there were, and how many have an answer."""
    total = answered = 0
    suffix = path.suffix.lower()
    with replacing(path, overwrite=overwrite) as part, part.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        if suffix != ".jsonl":
            table.writerow(_COLUMNS)
        for records in source.chunks(_CHUNK):
            for result in index.search([record.text for record in records], **asked):
                total, answered = total + 1, answered + (result.answer is not None)
                if suffix == ".jsonl":
                    file.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")
                else:
                    table.writerow(_row(result))
            advance(len(records))
        if not total:
            raise Sen2ProError(f"there are no queries in {source.path}")
    return total, answered


def _row(result: Any) -> tuple[str, ...]:
    answer, best = result.answer, result[0] if len(result) else None
    sure = "" if best is None or best.probability is None else f"{best.probability:.4f}"
    near = "" if best is None else f"{best.similarity:.4f}"
    return result.query, answer.id if answer else "", answer.text if answer else "", sure, near
