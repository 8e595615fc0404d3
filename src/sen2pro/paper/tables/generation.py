"""Tables 4, 5 and 11: evaluation of dialogue and of translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.metrics import Bleu, Metric, metric
from sen2pro.metrics.statistics import CORRELATIONS, Comparison, Undefined, correlation_statistic, paired_bootstrap
from sen2pro.paper import numbers as paper
from sen2pro.paper.data import WMT_PAIRS, DataMissing, read_wmt_systems
from sen2pro.paper.lab import Lab
from sen2pro.paper.report import Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.paper.systems import aligned, by_system
from sen2pro.paper.tables.readings import OURS, READINGS, Reading
from sen2pro.paper.tables.texts import (
    Texts,
    dialogue,
    segments,
    sen2pro_scores,
    sen2vec_scores,
    speaking,
    translation,
)
from sen2pro.progress import progress
from sen2pro.types import Array64

GRADE = {
    "grade_convai2": "ConvAI2",
    "grade_dailydialog": "DailyDialog",
    "grade_empatheticdialogues": "EmpatheticDialogues",
}


@dataclass
class _Task:
    """A table of metrics by sets: what is scored, how, and what the paper says of it."""

    names: Mapping[str, str]  # set -> title
    texts: Callable[[str], Texts]
    metrics: tuple[str, ...]
    correlations: tuple[str, ...]
    single: bool  # whether single texts are compared with human scores, or systems
    quoted: Callable[[str, str, str], float | None]  # metric, set, correlation
    bleu: str = "13a"

    def points(self, texts: Texts, scores: ArrayLike | Mapping[str, float]) -> tuple[Array64, Array64]:
        """Return a metric's scores, of single texts or of systems as a whole, and the human ones."""
        if isinstance(scores, Mapping):
            return aligned(scores, texts.human)
        if self.single:
            assert texts.single is not None
            return np.asarray(scores, np.float64), texts.single
        return aligned(by_system(texts.systems, scores), texts.human)


def _metric_scores(task: _Task, texts: Texts, kind: Metric) -> ArrayLike | dict[str, float]:
    """Return a metric's score of each text, or of each system as a whole; of an error rate, the negative."""
    candidates = texts.candidates if kind.takes_blank else speaking(texts.candidates)
    sign = 1 if kind.higher_is_better else -1
    if task.single:
        return sign * kind.segments(candidates, texts.references)
    found = {}
    for system in texts.human:
        rows = texts.rows(system)
        found[system] = sign * kind.corpus([candidates[i] for i in rows], [texts.references[i] for i in rows])
    return found


def _correlate(points: tuple[Array64, Array64], kind: str) -> float | None:
    try:
        return 100 * CORRELATIONS[kind](*points)
    except Undefined:
        return None


def _compare(
    plain: tuple[Array64, Array64], ours: Sequence[tuple[Array64, Array64]], kind: str
) -> tuple[Comparison | None, str]:
    """Compare Sen2Pro (each seed) with Sen2Vec by a bootstrap over the points, times 100; or say why not."""
    try:
        statistics = [correlation_statistic(kind, *points) for points in ours]
        found = paired_bootstrap(statistics, correlation_statistic(kind, *plain), len(plain[0]))
    except Undefined as error:
        return None, str(error)
    return found.scaled(100), ""


def _cell(ours: float | None, quoted: float | None) -> str:
    mine = "undefined" if ours is None else f"{ours:.1f}"
    return mine if quoted is None else f"{mine} ({quoted:.1f})"


