"""Tables 4, 5 and 11: evaluation of dialogue and of translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.metrics import Bleu, Metric, metric
from sen2pro.metrics.comparisons import Board, Points
from sen2pro.metrics.report import Grid, Result
from sen2pro.metrics.statistics import CORRELATIONS, Undefined, aligned, by_system, correlation_statistic
from sen2pro.metrics.sts import spread
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import WMT_PAIRS, DataMissing
from sen2pro.paper.data import Response, Systems, read_dialogue, read_wmt_segments, read_wmt_systems
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables.pairs import COSINE, OURS, PLAIN, PLAIN_NOTE, PLAIN_ROWS, READINGS, Pairing, Row
from sen2pro.progress import progress
from sen2pro.types import Array64

GRADE = {
    "grade_convai2": "ConvAI2",
    "grade_dailydialog": "DailyDialog",
    "grade_empatheticdialogues": "EmpatheticDialogues",
}
ROWS = (*(Row(reading.title, reading) for reading in READINGS), *PLAIN_ROWS)
_METRICS = ("bleu", "chrf", "ter", "meteor", "rouge-l", "greedy", "average", "extrema", "bertscore")
_BLANK = "."  # what is encoded for an output of nothing
Scored = tuple[Array64, Array64]  # a metric's scores, and the human ones


@dataclass
class Texts:
    """Candidates with their references and human scores, of several systems."""

    systems: list[str]
    candidates: list[str]
    references: list[str]
    human: dict[str, float]  # of each system
    single: Array64 | None = None  # of each candidate, where there are such

    def rows(self, system: str) -> list[int]:
        """Return which candidates are a system's."""
        return [i for i, name in enumerate(self.systems) if name == system]


def dialogue(name: str, limit: int | None) -> Texts:
    """Read a dialogue set, or the first items of it."""
    responses: Sequence[Response] = read_dialogue(name)
    if limit:
        items = sorted({r.item for r in responses})[:limit]
        responses = [r for r in responses if r.item in set(items)]
    systems = [r.system for r in responses]
    human = np.array([r.human for r in responses])
    texts = [r.response for r in responses], [r.reference for r in responses]
    return Texts(systems, *texts, by_system(systems, human), human)


def translation(found: Systems, limit: int | None) -> Texts:
    """Return the outputs of all systems, or so many segments of each, evenly spread."""
    count = len(found.references)
    chosen = range(count) if not limit else spread(count, limit)
    systems = [system for system in found.outputs for _ in chosen]
    candidates = [found.outputs[system][i] for system in found.outputs for i in chosen]
    return Texts(systems, candidates, [found.references[i] for _ in found.outputs for i in chosen], found.human)


def speaking(texts: Sequence[str]) -> list[str]:
    """Return texts that can be encoded: for an output of nothing, a full stop."""
    return [text if text.strip() else _BLANK for text in texts]


def segments(pair: str, limit: int | None) -> Texts:
    """Read the segments of a language pair that have a human score each, or so many, evenly spread."""
    found = read_wmt_segments(pair)
    if limit:
        found = [found[i] for i in spread(len(found), limit)]
    texts = [s.hypothesis for s in found], [s.reference for s in found]
    return Texts([pair] * len(found), *texts, {}, np.array([s.human for s in found]))


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

    def points(self, texts: Texts, scores: ArrayLike | Mapping[str, float]) -> Scored:
        """Return a metric's scores, of single texts or of systems as a whole, and the human ones."""
        if isinstance(scores, Mapping):
            return aligned(scores, texts.human)
        if self.single:
            assert texts.single is not None
            return np.asarray(scores, np.float64), texts.single
        return aligned(by_system(texts.systems, scores), texts.human)

    def measure(self, texts: Texts, kind: Metric) -> Scored:
        """Return what a metric of text finds; of an error rate, the negative."""
        candidates = texts.candidates if kind.takes_blank else speaking(texts.candidates)
        sign = 1 if kind.higher_is_better else -1
        if self.single:
            return self.points(texts, sign * kind.segments(candidates, texts.references))
        found = {}
        for system in texts.human:
            rows = texts.rows(system)
            found[system] = sign * kind.corpus([candidates[i] for i in rows], [texts.references[i] for i in rows])
        return self.points(texts, found)


