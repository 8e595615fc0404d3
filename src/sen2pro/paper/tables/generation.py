"""Tables 4, 5 and 11: evaluation of dialogue and of translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.metrics import Bleu, Metric, metric
from sen2pro.metrics.comparisons import Board, Points
from sen2pro.metrics.report import Grid, Result
from sen2pro.metrics.statistics import CORRELATIONS, Undefined, aligned, by_system, correlation_statistic
from sen2pro.metrics.sts import spread
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import WMT_PAIRS, DataMissing, available, no_data
from sen2pro.paper.data import read_dialogue, read_wmt_segments, read_wmt_systems
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables.pairs import COSINE, OURS, PLAIN, PLAIN_ROWS, READINGS, Pairing, Row, all_rows
from sen2pro.progress import progress
from sen2pro.types import Array64

GRADE = {
    "grade_convai2": "ConvAI2", "grade_dailydialog": "DailyDialog", "grade_empatheticdialogues": "EmpatheticDialogues",
}  # fmt: skip
ROWS = all_rows()
_METRICS = ("bleu", "chrf", "ter", "meteor", "rouge-l", "greedy", "average", "extrema", "bertscore")
_LABELS = {COSINE: "sen2vec", **{r: f"sen2pro, {r.title}" for r in READINGS}, **{r: r.title for r in PLAIN}}
_BLANK = "."  # what is encoded for an output of nothing
Scored = tuple[Array64, Array64]  # a metric's scores, and the human ones


class Texts(NamedTuple):
    """Candidates with their references and human scores, of several systems."""

    systems: list[str]
    candidates: list[str]
    references: list[str]
    human: dict[str, float]  # of each system
    single: Array64 | None = None  # of each candidate, where there are such


def dialogue(name: str, limit: int | None) -> Texts:
    """Read a dialogue set, or the first items of it."""
    responses = read_dialogue(name)
    items = set(sorted({r.item for r in responses})[:limit])
    responses = [r for r in responses if r.item in items]
    systems, human = [r.system for r in responses], np.array([r.human for r in responses])
    texts = [r.response for r in responses], [r.reference for r in responses]
    return Texts(systems, *texts, by_system(systems, human), human)


def translation(pair: str, limit: int | None) -> Texts:
    """Read the outputs of all systems of a language pair, or so many segments of each, evenly spread."""
    read = read_wmt_systems(pair)
    count = len(read.references)
    chosen = spread(count, limit or count)
    systems = [system for system in read.outputs for _ in chosen]
    candidates = [output[i] for output in read.outputs.values() for i in chosen]
    return Texts(systems, candidates, [read.references[i] for _ in read.outputs for i in chosen], read.human)


def segments(pair: str, limit: int | None) -> Texts:
    """Read the segments of a language pair that have a human score each, or so many, evenly spread."""
    read = read_wmt_segments(pair)
    chosen = [read[i] for i in spread(len(read), limit or len(read))]
    texts = [s.hypothesis for s in chosen], [s.reference for s in chosen]
    return Texts([pair] * len(chosen), *texts, {}, np.array([s.human for s in chosen]))


def speaking(texts: Sequence[str]) -> list[str]:
    """Return texts that can be encoded: for an output of nothing, a full stop."""
    return [text if text.strip() else _BLANK for text in texts]


@dataclass
class _Task:
    """Metrics on several sets: what is scored and how, what the paper says, and what came of it."""

    lab: Lab
    titles: Mapping[str, str]  # of each set
    read: Callable[[str], Texts]
    metrics: tuple[str, ...]
    correlations: tuple[str, ...]
    single: bool  # whether single texts are compared with human scores, or systems
    quoted: Callable[[str, str, str], float | None]  # metric, set, correlation
    bleu: str = "13a"

    def __post_init__(self) -> None:
        self.board = Board(["set", "correlation", "similarity"])
        self.cells: dict[str, list[str]] = {}
        self.numbers: list[dict[str, Any]] = []
        self.signatures: dict[str, str] = {}
        sets, self.missing = available(self.read, self.titles)
        for name, texts in sets.items():
            self._add(name, texts)
        several, titles = len(self.correlations) > 1, [self.titles[name] for name in sets]
        self.header = [f"{title} {kind}" if several else title for title in titles for kind in self.correlations]
        self.notes = [f"{name}: {signature}" for name, signature in self.signatures.items()]
        if blank := sum(not text.strip() for texts in sets.values() for text in texts.candidates):
            self.notes.append(f"{blank} outputs say nothing; a full stop is encoded for them.")
        self.notes += no_data(self.titles[name] for name in self.missing)

    def _add(self, name: str, texts: Texts) -> None:
        """Add a set: the correlations of every metric, then the comparisons."""
        pairs, title = Pairing(self.lab, speaking(texts.candidates), speaking(texts.references)), self.titles[name]
        similarities = {reading: [self._scored(texts, scores) for scores in reading.runs(pairs)] for reading in _LABELS}
        runs = {kind: [scored] for kind, scored in self._metrics(texts).items()}
        runs |= {_LABELS[reading]: scored for reading, scored in similarities.items()}
        for label, scored in runs.items():
            for kind in self.correlations:
                ours, said = _correlation(scored, kind), self.quoted(label.split(",")[0], name, kind)
                self.cells.setdefault(label, []).append(_cell(ours, said))
                self.numbers.append({"set": title, "metric": label, "correlation": kind, "ours": ours, "paper": said})
        for row in ROWS:
            for kind in self.correlations:
                plain, pro = (self.quoted(label, name, kind) for label in ("sen2vec", "sen2pro"))
                quoted = (plain, pro) if row not in PLAIN_ROWS and plain is not None and pro is not None else None
                points = partial(_points, kind, similarities[row.ours], similarities[row.baseline])
                self.board.add([title, kind, row.label], points, quoted)

    def _metrics(self, texts: Texts) -> dict[str, Scored]:
        scored = {}
        with progress(len(self.metrics), self.lab.store.show, unit="metrics") as advance:
            for name in self.metrics:
                model = self.lab.encoder(corpus=texts.candidates)
                kind = Bleu(self.bleu) if name == "bleu" else metric(name, model=model)
                scored[name] = self._measure(texts, kind)
                if kind.signature != str(model.signature()):
                    self.signatures[name] = kind.signature
                advance(1)
        return scored

    def _measure(self, texts: Texts, kind: Metric) -> Scored:
        """Return the scores of a metric of text; of an error rate, the negative."""
        candidates = texts.candidates if kind.takes_blank else speaking(texts.candidates)
        sign = 1 if kind.higher_is_better else -1
        if self.single:
            return self._scored(texts, sign * kind.segments(candidates, texts.references))
        scores = {}
        for system in texts.human:
            rows = [i for i, name in enumerate(texts.systems) if name == system]
            scores[system] = sign * kind.corpus([candidates[i] for i in rows], [texts.references[i] for i in rows])
        return aligned(scores, texts.human)

    def _scored(self, texts: Texts, scores: ArrayLike) -> Scored:
        """Return the scores of candidates, one by one or averaged by system, and the human ones."""
        if not self.single:
            return aligned(by_system(texts.systems, scores), texts.human)
        assert texts.single is not None
        return np.asarray(scores, np.float64), texts.single

    def verdicts(self, rows: Sequence[Row], between: str = "; ") -> str:
        return between.join(f"{row.label}: {self.board.verdict(row.label)}" for row in rows)

    def grid(self, title: str) -> Grid:
        """Return the table, ours with the paper's in brackets."""
        return Grid(["metric", *self.header], [[label, *row] for label, row in self.cells.items()], title)

    def all_numbers(self) -> list[dict[str, Any]]:
        return [*self.numbers, *self.board.numbers()]


