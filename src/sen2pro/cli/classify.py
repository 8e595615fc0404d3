"""`sen2pro classify`: train a classifier on labelled sentences, use it, and see how good it is."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.cli.workers import Restart, Workers, encode_first, notes_of
from sen2pro.errors import Sen2ProError, join_names
from sen2pro.io.atomic import check_path, replacing
from sen2pro.io.inputs import Labelled, Reader, Record, labelled, sentences
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.progress import progress

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.jobs import Summary
    from sen2pro.validation import Array64, Labels

_CHUNK = 256  # sentences in memory at once
_MEANING = {
    "mean": "the centre of each sentence's distribution",
    "mean+variance": "centre and spread of each sentence's distribution",
    "expected": "trained on average over each distribution, in closed form",
    "sampled": "trained on samples of each distribution",
}
_LabelColumn = Annotated[
    str, Option("--label-column", "-l", help="Column with the labels. Whole numbers of JSONL and Parquet stay so.")
]
_LabelledData = Annotated[
    str, Argument(help="CSV, TSV, JSONL or Parquet with sentences and labels, also .gz.", metavar="DATA")
]
_Folder = Annotated[str, Argument(help="The folder that classify train wrote.", metavar="MODEL")]
_Encoder = Annotated[
    str | None,
    Option("--model", "-m", help="Encoder it was trained with; needed unless it is the default or fine-tuned."),
]
app = Typer(no_args_is_help=True, rich_markup_mode=None, help="Classify sentences from a handful of labelled ones.")


def _read(source: Reader[Labelled]) -> list[Labelled]:
    found = list(source)
    if not found:
        raise _nothing_in(source)
    return found


def _check_classes(source: Reader[Labelled], found: Sequence[Labelled], *, choose: bool) -> None:
    """Refuse labels from which nothing can be learned: one class, or one example where settings are chosen."""
    counts = Counter(str(each.label) for each in found)
    if len(counts) < 2:
        raise Sen2ProError(
            f"{source.name}: all {len(found)} labels are {found[0].label!r}; it takes two classes to tell apart"
        )
    why = "settings are chosen by cross-validation, which takes at least 2 of each class"
    remedy = "add one, leave the class out, or give a file to choose by with --validation"
    single = [each for each in found if counts[str(each.label)] == 1 and choose]
    _refuse(source, single, "class", "has one example", f"{why}: {remedy}")


def _check_known(source: Reader[Labelled], found: Sequence[Labelled], classes: Collection[str]) -> None:
    """Refuse labels that are none of the classes."""
    unknown = {str(each.label): each for each in reversed(found) if str(each.label) not in classes}
    remedy = "Correct it, leave such rows out, or train with examples of it"
    known = f"the classes are: {join_names(list(classes))}. {remedy}"
    _refuse(source, list(unknown.values())[::-1], "label", "was never seen in training", known)


def _refuse(source: Reader[Labelled], rows: list[Labelled], kind: str, what: str, remedy: str) -> None:
    if rows:
        first, *more = rows
        others = f" (also: {join_names([each.label for each in more])})" if more else ""
        raise Sen2ProError(f"{source.name}, {first.place}: {kind} {first.label!r} {what}{others}; {remedy}")


def _nothing_in(source: Reader[Any]) -> Sen2ProError:
    return Sen2ProError(f"there are no sentences in {source.name}")


@app.command()
@options.with_settings("model", "samples", "uncertainty", "seed")
def train(
    settings: dict[str, Any],
    data: _LabelledData,
    output: Annotated[str, Argument(help="A new folder for the classifier.", metavar="MODEL_OUT")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    label_column: _LabelColumn = "label",
    validation: Annotated[
        str | None, Option(help="Labelled validation file. (default: cross-validation; --finetune: a fifth of DATA)")
    ] = None,
    method: Annotated[str, Option(help="auto (one-pass if there is a head), one-pass, sampling.")] = "auto",
    features: Annotated[str, Option(help="auto, mean, or mean+variance as in the paper.")] = "auto",
    loss: Annotated[str, Option(help="auto, expected or sampled: how the loss sees the distribution.")] = "auto",
    C: Annotated[float | None, Option("--C", help="Inverse strength of regularisation. (default: the best)")] = None,
    finetune: Annotated[bool, Option("--finetune", help="Train the encoder too: minutes to hours.")] = False,
    epochs: Annotated[
        int | None,
        Option(help="Most epochs of --finetune. (default: 20; exactly 6 with under 40 validation sentences)", min=1),
    ] = None,
) -> None:
    """Train a classifier: seconds with a frozen encoder, ten sentences of each class are a start."""
    folder = check_path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Sen2ProError(f"{folder} is not an empty folder; name a new one for the classifier")
    if C is not None and not 0 < C < math.inf:
        raise Sen2ProError(f"--C is a number above 0, not {C:g}; leave it out to have it chosen")
    if epochs is not None and not finetune:
        raise Sen2ProError("--epochs is for the training of the encoder; give --finetune too, or leave it out")
    source = labelled(data, column, label_column, longest_line=longest_line)
    found = _read(source)
    texts, labels = [each.text for each in found], [each.label for each in found]
    _check_classes(source, found, choose=validation is None)
    held_out = None
    if validation:
        other = labelled(validation, column, label_column, longest_line=longest_line)
        rows, known = _read(other), {str(label): label for label in labels}
        _check_known(other, rows, known)
        held_out = [each.text for each in rows], [known[str(each.label)] for each in rows]  # of the type to train on
    from sen2pro.classification import FineTuning, Sen2ProClassifier
    from sen2pro.classification.finetune import FEWEST_JUDGES

    training = FineTuning(epochs=epochs) if finetune else False
    with options.notes() as gathered:
        classifier = Sen2ProClassifier(
            **settings, method=method, features=features, head=loss, C=C, finetune=training
        ).fit(texts, labels, validation=held_out)
    classifier.save(folder)
    choice, classes = classifier.choice_, len(classifier.classes_)
    by = "on the validation file" if validation else "on a part of the sentences" if finetune else "by cross-validation"
    few = f" (from fewer than {FEWEST_JUDGES} sentences, the temperature alone)" if finetune else ""
    chosen = {
        f"features {choice.features}": _MEANING[choice.features],
        f"loss {choice.head}": _MEANING[choice.head],
        f"C {choice.C:g}": "the smaller, the stronger the regularisation",
        f"temperature {choice.temperature:.3g}": "divides the scores: the smaller, the surer the probabilities",
    }
    console = Console()
    console.say(f"{len(texts)} sentences, {classes} classes -> {folder}\nsettings, chosen {by} where not given{few}:")
    for setting, meaning in chosen.items():
        console.say(f"  {setting:<24}{meaning}")
    console.say(
        f"accuracy {choice.accuracy:.2f} and log-loss {choice.log_loss:.4f} on sentences not trained on (guessing has "
        f"{1 / classes:.2f} and {math.log(classes):.4f})"
    )
    options.report(gathered, classifier.signature_)


def _classifier(folder: str, model: str | None) -> Sen2ProClassifier:
    from sen2pro.classification import Sen2ProClassifier

    return Sen2ProClassifier.load(folder, model=model)


def _load(
    folder: str, model: str | None, source: Reader[Record]
) -> tuple[Sen2ProClassifier, Iterator[tuple[list[Record], Array64]]]:
    """Return a classifier; and sentences, not more at once than fit in memory, with the probabilities of their classes.

    What can be read twice is read before the classifier is loaded, so that its errors are said at once.
    """
    number = source.count()
    if number == 0:
        raise _nothing_in(source)
    classifier = _classifier(folder, model)

    def predicted() -> Iterator[tuple[list[Record], Array64]]:
        chunk = None
        with progress(number, None, unit="sentences") as advance:
            for chunk in source.chunks(_CHUNK):
                yield chunk, classifier.predict_proba([record.text for record in chunk], show_progress_bar=False)
                advance(len(chunk))
        if chunk is None:
            raise _nothing_in(source)

    return classifier, predicted()


def _check_encoded(path: str | Path, *, ids: bool) -> None:
    """Say what a file or folder of Gaussians lacks, before a classifier is loaded."""
    from sen2pro.io.gaussians import stream
    from sen2pro.io.shards import outline

    found = outline(path)
    if "text" not in found.strings or (ids and "id" not in found.strings):
        raise Sen2ProError(f"{path} keeps no {'texts' if 'text' not in found.strings else 'ids'}; encode with them")
    if not found.rows:
        raise Sen2ProError(f"there are no sentences in {path}")
    for _ in stream(path, _CHUNK):
        pass  # a first pass: at its end the digest is compared


def _from_encoded(classifier: Sen2ProClassifier, path: str | Path) -> Iterator[tuple[list[Record], Array64]]:
    """Yield the rows of a file or folder of Gaussians, which are not encoded again, with their probabilities."""
    from sen2pro.gaussian import Gaussian
    from sen2pro.io.gaussians import stream
    from sen2pro.io.shards import outline

    with progress(outline(path).rows, None, unit="sentences", title="classifying") as advance:
        for piece in stream(path, _CHUNK, verify=False):
            names: Sequence[str | None] = piece.ids or [None] * len(piece)
            records = [Record(id, text) for id, text in zip(names, piece.texts or (), strict=True)]
            gaussian = Gaussian(piece.mean, piece.variance, piece.signature, piece.coverage, copy=False)
            yield records, classifier.predict_proba(gaussian)
            advance(len(records))


@app.command()
def predict(
    folder: _Folder,
    input: Annotated[
        str,
        Argument(
            help="Sentences: text, CSV, TSV, JSONL or Parquet; - is standard input. With --workers also a folder or a "
            "pattern."
        ),
    ],
    output: Annotated[str, Argument(help="A .csv, .tsv or .jsonl file; JSONL has all probabilities.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    id_column: Annotated[str | None, Option(help="Column with ids to keep; they come first.")] = None,
    skip_blank: options.SkipBlank = False,
    overwrite: options.Overwrite = False,
    model: _Encoder = None,
    encoded: Annotated[
        bool, Option("--encoded", help="The input is what sen2pro encode wrote, a file or a folder of shards.")
    ] = False,
    workers: Workers = None,
    restart: Restart = False,
) -> None:
    """Predict the class of each sentence of a file, with its probability.

    Streams: memory does not grow with the file. The output has the columns text, label (what was predicted) and
    probability; it appears under its name only when it is complete.

    With --workers, the sentences are encoded first, into OUTPUT.parts. A run that was stopped or killed resumes when
    you run the same command again.
    """
    from sen2pro.jobs import shards_for

    first = encode_first(workers, restart=restart, encoded=encoded)
    path = options.check_output(output, (".csv", ".tsv", ".jsonl"), [input], overwrite=overwrite)
    reading: dict[str, Any] = {
        "column": column, "id_column": id_column, "skip_blank": skip_blank, "longest_line": longest_line,
    }  # fmt: skip
    ids = id_column is not None
    done: Summary | None = None
    with options.notes() as gathered, ExitStack() as until_written:
        if encoded:
            if column or id_column not in (None, "id"):
                raise Sen2ProError("what sen2pro encode wrote has its own columns, text and id; name no other")
            _check_encoded(input, ids=ids)
            classifier = _classifier(folder, model)
            predicted = _from_encoded(classifier, input)
        elif first:
            classifier = _classifier(folder, model)
            run = shards_for(classifier.encoder, input, path, workers=workers or 1, restart=restart, **reading)
            done = until_written.enter_context(run)
            if not done.report.rows:
                until_written.close()  # there is nothing to go on with
                raise Sen2ProError(f"there are no sentences in {input}")
            _check_encoded(done.output, ids=ids)  # parts of an earlier run may be damaged
            predicted = _from_encoded(classifier, done.output)
        else:
            classifier, predicted = _load(folder, model, sentences(input, **reading))
        total = _write(path, classifier.classes_.tolist(), predicted, ids=ids, overwrite=overwrite)
    Console().say(f"{total} sentence{'s' * (total != 1)} -> {output}")
    notes = [*options.together(gathered, total), *(notes_of(done) if done else ())]
    options.report(notes, classifier.signature_, far=done.report.far if done else 0, total=total)


def _write(
    path: Path, classes: list[Any], predicted: Iterator[tuple[list[Record], Array64]], *, ids: bool,
    overwrite: bool,
) -> int:  # fmt: skip
    """Write the predictions, and return how many there are."""
    suffix, total = path.suffix.lower(), 0
    names = [*(["id"] if ids else []), "text", "label", "probability"]
    with replacing(path, overwrite=overwrite) as part, part.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, names, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        if suffix != ".jsonl":
            table.writeheader()
        for chunk, probabilities in predicted:
            total += len(chunk)
            for record, row in zip(chunk, probabilities.tolist(), strict=True):
                label, best = max(zip(classes, row, strict=True), key=itemgetter(1))
                line = {**({"id": record.id} if ids else {}), "text": record.text, "label": label}
                if suffix != ".jsonl":
                    table.writerow({**line, "probability": f"{best:.6f}"})
                    continue
                each = {name: round(p, 6) for name, p in zip(classes, row, strict=True)}
                line |= {"probability": each[label], "probabilities": each}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
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
    """Say how good a classifier is on labelled sentences: accuracy, log-loss, calibration, each class.

    Labels are compared as texts, so a CSV file will do for a classifier whose classes are numbers.
    """
    source = labelled(data, column, label_column, longest_line=longest_line)
    found = _read(source)
    classifier = _classifier(folder, model)
    import numpy as np

    names = [str(name) for name in classifier.classes_.tolist()]
    numbers = {name: i for i, name in enumerate(names)}
    _check_known(source, found, numbers)
    truth = np.array([numbers[str(each.label)] for each in found])
    parts: list[Array64] = []
    with options.notes() as gathered, progress(len(found), None, unit="sentences") as advance:
        for start in range(0, len(found), _CHUNK):
            texts = [each.text for each in found[start : start + _CHUNK]]
            parts.append(classifier.predict_proba(texts, show_progress_bar=False))
            advance(len(texts))
    _print_measures(np.concatenate(parts), truth, names)
    options.report(options.together(gathered, len(truth)), classifier.signature_)


def _print_measures(probabilities: Array64, truth: Labels, names: list[str]) -> None:
    """Print a table of the measures and one of the classes."""
    from rich.table import Table
    from rich.text import Text
    from sklearn.metrics import precision_recall_fscore_support

    from sen2pro.calibration.measures import ANSWERED, evaluate, interval

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
        ends = "[{:.4f}, {:.4f}]".format(*interval(value, n)) if n else ""
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