class _Board:
    """What a task came to: a table, comparisons of Sen2Vec with Sen2Pro, all numbers, and the sets without data."""

    def __init__(self, lab: Lab, task: _Task) -> None:
        self.task, self.header = task, ["metric"]
        self.cells: dict[str, list[str]] = {}
        self.lines: list[Line] = []
        self.numbers: list[dict[str, Any]] = []
        self.missing: list[str] = []
        self.signatures: dict[str, str] = {}
        self.blank = 0
        for name, title in task.names.items():
            try:
                texts = task.texts(name)
            except DataMissing:
                self.missing.append(title)
                continue
            several = len(task.correlations) > 1
            self.header += [f"{title} {kind}" if several else title for kind in task.correlations]
            self._add(lab, name, title, texts)
        if not self.cells:
            raise DataMissing(f"there is no data for any of {', '.join(self.missing)}; see `sen2pro data list`")

    def _add(self, lab: Lab, name: str, title: str, texts: Texts) -> None:
        task = self.task
        self.blank += sum(not text.strip() for text in texts.candidates)
        plain = task.points(texts, sen2vec_scores(lab, texts))
        ours = {
            reading.title: [task.points(texts, sen2pro_scores(lab, texts, reading, s)) for s in range(lab.seeds)]
            for reading in READINGS
        }
        values = {kind: [points] for kind, points in self._metrics(lab, texts).items()}
        values |= {"sen2vec": [plain], **{f"sen2pro, {reading}": found for reading, found in ours.items()}}
        for label, found in values.items():
            for kind in task.correlations:
                per_seed = [_correlate(points, kind) for points in found]
                defined = [value for value in per_seed if value is not None]
                mine = float(np.mean(defined)) if len(defined) == len(per_seed) else None
                said = task.quoted(label.split(",")[0], name, kind)
                self.cells.setdefault(label, []).append(_cell(mine, said))
                row = {"set": title, "metric": label, "correlation": kind, "ours": mine, "paper": said}
                self.numbers.append(row)
        for reading, found in ours.items():
            for kind in task.correlations:
                vec, pro = task.quoted("sen2vec", name, kind), task.quoted("sen2pro", name, kind)
                said_both = (vec, pro) if vec is not None and pro is not None else None
                compared, why = _compare(plain, found, kind)
                self.lines.append(Line([title, kind, reading], said_both, compared, why))

    def _metrics(self, lab: Lab, texts: Texts) -> dict[str, tuple[Array64, Array64]]:
        found = {}
        with progress(len(self.task.metrics), lab.store.show, unit="metrics") as advance:
            for name in self.task.metrics:
                model = lab.encoder(corpus=texts.candidates)
                kind = Bleu(self.task.bleu) if name == "bleu" else metric(name, model=model)
                found[name] = self.task.points(texts, _metric_scores(self.task, texts, kind))
                if kind.signature != str(model.signature()):
                    self.signatures[name] = kind.signature
                advance(1)
        return found

    def grid(self, title: str) -> Grid:
        """Return the table, ours with the paper's in brackets."""
        return Grid(list(self.header), [[label, *row] for label, row in self.cells.items()], title)

    @property
    def notes(self) -> list[str]:
        """What is to be said of the metrics, and of what is missing."""
        found = [f"{name}: {signature}" for name, signature in self.signatures.items()]
        if self.blank:
            found.append(f"{self.blank} outputs say nothing; a full stop is encoded for them.")
        if self.missing:
            found.append(f"{', '.join(self.missing)}: no data here; `sen2pro data list` says where it comes from.")
        return found

    def verdict(self, reading: Reading) -> str:
        """Sum up the comparisons of one reading."""
        return count_verdicts([line for line in self.lines if line.labels[2] == reading.title])


_NAMES = ["set", "correlation", "similarity"]
_METRICS = ("bleu", "chrf", "ter", "meteor", "rouge-l", "greedy", "average", "extrema", "bertscore")