def _points(kind: str, ours: Sequence[Scored], baseline: Sequence[Scored]) -> Points:
    mine, theirs = ([correlation_statistic(kind, *scored) for scored in runs] for runs in (ours, baseline))
    return Points(mine, theirs, len(ours[0][0]))


def _correlation(runs: Sequence[Scored], kind: str) -> float | None:
    """Return the mean correlation over runs x 100, or None where it is undefined."""
    try:
        return float(np.mean([100 * CORRELATIONS[kind](*scored) for scored in runs]))
    except Undefined:
        return None


def _cell(ours: float | None, quoted: float | None) -> str:
    mine = "undefined" if ours is None else f"{ours:.1f}"
    return mine if quoted is None else f"{mine} ({quoted:.1f})"


def t4(lab: Lab) -> Result:
    """Table 4: dialogue, at system level as in the paper, and at the level of responses."""

    def quoted(name: str, set_: str, kind: str) -> float | None:
        row = paper.T4.get(name, {}).get(set_)
        return None if row is None else row[0 if kind == "spearman" else 1]

    kinds, read = ("spearman", "pearson"), partial(dialogue, limit=lab.items)
    systems = _Task(lab, paper.DIALOGUE, read, ("bleu-nltk", *_METRICS[3:]), kinds, False, quoted)
    levels, notes = {"system level": systems}, systems.notes
    grids = [
        systems.grid(f"{lab.title}, system level, correlation x 100: ours (paper's)"),
        systems.board.grid("BERT-base", "System level, bootstrap over systems", digits=1),
    ]
    try:
        levels["response level"] = responses = _Task(lab, GRADE, read, _METRICS, kinds, True, lambda *_: None)
    except DataMissing as error:
        notes.append(str(error))
    else:
        title = f"{lab.title}, response level on clean data (GRADE's), correlation x 100; not in the paper"
        bootstrap = responses.board.grid("none", "Response level, bootstrap over responses", digits=1)
        grids += [responses.grid(title), bootstrap]
        notes += [note for note in responses.notes if note not in notes]
    ours = "; ".join(f"{level}: {task.board.verdict(OURS.title)}" for level, task in levels.items())
    plain = [f"{level}, {task.verdicts(PLAIN_ROWS, ', ')}" for level, task in levels.items()]
    return Result(
        "T4", "Dialogue evaluation", grids, "; ".join([f"{ours} ({OURS.title})", *plain]), lab.signature(),
        [*paper.NOTES["T4"], *notes], [line for task in levels.values() for line in task.all_numbers()],
    )  # fmt: skip


