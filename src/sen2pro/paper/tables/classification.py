"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from sen2pro.classification import evaluate
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.paper import numbers as paper
from sen2pro.paper.data import CLASSIFICATION_SETS, DataMissing
from sen2pro.paper.lab import FULL, KINDS, Lab, Shots
from sen2pro.paper.report import ARROW, Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.paper.tables.labelled import (
    ALONE,
    OURS,
    PLAIN,
    POINT,
    SEN2VEC,
    SETFIT,
    TUNED,
    System,
    Task,
    TooMany,
    is_few,
)
from sen2pro.types import Array64

_LABELS = ["set", "shots", "against"]
MEASURES = ("accuracy", "log_loss", "calibration_error", "accuracy_at_coverage")


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
        f"{paper.TEXT_TITLES[task.name]}: of {task.cut} texts to choose by and to test on, only the first {limit} "
        "tokens count, which is what the encoder takes."
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
    found = _Comparisons(lab)
    for task in tasks:
        for shots in lab.shots:
            found.add(task, shots)
    return Result(
        "T1", "Text classification from a few examples of each class", found.grids(),
        f"accuracy {_verdicts(found.lines, found.systems)}. Log-loss {_verdicts(found.losses, found.systems)}",
        lab.signature(), [*paper.NOTES["T1"], *notes, *_draws(lab, tasks)], found.all_numbers(),
    )  # fmt: skip


class _Comparisons:
    """What table 1 says, set after set."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.systems: dict[str, System] = {PLAIN: Task.plain, POINT: Task.point, SEN2VEC: Task.sen2vec}
        self.systems |= {TUNED: Task.fine_tuned} if lab.finetune else {}
        self.systems |= {SETFIT: Task.setfit} if lab.setfit else {}
        self.lines: list[Line] = []
        self.losses: list[Line] = []
        self.tuned: list[Line] = []
        self.alone: list[Line] = []
        self.scores: list[list[str]] = []
        self.numbers: list[dict[str, Any]] = []

    def add(self, task: Task, shots: Shots) -> None:
        """Compare all systems on a set."""
        where, quoted = [paper.TEXT_TITLES[task.name], str(shots)], paper.T1[task.name].get(shots)
        try:
            found = {OURS: task.runs(Task.sen2pro, shots)}
        except Sen2ProError as error:
            self.lines.append(Line([*where, "–"], quoted, missing=str(error)))
            return
        for name, system in self.systems.items():
            beside = quoted if name == SEN2VEC else None
            try:
                found[name] = task.runs(system, shots)
            except TooMany as error:
                self.lines.append(Line([*where, name], beside, missing=str(error)))
                continue
            self.lines.append(task.compare(found[OURS], found[name], [*where, name]))
            self.lines[-1].paper = beside
            self.losses.append(task.compare_losses(found[OURS], found[name], [*where, name]))
        if TUNED in found and SETFIT in found:
            self.tuned.append(task.compare(found[TUNED], found[SETFIT], [*where, SETFIT]))
        if is_few(shots):
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
        ours, plain = task.runs(Task.sen2pro_alone, shots), task.runs(Task.plain_alone, shots)
        self.alone.append(task.compare(ours, plain, [*where, PLAIN, OURS]))
        found = {OURS + ALONE: ours, PLAIN + ALONE: plain}
        if self.lab.finetune:
            found[TUNED + ALONE] = task.runs(Task.fine_tuned_alone, shots)
            if setfit is not None:
                self.alone.append(task.compare(found[TUNED + ALONE], setfit, [*where, SETFIT, TUNED]))
        return found

    def grids(self) -> list[Grid]:
        """Return the tables."""
        title = f"{self.lab.title}, accuracy × 100, baseline {ARROW} {OURS}"
        grids = [lines_grid(_LABELS, self.lines, "BERT-base", title=title)]
        if self.tuned:
            title = f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}"
            grids.append(lines_grid(_LABELS, self.tuned, "–", title=title))
        if self.alone:
            title = f"Without a validation set: accuracy × 100, baseline {ARROW} ours"
            grids.append(lines_grid([*_LABELS, "ours is"], self.alone, "–", title=title))
        measures = ["accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"]
        title = "All measures, mean (sd) over draws"
        grids.append(Grid(["set", "shots", "system", *measures], self.scores, title, labels=3))
        title = f"Log-loss, baseline {ARROW} {OURS}: smaller is better"
        return [*grids, lines_grid(_LABELS, self.losses, "–", title=title, digits=3)]

    def all_numbers(self) -> list[dict[str, Any]]:
        """Return all of it for the JSON file."""
        return [
            *line_numbers(_LABELS, self.lines),
            *self.numbers,
            *({"measure": "log-loss", **n} for n in line_numbers(_LABELS, self.losses)),
            *({"measure": TUNED, **n} for n in line_numbers(_LABELS, self.tuned)),
            *({"measure": ALONE.strip(", "), **n} for n in line_numbers([*_LABELS, "ours is"], self.alone)),
        ]


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
            where = [paper.TEXT_TITLES[task.name], str(shots)]
            try:
                name, baseline = _baseline(task, shots)
            except Sen2ProError as error:
                lines.append(Line([*where, "–", "–"], missing=str(error)))
                continue
            for kind in KINDS:
                found = task.runs(partial(Task.sen2pro, kind=kind), shots)
                lines.append(task.compare(found, baseline, [*where, name, kind]))
                lines[-1].paper = paper.T7[kind][task.name].get(shots)
            mean, both = (task.runs(partial(Task.sen2pro, features=name), shots) for name in ("mean", "mean+variance"))
            features.append(task.compare(both, mean, where))
    labels = [*_LABELS, "uncertainty"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        lines_grid(labels[:2], features, "–", title=f"Features: mean {ARROW} mean and variance, as in the paper"),
    ]
    verdicts = [f"{kind}: {count_verdicts([line for line in lines if line.labels[3] == kind])}" for kind in KINDS]
    return Result(
        "T7", "Ablation of the two uncertainties in text classification", grids, "; ".join(verdicts), lab.signature(),
        [*paper.NOTES["T7"], *notes, *_draws(lab, tasks)],
        [*line_numbers(labels, lines), *line_numbers(labels[:2], features)],
    )  # fmt: skip


def _baseline(task: Task, shots: Shots) -> tuple[str, list[Array64]]:
    """Return the paper's Sen2Vec, or without its copies where these are too many."""
    try:
        return SEN2VEC, task.runs(Task.sen2vec, shots)
    except TooMany:
        return PLAIN, task.runs(Task.plain, shots)


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


def _draws(lab: Lab, tasks: Sequence[Task]) -> list[str]:
    def sizes(part: str) -> str:
        return ", ".join(f"{len(getattr(task, part).texts):,} of {paper.TEXT_TITLES[task.name]}" for task in tasks)

    return [
        f"Examples drawn {lab.seeds} time{'s' * (lab.seeds != 1)}; every system learns from the same. An interval is "
        "over test sentences, for these draws.",
        f"Settings are chosen on a validation set, as in the paper (SetFit chooses nothing): {sizes('validation')}.",
        f"Tested on {sizes('test')}.",
    ]
