"""`sen2pro classify`: train a classifier on labelled sentences, use it, and see how good it is."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console

from sen2pro.cli.inputs import Record, Source
from sen2pro.cli.options import notes, parse_samples, quiet, report
from sen2pro.errors import Sen2ProError, one_of

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier

_CHUNK = 256  # sentences in memory at once
_FORMATS = (".csv", ".tsv", ".jsonl")


class _WholeSource(Source):
    """Sentences of which none may be passed over: each has a label, or gets one."""

    def _record(self, place: str, text: Any, id: str | None) -> Record:
        if isinstance(text, str) and not text.strip():
            raise self._wrong(place, "the sentence is empty or blank; leave the row out")
        return super()._record(place, text, id)


class LabelledSource(_WholeSource):
    """Sentences with their labels, which are kept as texts in the place of ids."""

    _kind: type | None = None

    def _from_row(self, place: str, row: dict[str, Any]) -> Record:
        label = row.get(str(self.id_column))
        self._column(list(row))  # says so if either column is missing
        if label is None or (isinstance(label, str) and not label.strip()):
            raise self._wrong(place, f"there is no label in column {self.id_column!r}; leave the row out")
        if not isinstance(label, (str, int)):
            raise self._wrong(place, f"the label is neither a text nor a whole number but {label!r}")
        self._kind = self._kind or type(label)
        if type(label) is not self._kind:
            raise self._wrong(
                place, f"labels of mixed types: {label!r} is {type(label).__name__}, those before {self._kind.__name__}"
            )
        return super()._from_row(place, row)


def read_labelled(path: str, column: str | None, label: str) -> tuple[list[str], list[str]]:
    """Return the sentences and labels of a file."""
    records = list(LabelledSource(path, column, label))
    if not records:
        raise Sen2ProError(f"there are no sentences in {path}")
    return [record.text for record in records], [str(record.id) for record in records]


def run_train(
    data: str,
    output: str,
    *,
    column: str | None,
    label: str,
    validation: str | None,
    finetune: bool,
    settings: dict[str, Any],
) -> None:
    """Train on `data`, save to the folder `output`; all that can be wrong with either is said before the work."""
    from sen2pro.classification import FineTuning, Sen2ProClassifier, evaluate

    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Sen2ProError(f"{folder} is not an empty folder; name a new one for the classifier")
    texts, labels = read_labelled(data, column, label)
    held_out = read_labelled(validation, column, label) if validation else None
    quiet()
    settings["samples"] = parse_samples(settings["samples"])
    # The checkpoints go beside the folder: a killed run can be started again as it was.
    training = FineTuning(checkpoints=f"{folder}.checkpoints") if finetune else False
    with notes() as gathered:
        classifier = Sen2ProClassifier(**settings, finetune=training).fit(texts, labels, validation=held_out)
    classifier.save(folder)
    console = Console()
    choice = classifier.choice_
    console.print(
        f"{len(texts)} sentences, {len(classifier.classes_)} classes -> {folder}\n"
        f"chosen: features {choice.features}, head {choice.head}, C {choice.C:g}, temperature "
        f"{choice.temperature:.3g}; log-loss {choice.log_loss:.4f} on sentences not trained on",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    if held_out is not None:
        from sen2pro.classification.labels import check_labels, to_numbers

        truth = to_numbers(check_labels(held_out[1], len(held_out[1])), classifier.classes_)
        scores = evaluate(classifier.predict_proba(held_out[0]), truth)
        console.print(f"accuracy on the validation set: {scores.accuracy:.4f} of {scores.n}", highlight=False)
    report(gathered, classifier.signature_)


def run_predict(folder: str, input: str, output: str, *, column: str | None, model: str | None) -> None:
    """Write the class of each sentence of `input`, with its probability, to a table or JSONL file."""
    path = Path(output)
    one_of("file suffix", path.suffix.lower(), _FORMATS)
    if not path.parent.is_dir():
        raise Sen2ProError(f"there is no folder {path.parent}")
    if path.exists() and Path(input).exists() and path.samefile(input):
        raise Sen2ProError(f"{path} is the file to be read; give another name for the classes")
    source = _WholeSource(input, column)
    source.count()
    quiet()
    classifier = _load(folder, model)
    total = 0
    with notes() as gathered, _writer(path, [str(name) for name in classifier.classes_]) as put:
        for chunk in source.chunks(_CHUNK):
            texts = [record.text for record in chunk]
            for text, row in zip(texts, classifier.predict_proba(texts), strict=True):
                put(text, row.tolist())
            total += len(texts)
    Console().print(f"{total} sentence{'s' * (total != 1)} -> {output}", markup=False, highlight=False)
    report(gathered, classifier.signature_)


def _load(folder: str, model: str | None) -> Sen2ProClassifier:
    from sen2pro.classification import Sen2ProClassifier

    return Sen2ProClassifier.load(folder, model=model)


@contextmanager
def _writer(path: Path, classes: list[str]) -> Iterator[Callable[[str, list[float]], None]]:
    """Give a function that writes a sentence and its probabilities; the file appears when all is written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            yield (
                _jsonl(file, classes) if path.suffix.lower() == ".jsonl" else _table(file, path.suffix.lower(), classes)
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _jsonl(file: IO[str], classes: list[str]) -> Callable[[str, list[float]], None]:
    def put(text: str, row: list[float]) -> None:
        best = max(range(len(row)), key=row.__getitem__)
        every = {name: round(p, 6) for name, p in zip(classes, row, strict=True)}
        found = {"text": text, "label": classes[best], "probability": every[classes[best]], "probabilities": every}
        file.write(json.dumps(found, ensure_ascii=False) + "\n")

    return put


def _table(file: IO[str], suffix: str, classes: list[str]) -> Callable[[str, list[float]], None]:
    tabs = suffix == ".tsv"
    writer = csv.writer(file, delimiter="\t" if tabs else ",", lineterminator="\n")
    writer.writerow(["text", "label", "probability"])

    def put(text: str, row: list[float]) -> None:
        best = max(range(len(row)), key=row.__getitem__)
        writer.writerow([" ".join(text.split()) if tabs else text, classes[best], f"{row[best]:.6f}"])

    return put


def run_evaluate(
    folder: str, data: str, *, column: str | None, label: str, output: str | None, model: str | None
) -> None:
    """Print how good a classifier is on labelled sentences; a folder gets the pictures too."""
    from sen2pro.classification.labels import check_labels, to_numbers
    from sen2pro.classification.report import evaluate_on, write
    from sen2pro.evaluation.report import print_result

    texts, labels = read_labelled(data, column, label)
    quiet()
    classifier = _load(folder, model)
    names = classifier.classes_.astype(str)
    truth = to_numbers(check_labels(labels, len(texts)), names)
    with notes() as gathered:
        probabilities = classifier.predict_proba(texts)
    result = evaluate_on(
        probabilities, truth, names.tolist(), signature=str(classifier.signature_), pictures=output is not None
    )
    result.notes += list(dict.fromkeys(map(str, gathered)))
    print_result(result, Console())
    if output is not None:
        write(result, output)
        Console().print(f"written to {output}", markup=False, highlight=False)
