"""`sen2pro show`: the first rows of a file of Gaussians, or of a folder of shards."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError


def show(
    file: Annotated[str, Argument(help="A file or a folder of shards that encode wrote.")],
    rows: Annotated[int, Option("--rows", "-n", help="How many rows.", min=1)] = 10,
    certain: Annotated[bool, Option("--certain", help="Least uncertain first (by data variance, if there).")] = False,
    uncertain: Annotated[bool, Option("--uncertain", help="Most uncertain, which are the vaguest, first.")] = False,
) -> None:
    """Show the first rows of a file of Gaussians: ids, texts, total variances, and how they were made."""
    from rich.table import Table
    from rich.text import Text

    from sen2pro.gaussian import read

    stored = read(file)
    gaussian = stored.gaussian
    if len(gaussian.shape) == 1:
        raise Sen2ProError(f"{file} holds a single Gaussian of {gaussian.dim} dimensions; a table needs a batch")
    totals = {"total variance": gaussian.total_variance, **_by_source(file)}
    order = list(range(len(gaussian)))
    if certain or uncertain:  # the data variance tells the vague from the specific
        order = totals.get("data variance", gaussian.total_variance).argsort(kind="stable").tolist()
    if uncertain and not certain:
        order.reverse()
    columns: dict[str, Any] = {"id": stored.ids, "text": stored.texts, "coverage": gaussian.coverage}
    columns = {name: values for name, values in columns.items() if values is not None}
    table = Table(title=f"{file}: {len(gaussian)} Gaussians, {gaussian.dim} dimensions", title_justify="left")
    for name in ("row", *columns, *totals):
        table.add_column(name, justify="left" if name in ("id", "text") else "right")
    for row in order[:rows]:
        cells = [Text(f"{each[row]:.2f}" if name == "coverage" else each[row]) for name, each in columns.items()]
        for cell in cells:
            cell.truncate(60, overflow="ellipsis")
        table.add_row(str(row), *cells, *(f"{values[row]:.4f}" for values in totals.values()))
    console = Console()
    console.print(table)
    if gaussian.coverage is not None:
        console.print("coverage: below 0.01, do not trust the variances; sample that sentence instead", style="dim")
    console.say(f"signature: {gaussian.signature}", style="dim")


def _by_source(path: str) -> dict[str, Any]:
    """Return the variance of each source of uncertainty, where a file has them."""
    import numpy as np

    from sen2pro.io.gaussians import stream

    if not Path(path).is_dir() and not path.lower().endswith(".parquet"):
        return {}
    parts = [piece.totals for piece in stream(path, 8192, verify=False)]
    names = list(parts[0]) if parts else []
    return {name.replace("_", " "): np.concatenate([each[name] for each in parts]) for name in names}
