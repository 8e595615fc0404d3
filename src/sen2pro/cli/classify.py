"""`sen2pro classify`: train a classifier on labelled sentences, predict with it, and evaluate it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, join_names
from sen2pro.io.atomic import check_new_folder
from sen2pro.io.inputs import Labelled, R, Reader, Record, labelled, sentences
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.io.tables import SUFFIXES, new_table
from sen2pro.progress import progress

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.validation import Array64, Labels

Predicted = Iterator[tuple[Sequence[Record], "Array64"]]
"""Chunks of sentences with the probabilities of their classes."""
_CHUNK = 256  # sentences in memory at once
_MEANING = {
    "mean": "the centre of each sentence's distribution",
    "mean+variance": "centre and spread of each sentence's distribution",
    "expected": "trained on average over each distribution, in closed form",
    "sampled": "trained on samples of each distribution",
}
_LabelColumn = Annotated[
    str, Option("--label-column", "-l", help="Column with the labels. Integers in JSONL and Parquet keep their type.")
]
_LabelledData = Annotated[
    str, Argument(help="CSV, TSV, JSONL or Parquet with sentences and labels, plain or .gz.", metavar="DATA")
]
_Folder = Annotated[str, Argument(help="The folder that classify train wrote.", metavar="MODEL")]
_Encoder = Annotated[
    str | None,
    Option("--model", "-m", help="The encoder of the training; needed unless it is the default or fine-tuned."),
]
_Validation = Annotated[
    str | None, Option(help="Labelled validation file. (default: cross-validation; --finetune: a fifth of DATA)")
]
_Method = Annotated[str, Option(help="auto (one-pass if there is a head), one-pass or sampling.")]
_Features = Annotated[str, Option(help="auto, mean, or mean+variance as in the paper.")]
_Loss = Annotated[str, Option(help="auto, expected or sampled: how the loss uses the distribution.")]
_Epochs = Annotated[
    int | None,
    Option(
        help="Maximum number of epochs of --finetune. (default: 20; exactly 6 with fewer than 40 validation sentences)",
        min=1,
    ),
]
app = Typer(no_args_is_help=True, rich_markup_mode=None, help="Classify sentences from a handful of labelled ones.")


@app.command()
@options.with_settings("model", "samples", "uncertainty", "seed")
def train(
    settings: options.Chosen,
    data: _LabelledData,
    output: Annotated[str, Argument(help="A new folder for the classifier.", metavar="MODEL_OUT")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    label_column: _LabelColumn = "label",
    validation: _Validation = None,
    method: _Method = "auto",
    features: _Features = "auto",
    loss: _Loss = "auto",
    C: Annotated[float | None, Option("--C", help="Inverse strength of regularisation. (default: the best)")] = None,
    finetune: Annotated[bool, Option("--finetune", help="Train the encoder too: minutes to hours.")] = False,
    epochs: _Epochs = None,
) -> None:
    """Train a classifier: seconds with a frozen encoder. Ten sentences per class are enough to start."""
    folder = check_new_folder(output)
    if C is not None and not 0 < C < math.inf:
        raise Sen2ProError(f"--C is a number above 0, not {C:g}; leave it out to have it chosen")
    if epochs is not None and not finetune:
        raise Sen2ProError("--epochs is for the training of the encoder; pass --finetune too, or leave it out")
    source = labelled(data, column, label_column, longest_line=longest_line)
    found = _read(source)
    labels = [each.label for each in found]
    held_out = None
    if validation:
        other = labelled(validation, column, label_column, longest_line=longest_line)
        rows, known = _read(other), {str(label): label for label in labels}
        _check_known(other, rows, known)
        held_out = [each.text for each in rows], [known[str(each.label)] for each in rows]  # of the type to train on
    from sen2pro.classification import FineTuning, Sen2ProClassifier

    with options.notes() as gathered:
        classifier = Sen2ProClassifier(
            **settings, method=method, features=features, head=loss, C=C,
            finetune=FineTuning(epochs=epochs) if finetune else False,
        ).fit([each.text for each in found], labels, validation=held_out)  # fmt: skip
    classifier.save(folder)
    by = "on the validation file" if validation else "on a part of the sentences" if finetune else "by cross-validation"
    Console().say(f"{len(found)} sentences, {len(classifier.classes_)} classes -> {folder}")
    _print_choice(classifier, by, finetune)
    options.report(gathered, classifier.signature_)


def _print_choice(classifier: Sen2ProClassifier, by: str, finetune: bool) -> None:
    """Print the settings that were chosen, and how good they are."""
    from sen2pro.classification.finetune import FEWEST_JUDGES

    choice, classes, console = classifier.choice_, len(classifier.classes_), Console()
    few = f" (from fewer than {FEWEST_JUDGES} sentences, only the temperature)" if finetune else ""
    console.say(f"settings, chosen {by} where not given{few}:")
    for setting, meaning in (
        (f"features {choice.features}", _MEANING[choice.features]),
        (f"loss {choice.head}", _MEANING[choice.head]),
        (f"C {choice.C:g}", "smaller values regularise more"),
        (f"temperature {choice.temperature:.3g}", "divides the scores: smaller values give surer probabilities"),
    ):
        console.say(f"  {setting:<24}{meaning}")
    console.say(
        f"accuracy {choice.accuracy:.2f} and log-loss {choice.log_loss:.4f} on sentences not trained on (guessing has "
        f"{1 / classes:.2f} and {math.log(classes):.4f})"
    )


@app.command()
@options.with_settings(without=options.NAMES, more={"reading": options.Reading})
def predict(
    reading: options.Chosen,
    folder: _Folder,
    input: options.OneInput,
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file; JSONL has all probabilities.")],
    overwrite: options.Overwrite = False,
    model: _Encoder = None,
    encoded: options.Encoded = False,
    workers: options.Workers = None,
    restart: options.Restart = False,
) -> None:
    """Predict the class of each sentence of a file, with its probability.

    Memory does not grow with the file. The output has the columns text, label (the prediction) and probability. It
    appears under its name only when it is complete.

    With --workers, the sentences are encoded first, into OUTPUT.parts. A run that was stopped or killed resumes when
    you run the same command again.
    """
    first = options.encode_first(workers, restart=restart, encoded=encoded)
    path = options.check_output(output, SUFFIXES, [input], overwrite=overwrite)
    ids, done = "id_column" in reading, None
    with options.notes() as gathered, ExitStack() as until_written:
        if encoded:
            if "column" in reading or reading.get("id_column") not in (None, "id"):
                raise Sen2ProError("a file of sen2pro encode has the columns text and id; leave out other columns")
            _check_encoded(input, ids=ids)
            classifier = _classifier(folder, model)
            predicted = _predict_encoded(classifier, input)
        elif first:
            from sen2pro.jobs import shards_for

            classifier = _classifier(folder, model)
            done = until_written.enter_context(
                shards_for(classifier.encoder, input, path, workers=workers or 1, restart=restart, **reading)
            )
            if not done.report.rows:
                until_written.close()  # there is nothing to resume
                raise Sen2ProError(f"there are no sentences in {input}")
            predicted = _predict_encoded(classifier, done.output)
        else:
            source = sentences(input, **reading)
            number = source.count()
            if number == 0:
                raise _is_empty(source)
            classifier = _classifier(folder, model)
            predicted = _predict(classifier, source, number)
        total = _write(path, classifier.classes_.tolist(), predicted, ids=ids, overwrite=overwrite)
    Console().say(f"{total} sentence{'s' * (total != 1)} -> {output}")
    options.report(options.together(gathered, total), classifier.signature_, done=done)


def _predict(classifier: Sen2ProClassifier, source: Reader[Record], number: int | None) -> Predicted:
    """Yield the sentences of a file with their probabilities."""
    chunk = None
    with progress(number, None, unit="sentences") as advance:
        for chunk in source.chunks(_CHUNK):
            yield chunk, classifier.predict_proba([record.text for record in chunk], show_progress_bar=False)
            advance(len(chunk))
    if chunk is None:
        raise _is_empty(source)


def _predict_encoded(classifier: Sen2ProClassifier, path: str | Path) -> Predicted:
    """Yield the rows of a file or folder of Gaussians with their probabilities."""
    from sen2pro.gaussian import Gaussian
    from sen2pro.io.gaussians import stream
    from sen2pro.io.shards import outline

    with progress(outline(path).rows, None, unit="sentences", title="classifying") as advance:
        for piece in stream(path, _CHUNK):  # the end compares the digest, before the output gets its name
            names: Sequence[str | None] = piece.ids or [None] * len(piece)
            records = [Record(id, text) for id, text in zip(names, piece.texts or (), strict=True)]
            gaussian = Gaussian(piece.mean, piece.variance, piece.signature, piece.coverage, copy=False)
            yield records, classifier.predict_proba(gaussian)
            advance(len(records))


def _check_encoded(path: str | Path, *, ids: bool) -> None:
    """Refuse a file of Gaussians that lacks texts or ids, before a classifier is loaded."""
    from sen2pro.io.shards import outline

    found = outline(path)
    if "text" not in found.strings or (ids and "id" not in found.strings):
        raise Sen2ProError(f"{path} keeps no {'texts' if 'text' not in found.strings else 'ids'}; encode with them")
    if not found.rows:
        raise Sen2ProError(f"there are no sentences in {path}")


def _write(path: Path, classes: list[str | int], predicted: Predicted, *, ids: bool, overwrite: bool) -> int:
    """Write the predictions; return their number."""
    total = 0
    columns = {**({"id": None} if ids else {}), "text": None, "label": None, "probability": 6}
    with new_table(path, columns, overwrite=overwrite) as write:
        for chunk, probabilities in predicted:
            total += len(chunk)
            for record, row in zip(chunk, probabilities.tolist(), strict=True):
                label, best = max(zip(classes, row, strict=True), key=itemgetter(1))
                line = {**({"id": record.id} if ids else {}), "text": record.text, "label": label, "probability": best}
                write({**line, "probabilities": {name: round(p, 6) for name, p in zip(classes, row, strict=True)}})
    return total


@app.command()
def evaluate(
    folder: _Folder,
    data: _LabelledData,
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    label_column: _LabelColumn = "label",
    model: _Encoder = None,
) -> None:
    """Evaluate a classifier on labelled sentences: accuracy, log-loss, calibration, each class.

    Labels are compared as texts, so a CSV file works for a classifier whose classes are numbers.
    """
    source = labelled(data, column, label_column, longest_line=longest_line)
    found = _read(source)
    classifier = _classifier(folder, model)
    import numpy as np

    names = [str(name) for name in classifier.classes_.tolist()]
    numbers = {name: i for i, name in enumerate(names)}
    _check_known(source, found, numbers)
    parts: list[Array64] = []
    with options.notes() as gathered, progress(len(found), None, unit="sentences") as advance:
        for start in range(0, len(found), _CHUNK):
            texts = [each.text for each in found[start : start + _CHUNK]]
            parts.append(classifier.predict_proba(texts, show_progress_bar=False))
            advance(len(texts))
    _print_measures(np.concatenate(parts), np.array([numbers[str(each.label)] for each in found]), names)
    options.report(options.together(gathered, len(found)), classifier.signature_)


def _classifier(folder: str, model: str | None) -> Sen2ProClassifier:
    from sen2pro.classification import Sen2ProClassifier

    return Sen2ProClassifier.load(folder, model=model)


def _read(source: Reader[Labelled]) -> list[Labelled]:
    found = list(source)
    if not found:
        raise _is_empty(source)
    return found


def _is_empty(source: Reader[R]) -> Sen2ProError:
    return Sen2ProError(f"there are no sentences in {source.name}")


def _check_known(source: Reader[Labelled], found: Iterable[Labelled], classes: Collection[str]) -> None:
    """Refuse labels that are not among the classes."""
    unknown: dict[str, Labelled] = {}
    for each in found:
        if str(each.label) not in classes:
            unknown.setdefault(str(each.label), each)
    if unknown:
        first, *more = unknown.values()
        others = f" (also: {join_names([each.label for each in more])})" if more else ""
        raise Sen2ProError(
            f"{source.name}, {first.place}: label {first.label!r} was never seen in training{others}; the classes are: "
            f"{join_names(list(classes))}. Correct it, leave such rows out, or train with examples of it"
        )


def _print_measures(probabilities: Array64, truth: Labels, names: list[str]) -> None:
    """Print a table of the measures and one of the classes."""
    from rich.table import Table
    from rich.text import Text
    from scipy.stats import binomtest
    from sklearn.metrics import precision_recall_fscore_support

    from sen2pro.calibration.report import ANSWERED, evaluate

    scores, console = evaluate(probabilities, truth), Console()
    measures, each = Table("measure"), Table("class")
    for table, columns in ((measures, ("value", "95 %")), (each, ("n", "recall", "precision", "F1"))):
        for name in columns:
            table.add_column(name, justify="right")
    for name, value, n in (
        ("accuracy", scores.accuracy, scores.n),
        ("accuracy of the surest 80 %", scores.accuracy_of_answered, max(1, round(ANSWERED * scores.n))),
        ("log-loss", scores.log_loss, 0),
        ("expected calibration error", scores.calibration_error, 0),
    ):
        ends = "[{:.4f}, {:.4f}]".format(*binomtest(round(value * n), n).proportion_ci(method="wilson")) if n else ""
        measures.add_row(name, f"{value:.4f}", Text(ends))
    predicted = probabilities.argmax(axis=1)
    found = precision_recall_fscore_support(truth, predicted, labels=range(len(names)), zero_division=0)
    for number, (name, precision, recall, f1, n) in enumerate(zip(names, *found, strict=True)):
        occurs = n or (predicted == number).any()
        each.add_row(Text(name), str(n), *(f"{value:.3f}" if occurs else "–" for value in (recall, precision, f1)))
    precision, recall, f1, _ = precision_recall_fscore_support(truth, predicted, average="macro", zero_division=0)
    each.add_row("macro average", str(scores.n), *(f"{value:.3f}" for value in (recall, precision, f1)))
    console.say(f"{scores.n} sentences, {len(names)} classes")
    console.print(measures)
    console.print(each)
