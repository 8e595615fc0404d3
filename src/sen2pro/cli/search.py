"""`sen2pro index`, `search` and `dedup`: make an index, ask it, and find near duplicates."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console, in_flags
from sen2pro.errors import Sen2ProError, Sen2ProWarning, one_of
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.io.tables import SUFFIXES, new_table
from sen2pro.progress import progress
from sen2pro.settings import CERTAINTY

if TYPE_CHECKING:
    from sen2pro.jobs import Summary
    from sen2pro.model import Sen2Pro
    from sen2pro.search import Index
    from sen2pro.search.duplicates import Duplicates
    from sen2pro.search.results import Result

Value = str | int | float | bool
_CHUNK = 256  # queries at once
_SHOWN = 5  # groups of duplicates that are printed
_ANSWERS = {"query": None, "answer_id": None, "answer": None, "probability": 4, "similarity": 4}
_GROUPS = ("id", "text", "keep", "group", "probability")
_UNCALIBRATED = (
    "there is no calibration for this model and ranking, so there are no probabilities, and the first hit is always "
    "the answer. Label queries, fit a SearchConfidence, and pass --confidence"
)


_Kind = Annotated[str | None, Option(help="flat or hnsw (a graph). (default: flat in a folder, hnsw in a database)")]
_Rerank = Annotated[
    str | None, Option(help="A distance that ranks the nearest texts again: eq6, wasserstein, ... (default: none)")
]
_Where = Annotated[
    list[str] | None,
    Option(help="Keep only texts with this metadata: lang=en; may be repeated.", metavar="KEY=VALUE"),
]
_AnswerPrecision = Annotated[
    float | None, Option(help="Answer only at this precision. (default: if a hit is more likely right than not)")
]
_SearchConfidence = Annotated[
    str | None,
    Option(help="Folder of a SearchConfidence. (default: the one saved with the index, or the built-in one)"),
]
_Batch = Annotated[
    tuple[str, str] | None, Option(help="A file of queries, and a .csv, .tsv or .jsonl file.", metavar="IN OUT")
]
_Metadata = Annotated[
    list[str] | None, Option(help="Column to keep and to filter by; may be repeated. (--encoded: all that were kept)")
]


@options.with_settings(*options.IN_ONE_PASS, more={"reading": options.Reading})
def index(
    settings: options.Chosen,
    reading: options.Chosen,
    input: options.OneInput,
    output: Annotated[str, Argument(help="A new folder, or an address: postgresql://... or qdrant://...")],
    metadata: _Metadata = None,
    name: options.Name = "sen2pro",
    kind: _Kind = None,
    rerank: _Rerank = None,
    encoded: options.Encoded = False,
    duplicates: Annotated[str, Option(help="refuse or replace duplicate ids.")] = "refuse",
    overwrite: options.Overwrite = False,
    workers: options.Workers = None,
    restart: options.Restart = False,
) -> None:
    """Make an index of a file, for sen2pro search.

    Without a column of ids, the id of a text is the number of its row, from 0. Memory holds the index and nothing else
    that grows. With an address the texts go into a database.

    With --workers, the texts are encoded first, into OUTPUT.parts (for a database NAME.parts in the current folder).
    A run that was stopped or killed resumes when you run the same command again. Such a run has no plain vectors, so
    documents are ranked by the cosine of their means.
    """
    from sen2pro.search.documents import search_model
    from sen2pro.search.index import Index

    first = options.encode_first(workers, restart=restart, encoded=encoded)
    store = _address(output, overwrite)
    make: dict[str, Any] = {
        "store": store, "name": name, "kind": kind, "rerank": rerank, "duplicates": duplicates, "overwrite": overwrite,
        "allow_pickle": settings["allow_pickle"],
    }  # fmt: skip
    done: Summary | None = None
    with options.notes() as gathered, ExitStack() as until_saved:
        if encoded:
            if {"column", "id_column"} & reading.keys():
                raise Sen2ProError("a file of sen2pro encode has its own columns; leave --column and the like out")
            made = Index.from_file(options.load(**settings), input, metadata=metadata, **make)
        elif first:
            from sen2pro.jobs import shards_for

            kept, model = metadata or [], options.load(**settings)
            _check_before(model, kept, make)
            how: dict[str, Any] = {"keep": kept, "workers": workers or 1, "restart": restart, **reading}
            done = until_saved.enter_context(shards_for(search_model(model), input, name if store else output, **how))
            made = Index.from_file(model, done.output, metadata=kept, **make)
        else:
            source = sentences(input, keep=metadata or (), **reading)
            total = source.count()  # its errors come before the model is loaded
            ids = "id_column" in reading
            made = _build(source, total, options.load(**settings), make, ids=ids, metadata=bool(metadata))
        if store is None:
            made.save(output, overwrite=overwrite)
    total, signature = len(made), made.signature
    made.close()
    Console().say(f"{total} text{'s' * (total != 1)} -> {output}")
    options.report(options.together(gathered, total), signature, done=done)


def _address(output: str, overwrite: bool) -> str | None:
    """Return the address of a database, or None for a folder that an index may be saved to."""
    from sen2pro.search.stores import is_address
    from sen2pro.search.stores.faiss import check_target

    if is_address(output):
        return output
    check_target(output, overwrite=overwrite)
    return None


def _build(
    source: Reader[Record], number: int | None, model: Sen2Pro, make: dict[str, Any], *, ids: bool, metadata: bool
) -> Index:
    """Make an index of a file, which is read once: `tee` keeps the rows of one batch."""
    from sen2pro.search.index import Index

    copies = iter(tee(source, 1 + ids + metadata))
    texts = (record.text for record in next(copies))
    names = (record.id for record in next(copies)) if ids else None
    kept = (record.metadata for record in next(copies)) if metadata else None
    return Index.build(model, texts, ids=names, metadata=kept, total=number, **make)


def _check_before(model: Sen2Pro, metadata: list[str], make: dict[str, Any]) -> None:
    """Raise if the index cannot be made, before hours are spent on encoding."""
    from sen2pro.search.documents import check_key, describe, prompt_of_documents
    from sen2pro.search.index import DUPLICATES
    from sen2pro.search.stores import check_new

    if prompt := prompt_of_documents(model):
        raise Sen2ProError(
            f"this model puts {prompt!r} before each document, which workers cannot; leave --workers out"
        )
    for key in metadata:
        check_key(key)
    one_of("duplicates", make["duplicates"], DUPLICATES)
    describe(model, make["store"], make["kind"], make["rerank"], "mean-cosine")
    check_new(make["store"], make["name"], overwrite=make["overwrite"], allow_pickle=make["allow_pickle"])


@options.with_settings(*options.IN_ONE_PASS)
def search(
    settings: options.Chosen,
    index: Annotated[str, Argument(help="The folder of sen2pro index, or the address of a database.")],
    queries: Annotated[list[str] | None, Argument(help="Texts to search for.", metavar="[QUERY]...")] = None,
    hits: Annotated[int, Option("--hits", "-k", help="Number of hits per query.", min=1)] = 5,
    where: _Where = None,
    precision: _AnswerPrecision = None,
    certainty: options.Certainty = CERTAINTY,
    confidence: _SearchConfidence = None,
    batch: _Batch = None,
    column: options.Column = None,
    name: options.Name = "sen2pro",
    as_json: Annotated[bool, Option("--json", help="Print JSON, one line per query.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Find texts, each with the probability that it is right, or report that there is no good match."""
    if (batch is None) == (not queries):
        raise Sen2ProError("give a query, or --batch with a file of queries and one for the answers")
    source, output = batch or (None, "")
    if source is not None:
        path, rows = options.check_output(output, SUFFIXES, [source], overwrite=overwrite), sentences(source, column)
        number = rows.count()
    asked: dict[str, Any] = {"k": hits, "where": _where(where or []), "precision": precision, "certainty": certainty}
    from sen2pro.search.index import Index

    with options.notes() as gathered:
        found = Index.open(
            index, options.load(**settings), name=name, confidence=confidence, allow_pickle=settings["allow_pickle"]
        )

        def ask(texts: list[str]) -> list[Result]:
            return found.search(texts, **asked)

        if source is None:
            results = ask(queries or [])
        else:
            with progress(number, None, threshold=2 * _CHUNK, unit="queries", title="searching") as advance:
                said = _write_answers(path, ask, rows, advance, overwrite=overwrite)
    if source is not None:
        Console().say(said)
    elif as_json:
        for result in results:
            print(json.dumps(result.to_json(), ensure_ascii=False))
        for text in dict.fromkeys(map(str, gathered)):
            print(f"note: {in_flags(text)}", file=sys.stderr)  # standard output is JSON only
        return
    else:
        _print_hits(results)
    if not found.calibrated:
        gathered.append(Sen2ProWarning(_UNCALIBRATED))
    options.report(gathered, found.signature)