def _translated(id_: str, title: str, task: _Task, table: Mapping[str, Mapping[str, float]]) -> Result:
    grid = task.grid(f"{task.lab.title}, correlation x 100: ours (paper's)")
    kind = task.correlations[0]
    grid.header.append(f"average {kind}" if len(task.correlations) > 1 else "average")
    for row in grid.rows:  # the average over the language pairs at hand, ours and the paper's
        mine = [n["ours"] for n in task.numbers if n["metric"] == row[0] and n["correlation"] == kind]
        printed = table.get(row[0].split(",")[0], {})
        said = [printed[pair] for pair in WMT_PAIRS if pair in printed and pair not in task.missing]
        row.append(_cell(None if None in mine else float(np.mean(mine)), float(np.mean(said)) if said else None))
    only = [name for name in table if name not in {row[0].split(",")[0] for row in grid.rows}]
    rows = [[name, *(f"{table[name][column]:.1f}" for column in paper.WMT_COLUMNS)] for name in only]
    about = f"Sen2Vec to Sen2Pro, bootstrap over {'segments' if task.single else 'systems'}"
    grids = [
        grid, Grid(["metric", *paper.WMT_COLUMNS], rows, "Quoted from the paper, not measured"),
        task.board.grid("BERT-base", about, digits=1),
    ]  # fmt: skip
    return Result(
        id_, f"Translation evaluation at {title} level, WMT17 into English", grids, task.verdicts(ROWS),
        task.lab.signature(), [*paper.NOTES[id_], *task.notes], task.all_numbers(),
    )  # fmt: skip


def t5(lab: Lab) -> Result:
    """Table 5: translation, system level."""
    task = _Task(
        lab, {pair: pair for pair in WMT_PAIRS}, partial(translation, limit=lab.items), ("bleu", "cder", "bertscore"),
        ("pearson",), False, lambda name, pair, kind: paper.T5.get(name, {}).get(pair), bleu="intl",
    )  # fmt: skip
    return _translated("T5", "system", task, paper.T5)


def t11(lab: Lab) -> Result:
    """Table 11: translation, segment level."""
    limit = max(6, lab.limit // 2) if lab.limit and lab.quick else lab.limit
    task = _Task(
        lab, {pair: pair for pair in WMT_PAIRS}, partial(segments, limit=limit),
        ("bleu", "chrf", "ter", "cder", "meteor", "bertscore"), ("pearson", "kendall"), True,
        lambda name, pair, kind: paper.T11.get(name, {}).get(pair) if kind == "pearson" else None,
        bleu="none",  # the text is tokenised
    )  # fmt: skip
    return _translated("T11", "segment", task, paper.T11)
