"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from sen2pro.classification import evaluate
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.metrics.comparisons import ARROW, Board
from sen2pro.metrics.report import Grid, Result
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import CLASSIFICATION_SETS, available, no_data
from sen2pro.paper.lab import FULL, KINDS, Lab, Shots
from sen2pro.paper.tables import labelled
from sen2pro.paper.tables.labelled import OURS, PLAIN, SEN2VEC, SETFIT, TEMPERED, TUNED, System, Task, TooMany
from sen2pro.types import Array64

_LABELS = ["set", "shots", "against"]
MEASURES = ("accuracy", "log_loss", "calibration_error", "accuracy_at_coverage")


def _tasks(lab: Lab) -> tuple[Lab, list[Task], list[str]]:
    """Return the sets that are there, what encodes them, and what is to be said about it."""
    lab, notes = _quick(lab)
    numbers = [shots for shots in lab.shots if shots != FULL]
    if lab.limit and numbers:  # no more examples than the limit, but at least the fewest asked for or a quick look's
        most = max(lab.limit, min(numbers))
        shots = tuple(dict.fromkeys(lab.fewer_shots(number) for number in numbers if number <= most))
        if shots != lab.shots:
            lab = replace(lab, shots=shots)
            notes.append(f"With --limit {lab.limit}, only {', '.join(map(str, shots))} examples of each class.")
    sets, missing = available(partial(Task, lab), CLASSIFICATION_SETS)
    notes += no_data(paper.TEXT_TITLES[name] for name in missing)
    notes += [
        f"{paper.TEXT_TITLES[name]}: of {task.cut} texts to choose by and to test on, only the first "
        f"{task.model.encoder.max_length} tokens count, which is what the encoder takes."
        for name, task in sets.items()
        if task.cut
    ]
    validated, tested = (
        ", ".join(f"{len(getattr(task, part).texts):,} of {paper.TEXT_TITLES[name]}" for name, task in sets.items())
        for part in ("validation", "test")
    )
    notes += [
        f"Examples drawn {lab.seeds} time{'s' * (lab.seeds != 1)}; every system learns from the same. An interval is "
        "over test sentences, for these draws.",
        f"Settings are chosen on a validation set, as in the paper (SetFit chooses nothing): {validated}.",
        f"Tested on {tested}.",
    ]
    return lab, list(sets.values()), notes


def _quick(lab: Lab) -> tuple[Lab, list[str]]:
    """Return a lab with the method for so many texts: as asked for, else one pass where there is a head."""
    if lab.classification_method is not None or lab.method != "sampling":
        return replace(lab, method=lab.classification_method or lab.method), []
    quick = replace(lab, method="one-pass")
    try:
        quick.encoder()
    except HeadMissing:
        return lab, []
    return quick, ["Gaussians in one pass; --method sampling takes the paper's samples, and thirty times as long."]


def t1(lab: Lab) -> Result:
    """Table 1: ten, two hundred or all examples of each class."""
    lab, tasks, notes = _tasks(lab)
    compared = _Comparisons(lab)
    for task in tasks:
        for shots in lab.shots:
            compared.add(task, shots)
    verdicts = [
        "; ".join(f"against {name}: {board.verdict(name)}" for name in compared.systems)
        for board in (compared.accuracies, compared.losses)
    ]
    return Result(
        "T1", "Text classification from a few examples of each class", compared.grids(),
        f"accuracy {verdicts[0]}. Log-loss {verdicts[1]}", lab.signature(), [*paper.NOTES["T1"], *notes],
        compared.all_numbers(),
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
        runs = {OURS: ours}
        for name, system in self.systems.items():
            labels, beside = [*where, name], quoted if name == SEN2VEC else None
            try:
                runs[name] = task.runs(system, shots)
            except TooMany as error:
                self.accuracies.leave_out(labels, str(error), beside)
                continue
            self.accuracies.add(labels, partial(task.points, ours, runs[name]), beside)
            points = partial(task.points, ours, runs[name], loss=True)
            self.losses.add(labels, points, unit=1, smaller_is_better=True)
        if TUNED in runs and SETFIT in runs:
            self.tuned.add([*where, SETFIT], partial(task.points, runs[TUNED], runs[SETFIT]))
        if labelled.is_few(shots):
            self._add_alone(task, shots, runs, where)
        for name, run in runs.items():
            row, values = _measures(task, run)
            self.scores.append([*where, name, *row])
            self.numbers.append({"set": where[0], "shots": shots, "system": name, **values})
        chosen = [asdict(task.chosen[shots, seed]) for seed in task.draws(shots)]
        self.numbers.append({"set": where[0], "shots": shots, "chosen": chosen})

    def _add_alone(self, task: Task, shots: Shots, runs: dict[str, list[Array64]], where: list[str]) -> None:
        """Compare what the systems make of the examples alone, and add it to what they are measured by."""
        systems: dict[str, Callable[..., Array64]] = {OURS: Task.sen2pro, PLAIN: Task.plain}
        systems |= {TUNED: Task.fine_tuned} if self.lab.finetune else {}
        alone = {name: task.runs(partial(system, validate=False), shots) for name, system in systems.items()}
        self.alone.add([*where, PLAIN, OURS], partial(task.points, alone[OURS], alone[PLAIN]))
        if TUNED in alone and SETFIT in runs:
            self.alone.add([*where, SETFIT, TUNED], partial(task.points, alone[TUNED], runs[SETFIT]))
        runs |= {name + labelled.ALONE: run for name, run in alone.items()}

    def grids(self) -> list[Grid]:
        titles = {
            f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}": self.tuned,
            f"Without a validation set: accuracy × 100, baseline {ARROW} ours": self.alone,
        }
        measures = ["accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"]
        scores = Grid(
            ["set", "shots", "system", *measures], self.scores, "All measures, mean (sd) over draws", labels=3
        )
        return [
            self.accuracies.grid("BERT-base", f"{self.lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
            *(board.grid("–", title) for title, board in titles.items() if board.lines), scores,
            self.losses.grid("–", f"Log-loss, baseline {ARROW} {OURS}: smaller is better", digits=3),
        ]  # fmt: skip

    def all_numbers(self) -> list[dict[str, Any]]:
        return [
            *self.accuracies.numbers(), *self.numbers, *self.losses.numbers(measure="log-loss"),
            *self.tuned.numbers(measure=TUNED), *self.alone.numbers(measure=labelled.ALONE.strip(", ")),
        ]  # fmt: skip


def _measures(task: Task, runs: Sequence[Array64]) -> tuple[list[str], dict[str, float | None]]:
    """Return each measure as text, mean (sd) over draws, and as numbers."""
    scores = [evaluate(run, task.test.labels).to_dict() for run in runs]
    texts: list[str] = []
    numbers: dict[str, float | None] = {}
    for name in MEASURES:
        unit, digits = (100, 2) if name.startswith("accuracy") else (1, 3)
        values = np.array([score[name] for score in scores]) * unit
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
                name, baseline = SEN2VEC, task.runs(Task.sen2vec, shots)
            except TooMany:  # without the copies
                name, baseline = PLAIN, task.runs(Task.plain, shots)
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
