"""`sen2pro encode`: files of sentences become a file of Gaussians."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning, one_of
from sen2pro.files.text import LONGEST_LINE

if TYPE_CHECKING:
    from sen2pro.scale import Engine, Summary

_ENGINES = ("local", "ray")
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
    workers: Annotated[
        int | None, Option(help="Processes, each with one thread; with ray, actors. (default: 1; ray: all CPUs)", min=1)
    ] = None,
    engine: Annotated[str, Option(help="local, or ray for a cluster.")] = "local",
    address: Annotated[str | None, Option(help="Of a Ray cluster. (default: one on this machine)")] = None,
    restart: Annotated[bool, Option("--restart", help="Throw an unfinished run away and begin anew.")] = False,
    overwrite: options.Overwrite = False,
    batch_size: Annotated[
        int | None, Option(help="Forward passes at once: speed and memory, not the result. (default: what fits)", min=1)
    ] = None,
) -> None:
    """Turn files of sentences into a file of Gaussians.

    Streams: memory does not grow with the files. The output appears under its name only when it is complete. A run
    that was stopped or killed goes on where it was if the same command is given again.
    """
    from sen2pro.scale import encode_files

    with options.notes() as gathered:
        done = encode_files(
            _model(engine, settings), input, output, column=column, id_column=id_column, keep=keep_column or (),
            text=text, skip_blank=skip_blank, on_error=on_error, shards=shards, workers=workers or 1,
            engine=_engine(engine, workers, address, settings), restart=restart, overwrite=overwrite,
            batch_size=batch_size, longest_line=longest_line,
        )  # fmt: skip
    Console().say(str(done))
    _show_skipped(done)
    report = done.report
    cut = [TruncationWarning(report.cut, report.rows, report.limit)] if report.cut else []
    more = [*map(Sen2ProWarning, report.notes), *cut]
    options.report([*gathered, *more], done.signature, far=report.far, total=report.rows)


def _model(engine: str, settings: dict[str, Any]) -> Any:
    """Return the settings of the model, which a cluster loads, or a function that loads it here."""
    from sen2pro.settings import Settings

    return Settings(**settings) if engine == "ray" else lambda: options.load(**settings)


def _engine(name: str, workers: int | None, address: str | None, settings: dict[str, Any]) -> Engine | None:
    if one_of("engine", name, _ENGINES) == "ray":
        from sen2pro.integrations.ray import RayEngine

        gpus = 1 if str(settings["device"]).startswith("cuda") else 0
        return RayEngine(workers, address=address, gpus=gpus)
    if address is not None:
        raise Sen2ProError("an address is that of a Ray cluster; pass engine='ray' too")
    return None


def _show_skipped(done: Summary) -> None:
    skipped = done.report.skipped
    for place, why in skipped[:_MOST_SHOWN]:
        Console().say(f"skipped: {place}: {why}", style="yellow")
    if done.report.skipped_rows > _MOST_SHOWN:
        Console().say(f"and {done.report.skipped_rows - _MOST_SHOWN:,} more", style="yellow")
