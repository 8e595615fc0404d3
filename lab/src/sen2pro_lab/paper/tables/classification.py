"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from sen2pro.calibration.report import evaluate
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.validation import Array64
from sen2pro_lab.metrics.comparisons import ARROW, Board
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.catalogue import CLASSIFICATION_SETS, available, no_data
from sen2pro_lab.paper.lab import FULL, KINDS, Lab, Shots
from sen2pro_lab.paper.tables import labelled
from sen2pro_lab.paper.tables.labelled import (
    OURS,
    PLAIN,
    POINT,
    SEN2VEC,
    SETFIT,
    TEMPERED,
    TUNED,
    System,
    Task,
    TooMany,
)

_LABELS = ["set", "shots", "against"]
_POINT = partial(Task.sen2pro, kind=None, features="mean")  # the same classifier on plain vectors
# Name of a measure in the JSON file -> its name in `Scores`.
MEASURES = {
    "accuracy": "accuracy", "log_loss": "log_loss", "calibration_error": "calibration_error",
    "accuracy_at_coverage": "accuracy_of_answered",
}  # fmt: skip


def _tasks(lab: Lab) -> tuple[Lab, list[Task], list[str]]:
    """Return the sets that are there, what encodes them, and what is to be said about it."""
    notes = []
    if lab.classification_method is not None:
        lab = replace(lab, method=lab.classification_method)
    elif lab.method == "sampling":  # the texts are many, so one pass if there is a head
        with suppress(HeadMissing):
            quick = replace(lab, method="one-pass")
            quick.encoder()
            lab = quick
            notes.append(
                "Gaussians in one pass; --method sampling takes the paper's samples, and thirty times as long."
            )
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