def t4(lab: Lab) -> Result:
    """Table 4: dialogue, at system level as in the paper, and at the level of responses."""

    def quoted(name: str, set_: str, kind: str) -> float | None:
        row = paper.T4.get(name, {}).get(set_)
        return None if row is None else row[0 if kind == "spearman" else 1]

    kinds = ("spearman", "pearson")
    texts = partial(dialogue, limit=lab.limit)
    systems = _Board(lab, _Task(paper.DIALOGUE, texts, ("bleu-nltk", *_METRICS[3:]), kinds, False, quoted))
    grids = [
        systems.grid(f"{lab.title}, system level, correlation x 100: ours (paper's)"),
        lines_grid(_NAMES, systems.lines, "BERT-base", title="System level, bootstrap over systems", digits=1),
    ]
    verdict = f"system level: {systems.verdict(OURS)}"
    numbers, notes = [*systems.numbers, *line_numbers(_NAMES, systems.lines)], systems.notes
    try:
        single = _Board(lab, _Task(GRADE, texts, _METRICS, kinds, True, lambda *_: None))
    except DataMissing as error:
        notes.append(str(error))
    else:
        grids += [
            single.grid(f"{lab.title}, response level on clean data (GRADE's), correlation x 100; not in the paper"),
            lines_grid(_NAMES, single.lines, "none", title="Response level, bootstrap over responses", digits=1),
        ]
        verdict += f"; response level: {single.verdict(OURS)}"
        numbers += [*single.numbers, *line_numbers(_NAMES, single.lines)]
        notes += [note for note in single.notes if note not in notes]
    return Result(
        "T4", "Dialogue evaluation", grids, f"{verdict} ({OURS.title})", lab.signature(),
        [*paper.NOTES["T4"], *notes], numbers,
    )  # fmt: skip


def _translated(lab: Lab, id_: str, title: str, task: _Task, table: Mapping[str, Mapping[str, float]]) -> Result:
    board = _Board(lab, task)
    grid = board.grid(f"{lab.title}, correlation x 100: ours (paper's)")
    _add_average(grid, board, table)
    only = [name for name in table if name not in {row[0].split(",")[0] for row in grid.rows}]
    rows = [[name, *(f"{table[name][column]:.1f}" for column in paper.WMT_COLUMNS)] for name in only]
    unit = "segments" if task.single else "systems"
    grids = [
        grid,
        Grid(["metric", *paper.WMT_COLUMNS], rows, "Quoted from the paper, not measured"),
        lines_grid(_NAMES, board.lines, "BERT-base", title=f"Sen2Vec to Sen2Pro, bootstrap over {unit}", digits=1),
    ]
    verdict = "; ".join(f"{reading.title}: {board.verdict(reading)}" for reading in READINGS)
    return Result(
        id_, title, grids, verdict, lab.signature(), [*paper.NOTES[id_], *board.notes],
        [*board.numbers, *line_numbers(_NAMES, board.lines)],
    )  # fmt: skip


def _add_average(grid: Grid, board: _Board, table: Mapping[str, Mapping[str, float]]) -> None:
    """Add a column with the average over the language pairs at hand, ours and the paper's."""
    kind = board.task.correlations[0]
    grid.header.append(f"average {kind}" if len(board.task.correlations) > 1 else "average")
    for row in grid.rows:
        mine = [n["ours"] for n in board.numbers if n["metric"] == row[0] and n["correlation"] == kind]
        average = None if None in mine else float(np.mean(mine))
        said = [table.get(row[0].split(",")[0], {}).get(pair) for pair in WMT_PAIRS if pair not in board.missing]
        row.append(_cell(average, None if None in said else float(np.mean([v for v in said if v is not None]))))


def t5(lab: Lab) -> Result:
    """Table 5: translation, system level."""
    task = _Task(
        {pair: pair for pair in WMT_PAIRS},
        lambda pair: translation(read_wmt_systems(pair), lab.limit),
        ("bleu", "cder", "bertscore"),
        ("pearson",),
        False,
        lambda name, pair, kind: paper.T5.get(name, {}).get(pair),
        bleu="intl",
    )
    return _translated(lab, "T5", "Translation evaluation at system level, WMT17 into English", task, paper.T5)


def t11(lab: Lab) -> Result:
    """Table 11: translation, segment level."""
    task = _Task(
        {pair: pair for pair in WMT_PAIRS},
        partial(segments, limit=lab.limit),
        ("bleu", "chrf", "ter", "cder", "meteor", "bertscore"),
        ("pearson", "kendall"),
        True,
        lambda name, pair, kind: paper.T11.get(name, {}).get(pair) if kind == "pearson" else None,
        bleu="none",  # the text is tokenised
    )
    return _translated(lab, "T11", "Translation evaluation at segment level, WMT17 into English", task, paper.T11)