class _Measured:
    """What a task came to: a table of metrics, the comparisons of similarities, and the sets without data."""

    def __init__(self, lab: Lab, task: _Task) -> None:
        self.lab, self.task, self.header = lab, task, ["metric"]
        self.board = Board(["set", "correlation", "similarity"])
        self.cells: dict[str, list[str]] = {}
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
            self.header += [f"{title} {kind}" if len(task.correlations) > 1 else title for kind in task.correlations]
            self.blank += sum(not text.strip() for text in texts.candidates)
            self._add(name, title, texts)
        if not self.cells:
            raise DataMissing(f"there is no data for any of {', '.join(self.missing)}; see `sen2pro data list`")

    def _add(self, name: str, title: str, texts: Texts) -> None:
        """Add a set: the correlations of every metric, then the comparisons."""
        pairs = Pairing(self.lab, speaking(texts.candidates), speaking(texts.references))
        found = {
            reading: [self.task.points(texts, scores) for scores in reading.runs(pairs)]
            for reading in (COSINE, *READINGS, *PLAIN)
        }
        runs = {kind: [scored] for kind, scored in self._metrics(texts).items()}
        runs |= {"sen2vec": found[COSINE], **{f"sen2pro, {reading.title}": found[reading] for reading in READINGS}}
        runs |= {reading.title: found[reading] for reading in PLAIN}
        for label, scored in runs.items():
            for kind in self.task.correlations:
                ours, said = _correlation(scored, kind), self.task.quoted(label.split(",")[0], name, kind)
                self.cells.setdefault(label, []).append(_cell(ours, said))
                self.numbers.append({"set": title, "metric": label, "correlation": kind, "ours": ours, "paper": said})
        for row in ROWS:
            for kind in self.task.correlations:
                plain, pro = (self.task.quoted(label, name, kind) for label in ("sen2vec", "sen2pro"))
                quoted = (plain, pro) if row not in PLAIN_ROWS and plain is not None and pro is not None else None
                points = partial(_points, kind, found[row.ours], found[row.baseline])
                self.board.add([title, kind, row.label], points, quoted)

    def _metrics(self, texts: Texts) -> dict[str, Scored]:
        found = {}
        with progress(len(self.task.metrics), self.lab.store.show, unit="metrics") as advance:
            for name in self.task.metrics:
                model = self.lab.encoder(corpus=texts.candidates)
                kind = Bleu(self.task.bleu) if name == "bleu" else metric(name, model=model)
                found[name] = self.task.measure(texts, kind)
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

    kinds = ("spearman", "pearson")
    texts = partial(dialogue, limit=lab.items)
    found = _Measured(lab, _Task(paper.DIALOGUE, texts, ("bleu-nltk", *_METRICS[3:]), kinds, False, quoted))
    grids = [
        found.grid(f"{lab.title}, system level, correlation x 100: ours (paper's)"),
        found.board.grid("BERT-base", "System level, bootstrap over systems", digits=1),
    ]
    verdict, plain = f"system level: {found.board.verdict(OURS.title)}", [_plain_verdict("system level", found)]
    numbers, notes = [*found.numbers, *found.board.numbers()], found.notes
    try:
        found = _Measured(lab, _Task(GRADE, texts, _METRICS, kinds, True, lambda *_: None))
    except DataMissing as error:
        notes.append(str(error))
    else:
        grids += [
            found.grid(f"{lab.title}, response level on clean data (GRADE's), correlation x 100; not in the paper"),
            found.board.grid("none", "Response level, bootstrap over responses", digits=1),
        ]
        verdict += f"; response level: {found.board.verdict(OURS.title)}"
        plain.append(_plain_verdict("response level", found))
        numbers += [*found.numbers, *found.board.numbers()]
        notes += [note for note in found.notes if note not in notes]
    return Result(
        "T4", "Dialogue evaluation", grids, "; ".join([f"{verdict} ({OURS.title})", *plain]), lab.signature(),
        [*paper.NOTES["T4"], PLAIN_NOTE, *notes], numbers,
    )  # fmt: skip


def _plain_verdict(level: str, found: _Measured) -> str:
    return f"{level}, " + ", ".join(f"{row.label}: {found.board.verdict(row.label)}" for row in PLAIN_ROWS)


def _translated(lab: Lab, id_: str, title: str, task: _Task, table: Mapping[str, Mapping[str, float]]) -> Result:
    found = _Measured(lab, task)
    grid = found.grid(f"{lab.title}, correlation x 100: ours (paper's)")
    _add_average(grid, found, table)
    only = [name for name in table if name not in {row[0].split(",")[0] for row in grid.rows}]
    rows = [[name, *(f"{table[name][column]:.1f}" for column in paper.WMT_COLUMNS)] for name in only]
    unit = "segments" if task.single else "systems"
    grids = [
        grid,
        Grid(["metric", *paper.WMT_COLUMNS], rows, "Quoted from the paper, not measured"),
        found.board.grid("BERT-base", f"Sen2Vec to Sen2Pro, bootstrap over {unit}", digits=1),
    ]
    return Result(
        id_, title, grids, "; ".join(f"{row.label}: {found.board.verdict(row.label)}" for row in ROWS),
        lab.signature(), [*paper.NOTES[id_], PLAIN_NOTE, *found.notes], [*found.numbers, *found.board.numbers()],
    )  # fmt: skip


def _add_average(grid: Grid, found: _Measured, table: Mapping[str, Mapping[str, float]]) -> None:
    """Add a column with the average over the language pairs at hand, ours and the paper's."""
    kind = found.task.correlations[0]
    grid.header.append(f"average {kind}" if len(found.task.correlations) > 1 else "average")
    for row in grid.rows:
        mine = [n["ours"] for n in found.numbers if n["metric"] == row[0] and n["correlation"] == kind]
        average = None if None in mine else float(np.mean(mine))
        said = [table.get(row[0].split(",")[0], {}).get(pair) for pair in WMT_PAIRS if pair not in found.missing]
        row.append(_cell(average, None if None in said else float(np.mean([v for v in said if v is not None]))))


def t5(lab: Lab) -> Result:
    """Table 5: translation, system level."""
    task = _Task(
        {pair: pair for pair in WMT_PAIRS},
        lambda pair: translation(read_wmt_systems(pair), lab.items),
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
        partial(segments, limit=max(6, lab.limit // 2) if lab.limit and lab.quick else lab.limit),
        ("bleu", "chrf", "ter", "cder", "meteor", "bertscore"),
        ("pearson", "kendall"),
        True,
        lambda name, pair, kind: paper.T11.get(name, {}).get(pair) if kind == "pearson" else None,
        bleu="none",  # the text is tokenised
    )
    return _translated(lab, "T11", "Translation evaluation at segment level, WMT17 into English", task, paper.T11)