def _where(pairs: list[str]) -> dict[str, list[Value]] | None:
    """Read KEY=VALUE; 1999 and true mean the text too, because all values of a CSV file are texts."""
    found: dict[str, list[Value]] = {}
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


def _print_hits(results: list[Result]) -> None:
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
            probability = "–" if hit.probability is None else f"{100 * hit.probability:.0f} %"
            style = "" if answer is not None and hit is result[0] else "dim"
            table.add_row(probability, f"{hit.similarity:.3f}", Text(hit.id), Text(hit.text), style=style)
        console.print(table)


def _write_answers(
    path: Path, ask: Callable[[list[str]], list[Result]], source: Reader[Record], advance: Callable[[float], None], *,
    overwrite: bool,
) -> str:  # fmt: skip
    """Write the answers to a file of queries; return a sentence with the numbers of queries and of answers."""
    total = answered = 0
    whole = path.suffix.lower() == ".jsonl"
    with new_table(path, dict.fromkeys(_ANSWERS) if whole else _ANSWERS, overwrite=overwrite) as write:
        for records in source.chunks(_CHUNK):
            for result in ask([record.text for record in records]):
                total, answered = total + 1, answered + (result.answer is not None)
                write(result.to_json() if whole else _answer(result))
            advance(len(records))
        if not total:
            raise Sen2ProError(f"there are no queries in {source.name}")
    return f"{total} quer{'ies' if total != 1 else 'y'} -> {path}: {answered} with an answer"


