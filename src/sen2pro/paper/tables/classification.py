"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from sen2pro.classification import evaluate
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.metrics.comparisons import ARROW, Board
from sen2pro.metrics.report import Grid, Result
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import CLASSIFICATION_SETS, DataMissing
from sen2pro.paper.lab import FULL, KINDS, Lab, Shots
from sen2pro.paper.tables import labelled
from sen2pro.paper.tables.labelled import OURS, PLAIN, SEN2VEC, SETFIT, TEMPERED, TUNED, System, Task, TooMany
from sen2pro.types import Array64

_LABELS = ["set", "shots", "against"]
MEASURES = ("accuracy", "log_loss", "calibration_error", "accuracy_at_coverage")


def _tasks(lab: Lab) -> tuple[Lab, list[Task], list[str]]:
    """Return the sets that are there, what encodes them, and what is to be said about it."""
    lab, notes = _quick(lab)
    lab, said = _fewer(lab)
    notes += said
    tasks, missing = [], {}
    for name in CLASSIFICATION_SETS:
        try:
            tasks.append(Task(lab, name))
        except DataMissing as error:
            missing[paper.TEXT_TITLES[name]] = error
    if not tasks:
        raise next(iter(missing.values()))
    if missing:
        notes.append(f"{', '.join(missing)}: no data here; `sen2pro data list` says where it comes from.")
    limit = lab.encoder().encoder.max_length
    notes += [
        f"{paper.TEXT_TITLES[task.name]}: of {task.cut} texts to choose by and to test on, only the first {limit} "
        "tokens count, which is what the encoder takes."
        for task in tasks
        if task.cut
    ]
    return lab, tasks, [*notes, *_draws(lab, tasks)]


def _fewer(lab: Lab) -> tuple[Lab, list[str]]:
    """Return a lab that takes no more examples than its limit, but at least the fewest asked for or a quick look's."""
    numbers = [shots for shots in lab.shots if shots != FULL]
    if not lab.limit or not numbers:
        return lab, []
    most = max(lab.limit, min(numbers))
    kept = tuple(dict.fromkeys(lab.fewer_shots(shots) for shots in numbers if shots <= most))
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


def _draws(lab: Lab, tasks: Sequence[Task]) -> list[str]:
    def sizes(part: str) -> str:
        return ", ".join(f"{len(getattr(task, part).texts):,} of {paper.TEXT_TITLES[task.name]}" for task in tasks)

    return [
        f"Examples drawn {lab.seeds} time{'s' * (lab.seeds != 1)}; every system learns from the same. An interval is "
        "over test sentences, for these draws.",
        f"Settings are chosen on a validation set, as in the paper (SetFit chooses nothing): {sizes('validation')}.",
        f"Tested on {sizes('test')}.",
    ]


def t1(lab: Lab) -> Result:
    """Table 1: ten, two hundred or all examples of each class."""
    lab, tasks, notes = _tasks(lab)
    found = _Comparisons(lab)
    for task in tasks:
        for shots in lab.shots:
            found.add(task, shots)
    verdicts = [
        "; ".join(f"against {name}: {board.verdict(name)}" for name in found.systems)
        for board in (found.accuracies, found.losses)
    ]
    return Result(
        "T1", "Text classification from a few examples of each class", found.grids(),
        f"accuracy {verdicts[0]}. Log-loss {verdicts[1]}", lab.signature(), [*paper.NOTES["T1"], *notes],
        found.all_numbers(),
    )  # fmt: skip


