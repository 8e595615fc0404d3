"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import Sen2ProClassifier, evaluate
from sen2pro.classification.baselines import augmented, logistic_regression, setfit
from sen2pro.errors import HeadMissing, Sen2ProError, TruncationWarning
from sen2pro.evaluation import paper
from sen2pro.evaluation.data import CLASSIFICATION_SETS, DataMissing, Labelled, read_classification
from sen2pro.evaluation.lab import KINDS, Lab
from sen2pro.evaluation.report import Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.evaluation.statistics import Statistic, mean_of, mean_statistic, paired_bootstrap
from sen2pro.gaussian import Array, Array64, Gaussian

OURS, PLAIN, SEN2VEC, SETFIT = "Sen2Pro", "plain vector", "Sen2Vec, 15 copies", "SetFit"
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


def few(labels: NDArray[np.int64], names: Sequence[str], shots: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of so many examples of each class, drawn by seed."""
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
        self._drawn: dict[tuple[int, int], Encoded] = {}

    def _whole(self, data: Labelled) -> Encoded:
        rows = np.arange(len(data.texts))
        if self.lab.limit:
            rows = np.linspace(0, len(rows) - 1, min(self.lab.limit, len(rows))).astype(np.int64)
        return self._encoded([data.texts[i] for i in rows], data.labels[rows])

    def _encoded(self, texts: list[str], labels: NDArray[np.int64]) -> Encoded:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # said once, in a note
            found = Encoded(texts, *self.lab.store.with_vectors(self.model, texts), labels)
        limit = self.model.encoder.max_length
        long = [text for text in texts if len(text) >= limit]  # a token has at least one letter
        self.cut += sum(len(ids) >= limit for ids in self.model.encoder.tokens(long))
        return found

    def drawn(self, shots: int, seed: int) -> Encoded:
        """Return the training sentences of a draw."""
        if (shots, seed) not in self._drawn:
            rows = few(self.train.labels, self.names, shots, seed)
            found = self._encoded([self.train.texts[i] for i in rows], self.train.labels[rows])
            self._drawn[shots, seed] = found
        return self._drawn[shots, seed]

    def sen2pro(self, shots: int, seed: int, kind: str = "m+d", features: str = "auto") -> Array64:
        """Return the probabilities of the classifier; everything is chosen on the validation set."""
        train = self.drawn(shots, seed)
        gaussians = [self.lab.join(part.parts, kind) for part in (train, self.validation, self.test)]
        classifier = Sen2ProClassifier(features=features, seed=seed)
        classifier.fit(gaussians[0], train.labels, validation=(gaussians[1], self.validation.labels))
        return classifier.predict_proba(gaussians[2])

    def plain(self, shots: int, seed: int) -> Array64:
        """Return the probabilities of logistic regression on plain vectors."""
        train = self.drawn(shots, seed)
        return self._logistic(train.vectors, train.labels, seed)

    def sen2vec(self, shots: int, seed: int) -> Array64:
        """Return the probabilities of the paper's baseline: the same, with edited copies of the training sentences."""
        train, encoder = self.drawn(shots, seed), self.model.encoder
        copies = augmented([encoder.seen(text) for text in train.texts], self.model.vocabulary, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            vectors = self.lab.store.vectors(self.model, copies)
        return self._logistic(vectors, np.repeat(train.labels, len(copies) // len(train.texts)), seed)

    def setfit(self, shots: int, seed: int) -> Array64:
        """Return the probabilities of SetFit."""
        train = self.drawn(shots, seed)
        return setfit(self.model.encoder.source, train.texts, train.labels, self.test.texts, seed=seed)

    def _logistic(self, vectors: Array, labels: NDArray[np.int64], seed: int) -> Array64:
        validation = self.validation.vectors, self.validation.labels
        return np.asarray(logistic_regression(vectors, labels, validation, seed).predict_proba(self.test.vectors))

    def compare(self, ours: Sequence[Array64], baseline: Sequence[Array64], shots: int) -> Line:
        """Compare accuracies over the same draws, in points, by resampling the test sentences."""

        def right(found: Array64) -> Statistic:
            return mean_statistic(found.argmax(axis=1) == self.test.labels)

        theirs = mean_of([right(found) for found in baseline])
        found = paired_bootstrap([right(one) for one in ours], theirs, len(self.test.labels)).scaled(100)
        return Line([paper.TEXT_TITLES[self.name], str(shots)], None, found)


def _tasks(lab: Lab) -> tuple[Lab, list[Task], list[str]]:
    """Return the sets that are there, what encodes them, and what is to be said about it."""
    lab, notes = _quick(lab)
    if lab.limit and max(lab.shots) > max(lab.limit, min(lab.shots)):  # a quick look: no more examples than asked for
        lab = replace(lab, shots=tuple(shots for shots in lab.shots if shots <= max(lab.limit, min(lab.shots))))
        notes.append(f"With --limit {lab.limit}, only {', '.join(map(str, lab.shots))} examples of each class.")
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
    """Table 1: ten and two hundred examples of each class."""
    lab, tasks, notes = _tasks(lab)
    systems: dict[str, Callable[[Task, int, int], Array64]] = {PLAIN: Task.plain, SEN2VEC: Task.sen2vec}
    if lab.setfit:
        systems[SETFIT] = Task.setfit
    lines: list[Line] = []
    scores: list[list[str]] = []
    numbers = []
    for task in tasks:
        for shots in lab.shots:
            title = paper.TEXT_TITLES[task.name]
            try:
                ours = [task.sen2pro(shots, seed) for seed in range(lab.seeds)]
            except Sen2ProError as error:
                lines.append(Line([title, str(shots), "–"], missing=str(error)))
                continue
            found = {OURS: ours}
            for name, system in systems.items():
                found[name] = [system(task, shots, seed) for seed in range(lab.seeds)]
                line = task.compare(ours, found[name], shots)
                line.labels.append(name)
                line.paper = paper.T1[task.name].get(shots) if name == SEN2VEC else None
                lines.append(line)
            for name, runs in found.items():
                row, values = _measures(task, runs)
                scores.append([title, str(shots), name, *row])
                numbers.append({"set": title, "shots": shots, "system": name, **values})
    labels = ["set", "shots", "against"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, baseline → {OURS}"),
        Grid(
            ["set", "shots", "system", "accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"],
            scores, "All measures, mean (sd) over draws", labels=3,
        ),
    ]  # fmt: skip
    verdicts = [
        f"against {name}: {count_verdicts([line for line in lines if line.labels[2] == name])}" for name in systems
    ]
    return Result(
        "T1", "Text classification from a few examples of each class", grids, "; ".join(verdicts), lab.signature(),
        [*paper.NOTES["T1"], *notes, *_draws(lab)], [*line_numbers(labels, lines), *numbers],
    )  # fmt: skip


def t7(lab: Lab) -> Result:
    """Table 7: both uncertainties, the model's alone, the data's alone; and what the variances add as features."""
    lab, tasks, notes = _tasks(lab)
    lines: list[Line] = []
    features: list[Line] = []
    for task in tasks:
        for shots in lab.shots:
            try:
                baseline = [task.sen2vec(shots, seed) for seed in range(lab.seeds)]
            except Sen2ProError as error:
                lines.append(Line([paper.TEXT_TITLES[task.name], str(shots), "–"], missing=str(error)))
                continue
            for kind in KINDS:
                found = [task.sen2pro(shots, seed, kind) for seed in range(lab.seeds)]
                line = task.compare(found, baseline, shots)
                line.labels.append(kind)
                line.paper = paper.T7[kind][task.name].get(shots)
                lines.append(line)
            mean, both = (
                [task.sen2pro(shots, seed, features=name) for seed in range(lab.seeds)]
                for name in ("mean", "mean+variance")
            )
            features.append(task.compare(both, mean, shots))
    labels = ["set", "shots", "uncertainty"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, {SEN2VEC} → {OURS}"),
        lines_grid(labels[:2], features, "–", title="Features: mean → mean and variance, as in the paper"),
    ]
    verdicts = [f"{kind}: {count_verdicts([line for line in lines if line.labels[2] == kind])}" for kind in KINDS]
    return Result(
        "T7", "Ablation of the two uncertainties in text classification", grids, "; ".join(verdicts), lab.signature(),
        [*paper.NOTES["T7"], *notes, *_draws(lab)],
        [*line_numbers(labels, lines), *line_numbers(labels[:2], features)],
    )  # fmt: skip


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
