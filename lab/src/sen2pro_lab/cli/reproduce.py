"""`sen2pro reproduce`: the tables and figures of the paper."""

from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.settings import DEFAULT_MODEL, DEFAULT_SAMPLES
from sen2pro_lab.cli import DataFolder


@options.with_settings("samples", "head", "dropout", "device", "trust_remote_code", "allow_pickle")
def reproduce(
    settings: dict[str, Any],
    tables: Annotated[
        list[str], Argument(help="T1 to T11, F1 to F4, Th1, Th2, or all; C1 to C5, or contests.", metavar="TABLE...")
    ],
    model: Annotated[str, Option("--model", "-m", help="Hub id, folder, or an encoder of the paper.")] = DEFAULT_MODEL,
    preset: Annotated[
        str | None,
        Option(help="Whose row of the paper the model is, where it is a folder: consert-base, simcse-base, ..."),
    ] = None,
    method: Annotated[str | None, Option(help="sampling or one-pass. (default: see above)")] = None,
    seeds: Annotated[int, Option(help="Number of seeds to average over.", min=1)] = 1,
    limit: Annotated[int | None, Option(help="Maximum number of items of each set, for a quick look.", min=1)] = None,
    shots: Annotated[
        list[str] | None, Option(help="T1, T7: examples of each class, or full; may be repeated. (default: 10 and 200)")
    ] = None,
    finetune: Annotated[bool, Option("--finetune", help="T1: fine-tuning too, minutes for each draw.")] = False,
    setfit: Annotated[bool, Option("--setfit", help="T1: SetFit too, up to an hour for each draw on a CPU.")] = False,
    output: Annotated[str, Option("--output", "-o", help="Folder for JSON, pictures, report.md.")] = "sen2pro_results",
    cache: Annotated[
        str | None, Option(help="Folder that keeps what was encoded. (default: SEN2PRO_CACHE, or the user's cache)")
    ] = None,
    data: DataFolder = None,
) -> None:
    """Make tables and figures of the paper again, with its numbers beside ours.

    Encoded sentences are cached, so tables share them and a stopped run continues. The data is read from --data or
    SEN2PRO_DATA; see sen2pro data list. The encoders of the paper are bert-base, bert-large, bert-whitening,
    bert-large-whitening, sbert-nli, simcse-base and simcse-large. By default the method is sampling, the
    paper's; T1 and T7 take one pass where the model has a head.
    """
    from sen2pro_lab import tables as paper
    from sen2pro_lab.metrics.report import PAGE, print_result, write
    from sen2pro_lab.paper import catalogue, lab, store

    names = paper.chosen(tables, method or "sampling")
    encoder = lab.Lab(
        model=model, preset=preset, method=method or "sampling", classification_method=method, seeds=seeds, limit=limit,
        samples=settings.pop("samples") or DEFAULT_SAMPLES, shots=tuple(map(_shots, shots or ["10", "200"])),
        finetune=finetune, setfit=setfit, store=store.Store(cache),
        settings={name: value for name, value in settings.items() if value is not None},
    )  # fmt: skip
    console, left_out = Console(wide=140), []
    for name in names:
        console.print(f"{name} ...", style="dim", highlight=False)
        try:
            with catalogue.reading_from(data), options.notes() as gathered:
                result = paper.reproduce(name, encoder)
        except Sen2ProError as error:
            if len(names) == 1:
                raise
            left_out.append(f"{name}: {error}")
            continue
        result.notes += dict.fromkeys(map(str, gathered))
        print_result(result, console)
        write(result, output)
    for text in left_out:
        console.print(f"left out {text}", style="yellow", markup=False, highlight=False)
    if len(left_out) == len(names):
        raise Sen2ProError("none of these tables could be made")
    console.print(f"written to {output}; the page is {output}/{PAGE}", markup=False, highlight=False)


def _shots(text: str) -> int | Literal["full"]:
    if text.lower() == "full":
        return "full"
    try:
        return int(text)
    except ValueError:
        raise Sen2ProError(f"--shots takes a number of examples of each class, or full, not {text!r}") from None


app = typer.Typer(rich_markup_mode=None, add_completion=False)
app.command()(reproduce)
command = typer.main.get_command(app)
