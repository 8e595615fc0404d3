"""`sen2pro data`: which evaluation sets there are, and how to get the others."""

import typer

from sen2pro.cli.terminal import Console
from sen2pro_lab.cli import DataFolder

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Evaluation data: what is there, how to get the rest."
)


@app.command("list")
def list_sets(data: DataFolder = None) -> None:
    """List the evaluation sets, the tables of the paper they serve, and where they are or can be had."""
    from rich import box
    from rich.table import Table

    from sen2pro_lab.paper import catalogue

    with catalogue.reading_from(data):
        sets, folder = catalogue.listing(), catalogue.folder()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("set", "tables", "file", "found", "rows", "sha256", "source"):
        wide = name in ("file", "source", "tables")
        table.add_column(name, no_wrap=not wide, overflow="fold", justify="right" if name == "rows" else "left")
    missing: dict[str, list[str]] = {}
    for each in sets:
        rows, source = "" if each.rows is None else f"{each.rows:,}", each.source.split(" (")[0]
        files, digests = "\n".join(each.files), "\n".join(each.sha256)
        table.add_row(each.name, each.tables, files, each.found, rows, digests, source)
        if each.found != "folder":
            missing.setdefault(f"from {each.source}; {each.way}", []).append(each.name)
    console = Console(wide=150)  # a line a set
    console.print(table)
    console.say(f"folder: {folder}" if folder else "no folder of evaluation data: set SEN2PRO_DATA, or --data FOLDER")
    if any(each.found == "hub" for each in sets):
        console.say("hub: fetched from the Hugging Face hub when it is used, if that can be reached")
    for how, names in missing.items():
        console.say(f"not in a folder: {', '.join(names)}: {how}")


command = typer.main.get_group(app)
