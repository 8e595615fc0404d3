"""The commands that the laboratory adds to `sen2pro`: score, reproduce and data."""

from typing import Annotated

from typer import Option

DataFolder = Annotated[str | None, Option("--data", help="Folder of evaluation data. (default: SEN2PRO_DATA)")]
