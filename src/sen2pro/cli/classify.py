"""`sen2pro classify`: train a classifier on labelled sentences, use it, and see how good it is."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sen2pro.checks import is_blank
from sen2pro.cli.options import notes, report, together
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, one_of, shown, some
from sen2pro.files.atomic import replacing
from sen2pro.files.sentences import Record, Source
from sen2pro.files.text import LONGEST_LINE, check_path
from sen2pro.progress import progress

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.classification.choosing import Choice
    from sen2pro.types import Array64

_CHUNK = 256  # sentences in memory at once
_FORMATS = (".csv", ".tsv", ".jsonl")


class Label(NamedTuple):
    """A label, and where it stands first."""

    value: str | int
    place: str


class LabelledSource(Source):
    """Sentences with their labels, which stand as texts in the place of ids.

    `labels` has each label that was read, by its text. They are texts in CSV and TSV, without the space around them;
    JSONL and Parquet may also have whole numbers and truth values.
    """

    _id_option = "label_column"
    _all_rows_matter = True  # each may bring a new label

    def __init__(self, path: str, column: str | None, label: str, *, longest_line: int = LONGEST_LINE) -> None:
        super().__init__(path, column, label, longest_line=longest_line)
        self.labels: dict[str, Label] = {}

    def read(self) -> tuple[list[str], list[str | int]]:
        """Return all sentences and their labels."""
        records = list(self)
        if not records:
            raise nothing_in(self)
        return [record.text for record in records], [self.labels[str(record.id)].value for record in records]

    def check_classes(self, labels: Sequence[str | int], *, choose: bool) -> None:
        """Refuse labels from which nothing can be learned: one class, or one example where settings are chosen."""
        counts = Counter(map(str, labels))
        if len(counts) < 2:
            raise self._wrong("", f"all {len(labels)} labels are {labels[0]!r}; it takes two classes to tell apart")
        single = [self.labels[name] for name, count in counts.items() if count == 1]
        if choose and single:
            others = f" (also: {some([label.value for label in single[1:]])})" if single[1:] else ""
            raise self._wrong(
                single[0].place,
                f"class {single[0].value!r} has one example{others}; settings are chosen by cross-validation, which "
                "takes at least 2 of each class: add one, leave the class out, or give a file to choose by with "
                "--validation",
            )

    def check_known(self, classes: Collection[str]) -> None:
        """Refuse labels that are none of the classes."""
        unknown = [label for name, label in self.labels.items() if name not in classes]
        if unknown:
            others = f" (also: {some([label.value for label in unknown[1:]])})" if unknown[1:] else ""
            known = some(list(classes))
            raise self._wrong(
                unknown[0].place,
                f"label {unknown[0].value!r} was never seen in training{others}; the classes are: {known}. Correct it, "
                "leave such rows out, or train with examples of it",
            )

    def _from_row(self, place: str, row: dict[str, Any]) -> Record:
        self._column(list(row), place)
        name = str(self.id_column)
        label = row[name].strip() if isinstance(row[name], str) else row[name]
        if label is None or label == "":
            raise self._wrong(place, f"there is no label in column {name!r}; leave the row out")
        if not isinstance(label, (str, int)) or (isinstance(label, int) and abs(label) >= 1 << 63):
            raise self._wrong(place, f"the label is neither a text nor a whole number of 64 bits but {shown(label)}")
        first = next(iter(self.labels.values()), Label(label, place))
        if type(label) is not type(first.value):
            raise self._wrong(
                place,
                f"labels of mixed types: {label!r} here, {first.value!r} on {first.place}; turn all into texts or all "
                "into whole numbers",
            )
        self.labels.setdefault(str(label), Label(label, place))
        return super()._from_row(place, {**row, name: label})

    def _record(self, place: str, text: Any, id: str | None) -> Record:
        if isinstance(text, str) and is_blank(text):
            raise self._wrong(place, "the sentence is empty or blank; leave the row out")
        return super()._record(place, text, id)


def nothing_in(source: Source) -> Sen2ProError:
    """Return the error for a file without sentences."""
    return Sen2ProError(f"there are no sentences in {'standard input' if source.path == '-' else source.path}")


def run_train(
    data: str,
    output: str,
    *,
    column: str | None,
    label: str,
    longest_line: int,
    validation: str | None,
    finetune: bool,
    epochs: int | None,
    settings: dict[str, Any],
) -> None:
    """Train on `data`, save to the folder `output`; all that can be wrong with either is said before the work."""
    folder = check_path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Sen2ProError(f"{folder} is not an empty folder; name a new one for the classifier")
    if settings["C"] is not None and not 0 < settings["C"] < math.inf:
        raise Sen2ProError(f"--C is a number above 0, not {settings['C']:g}; leave it out to have it chosen")
    if epochs is not None and not finetune:
        raise Sen2ProError("--epochs is for the training of the encoder; give --finetune too, or leave it out")
    source = LabelledSource(data, column, label, longest_line=longest_line)
    texts, labels = source.read()
    source.check_classes(labels, choose=validation is None)
    held_out = _read_validation(validation, column, label, source.labels, longest_line) if validation else None
    from sen2pro.classification import FineTuning, Sen2ProClassifier
    from sen2pro.classification.training import FEWEST_JUDGES

    # The checkpoints go beside the folder: a killed run can be started again as it was.
    checkpoints = f"{folder}.checkpoints"
    how = {} if epochs is None else {"epochs": epochs}
    training = FineTuning(checkpoints=checkpoints, **how) if finetune else False
    with notes() as gathered:
        classifier = Sen2ProClassifier(**settings, finetune=training).fit(texts, labels, validation=held_out)
    classifier.save(folder)
    if finetune:
        _remove_checkpoints(Path(checkpoints))
    console = Console()
    by = "on the validation file" if validation else "on a part of the sentences" if finetune else "by cross-validation"
    few = f" (from fewer than {FEWEST_JUDGES} sentences, the temperature alone)" if finetune else ""
    console.print(
        f"{len(texts)} sentences, {len(classifier.classes_)} classes -> {folder}\n"
        f"settings, chosen {by} where not given{few}:\n{_explained(classifier.choice_)}\n"
        f"accuracy {classifier.choice_.accuracy:.2f} and log-loss {classifier.choice_.log_loss:.4f} on sentences not "
        f"trained on (guessing has {1 / len(classifier.classes_):.2f} and {math.log(len(classifier.classes_)):.4f})",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    report(gathered, classifier.signature_)


def _remove_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of runs with other settings too, which were stopped and are not needed any more."""
    for path in folder.glob("sen2pro_finetuning_*.safetensors"):
        path.unlink()
    with suppress(OSError):  # it is not there any more, or holds something else
        folder.rmdir()


