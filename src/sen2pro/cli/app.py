"""The command `sen2pro`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sen2pro import __version__
from sen2pro.cli import options
from sen2pro.cli.terminal import Console, in_flags, stopping_cleanly
from sen2pro.errors import Sen2ProError
from sen2pro.files.text import LONGEST_LINE
from sen2pro.settings import DEFAULT_MODEL


class Group(TyperGroup):
    """Commands whose errors a user can act on: one message, no traceback, a clean exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 2 for wrong input, 1 for a failing disk, 130 for Ctrl-C, 143 for SIGTERM."""
        logging.basicConfig(format="%(message)s")
        logging.getLogger("sen2pro").setLevel(logging.INFO)  # a line a minute, where there is no terminal for a bar
        try:
            with stopping_cleanly():
                return super().invoke(ctx)
        except Sen2ProError as error:
            _fail(in_flags(str(error)), 2)
        except KeyboardInterrupt:
            _fail("stopped; nothing was left half written", 130)
        except BrokenPipeError:  # whoever read our output, `head` for instance, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
        except MemoryError:
            _fail("there is not enough memory; give fewer or shorter sentences at once, or a smaller --batch-size", 1)


def _fail(message: str, code: int) -> None:
    console = Console(stderr=True)
    console.print("[bold red]error:[/] ", end="")
    console.print(message, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


app = typer.Typer(
    cls=Group,
    name="sen2pro",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,  # plain help reads better in 80 columns
    help="Probabilistic sentence embeddings: any pre-trained encoder turns sentences into Gaussians.",
)


def _version(show: bool) -> None:
    if show:
        print(f"sen2pro {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
@options.with_settings()
def encode(
    input: Annotated[
        str, typer.Argument(help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz; - is standard input.")
    ],
    output: Annotated[str, typer.Argument(help="A .parquet or .safetensors file.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    id_column: Annotated[str | None, typer.Option(help="Column with ids to keep (Parquet output).")] = None,
    text: Annotated[
        bool, typer.Option("--text/--no-text", help="Keep the sentences in the file (Parquet output).")
    ] = True,
    skip_blank: Annotated[bool, typer.Option("--skip-blank", help="Pass over blank sentences.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Forward passes at once: speed and memory, not the result. (default: what fits)", min=1),
    ] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Turn a file of sentences into a file of Gaussians.

    Streams: memory does not grow with the file. The output appears under its name only when it is complete.
    """
    from sen2pro.cli.encode import run

    run(
        input, output, column=column, id_column=id_column, text=text, overwrite=overwrite,
        skip_blank=skip_blank, longest_line=longest_line, batch_size=batch_size,
        settings=settings,
    )  # fmt: skip


@app.command()
def show(
    file: Annotated[str, typer.Argument(help="A file that encode wrote.")],
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many rows.", min=1)] = 10,
    certain: Annotated[
        bool, typer.Option("--certain", help="Least uncertain sentences first (by data variance, if there).")
    ] = False,
    uncertain: Annotated[
        bool, typer.Option("--uncertain", help="Most uncertain, which are the vaguest, first.")
    ] = False,
) -> None:
    """Show the first rows of a file of Gaussians: ids, texts, total variances, and how they were made."""
    from sen2pro.cli.show import run

    run(file, rows=rows, sort="certain" if certain else "uncertain" if uncertain else None)


@app.command()
@options.with_settings()
def compare(
    a: Annotated[str, typer.Argument(help="A sentence.")],
    b: Annotated[str, typer.Argument(help="Another sentence.")],
    *,
    settings: dict[str, Any],
) -> None:
    """Compare two sentences: how close they are, how uncertain each is, and where that comes from."""
    from sen2pro.cli.compare import run

    run(
        a, b,
        settings=settings,
    )  # fmt: skip


@app.command()
@options.with_settings("model", "samples", "seed")
def demo(
    output: Annotated[str, typer.Option("--output", "-o", help="Where to put the picture.")] = "sen2pro_demo.png",
    *,
    settings: dict[str, Any],
) -> None:
    """Show what sen2pro does, on a dozen sentences: a table and a picture."""
    from sen2pro.cli.demo import run

    run(output, settings=settings)