def t1(lab: Lab) -> Result:
    """Table 1: ten, two hundred or all examples of each class."""
    lab, tasks, notes = _tasks(lab)
    systems: dict[str, System] = {PLAIN: Task.plain, POINT: _POINT, SEN2VEC: Task.sen2vec}
    systems |= {TUNED: Task.fine_tuned} if lab.finetune else {}
    systems |= {SETFIT: Task.setfit} if lab.setfit else {}
    systems[TEMPERED] = Task.tempered
    accuracies, losses, tuned = (Board(_LABELS) for _ in range(3))
    alone = Board([*_LABELS, "ours is"])
    scores: list[list[str]] = []
    numbers: list[dict[str, Any]] = []
    for task, shots in product(tasks, lab.shots):
        where, quoted = [paper.TEXT_TITLES[task.name], str(shots)], paper.T1[task.name].get(shots)
        try:
            ours = task.runs(Task.sen2pro, shots)
        except Sen2ProError as error:
            accuracies.leave_out([*where, "–"], str(error), quoted)
            continue
        runs = {OURS: ours}
        for name, system in systems.items():
            labels, beside = [*where, name], quoted if name == SEN2VEC else None
            try:
                runs[name] = task.runs(system, shots)
            except TooMany as error:
                accuracies.leave_out(labels, str(error), beside)
                continue
            points = partial(task.points, ours, runs[name])
            accuracies.add(labels, points, beside)
            losses.add(labels, partial(points, loss=True), unit=1, smaller_is_better=True)
        if TUNED in runs and SETFIT in runs:
            tuned.add([*where, SETFIT], partial(task.points, runs[TUNED], runs[SETFIT]))
        if labelled.is_few(shots):
            runs |= _add_alone(alone, task, shots, where, runs.get(SETFIT))
        for name, run in runs.items():
            row, values = _measures(task, run)
            scores.append([*where, name, *row])
            numbers.append({"set": where[0], "shots": shots, "system": name, **values})
        chosen = [asdict(task.chosen[shots, seed]) for seed in task.draws(shots)]
        numbers.append({"set": where[0], "shots": shots, "chosen": chosen})
    header = [*_LABELS[:2], "system", "accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"]
    titles = {
        f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}": tuned,
        f"Without a validation set: accuracy × 100, baseline {ARROW} ours": alone,
    }
    grids = [
        accuracies.grid("BERT-base", f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        *(board.grid("–", title) for title, board in titles.items() if board.lines),
        Grid(header, scores, "All measures, mean (sd) over draws", labels=3),
        losses.grid("–", f"Log-loss, baseline {ARROW} {OURS}: smaller is better", digits=3),
    ]
    numbers = [
        *accuracies.numbers(), *numbers, *losses.numbers(measure="log-loss"), *tuned.numbers(measure=TUNED),
        *alone.numbers(measure=labelled.ALONE.strip(", ")),
    ]  # fmt: skip
    verdicts = [
        "; ".join(f"against {name}: {board.verdict(name)}" for name in systems) for board in (accuracies, losses)
    ]
    title, verdict = (
        "Text classification from a few examples of each class",
        "accuracy {}. Log-loss {}".format(*verdicts),
    )
    return lab.result("T1", title, grids, verdict, notes, numbers)


def _add_alone(
    board: Board, task: Task, shots: Shots, where: list[str], setfit: list[Array64] | None
) -> dict[str, list[Array64]]:
    """Compare what the systems make of the examples alone, and return it."""
    systems: dict[str, Callable[..., Array64]] = {OURS: Task.sen2pro, PLAIN: Task.plain}
    systems |= {TUNED: Task.fine_tuned} if task.lab.finetune else {}
    alone = {name: task.runs(partial(system, validate=False), shots) for name, system in systems.items()}
    board.add([*where, PLAIN, OURS], partial(task.points, alone[OURS], alone[PLAIN]))
    if TUNED in alone and setfit is not None:
        board.add([*where, SETFIT, TUNED], partial(task.points, alone[TUNED], setfit))
    return {name + labelled.ALONE: run for name, run in alone.items()}


def _measures(task: Task, runs: Sequence[Array64]) -> tuple[list[str], dict[str, float | None]]:
    """Return each measure as text, mean (sd) over draws, and as numbers."""
    scores = [evaluate(run, task.test.labels) for run in runs]
    texts: list[str] = []
    numbers: dict[str, float | None] = {}
    for name, measure in MEASURES.items():
        unit, digits = (100, 2) if name.startswith("accuracy") else (1, 3)
        values = np.array([getattr(score, measure) for score in scores]) * unit
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        texts.append(f"{values.mean():.{digits}f}" + (f" ({sd:.{digits}f})" if sd is not None else ""))
        numbers |= {name: float(values.mean()), f"{name} sd": sd}
    return texts, numbers


def t7(lab: Lab) -> Result:
    """Table 7: both uncertainties, the model's alone, the data's alone; and what the variances add as features."""
    lab, tasks, notes = _tasks(lab)
    board, features = Board([*_LABELS, "uncertainty"]), Board(_LABELS[:2])
    for task, shots in product(tasks, lab.shots):
        where = [paper.TEXT_TITLES[task.name], str(shots)]
        try:
            name, baseline = SEN2VEC, task.runs(Task.sen2vec, shots)
        except TooMany:  # without the copies
            name, baseline = PLAIN, task.runs(Task.plain, shots)
        except Sen2ProError as error:
            board.leave_out([*where, "–", "–"], str(error))
            continue
        kinds = {kind: task.runs(partial(Task.sen2pro, kind=kind), shots) for kind in KINDS}
        for against, runs in ((name, baseline), (TEMPERED, task.runs(Task.tempered, shots))):
            for kind, ours in kinds.items():
                quoted = None if against == TEMPERED else paper.T7[kind][task.name].get(shots)
                board.add([*where, against, kind], partial(task.points, ours, runs), quoted)
        mean, both = (task.runs(partial(Task.sen2pro, features=name), shots) for name in ("mean", "mean+variance"))
        features.add(where, partial(task.points, both, mean))
    grids = [
        board.grid("BERT-base", f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        features.grid("–", f"Features: mean {ARROW} mean and variance, as in the paper"),
    ]
    against_paper = Board(board.names, [line for line in board.lines if TEMPERED not in line.labels])
    verdicts = [against_paper.verdicts(KINDS)]
    verdicts += [f"{kind} against {TEMPERED}: {board.verdict(kind, TEMPERED)}" for kind in KINDS]
    title, numbers = "Ablation of the two uncertainties in text classification", [*board.numbers(), *features.numbers()]
    return lab.result("T7", title, grids, "; ".join(verdicts), notes, numbers)