def _read_validation(
    path: str, column: str | None, label: str, classes: dict[str, Label], longest_line: int
) -> tuple[list[str], list[str | int]]:
    """Return the sentences to choose by, with labels of the kind that those to train on have."""
    source = LabelledSource(path, column, label, longest_line=longest_line)
    texts, labels = source.read()
    source.check_known(classes)
    return texts, [classes[str(name)].value for name in labels]


_MEANING = {
    "mean": "the centre of each sentence's distribution",
    "mean+variance": "centre and spread of each sentence's distribution",
    "expected": "trained on average over each distribution, in closed form",
    "sampled": "trained on samples of each distribution",
}


def _explained(choice: Choice) -> str:
    """Say what was chosen, a line each, and what it is."""
    lines = [
        (f"features {choice.features}", _MEANING[choice.features]),
        (f"loss {choice.head}", _MEANING[choice.head]),
        (f"C {choice.C:g}", "the smaller, the stronger the regularisation"),
        (f"temperature {choice.temperature:.3g}", "divides the scores: the smaller, the surer the probabilities"),
    ]
    return "\n".join(f"  {what:<24}{meaning}" for what, meaning in lines)


def run_predict(
    folder: str,
    input: str,
    output: str,
    *,
    column: str | None,
    id_column: str | None,
    skip_blank: bool,
    longest_line: int,
    overwrite: bool,
    model: str | None,
) -> None:
    """Write the class of each sentence of `input`, with its probability, to a table or JSONL file."""
    path = check_path(output)
    one_of("file suffix", path.suffix.lower(), _FORMATS)
    if not path.parent.is_dir():
        raise Sen2ProError(f"there is no folder {path.parent}")
    if path.exists() and Path(input).exists() and path.samefile(input):
        raise Sen2ProError(f"{path} is the file to be read; give another name for the classes")
    if path.exists() and not overwrite:
        raise Sen2ProError(f"{path} exists; pass --overwrite to replace it")
    source = Source(input, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
    number = source.count()
    if number == 0:
        raise nothing_in(source)
    classifier = _load(folder, model)
    total = 0
    with notes() as gathered, _writer(path, classifier.classes_.tolist(), id_column is not None) as put:
        for chunk, probabilities in _predicted(classifier, source, number):
            for record, row in zip(chunk, probabilities.tolist(), strict=True):
                put(record, row)
            total += len(chunk)
        if total == 0:
            raise nothing_in(source)
    console = Console()
    console.print(f"{total} sentence{'s' * (total != 1)} -> {output}", markup=False, highlight=False, soft_wrap=True)
    report(together(gathered, total), classifier.signature_)


def _load(folder: str, model: str | None) -> Sen2ProClassifier:
    from sen2pro.classification import Sen2ProClassifier

    return Sen2ProClassifier.load(folder, model=model)


def _predicted(
    classifier: Sen2ProClassifier, source: Source, number: int | None
) -> Iterator[tuple[list[Record], Array64]]:
    """Yield sentences, not more at once than fit in memory, with the probabilities of their classes."""
    with progress(number, None, unit="sentences") as advance:
        for chunk in source.chunks(_CHUNK):
            yield chunk, classifier.predict_proba([record.text for record in chunk], show_progress_bar=False)
            advance(len(chunk))


_Put = Callable[[Record, list[float]], None]


@contextmanager
def _writer(path: Path, classes: list[Any], ids: bool) -> Iterator[_Put]:
    """Give a function that writes a sentence and its probabilities; the file appears when all is written."""
    suffix = path.suffix.lower()
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield _jsonl(file, classes) if suffix == ".jsonl" else _table(file, suffix, classes, ids)


def _jsonl(file: IO[str], classes: list[Any]) -> _Put:
    def put(record: Record, row: list[float]) -> None:
        best = max(range(len(row)), key=row.__getitem__)
        every = {name: round(p, 6) for name, p in zip(classes, row, strict=True)}
        found = {
            **({} if record.id is None else {"id": record.id}), "text": record.text, "label": classes[best],
            "probability": every[classes[best]], "probabilities": every,
        }  # fmt: skip
        file.write(json.dumps(found, ensure_ascii=False) + "\n")

    return put


def _table(file: IO[str], suffix: str, classes: list[Any], ids: bool) -> _Put:
    writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    writer.writerow([*(["id"] if ids else []), "text", "label", "probability"])

    def put(record: Record, row: list[float]) -> None:
        best = max(range(len(row)), key=row.__getitem__)
        writer.writerow([*([record.id] if ids else []), record.text, classes[best], f"{row[best]:.6f}"])

    return put


def run_evaluate(
    folder: str,
    data: str,
    *,
    column: str | None,
    label: str,
    longest_line: int,
    output: str | None,
    overwrite: bool,
    model: str | None,
) -> None:
    """Print how good a classifier is on labelled sentences; a folder gets the pictures too."""
    if output is not None and Path(output).exists() and not Path(output).is_dir():
        raise Sen2ProError(f"{output} is not a folder")
    if output is not None and (Path(output) / "classification.json").exists() and not overwrite:
        raise Sen2ProError(f"there is a report in {output} already; pass --overwrite to replace it")
    source = LabelledSource(data, column, label, longest_line=longest_line)
    number = source.count()
    if number == 0:
        raise nothing_in(source)
    import numpy as np

    from sen2pro.classification.report import evaluate_on, write
    from sen2pro.metrics.report import print_result

    classifier = _load(folder, model)
    names = [str(name) for name in classifier.classes_.tolist()]
    numbers = {name: i for i, name in enumerate(names)}
    source.check_known(numbers)
    truth: list[int] = []
    parts: list[Array64] = []
    with notes() as gathered:
        for chunk, probabilities in _predicted(classifier, source, number):
            source.check_known(numbers)  # of what can be read but once, they are seen only now
            truth += [numbers[str(record.id)] for record in chunk]
            parts.append(probabilities)
    if not parts:
        raise nothing_in(source)
    result = evaluate_on(
        np.concatenate(parts), np.array(truth), names, signature=str(classifier.signature_),
        name=f"{Path(folder).resolve().name} on {Path(data).name}", pictures=output is not None,
    )  # fmt: skip
    result.notes += list(dict.fromkeys(map(str, together(gathered, len(truth)))))
    print_result(result, Console())
    if output is not None:
        write(result, output)
        Console().print(f"written to {output}", markup=False, highlight=False, soft_wrap=True)
