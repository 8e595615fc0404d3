"""`sen2pro index`: texts become an index that can be searched."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.cli.workers import Restart, Workers, encode_first, notes_of
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io.atomic import check_path
from sen2pro.io.inputs import Reader, Record, sentences
from sen2pro.io.rows import LONGEST_LINE

if TYPE_CHECKING:
    from sen2pro.jobs import Summary
    from sen2pro.model import Sen2Pro


@options.with_settings("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
def index(
    settings: dict[str, Any],
    input: Annotated[
        str,
        Argument(
            help="Text (a document a line), CSV, TSV, JSONL or Parquet, also .gz; - is stdin. With --workers also a "
            "folder or a pattern."
        ),
    ],
    output: Annotated[str, Argument(help="A new folder, or an address: postgresql://... or qdrant://...")],
    column: options.Column = None,
    id_column: Annotated[
        str | None, Option(help="Column with the ids. (default: the number of the row, from 0)")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        Option(help="Column to keep and to filter by; may be given again. (--encoded: all that were kept)"),
    ] = None,
    name: Annotated[str, Option(help="Of the table or collection in a database.")] = "sen2pro",
    kind: Annotated[
        str | None, Option(help="flat or hnsw (a graph). (default: flat in a folder, hnsw in a database)")
    ] = None,
    rerank: Annotated[
        str | None, Option(help="A distance that ranks the nearest texts again: eq6, wasserstein, ... (default: none)")
    ] = None,
    encoded: Annotated[
        bool,
        Option(
            "--encoded",
            help="The input is what sen2pro encode wrote (Parquet, or a folder of shards); not encoded again.",
        ),
    ] = False,
    duplicates: Annotated[str, Option(help="refuse or replace ids that stand there twice.")] = "refuse",
    skip_blank: options.SkipBlank = False,
    longest_line: options.LongestLine = LONGEST_LINE,
    overwrite: options.Overwrite = False,
    workers: Workers = None,
    restart: Restart = False,
) -> None:
    """Make an index of a file, for sen2pro search.

    Streams: memory holds the index and nothing else that grows. With an address the texts go into a database.

    With --workers, the texts are encoded first, into OUTPUT.parts (for a database NAME.parts in the current folder).
    A run that was stopped or killed resumes when you run the same command again. Such a run has no plain vectors, so
    documents are ranked by the cosine of their means.
    """
    from sen2pro.jobs import shards_for
    from sen2pro.search.index import Index
    from sen2pro.search.stores import is_address
    from sen2pro.search.vectors import search_model

    first = encode_first(workers, restart=restart, encoded=encoded)
    store = output if is_address(output) else None
    if store is None:
        _check_folder(output, overwrite)
    more: dict[str, Any] = {
        "store": store, "name": name, "kind": kind, "rerank": rerank, "duplicates": duplicates, "overwrite": overwrite,
        "allow_pickle": settings["allow_pickle"],
    }  # fmt: skip
    reading: dict[str, Any] = {
        "column": column, "id_column": id_column, "skip_blank": skip_blank, "longest_line": longest_line,
    }  # fmt: skip
    done: Summary | None = None
    with options.notes() as gathered, ExitStack() as until_saved:
        if encoded:
            if column or id_column:
                raise Sen2ProError("a file of sen2pro encode has its own columns; leave --column and the like out")
            model = options.load(**settings)
            made = Index.from_file(model, input, metadata=metadata, **more)
        elif first:
            kept, model = metadata or [], options.load(**settings)
            _check_before(model, kept, more)
            place = Path(name) if store else check_path(output)
            run = shards_for(
                search_model(model), input, place, workers=workers or 1, restart=restart, keep=kept, **reading
            )
            done = until_saved.enter_context(run)
            made = Index.from_file(model, done.output, metadata=kept, **more)
        else:
            source = sentences(input, keep=metadata or (), **reading)
            number = source.count()
            model = options.load(**settings)
            columns = _Columns(source, bool(id_column), bool(metadata))
            made = Index.build(
                model, columns.texts(), ids=columns.ids() if id_column else None,
                metadata=columns.metadata() if metadata else None, total=number, **more,
            )  # fmt: skip
        if store is None:
            made.save(output, overwrite=overwrite)
    total = len(made)
    Console().say(f"{total} text{'s' * (total != 1)} -> {output}")
    signature = made.signature
    made.close()
    notes = [*options.together(gathered, total), *(notes_of(done) if done else ())]
    options.report(notes, signature, far=done.report.far if done else 0, total=total)


def _check_before(model: Sen2Pro, metadata: list[str], more: dict[str, Any]) -> None:
    """Say what is wrong with the index to be made before hours are spent on encoding."""
    from sen2pro.search.documents import check_key
    from sen2pro.search.index import DUPLICATES
    from sen2pro.search.stores import check_new
    from sen2pro.search.vectors import describe, prompt_of_documents

    if prompt := prompt_of_documents(model):
        raise Sen2ProError(
            f"this model puts {prompt!r} before each document, which workers cannot; leave --workers out"
        )
    for key in metadata:
        check_key(key)
    one_of("duplicates", more["duplicates"], DUPLICATES)
    describe(model, more["store"], more["kind"], more["rerank"], "mean-cosine")
    check_new(more["store"], more["name"], overwrite=more["overwrite"], allow_pickle=more["allow_pickle"])


def _check_folder(output: str, overwrite: bool) -> None:
    from sen2pro.search.stores.faiss_folder import check_target, exists

    path = check_path(output)
    if exists(path) and not overwrite:
        raise Sen2ProError(f"there is an index in {path}; pass --overwrite to replace it")
    check_target(path, overwrite=overwrite)


class _Columns:
    """The columns of a source as three iterators that are read side by side: a document is kept until all had it."""

    def __init__(self, source: Reader[Record], has_ids: bool, has_metadata: bool) -> None:
        self._documents: Any = iter(source)
        self._ids: list[Any] = []
        self._metadata: list[Any] = []
        self._has_ids, self._has_metadata = has_ids, has_metadata

    def texts(self) -> Any:
        """Yield the texts; ids and metadata wait until they are asked for."""
        for document in self._documents:
            if self._has_ids:
                self._ids.append(document.id)
            if self._has_metadata:
                self._metadata.append(document.metadata)
            yield document.text

    def ids(self) -> Any:
        """Yield the ids of texts that were read."""
        while self._ids:
            yield self._ids.pop(0)

    def metadata(self) -> Any:
        """Yield the metadata of texts that were read."""
        while self._metadata:
            yield self._metadata.pop(0)