class _Comparisons:
    """What table 1 says, set after set: of all systems, of those that train the encoder, and of the examples alone."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.systems: dict[str, System] = {PLAIN: Task.plain, labelled.POINT: Task.point, SEN2VEC: Task.sen2vec}
        self.systems |= {TUNED: Task.fine_tuned} if lab.finetune else {}
        self.systems |= {SETFIT: Task.setfit} if lab.setfit else {}
        self.systems[TEMPERED] = Task.tempered
        self.accuracies, self.losses, self.tuned = (Board(_LABELS) for _ in range(3))
        self.alone = Board([*_LABELS, "ours is"])
        self.scores: list[list[str]] = []
        self.numbers: list[dict[str, Any]] = []

    def add(self, task: Task, shots: Shots) -> None:
        """Compare all systems on a set."""
        where, quoted = [paper.TEXT_TITLES[task.name], str(shots)], paper.T1[task.name].get(shots)
        try:
            ours = task.runs(Task.sen2pro, shots)
        except Sen2ProError as error:
            self.accuracies.leave_out([*where, "–"], str(error), quoted)
            return
        found = {OURS: ours}
        for name, system in self.systems.items():
            labels, beside = [*where, name], quoted if name == SEN2VEC else None
            try:
                found[name] = task.runs(system, shots)
            except TooMany as error:
                self.accuracies.leave_out(labels, str(error), beside)
                continue
            self.accuracies.add(labels, partial(task.points, ours, found[name]), beside)
            points = partial(task.points, ours, found[name], loss=True)
            self.losses.add(labels, points, unit=1, smaller_is_better=True)
        if TUNED in found and SETFIT in found:
            self.tuned.add([*where, SETFIT], partial(task.points, found[TUNED], found[SETFIT]))
        if labelled.is_few(shots):
            found |= self._without_validation(task, shots, found.get(SETFIT), where)
        for name, runs in found.items():
            row, values = _measures(task, runs)
            self.scores.append([*where, name, *row])
            self.numbers.append({"set": where[0], "shots": shots, "system": name, **values})
        chosen = [asdict(task.chosen[shots, seed]) for seed in task.draws(shots)]
        self.numbers.append({"set": where[0], "shots": shots, "chosen": chosen})

    def _without_validation(
        self, task: Task, shots: Shots, setfit: list[Array64] | None, where: list[str]
    ) -> dict[str, list[Array64]]:
        """Compare what the systems make of the examples alone."""
        ours, plain = (task.runs(partial(system, validate=False), shots) for system in (Task.sen2pro, Task.plain))
        self.alone.add([*where, PLAIN, OURS], partial(task.points, ours, plain))
        found = {OURS + labelled.ALONE: ours, PLAIN + labelled.ALONE: plain}
        if self.lab.finetune:
            found[TUNED + labelled.ALONE] = tuned = task.runs(partial(Task.fine_tuned, validate=False), shots)
            if setfit is not None:
                self.alone.add([*where, SETFIT, TUNED], partial(task.points, tuned, setfit))
        return found

    def grids(self) -> list[Grid]:
        """Return the tables."""
        title = f"{self.lab.title}, accuracy × 100, baseline {ARROW} {OURS}"
        grids = [self.accuracies.grid("BERT-base", title)]
        if self.tuned.lines:
            title = f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}"
            grids.append(self.tuned.grid("–", title))
        if self.alone.lines:
            grids.append(self.alone.grid("–", f"Without a validation set: accuracy × 100, baseline {ARROW} ours"))
        measures = ["accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"]
        title = "All measures, mean (sd) over draws"
        grids.append(Grid(["set", "shots", "system", *measures], self.scores, title, labels=3))
        return [*grids, self.losses.grid("–", f"Log-loss, baseline {ARROW} {OURS}: smaller is better", digits=3)]

    def all_numbers(self) -> list[dict[str, Any]]:
        """Return all of it for the JSON file."""
        return [
            *self.accuracies.numbers(), *self.numbers, *self.losses.numbers(measure="log-loss"),
            *self.tuned.numbers(measure=TUNED), *self.alone.numbers(measure=labelled.ALONE.strip(", ")),
        ]  # fmt: skip


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


def t7(lab: Lab) -> Result:
    """Table 7: both uncertainties, the model's alone, the data's alone; and what the variances add as features."""
    lab, tasks, notes = _tasks(lab)
    board, features = Board([*_LABELS, "uncertainty"]), Board(_LABELS[:2])
    for task in tasks:
        for shots in lab.shots:
            where = [paper.TEXT_TITLES[task.name], str(shots)]
            try:
                name, baseline = _baseline(task, shots)
            except Sen2ProError as error:
                board.leave_out([*where, "–", "–"], str(error))
                continue
            kinds = {kind: task.runs(partial(Task.sen2pro, kind=kind), shots) for kind in KINDS}
            for kind, ours in kinds.items():
                quoted = paper.T7[kind][task.name].get(shots)
                board.add([*where, name, kind], partial(task.points, ours, baseline), quoted)
            tempered = task.runs(Task.tempered, shots)
            for kind, ours in kinds.items():
                board.add([*where, TEMPERED, kind], partial(task.points, ours, tempered))
            mean, both = (task.runs(partial(Task.sen2pro, features=name), shots) for name in ("mean", "mean+variance"))
            features.add(where, partial(task.points, both, mean))
    grids = [
        board.grid("BERT-base", f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        features.grid("–", f"Features: mean {ARROW} mean and variance, as in the paper"),
    ]
    against_paper = Board(board.names, [line for line in board.lines if TEMPERED not in line.labels])
    verdicts = [f"{kind}: {against_paper.verdict(kind)}" for kind in KINDS]
    verdicts += [f"{kind} against {TEMPERED}: {board.verdict(kind, TEMPERED)}" for kind in KINDS]
    return Result(
        "T7", "Ablation of the two uncertainties in text classification", grids, "; ".join(verdicts), lab.signature(),
        [*paper.NOTES["T7"], *notes], [*board.numbers(), *features.numbers()],
    )  # fmt: skip


def _baseline(task: Task, shots: Shots) -> tuple[str, list[Array64]]:
    """Return the paper's Sen2Vec, or without its copies where these are too many."""
    try:
        return SEN2VEC, task.runs(Task.sen2vec, shots)
    except TooMany:
        return PLAIN, task.runs(Task.plain, shots)
