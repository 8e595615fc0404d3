"""`sen2pro encode`: a file of sentences becomes a file of Gaussians."""

from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.files.sentences import Source
from sen2pro.files.text import LONGEST_LINE
from sen2pro.progress import progress


@options.with_settings()
def encode(
    settings: dict[str, Any],
    input: Annotated[
        str, Argument(help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz; - is standard input.")
    ],
    output: Annotated[str, Argument(help="A .parquet or .safetensors file.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    id_column: Annotated[str | None, Option(help="Column with ids to keep (Parquet output).")] = None,
    text: Annotated[bool, Option(help="Keep the sentences in the file (Parquet output).")] = True,
    skip_blank: options.SkipBlank = False,
    overwrite: options.Overwrite = False,
    batch_size: Annotated[
        int | None, Option(help="Forward passes at once: speed and memory, not the result. (default: what fits)", min=1)
    ] = None,
) -> None:
    """Turn a file of sentences into a file of Gaussians.

    Streams: memory does not grow with the file. The output appears under its name only when it is complete.
    """
    from sen2pro.files.encoding import encode_into
    from sen2pro.files.gaussians import GaussianWriter

    parquet = output.lower().endswith(".parquet")
    if id_column and not parquet:
        raise Sen2ProError("ids are kept in Parquet files only; name the output .parquet")
    source = Source(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    number = source.count()
    with GaussianWriter(output, overwrite=overwrite) as writer, options.notes() as gathered:
        model = options.load(**settings)
        kept = {"ids": bool(id_column), "texts": text and parquet}
        with progress(number, None, unit="sentences") as advance:
            total, far = encode_into(writer, model, source, **kept, batch_size=batch_size, advance=advance)
    Console().say(f"{total} sentence{'s' * (total != 1)} -> {output} ({model.dim} dimensions)")
    options.report(options.together(gathered, total), model.signature(), far=far, total=total)