@app.command()
@options.with_settings(without=("method", "head", "samples"))
def distill(
    corpus: Annotated[
        str, typer.Argument(help="Unlabelled sentences like those to be encoded: text, CSV, TSV, JSONL or Parquet.")
    ],
    output: Annotated[str, typer.Argument(help="A folder for the head.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    limit: Annotated[int, typer.Option(help="Maximum number of sentences, drawn at random.", min=200)] = 5000,
    samples: Annotated[int, typer.Option(help="Samples of each sentence and uncertainty to learn from.", min=6)] = 16,
    force: Annotated[bool, typer.Option("--force", help="Save the head even if it is worse than a constant.")] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Fit a head, so that one forward pass predicts what sampling would give: minutes, once for a model.

    Then use it: sen2pro encode ... --method one-pass --head FOLDER
    """
    from sen2pro.cli.distill import run

    run(
        corpus, output, column=column, longest_line=longest_line, limit=limit, samples=samples, force=force,
        settings=settings,
    )  # fmt: skip


@app.command()
@options.with_settings()
def score(
    references: Annotated[
        str,
        typer.Option("--references", "-r", help="Text (a sentence a line), CSV, TSV, JSONL or Parquet, also .gz."),
    ],
    candidates: Annotated[str, typer.Option("--candidates", help="Candidates: line i is scored against reference i.")],
    metrics: Annotated[
        str,
        typer.Option(
            help="Names with commas between: sen2pro, sen2vec, bertscore, greedy, average, extrema, bleu, bleu-nltk, "
            "chrf, ter, cder, rouge-l, meteor."
        ),
    ] = "sen2pro,sen2vec,bleu,chrf",
    column: Annotated[
        str | None, typer.Option(help="Column with the sentences. (default: text, sentence or the only one)")
    ] = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="A .tsv or .jsonl file for the score of each pair.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Score candidates against references, one each, by sen2pro's similarity and by the usual metrics."""
    from sen2pro.cli.score import run

    run(
        references, candidates, metrics=metrics, column=column, longest_line=longest_line, output=output,
        as_json=as_json,
        settings=settings,
    )  # fmt: skip


DataFolder = Annotated[str | None, typer.Option("--data", help="Folder of evaluation data. (default: SEN2PRO_DATA)")]


@app.command()
def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(help="T1 to T11, F1 to F4, Th1, Th2, or all.", metavar="TABLE..."),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Hub id or folder, or an encoder of the paper: bert-base, bert-large, bert-whitening, "
            "bert-large-whitening, sbert-nli, simcse-base, simcse-large.",
        ),
    ] = DEFAULT_MODEL,
    preset: Annotated[
        str | None,
        typer.Option(help="Whose row of the paper the model is, where it is a folder: consert-base, simcse-base, ..."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="sampling (the paper's), one-pass or shrinkage. (default: sampling; T1 and T7 take one pass where the "
            "model has a head)"
        ),
    ] = None,
    samples: options.Samples = None,
    seeds: Annotated[int, typer.Option(help="Average over so many seeds.", min=1)] = 1,
    limit: Annotated[int | None, typer.Option(help="Take so many items of each set, for a quick look.", min=1)] = None,
    shots: Annotated[
        list[str] | None,
        typer.Option(help="T1, T7: examples of each class, or full; may be repeated. (default: 10 and 200)"),
    ] = None,
    finetune: Annotated[
        bool, typer.Option("--finetune", help="T1: the classifier with a trained encoder too, minutes for each draw.")
    ] = False,
    setfit: Annotated[
        bool, typer.Option("--setfit", help="T1: compare with SetFit too, up to an hour for each draw on a CPU.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder for JSON, pictures and report.md.")
    ] = "sen2pro_results",
    cache: Annotated[
        str | None,
        typer.Option(help="Folder that keeps what was encoded. (default: SEN2PRO_CACHE, or the user's cache folder)"),
    ] = None,
    data: DataFolder = None,
    head: options.HeadFolder = None,
    dropout: options.Dropout = None,
    device: options.Device = None,
    trust_remote_code: options.TrustRemoteCode = False,
    allow_pickle: options.AllowPickle = False,
) -> None:
    """Make tables and figures of the paper anew, with its numbers beside ours.

    Encoded sentences are cached, so tables share them and a stopped run continues.
    The data is read from --data or SEN2PRO_DATA; see sen2pro data list.
    """
    from sen2pro.cli.reproduce import run

    run(
        tables, output=output, cache=cache, data=data,
        settings={
            "model": model, "preset": preset, "method": method, "samples": samples, "seeds": seeds, "limit": limit,
            "shots": shots or ["10", "200"], "finetune": finetune, "setfit": setfit,
        },
        others={
            "head": head, "dropout": dropout, "device": device, "trust_remote_code": trust_remote_code,
            "allow_pickle": allow_pickle,
        },
    )  # fmt: skip


data_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Evaluation data: what is there, and how to get the rest."
)
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list(data: DataFolder = None) -> None:
    """List the evaluation sets, the tables of the paper they serve, and where they are or can be had."""
    from sen2pro.cli.data import run_list

    run_list(data)


