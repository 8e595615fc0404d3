"""`sen2pro index`: texts become an index that can be searched."""

from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.rows import DocumentSource
from sen2pro.files.text import LONGEST_LINE, check_path


@options.with_settings("model", "head", "pooling", "device", "revision", "trust_remote_code", "allow_pickle")
def index(
    settings: dict[str, Any],
    input: Annotated[str, Argument(help="Text (a document a line), CSV, TSV, JSONL or Parquet, also .gz; - is stdin.")],
    output: Annotated[str, Argument(help="A new folder, or an address: postgresql://... or qdrant://...")],
    column: options.Column = None,
    id_column: Annotated[
        str | None, Option(help="Column with the ids. (default: the number of the row, from 0)")
    ] = None,
    metadata: Annotated[list[str] | None, Option(help="Column to keep and to filter by; may be given again.")] = None,
    name: Annotated[str, Option(help="Of the table or collection in a database.")] = "sen2pro",
    kind: Annotated[
        str | None, Option(help="flat or hnsw (a graph). (default: flat in a folder, hnsw in a database)")
    ] = None,
    ranking: Annotated[
        str | None, Option(help="cosine, mean-cosine or a distance. (default: cosine; mean-cosine with --encoded)")
    ] = None,
    alpha: Annotated[float | None, Option(help="Of the ranking sen2pro. (default: that of each pair)")] = None,
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
) -> None:
    """Make an index of a file, for sen2pro search.

    Streams: memory holds the index and nothing else that grows. With an address the texts go into a database.
    """
    from sen2pro.search.index import Index
    from sen2pro.search.store import is_address

    store = output if is_address(output) else None
    if store is None:
        _check_folder(output, overwrite)
    more: dict[str, Any] = {
        "store": store, "name": name, "kind": kind, "alpha": alpha, "duplicates": duplicates, "overwrite": overwrite,
        "allow_pickle": settings["allow_pickle"],
    }  # fmt: skip
    with options.notes() as gathered:
        if encoded:
            if metadata or column or id_column:
                raise Sen2ProError("a file of sen2pro encode has its own columns; leave --column and the like out")
            model = options.load(**settings)
            made = Index.from_file(model, input, ranking=ranking or "mean-cosine", **more)
        else:
            source = DocumentSource(
                input, column, id_column, metadata or (), skip_blank=skip_blank, longest_line=longest_line
            )
            number = source.count()
            model = options.load(**settings)
            columns = _Columns(source)
            made = Index.build(
                model, columns.texts(), ids=columns.ids() if id_column else None,
                metadata=columns.metadata() if metadata else None, ranking=ranking or "cosine", total=number, **more,
            )  # fmt: skip
        if store is None:
            made.save(output, overwrite=overwrite)
    total = len(made)
    Console().say(f"{total} text{'s' * (total != 1)} -> {output}")
    signature = made.signature
    made.close()
    options.report(options.together(gathered, total), signature)


def _check_folder(output: str, overwrite: bool) -> None:
    from sen2pro.search.folder import exists

    path = check_path(output)
    if exists(path) and not overwrite:
        raise Sen2ProError(f"there is an index in {path}; pass --overwrite to replace it")
    if path.exists() and not exists(path) and (not path.is_dir() or any(path.iterdir())):
        raise Sen2ProError(f"{path} is not an empty folder; name a new one")


class _Columns:
    """The columns of a source as three iterators that are read side by side: a document is kept until all had it."""

    def __init__(self, source: DocumentSource) -> None:
        self._documents: Any = iter(source)
        self._ids: list[Any] = []
        self._metadata: list[Any] = []
        self._source = source

    def texts(self) -> Any:
        """Yield the texts; ids and metadata wait until they are asked for."""
        for document in self._documents:
            if self._source.id_column:
                self._ids.append(document.id)
            if self._source.metadata:
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