def _answer(result: Result) -> dict[str, str | float | None]:
    row: dict[str, str | float | None] = {"query": result.query}
    if result.answer is not None:
        row |= {"answer_id": result.answer.id, "answer": result.answer.text}
    if len(result):
        row |= {"probability": result[0].probability, "similarity": result[0].similarity}
    return row


@options.with_settings(*options.IN_ONE_PASS, more={"reading": options.Reading})
def dedup(
    settings: options.Chosen,
    reading: options.Chosen,
    input: Annotated[str, Argument(help=f"{options.INPUT}.")],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file: id, text, keep, group, probability.")],
    precision: Annotated[
        float | None,
        Option(
            help="Minimum share of duplicates among the dropped texts. (default: 0.95 with --confidence, 0.8 without)"
        ),
    ] = None,
    certainty: options.Certainty = CERTAINTY,
    confidence: Annotated[
        str | None, Option(help="Folder of sen2pro calibrate. (default: built-in probabilities, without a guarantee)")
    ] = None,
    kept_only: Annotated[bool, Option("--kept-only", help="Write only the texts that are kept.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Find near duplicates, keep the first of each group, and list the dropped texts.

    A group has the id of the text that is kept. Without a column of ids, the id is the number of the row, from 1. The
    probability says how likely a text means the same as that one.
    """
    path = options.check_output(output, SUFFIXES, [input], overwrite=overwrite)
    source = sentences(input, **reading)
    if input == "-":
        raise Sen2ProError("sen2pro dedup reads its input twice, so it takes a file and not standard input")
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
        shown = _write_groups(path, source, found, kept_only, overwrite=overwrite)
    _print_groups(shown, found)
    console = Console()
    console.say(f"{number} texts -> {output}: {len(found.kept)} kept, {len(found.dropped)} dropped")
    if found.rule is not None:
        console.say(
            f"At least {100 * found.rule.target:g} % of the dropped texts are duplicates, with a confidence level of "
            f"{100 * certainty:g} %, if the confidence was fitted on pairs like these."
        )
    options.report(options.together(gathered, number), options.signature_in_one_pass(model))


def _write_groups(
    path: Path, source: Reader[Record], found: Duplicates, kept_only: bool, *, overwrite: bool
) -> dict[int, str]:  # fmt: skip
    """Write the table; return the texts of the groups to print."""
    duplicates, firsts = {each.row: each for each in found.dropped}, {each.like for each in found.dropped}
    wanted = {row for first, group in list(found.groups.items())[:_SHOWN] for row in (first, *(e.row for e in group))}
    names, shown = dict[int, str](), dict[int, str]()
    with new_table(path, dict.fromkeys(_GROUPS), overwrite=overwrite) as write:
        for number, record in enumerate(source):
            id = record.id if record.id is not None else str(number + 1)
            if number in firsts:
                names[number] = id
            if number in wanted:
                shown[number] = record.text
            one = duplicates.get(number)
            if one is None:
                write(dict(zip(_GROUPS, (id, record.text, True, id, None), strict=True)))
            elif not kept_only:
                cells = (id, record.text, False, names[one.like], round(one.probability, 4))
                write(dict(zip(_GROUPS, cells, strict=True)))
    return shown


def _print_groups(texts: dict[int, str], found: Duplicates) -> None:
    """Print the first groups."""
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("probability", justify="right"), Column("text", overflow="ellipsis", no_wrap=True), box=None)
    for first, group in list(found.groups.items())[:_SHOWN]:
        table.add_row("kept", Text(texts[first]))
        for each in group[:_SHOWN]:
            table.add_row(f"{100 * each.probability:.0f} %", Text(texts[each.row]), style="dim")
        if len(group) > _SHOWN:
            table.add_row("", f"and {len(group) - _SHOWN} more", style="dim")
    if found.dropped:
        Console(wide=120).print(table)
        more = len(found.groups) - _SHOWN
        if more > 0:
            Console().say(f"... and {more} more groups")
