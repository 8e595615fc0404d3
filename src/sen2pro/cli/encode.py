"""`sen2pro encode`, `show`, `distill` and `info`: files of Gaussians, and the models that make them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import check_path
from sen2pro.io.inputs import sentences
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.settings import DEFAULT_MODEL

if TYPE_CHECKING:
    from sen2pro.validation import Array64

_MOST_SHOWN = 100  # rows that were skipped


@options.with_settings(more={"reading": options.Reading})
def encode(
    settings: options.Chosen,
    reading: options.Chosen,
    input: Annotated[list[str], Argument(help=f"{options.INPUT}: files, a folder or a pattern; - is standard input.")],
    output: Annotated[str, Argument(help="A .parquet or .safetensors file; with --shards a new folder.")],
    keep_column: Annotated[
        list[str] | None, Option(help="Another column to keep (Parquet output); may be repeated.")
    ] = None,
    text: Annotated[bool, Option(help="Keep the sentences in the file (Parquet output).")] = True,
    on_error: Annotated[str, Option(help="For a row that cannot be read or encoded: fail or skip.")] = "fail",
    shards: Annotated[bool, Option("--shards", help="Write a folder of Parquet files.")] = False,
    workers: options.Workers = None,
    restart: options.Restart = False,
    overwrite: options.Overwrite = False,
    batch_size: Annotated[
        int | None,
        Option(help="Forward passes per batch: changes speed and memory, not the result. (default: automatic)", min=1),
    ] = None,
) -> None:
    """Turn files of sentences into a file of Gaussians.

    Memory does not grow with the files. The output appears under its name only when it is complete. A run that was
    stopped or killed resumes when you run the same command again.
    """
    from sen2pro.jobs import encode_files

    with options.notes() as gathered:
        done = encode_files(
            lambda: options.load(**settings), input, output, keep=keep_column or (), text=text, on_error=on_error,
            shards=shards, workers=workers or 1, restart=restart, overwrite=overwrite, batch_size=batch_size, **reading,
        )  # fmt: skip
    console, report = Console(), done.report
    console.say(str(done))
    for place, why in report.skipped[:_MOST_SHOWN]:
        console.say(f"skipped: {place}: {why}", style="yellow")
    if report.skipped_rows > _MOST_SHOWN:
        console.say(f"and {report.skipped_rows - _MOST_SHOWN:,} more", style="yellow")
    options.report(gathered, done.signature, done=done)


def show(
    file: Annotated[str, Argument(help="A file or a folder of shards that sen2pro encode wrote.")],
    rows: Annotated[int, Option("--rows", "-n", help="Number of rows.", min=1)] = 10,
    certain: Annotated[
        bool, Option("--certain", help="Show the rows of least variance first (data variance, if it is there).")
    ] = False,
    uncertain: Annotated[
        bool, Option("--uncertain", help="Show the rows of most variance (the vaguest) first.")
    ] = False,
) -> None:
    """Show rows of a file of Gaussians: ids, texts, total variances, and the settings that made them."""
    from rich.table import Table
    from rich.text import Text

    from sen2pro.gaussian import read

    stored = read(file)
    gaussian = stored.gaussian
    if len(gaussian.shape) == 1:
        raise Sen2ProError(f"{file} holds a single Gaussian of {gaussian.dim} dimensions; a table needs a batch")
    totals = {"total variance": gaussian.total_variance, **_variances_by_source(file)}
    order = list(range(len(gaussian)))
    if certain or uncertain:  # the data variance separates vague sentences from specific ones
        order = totals.get("data variance", gaussian.total_variance).argsort(kind="stable").tolist()
    if uncertain and not certain:
        order.reverse()
    every = {"id": stored.ids, "text": stored.texts, "coverage": gaussian.coverage}
    columns = {name: values for name, values in every.items() if values is not None}
    table = Table(title=f"{file}: {len(gaussian)} Gaussians, {gaussian.dim} dimensions", title_justify="left")
    for name in ("row", *columns, *totals):
        table.add_column(name, justify="left" if name in ("id", "text") else "right")
    for row in order[:rows]:
        cells = [Text(f"{each[row]:.2f}" if name == "coverage" else str(each[row])) for name, each in columns.items()]
        for cell in cells:
            cell.truncate(60, overflow="ellipsis")
        table.add_row(str(row), *cells, *(f"{values[row]:.4f}" for values in totals.values()))
    console = Console()
    console.print(table)
    if gaussian.coverage is not None:
        console.print("coverage: below 0.01, do not trust the variances; sample that sentence instead", style="dim")
    console.say(f"signature: {gaussian.signature}", style="dim")


def _variances_by_source(path: str) -> dict[str, Array64]:
    """Return the variance of each source of uncertainty, if the file has them."""
    import numpy as np

    from sen2pro.io.gaussians import stream

    if not Path(path).is_dir() and not path.lower().endswith(".parquet"):
        return {}
    parts = [piece.totals for piece in stream(path, 8192, verify=False)]
    names = list(parts[0]) if parts else []
    return {name.replace("_", " "): np.concatenate([each[name] for each in parts]) for name in names}


@options.with_settings(without=("method", "head", "samples"))
def distill(
    settings: options.Chosen,
    corpus: Annotated[str, Argument(help="Sentences like those you will encode: text, CSV, TSV, JSONL or Parquet.")],
    output: Annotated[str, Argument(help="A new folder for the head.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    limit: Annotated[int, Option(help="Maximum number of sentences, drawn at random.", min=200)] = 5000,
    samples: Annotated[int, Option(help="Samples per sentence and uncertainty to learn from.", min=6)] = 16,
    force: Annotated[bool, Option("--force", help="Save the head even if it is worse than a constant.")] = False,
) -> None:
    """Fit a head, so that one forward pass predicts the result of sampling: minutes, once per model.

    Then use it: sen2pro encode ... --method one-pass --head FOLDER
    """
    from sen2pro.estimation.head import CONFIG

    folder = check_path(output)
    if folder.is_file():
        raise Sen2ProError(f"{folder} is a file; give a folder")
    if (folder / CONFIG).exists():
        raise Sen2ProError(f"there is a head in {folder} already; give another folder, or delete it")
    source = sentences(corpus, column, skip_blank=True, longest_line=longest_line)
    texts = list(dict.fromkeys(record.text for record in source))
    if len(texts) > limit:
        texts = random.Random(0).sample(texts, limit)
    with options.notes() as gathered:
        model = options.load(**settings)
        model.distill(texts, samples=samples, verbose=False)
    head = model.head
    assert head is not None
    console = Console()
    console.say(head.report())
    if head.flaw and not force:
        remedy = "fit it on more sentences, or with more --samples; to save it anyway, pass --force"
        raise Sen2ProError(f"the head was not saved, because it is worse than a constant: {remedy}")
    head.save(folder)
    console.say(f"-> {folder}")
    options.report([note for note in gathered if str(note) != head.flaw], model.signature())


@options.with_settings("trust_remote_code", "allow_pickle")
def info(
    settings: options.Chosen,
    model: Annotated[str, Argument(help="Hub id or folder of the encoder.")] = DEFAULT_MODEL,
) -> None:
    """Describe a model: layers, dropout, pooling, geometry, and whether it can be sampled."""
    from rich.table import Table
    from rich.text import Text

    loaded = options.load(model=model, uncertainty="data", **settings)
    encoder = loaded.encoder
    layers = encoder.depth - 1 if encoder.depth else "?"
    whitened = f", whitened to {loaded.dim}" if loaded.whitening else ""
    silent = "dropout is 0 in this model; pass --dropout 0.1 to sample it anyway"
    sites = Counter((site.kind, site.rate) for site in encoder.sites)
    rows = [
        ("architecture", f"{encoder.family}, {layers} layers, {encoder.parameters / 1e6:.1f} M parameters"),
        ("weights", f"sha256 over all tensors starts {encoder.hash}"),
        ("vector", f"{encoder.dim} dimensions, {encoder.pooling_name} pooling{whitened}"),
        ("geometry", "unit sphere (made for cosine)" if loaded.normalize else "raw vectors"),
        ("longest input", f"{encoder.max_length} tokens"),
        *((f"{kind} dropout", f"{n} sites at a rate of {rate:g}") for (kind, rate), n in sorted(sites.items())),
        ("vocabulary", f"{len(encoder.vocabulary)} whole words for edits"),
        ("model uncertainty", "can be sampled" if any(site.rate for site in encoder.sites) else silent),
        ("data uncertainty", "can be sampled" if encoder.vocabulary else "needs a vocabulary of your own"),
        ("one-pass", str(loaded.find_head() or "no head yet; sen2pro distill fits one in minutes")),
    ]
    table = Table(show_header=False, title=encoder.name, title_justify="left")
    for name, value in rows:
        table.add_row(name, Text(value))
    Console().print(table)
