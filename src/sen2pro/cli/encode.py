"""`sen2pro encode`: files of sentences become a file of Gaussians."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.cli.workers import Restart, Workers, notes_of
from sen2pro.io.rows import LONGEST_LINE

if TYPE_CHECKING:
    from sen2pro.jobs import Summary

_MOST_SHOWN = 100  # rows that were skipped


@options.with_settings()
def encode(
    settings: dict[str, Any],
    input: Annotated[
        list[str],
        Argument(
            help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz: files, a folder or a pattern; - is "
            "standard input."
        ),
    ],
    output: Annotated[str, Argument(help="A .parquet or .safetensors file; with --shards a new folder.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    id_column: Annotated[str | None, Option(help="Column with ids to keep (Parquet output).")] = None,
    keep_column: Annotated[list[str] | None, Option(help="Other column to keep; may be given again.")] = None,
    text: Annotated[bool, Option(help="Keep the sentences in the file (Parquet output).")] = True,
    skip_blank: options.SkipBlank = False,
    on_error: Annotated[str, Option(help="At a row that cannot be read or encoded: fail, or skip it.")] = "fail",
    shards: Annotated[bool, Option("--shards", help="Write a folder of Parquet files.")] = False,
    workers: Workers = None,
    restart: Restart = False,
    overwrite: options.Overwrite = False,
    batch_size: Annotated[
        int | None, Option(help="Forward passes at once: speed and memory, not the result. (default: what fits)", min=1)
    ] = None,
) -> None:
    """Turn files of sentences into a file of Gaussians.

    Streams: memory does not grow with the files. The output appears under its name only when it is complete. A run
    that was stopped or killed resumes when you run the same command again.
    """
    from sen2pro.jobs import encode_files

    with options.notes() as gathered:
        done = encode_files(
            lambda: options.load(**settings), input, output, column=column, id_column=id_column, keep=keep_column or (),
            text=text, skip_blank=skip_blank, on_error=on_error, shards=shards, workers=workers or 1,
            restart=restart, overwrite=overwrite, batch_size=batch_size, longest_line=longest_line,
        )  # fmt: skip
    Console().say(str(done))
    _show_skipped(done)
    report = done.report
    options.report([*gathered, *notes_of(done)], done.signature, far=report.far, total=report.rows)


def _show_skipped(done: Summary) -> None:
    skipped = done.report.skipped
    for place, why in skipped[:_MOST_SHOWN]:
        Console().say(f"skipped: {place}: {why}", style="yellow")
    if done.report.skipped_rows > _MOST_SHOWN:
        Console().say(f"and {done.report.skipped_rows - _MOST_SHOWN:,} more", style="yellow")
