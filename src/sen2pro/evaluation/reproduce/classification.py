"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.classification import FineTuning, Sen2ProClassifier, evaluate
from sen2pro.classification.baselines import COPIES, augmented, logistic_regression, setfit, setfit_name
from sen2pro.classification.metrics import losses as losses_of
from sen2pro.errors import HeadMissing, Sen2ProError, TruncationWarning
from sen2pro.evaluation import paper
from sen2pro.evaluation.data import (
    CLASSIFICATION_SETS,
    WHOLE_SETS,
    DataMissing,
    Labelled,
    read_classification,
    spread,
)  # fmt: skip
from sen2pro.evaluation.lab import FULL, KINDS, Lab, Shots
from sen2pro.evaluation.report import ARROW, Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.evaluation.statistics import Statistic, mean_of, mean_statistic, paired_bootstrap
from sen2pro.gaussian import Array, Array64, Gaussian
from sen2pro.model import Sen2Pro

OURS, PLAIN, POINT = "Sen2Pro", "plain vector", "plain vector, our head"
SEN2VEC, SETFIT, TUNED = "Sen2Vec, 15 copies", "SetFit", "Sen2Pro, fine-tuned"
_MOST_COPIES = 40_000  # texts that Sen2Vec may be trained on: half an hour of passes of long ones
_TRAINED_SHOTS = 16  # beyond, training the encoder takes hours without a GPU
MEASURES = ("accuracy", "log_loss", "calibration_error", "accuracy_at_coverage")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences with plain vectors, Gaussians of each source, and labels."""

    texts: list[str]
    vectors: Array
    parts: dict[str, Gaussian]
    labels: NDArray[np.int64]

    def __getitem__(self, rows: NDArray[np.int64]) -> Encoded:
        parts = {name: part[rows] for name, part in self.parts.items()}
        return Encoded([self.texts[i] for i in rows], self.vectors[rows], parts, self.labels[rows])


class TooMany(Sen2ProError):
    """What a baseline would take too long for; the message is what a note says of it."""


def few(labels: NDArray[np.int64], names: Sequence[str], shots: Shots, seed: int) -> NDArray[np.int64]:
    """Return the rows of so many examples of each class, drawn by seed."""
    if shots == FULL:
        return np.arange(len(labels))
    rng, rows = np.random.default_rng(seed), []
    for number, name in enumerate(names):
        found = np.flatnonzero(labels == number)
        if len(found) < shots:
            raise Sen2ProError(f"{shots} shots, but class {name!r} has {len(found)} examples; ask for fewer")
        rows.append(rng.choice(found, shots, replace=False))
    return np.concatenate(rows)


class Task:
    """One of the sets: what is encoded of it, and the probabilities of each system on its test part."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name, self.model = lab, name, lab.encoder()
        self.train = read_classification(name, "train")
        self.names, self.cut = self.train.names, 0
        self.validation, self.test = (self._whole(read_classification(name, split)) for split in ("val", "test"))
        self._drawn: dict[tuple[Shots, int], Encoded] = {}

    def _whole(self, data: Labelled) -> Encoded:
        rows = np.arange(len(data.texts))
        if self.lab.limit:
            rows = np.array(spread(len(rows), self.lab.limit))
        return self._encoded([data.texts[i] for i in rows], data.labels[rows])

    def _encoded(self, texts: list[str], labels: NDArray[np.int64]) -> Encoded:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # said once, in a note
            found = Encoded(texts, *self.lab.store.with_vectors(self.model, texts), labels)
        self.cut += cut(self.model, texts)
        return found

    def drawn(self, shots: Shots, seed: int) -> Encoded:
        """Return the training sentences of a draw."""
        if (shots, seed) not in self._drawn:
            texts, labels = self._everything() if shots == FULL else (self.train.texts, self.train.labels)
            rows = few(labels, self.names, shots, seed)
            self._drawn[shots, seed] = self._encoded([texts[i] for i in rows], labels[rows])
        return self._drawn[shots, seed]

    def _everything(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        """Return the whole training set, but for what is in the validation set."""
        if self.name not in WHOLE_SETS:
            raise Sen2ProError("its whole training set is not here")
        whole, held_out = read_classification(self.name, "train_full"), set(self.validation.texts)
        rows = [i for i, text in enumerate(whole.texts) if text not in held_out]
        return [whole.texts[i] for i in rows], whole.labels[rows]

    def draws(self, shots: Shots) -> range:
        """Return the seeds of the draws; there is one way to take everything."""
        return range(1 if shots == FULL else self.lab.seeds)

    def sen2pro(self, shots: Shots, seed: int, kind: str = "m+d", features: str = "auto") -> Array64:
        """Return the probabilities of the classifier; everything is chosen on the validation set."""
        train = self.drawn(shots, seed)
        gaussians = [self.lab.join(part.parts, kind) for part in (train, self.validation, self.test)]
        return self._classified(gaussians, train.labels, features, seed)

    def _classified(
        self, gaussians: Sequence[Gaussian], labels: NDArray[np.int64], features: str, seed: int
    ) -> Array64:
        """Train on the first Gaussians, choose by the second, and return the probabilities of the third."""
        classifier = Sen2ProClassifier(features=features, seed=seed)
        classifier.fit(gaussians[0], labels, validation=(gaussians[1], self.validation.labels))
        return classifier.predict_proba(gaussians[2])

    def point(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the same classifier on plain vectors: Gaussians without a variance."""
        train = self.drawn(shots, seed)
        points = [Gaussian(p.vectors, np.zeros_like(p.vectors)) for p in (train, self.validation, self.test)]
        return self._classified(points, train.labels, "mean", seed)

    def plain(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of logistic regression on plain vectors."""
        train = self.drawn(shots, seed)
        return self._logistic(train.vectors, train.labels, seed)

    def sen2vec(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the paper's baseline: the same, with edited copies of the training sentences."""
        train, encoder = self.drawn(shots, seed), self.model.encoder
        if len(train.texts) * (COPIES + 1) > _MOST_COPIES:
            raise TooMany(f"{SEN2VEC} would take the passes of {len(train.texts) * (COPIES + 1):,} texts")
        copies = augmented([encoder.seen(text) for text in train.texts], self.model.vocabulary, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            vectors = self.lab.store.vectors(self.model, copies)
        return self._logistic(vectors, np.repeat(train.labels, len(copies) // len(train.texts)), seed)

    def setfit(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of SetFit."""

        def train(drawn: Encoded) -> Array64:
            return setfit(self.model.encoder.source, drawn.texts, drawn.labels, self.test.texts, seed=seed)

        return self._trained(SETFIT, setfit_name, shots, seed, train)

    def fine_tuned(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the classifier when its encoder is trained too."""

        def train(drawn: Encoded) -> Array64:
            classifier = Sen2ProClassifier(self.model, seed=seed, finetune=FineTuning())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TruncationWarning)
                classifier.fit(drawn.texts, drawn.labels, validation=(self.validation.texts, self.validation.labels))
                return classifier.predict_proba(self.test.texts)

        return self._trained(TUNED, lambda: f"{FineTuning()}, sen2pro {__version__}", shots, seed, train)

    def _trained(
        self, what: str, name: Callable[[], str], shots: Shots, seed: int, train: Callable[[Encoded], Array64]
    ) -> Array64:
        """Return the probabilities of a system that trains the encoder; they are kept, since they take so long."""
        if shots == FULL or shots > _TRAINED_SHOTS:
            raise TooMany(f"{what} is run with up to {_TRAINED_SHOTS} examples of each class")
        drawn = self.drawn(shots, seed)
        parts = [[part.texts, part.labels.tolist()] for part in (drawn, self.validation, self.test)]
        about = json.dumps([name(), self.model.encoder.hash, parts, seed])
        return self.lab.store.array(about, lambda: train(drawn))

    def _logistic(self, vectors: Array, labels: NDArray[np.int64], seed: int) -> Array64:
        validation = self.validation.vectors, self.validation.labels
        return np.asarray(logistic_regression(vectors, labels, validation, seed).predict_proba(self.test.vectors))

    def compare(self, ours: Sequence[Array64], baseline: Sequence[Array64], labels: list[str]) -> Line:
        """Compare accuracies over the same draws, in points, by resampling the test sentences."""

        def right(found: Array64) -> Statistic:
            return mean_statistic(found.argmax(axis=1) == self.test.labels)

        return self._compare(right, ours, baseline, labels, 100)

    def compare_losses(self, ours: Sequence[Array64], baseline: Sequence[Array64], labels: list[str]) -> Line:
        """Compare log-losses in the same way."""

        def loss(found: Array64) -> Statistic:
            return mean_statistic(losses_of(found, self.test.labels))

        return self._compare(loss, ours, baseline, labels, 1, smaller_is_better=True)

    def _compare(
        self,
        statistic: Callable[[Array64], Statistic],
        ours: Sequence[Array64],
        baseline: Sequence[Array64],
        labels: list[str],
        unit: float,
        *,
        smaller_is_better: bool = False,
    ) -> Line:
        theirs = mean_of([statistic(found) for found in baseline])
        found = paired_bootstrap(
            [statistic(one) for one in ours], theirs, len(self.test.labels), smaller_is_better=smaller_is_better
        )
        return Line(labels, None, found.scaled(unit))


def cut(model: Sen2Pro, texts: Sequence[str]) -> int:
    """Return how many texts are longer than the model takes."""
    long = [text for text in texts if len(text) >= model.encoder.max_length]  # a token has at least one letter
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", TruncationWarning)
        model.encoder.tokens(long, warn=True)
    return sum(found.message.count for found in said if isinstance(found.message, TruncationWarning))


def _tasks(lab: Lab) -> tuple[Lab, list[Task], list[str]]:
    """Return the sets that are there, what encodes them, and what is to be said about it."""
    lab, notes = _quick(lab)
    lab, said = _fewer(lab)
    notes += said
    tasks, missing = [], []
    for name in CLASSIFICATION_SETS:
        try:
            tasks.append(Task(lab, name))
        except DataMissing as error:
            missing.append(error)
    if not tasks:
        raise missing[0]
    absent = [name for name in CLASSIFICATION_SETS if name not in {task.name for task in tasks}]
    if absent:
        names = ", ".join(paper.TEXT_TITLES[name] for name in absent)
        notes.append(f"{names}: no data here; `sen2pro data list` says where it comes from.")
    limit = lab.encoder().encoder.max_length
    notes += [
        f"{paper.TEXT_TITLES[task.name]}: of {task.cut} texts only the first {limit} tokens count, which is what the "
        "encoder takes."
        for task in tasks
        if task.cut
    ]
    return lab, tasks, notes


def _fewer(lab: Lab) -> tuple[Lab, list[str]]:
    """Return a lab that takes no more examples than its limit, for a quick look, but at least the fewest asked for."""
    numbers = [shots for shots in lab.shots if shots != FULL]
    if not lab.limit or not numbers:
        return lab, []
    kept = tuple(shots for shots in numbers if shots <= max(lab.limit, min(numbers)))
    if kept == lab.shots:
        return lab, []
    said = f"With --limit {lab.limit}, only {', '.join(map(str, kept))} examples of each class."
    return replace(lab, shots=kept), [said]


def _quick(lab: Lab) -> tuple[Lab, list[str]]:
    """Return a lab with the method for so many texts: as asked for, else one pass where there is a head."""
    if lab.classification_method is not None:
        return replace(lab, method=lab.classification_method), []
    if lab.method == "sampling":
        try:
            quick = replace(lab, method="one-pass")
            quick.encoder()
        except HeadMissing:
            return lab, []
        return quick, ["Gaussians in one pass; --method sampling takes the paper's samples, and thirty times as long."]
    return lab, []


def t1(lab: Lab) -> Result:
    """Table 1: ten, two hundred or all examples of each class."""
    lab, tasks, notes = _tasks(lab)
    systems: dict[str, Callable[[Task, Shots, int], Array64]] = {
        PLAIN: Task.plain, POINT: Task.point, SEN2VEC: Task.sen2vec
    }  # fmt: skip
    trained = {TUNED: Task.fine_tuned} if lab.finetune else {}
    trained |= {SETFIT: Task.setfit} if lab.setfit else {}
    systems |= trained
    lines: list[Line] = []
    tuned: list[Line] = []
    losses: list[Line] = []
    scores: list[list[str]] = []
    numbers = []
    for task in tasks:
        for shots in lab.shots:
            where = [paper.TEXT_TITLES[task.name], str(shots)]
            quoted = paper.T1[task.name].get(shots)
            try:
                ours = [task.sen2pro(shots, seed) for seed in task.draws(shots)]
            except Sen2ProError as error:
                lines.append(Line([*where, "–"], quoted, missing=str(error)))
                continue
            found = {OURS: ours}
            for name, system in systems.items():
                try:
                    runs = [system(task, shots, seed) for seed in task.draws(shots)]
                except TooMany as error:
                    lines.append(Line([*where, name], quoted if name == SEN2VEC else None, missing=str(error)))
                    continue
                found[name] = runs
                lines.append(task.compare(ours, runs, [*where, name]))
                lines[-1].paper = quoted if name == SEN2VEC else None
                losses.append(task.compare_losses(ours, runs, [*where, name]))
            if TUNED in found and SETFIT in found:
                tuned.append(task.compare(found[TUNED], found[SETFIT], [*where, SETFIT]))
            for name, runs in found.items():
                row, values = _measures(task, runs)
                scores.append([*where, name, *row])
                numbers.append({"set": where[0], "shots": shots, "system": name, **values})
    labels = ["set", "shots", "against"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        Grid(
            ["set", "shots", "system", "accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"],
            scores, "All measures, mean (sd) over draws", labels=3,
        ),
        lines_grid(labels, losses, "–", title=f"Log-loss, baseline {ARROW} {OURS}: smaller is better", digits=3),
    ]  # fmt: skip
    if tuned:
        title = f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}"
        grids.insert(1, lines_grid(labels, tuned, "–", title=title))
    return Result(
        "T1", "Text classification from a few examples of each class", grids,
        f"accuracy {_verdicts(lines, systems)}. Log-loss {_verdicts(losses, systems)}", lab.signature(),
        [*paper.NOTES["T1"], *notes, *_draws(lab)],
        [
            *line_numbers(labels, lines), *numbers,
            *({"measure": "log-loss", **n} for n in line_numbers(labels, losses)),
            *({"measure": TUNED, **n} for n in line_numbers(labels, tuned)),
        ],
    )  # fmt: skip


def _verdicts(lines: Sequence[Line], systems: Iterable[str]) -> str:
    return "; ".join(
        f"against {name}: {count_verdicts([line for line in lines if line.labels[2] == name])}" for name in systems
    )


def t7(lab: Lab) -> Result:
    """Table 7: both uncertainties, the model's alone, the data's alone; and what the variances add as features."""
    lab, tasks, notes = _tasks(lab)
    lines: list[Line] = []
    features: list[Line] = []
    for task in tasks:
        for shots in lab.shots:
            where, draws = [paper.TEXT_TITLES[task.name], str(shots)], task.draws(shots)
            try:
                name, baseline = _baseline(task, shots)
            except Sen2ProError as error:
                lines.append(Line([*where, "–", "–"], missing=str(error)))
                continue
            for kind in KINDS:
                found = [task.sen2pro(shots, seed, kind) for seed in draws]
                lines.append(task.compare(found, baseline, [*where, name, kind]))
                lines[-1].paper = paper.T7[kind][task.name].get(shots)
            mean, both = (
                [task.sen2pro(shots, seed, features=name) for seed in draws] for name in ("mean", "mean+variance")
            )
            features.append(task.compare(both, mean, where))
    labels = ["set", "shots", "against", "uncertainty"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        lines_grid(labels[:2], features, "–", title=f"Features: mean {ARROW} mean and variance, as in the paper"),
    ]
    verdicts = [f"{kind}: {count_verdicts([line for line in lines if line.labels[3] == kind])}" for kind in KINDS]
    return Result(
        "T7", "Ablation of the two uncertainties in text classification", grids, "; ".join(verdicts), lab.signature(),
        [*paper.NOTES["T7"], *notes, *_draws(lab)],
        [*line_numbers(labels, lines), *line_numbers(labels[:2], features)],
    )  # fmt: skip


def _baseline(task: Task, shots: Shots) -> tuple[str, list[Array64]]:
    """Return the paper's Sen2Vec, or without its copies where these are too many."""
    try:
        return SEN2VEC, [task.sen2vec(shots, seed) for seed in task.draws(shots)]
    except TooMany:
        return PLAIN, [task.plain(shots, seed) for seed in task.draws(shots)]


def _measures(task: Task, runs: Sequence[Array64]) -> tuple[list[str], dict[str, float | None]]:
    """Return each measure as text, mean (sd) over draws, and as numbers."""
    found = [evaluate(run, task.test.labels).to_dict() for run in runs]
    texts: list[str] = []
    numbers: dict[str, float | None] = {}
    for name in MEASURES:
        values = np.array([scores[name] for scores in found]) * (100 if name.startswith("accuracy") else 1)
        digits = 2 if name.startswith("accuracy") else 3
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        texts.append(f"{values.mean():.{digits}f}" + (f" ({sd:.{digits}f})" if sd is not None else ""))
        numbers |= {name: float(values.mean()), f"{name} sd": sd}
    return texts, numbers


def _draws(lab: Lab) -> list[str]:
    return [
        f"Examples drawn {lab.seeds} time{'s' * (lab.seeds != 1)}; every system learns from the same, and chooses on "
        "the same validation set. An interval is over test sentences, for these draws."
    ]
