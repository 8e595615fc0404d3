"""Tables 1 and 7: text classification from a few labels, with a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

import numpy as np

from sen2pro.classification import evaluate
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.evaluation import paper
from sen2pro.evaluation.data import CLASSIFICATION_SETS, DataMissing
from sen2pro.evaluation.lab import FULL, KINDS, Lab, Shots
from sen2pro.evaluation.report import ARROW, Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.evaluation.reproduce.labelled import (
    ALONE,
    OURS,
    PLAIN,
    POINT,
    SEN2VEC,
    SETFIT,
    TUNED,
    Task,
    TooMany,
    is_few,
)
from sen2pro.gaussian import Array64

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
    systems: dict[str, Callable[[Task, Shots, int], Array64]] = {
        PLAIN: Task.plain, POINT: Task.point, SEN2VEC: Task.sen2vec
    }  # fmt: skip
    trained = {TUNED: Task.fine_tuned} if lab.finetune else {}
    trained |= {SETFIT: Task.setfit} if lab.setfit else {}
    systems |= trained
    lines: list[Line] = []
    tuned: list[Line] = []
    alone: list[Line] = []
    losses: list[Line] = []
    scores: list[list[str]] = []
    numbers = []
    choices = []
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
            if is_few(shots):
                found |= _alone(task, shots, found.get(SETFIT), alone, where, finetune=lab.finetune)
            for name, runs in found.items():
                row, values = _measures(task, runs)
                scores.append([*where, name, *row])
                numbers.append({"set": where[0], "shots": shots, "system": name, **values})
            chosen = [asdict(task.chosen[shots, seed]) for seed in task.draws(shots)]
            choices.append({"set": where[0], "shots": shots, "chosen": chosen})
    labels = ["set", "shots", "against"]
    grids = [
        lines_grid(labels, lines, "BERT-base", title=f"{lab.title}, accuracy × 100, baseline {ARROW} {OURS}"),
        Grid(
            ["set", "shots", "system", "accuracy", "log-loss", "calibration error", "accuracy of the surest 80 %"],
            scores, "All measures, mean (sd) over draws", labels=3,
        ),
        lines_grid(labels, losses, "–", title=f"Log-loss, baseline {ARROW} {OURS}: smaller is better", digits=3),
    ]  # fmt: skip
    if alone:
        title = f"Without a validation set: accuracy × 100, baseline {ARROW} ours"
        grids.insert(1, lines_grid(["set", "shots", "against", "ours is"], alone, "–", title=title))
    if tuned:
        title = f"The encoder trained too: accuracy × 100, {SETFIT} {ARROW} {TUNED}"
        grids.insert(1, lines_grid(labels, tuned, "–", title=title))
    return Result(
        "T1", "Text classification from a few examples of each class", grids,
        f"accuracy {_verdicts(lines, systems)}. Log-loss {_verdicts(losses, systems)}", lab.signature(),
        [*paper.NOTES["T1"], *notes, *_draws(lab, tasks)],
        [
            *line_numbers(labels, lines), *numbers, *choices,
            *({"measure": "log-loss", **n} for n in line_numbers(labels, losses)),
            *({"measure": TUNED, **n} for n in line_numbers(labels, tuned)),
            *({"measure": ALONE.strip(", "), **n} for n in line_numbers([*labels, "ours is"], alone)),
        ],
    )  # fmt: skip


def _alone(
    task: Task, shots: Shots, setfit: list[Array64] | None, lines: list[Line], where: list[str], *, finetune: bool
) -> dict[str, list[Array64]]:
    """Return what the systems make of the examples alone, and add the lines that compare them."""

    def runs(system: Callable[[Task, Shots, int], Array64]) -> list[Array64]:
        return [system(task, shots, seed) for seed in task.draws(shots)]

    ours, plain = runs(Task.sen2pro_alone), runs(Task.plain_alone)
    lines.append(task.compare(ours, plain, [*where, PLAIN, OURS]))
    found = {OURS + ALONE: ours, PLAIN + ALONE: plain}
    if finetune:
        found[TUNED + ALONE] = runs(Task.fine_tuned_alone)
        if setfit is not None:
            lines.append(task.compare(found[TUNED + ALONE], setfit, [*where, SETFIT, TUNED]))
    return found


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
        [*paper.NOTES["T7"], *notes, *_draws(lab, tasks)],
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


def _draws(lab: Lab, tasks: Sequence[Task]) -> list[str]:
    def sizes(part: str) -> str:
        return ", ".join(f"{len(getattr(task, part).texts):,} of {paper.TEXT_TITLES[task.name]}" for task in tasks)

    return [
        f"Examples drawn {lab.seeds} time{'s' * (lab.seeds != 1)}; every system learns from the same. An interval is "
        "over test sentences, for these draws.",
        f"Settings are chosen on a validation set, as in the paper (SetFit chooses nothing): {sizes('validation')}.",
        f"Tested on {sizes('test')}.",
    ]