@app.command()
def info(
    model: Annotated[str, typer.Argument(help="Hub id or folder of the encoder.")] = DEFAULT_MODEL,
    trust_remote_code: options.TrustRemoteCode = False,
    allow_pickle: options.AllowPickle = False,
) -> None:
    """Say what is inside a model: layers, dropout, pooling, geometry, and whether it can be sampled."""
    from sen2pro.cli.info import run

    run(model, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)


classify_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Classify sentences from a handful of labelled ones."
)
app.add_typer(classify_app, name="classify")

LabelColumn = Annotated[
    str,
    typer.Option(
        "--label-column",
        "-l",
        help="Column with the labels. JSONL and Parquet labels may be whole numbers and stay so.",
    ),
]
LabelledData = Annotated[
    str, typer.Argument(help="CSV, TSV, JSONL or Parquet with sentences and labels, also .gz.", metavar="DATA")
]
ClassifierFolder = Annotated[str, typer.Argument(help="The folder that classify train wrote.", metavar="MODEL")]
OtherEncoder = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Encoder the classifier was trained with. Needed unless it is the default model or fine-tuned.",
    ),
]


@classify_app.command("train")
@options.with_settings("model", "samples", "uncertainty", "seed")
def classify_train(
    data: LabelledData,
    output: Annotated[str, typer.Argument(help="A new folder for the classifier.", metavar="MODEL_OUT")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    label_column: LabelColumn = "label",
    validation: Annotated[
        str | None,
        typer.Option(
            help="Labelled file for validation. (default: cross-validation; with --finetune, a fifth of DATA)"
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="auto (one-pass where the model has a head), one-pass, sampling or shrinkage.")
    ] = "auto",
    features: Annotated[str, typer.Option(help="auto, mean, or mean+variance as in the paper.")] = "auto",
    loss: Annotated[str, typer.Option(help="auto, expected or sampled: how the loss sees the distribution.")] = "auto",
    regularisation: Annotated[
        float | None, typer.Option("--C", help="Inverse strength of regularisation. (default: the best)")
    ] = None,
    finetune: Annotated[bool, typer.Option("--finetune", help="Train the encoder too: minutes to hours.")] = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="With --finetune: maximum number of epochs. (default: 20; exactly 6 with fewer than 40 validation "
            "sentences)",
            min=1,
        ),
    ] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a classifier: seconds with a frozen encoder, ten sentences of each class are a start.

    A run with --finetune that was stopped goes on where it was when it is started again.
    """
    from sen2pro.cli.classify import run_train

    run_train(
        data, output, column=column, label=label_column, longest_line=longest_line, validation=validation,
        finetune=finetune, epochs=epochs,
        settings={**settings, "method": method, "features": features, "head": loss, "C": regularisation},
    )  # fmt: skip


@classify_app.command("predict")
def classify_predict(
    folder: ClassifierFolder,
    input: Annotated[str, typer.Argument(help="Sentences: text, CSV, TSV, JSONL or Parquet; - is standard input.")],
    output: Annotated[str, typer.Argument(help="A .csv, .tsv or .jsonl file; JSONL has all probabilities.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    id_column: Annotated[str | None, typer.Option(help="Column with ids to keep; they come first.")] = None,
    skip_blank: Annotated[bool, typer.Option("--skip-blank", help="Pass over blank sentences.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    model: OtherEncoder = None,
) -> None:
    """Predict the class of each sentence of a file, with its probability.

    Streams: memory does not grow with the file. The output has the columns text, label (what was predicted) and
    probability; it appears under its name only when it is complete.
    """
    from sen2pro.cli.classify import run_predict

    run_predict(
        folder, input, output, column=column, id_column=id_column, skip_blank=skip_blank, longest_line=longest_line,
        overwrite=overwrite, model=model,
    )  # fmt: skip


@classify_app.command("evaluate")
def classify_evaluate(
    folder: ClassifierFolder,
    data: LabelledData,
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    label_column: LabelColumn = "label",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Folder for a report with confusion matrix and reliability diagram."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the report if there is one.")] = False,
    model: OtherEncoder = None,
) -> None:
    """Say how good a classifier is on labelled sentences: accuracy, log-loss, calibration, each class.

    Labels are compared as texts, so a CSV file will do for a classifier whose classes are numbers.
    """
    from sen2pro.cli.classify import run_evaluate

    run_evaluate(
        folder, data, column=column, label=label_column, longest_line=longest_line, output=output, overwrite=overwrite,
        model=model,
    )  # fmt: skip


def main() -> None:
    """Run the command line."""
    app(prog_name="sen2pro")
