"""Tables 4, 5 and 11: evaluation of dialogue and of translation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.progress import progress
from sen2pro.validation import Array64
from sen2pro_lab.metrics import Bleu, Metric, metric
from sen2pro_lab.metrics.bootstrap import Statistic, Undefined
from sen2pro_lab.metrics.comparisons import Board, Points
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.metrics.statistics import CORRELATIONS, aligned, by_system, correlation_statistic
from sen2pro_lab.metrics.sts import spread
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.catalogue import WMT_PAIRS, DataMissing, available, no_data
from sen2pro_lab.paper.data import read_dialogue, read_wmt_segments, read_wmt_systems
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.tables.pairs import COSINE, OURS, PLAIN, PLAIN_ROWS, READINGS, Pairing, all_rows

GRADE = {
    "grade_convai2": "ConvAI2", "grade_dailydialog": "DailyDialog", "grade_empatheticdialogues": "EmpatheticDialogues",
}  # fmt: skip
ROWS = all_rows()
_METRICS = ("bleu", "chrf", "ter", "meteor", "rouge-l", "greedy", "average", "extrema", "bertscore")
_LABELS = {COSINE: "sen2vec", **{r: f"sen2pro, {r.title}" for r in READINGS}, **{r: r.title for r in PLAIN}}
_LANGUAGES = {pair: pair for pair in WMT_PAIRS}
_BLANK = "."  # what is encoded for an output of nothing
Scored = tuple[Array64, Array64]  # a metric's scores, and the human ones


class Texts(NamedTuple):
    """Candidates with their references and human scores, of several systems."""

    systems: Sequence[str]
    candidates: Sequence[str]
    references: Sequence[str]
    human: dict[str, float]  # of each system
    single: Array64 | None = None  # of each candidate, where there are such

    def scored(self, scores: ArrayLike, single: bool = False) -> Scored:
        """Return the scores of candidates, one by one or averaged by system, and the human ones."""
        if not single or self.single is None:
            return aligned(by_system(self.systems, scores), self.human)
        return np.asarray(scores, np.float64), self.single

    def pairing(self, lab: Lab, *, keep: bool = False) -> Pairing:
        """Return the candidates with their references, to be encoded."""
        return Pairing(lab, _speaking(self.candidates), _speaking(self.references), keep=keep)


def _speaking(texts: Sequence[str]) -> list[str]:
    """Return texts that can be encoded: for an output of nothing, a full stop."""
    return [text if text.strip() else _BLANK for text in texts]


def dialogue(name: str, limit: int | None) -> Texts:
    """Read a dialogue set, or the first items of it."""
    responses = read_dialogue(name)
    items = set(sorted({r.item for r in responses})[:limit])
    _, systems, references, texts, human, _ = zip(*(r for r in responses if r.item in items), strict=True)
    return Texts(systems, texts, references, by_system(systems, human), np.array(human))


def translation(pair: str, limit: int | None) -> Texts:
    """Read the outputs of all systems of a language pair, or a number of segments of each, evenly spread."""
    read = read_wmt_systems(pair)
    chosen = spread(len(read.references), limit or len(read.references))
    rows = [(name, output[i], read.references[i]) for name, output in read.outputs.items() for i in chosen]
    systems, candidates, references = zip(*rows, strict=True)
    return Texts(systems, candidates, references, read.human)


def segments(pair: str, limit: int | None) -> Texts:
    """Read the segments of a language pair that have a human score each, or a number of them, evenly spread."""
    read = read_wmt_segments(pair)
    chosen = (read[i] for i in spread(len(read), limit or len(read)))
    references, hypotheses, human = zip(*chosen, strict=True)
    return Texts([pair] * len(human), hypotheses, references, {}, np.array(human))


def correlated(kind: str) -> Callable[[Scored], Statistic]:
    """Return the statistic of scores that is their correlation with the human ones."""
    return lambda scored: correlation_statistic(kind, *scored)


@dataclass
class _Task:
    """Metrics on several sets: what is scored and how, what the paper says, and the result."""

    lab: Lab
    titles: Mapping[str, str]  # of each set
    read: Callable[[str], Texts]
    metrics: tuple[str, ...]
    correlations: tuple[str, ...]
    table: Mapping[str, Mapping[str, Any]]  # the paper's: of each metric, by set, one number or several correlations
    single: bool = False  # whether single texts are compared with human scores, or systems
    bleu: str = "13a"

    def __post_init__(self) -> None:
        self.board = Board(["set", "correlation", "similarity"])
        self.numbers: list[dict[str, Any]] = []
        signatures: dict[str, str] = {}
        sets, self.missing = available(self.read, self.titles)
        for name, texts in sets.items():
            pairs, runs = texts.pairing(self.lab), {}
            with progress(len(self.metrics), self.lab.store.show, unit="metrics") as advance:
                for each in self.metrics:
                    model = self.lab.encoder(corpus=texts.candidates)
                    kind = Bleu(self.bleu) if each == "bleu" else metric(each, model=model)
                    runs[each], signatures[each] = [self._measured(texts, kind)], kind.signature
                    advance(1)
            for reading, label in _LABELS.items():
                runs[label] = [texts.scored(scores, self.single) for scores in reading.runs(pairs)]
            self._add(name, runs)
        self.notes = [f"{name}: {signature}" for name, signature in signatures.items()]
        if blank := sum(not text.strip() for texts in sets.values() for text in texts.candidates):
            self.notes.append(f"{blank} outputs say nothing; a full stop is encoded for them.")
        self.notes += no_data(self.titles[name] for name in self.missing)

    def _measured(self, texts: Texts, kind: Metric) -> Scored:
        """Return the scores of a metric of text; of an error rate, the negative."""
        candidates = texts.candidates if kind.takes_blank else _speaking(texts.candidates)
        sign = 1 if kind.higher_is_better else -1
        if self.single:
            return texts.scored(sign * kind.segments(candidates, texts.references), single=True)
        scores = {}
        for system in texts.human:
            rows = [i for i, name in enumerate(texts.systems) if name == system]
            scores[system] = sign * kind.corpus([candidates[i] for i in rows], [texts.references[i] for i in rows])
        return aligned(scores, texts.human)

    def _add(self, name: str, runs: Mapping[str, list[Scored]]) -> None:
        """Add a set: the correlations of every metric, then the comparisons."""
        for (label, scored), kind in product(runs.items(), self.correlations):
            about = {"set": self.titles[name], "metric": label, "correlation": kind}
            mean, said = None, self._quoted(label.split(",")[0], name, kind)
            with suppress(Undefined):
                mean = float(np.mean([100 * CORRELATIONS[kind](*one) for one in scored]))
            self.numbers.append({**about, "ours": mean, "paper": said})
        for row, kind in product(ROWS, self.correlations):
            plain, pro = (self._quoted(label, name, kind) for label in ("sen2vec", "sen2pro"))
            quoted = (plain, pro) if row not in PLAIN_ROWS and plain is not None and pro is not None else None
            ours, baseline = (runs[_LABELS[reading]] for reading in (row.ours, row.baseline))
            points = partial(Points.of, correlated(kind), ours, baseline, len(ours[0][0]))
            self.board.add([self.titles[name], kind, row.label], points, quoted)

    def _quoted(self, label: str, name: str, kind: str) -> float | None:
        """Return what the paper says of a metric on a set."""
        said = self.table.get(label, {}).get(name)
        return dict(zip(self.correlations, said if isinstance(said, tuple) else (said,), strict=False)).get(kind)

    def grid(self, title: str) -> Grid:
        """Return the table, ours with the paper's in brackets."""
        cells: dict[str, dict[str, str]] = defaultdict(dict)
        for n in self.numbers:
            column = n["set"] if len(self.correlations) == 1 else f"{n['set']} {n['correlation']}"
            cells[n["metric"]][column] = _cell(n["ours"], n["paper"])
        rows = [[label, *row.values()] for label, row in cells.items()]
        return Grid(["metric", *next(iter(cells.values()))], rows, title)

    def all_numbers(self) -> list[dict[str, Any]]:
        return [*self.numbers, *self.board.numbers()]


def _cell(ours: float | None, quoted: float | None) -> str:
    mine = "undefined" if ours is None else f"{ours:.1f}"
    return mine if quoted is None else f"{mine} ({quoted:.1f})"


def t4(lab: Lab) -> Result:
    """Table 4: dialogue, at system level as in the paper, and at the level of responses."""
    kinds, read = ("spearman", "pearson"), partial(dialogue, limit=lab.items)
    systems = _Task(lab, paper.DIALOGUE, read, ("bleu-nltk", *_METRICS[3:]), kinds, paper.T4)
    levels, notes = {"system level": systems}, systems.notes
    grids = [
        systems.grid(f"{lab.title}, system level, correlation x 100: ours (paper's)"),
        systems.board.grid("BERT-base", "System level, bootstrap over systems", digits=1),
    ]
    try:
        levels["response level"] = responses = _Task(lab, GRADE, read, _METRICS, kinds, {}, single=True)
    except DataMissing as error:
        notes.append(str(error))
    else:
        title = f"{lab.title}, response level on clean data (GRADE's), correlation x 100; not in the paper"
        bootstrap = responses.board.grid("none", "Response level, bootstrap over responses", digits=1)
        grids += [responses.grid(title), bootstrap]
        notes += [note for note in responses.notes if note not in notes]
    ours = "; ".join(f"{level}: {task.board.verdict(OURS.title)}" for level, task in levels.items())
    labels = [row.label for row in PLAIN_ROWS]
    plain = [f"{level}, {task.board.verdicts(labels, ', ')}" for level, task in levels.items()]
    verdict = "; ".join([f"{ours} ({OURS.title})", *plain])
    numbers = [line for task in levels.values() for line in task.all_numbers()]
    return lab.result("T4", "Dialogue evaluation", grids, verdict, notes, numbers)


def _translated(id_: str, level: str, task: _Task) -> Result:
    grid, kind = task.grid(f"{task.lab.title}, correlation x 100: ours (paper's)"), task.correlations[0]
    grid.header.append(f"average {kind}" if len(task.correlations) > 1 else "average")
    measured = [row[0].split(",")[0] for row in grid.rows]
    for row, name in zip(grid.rows, measured, strict=True):  # over the language pairs at hand, ours and the paper's
        mine = [n["ours"] for n in task.numbers if n["metric"] == row[0] and n["correlation"] == kind]
        printed = task.table.get(name, {})
        said = [printed[pair] for pair in WMT_PAIRS if pair in printed and pair not in task.missing]
        row.append(_cell(None if None in mine else float(np.mean(mine)), float(np.mean(said)) if said else None))
    others = {name: row for name, row in task.table.items() if name not in measured}
    rows = [[name, *(f"{row[column]:.1f}" for column in paper.WMT_COLUMNS)] for name, row in others.items()]
    about = f"Sen2Vec to Sen2Pro, bootstrap over {level}s"
    grids = [
        grid, Grid(["metric", *paper.WMT_COLUMNS], rows, "Quoted from the paper, not measured"),
        task.board.grid("BERT-base", about, digits=1),
    ]  # fmt: skip
    title = f"Translation evaluation at {level} level, WMT17 into English"
    verdict = task.board.verdicts(row.label for row in ROWS)
    return task.lab.result(id_, title, grids, verdict, task.notes, task.all_numbers())


def t5(lab: Lab) -> Result:
    """Table 5: translation, system level."""
    read, metrics = partial(translation, limit=lab.items), ("bleu", "cder", "bertscore")
    return _translated("T5", "system", _Task(lab, _LANGUAGES, read, metrics, ("pearson",), paper.T5, bleu="intl"))


def t11(lab: Lab) -> Result:
    """Table 11: translation, segment level; the text is tokenised."""
    limit = max(6, lab.limit // 2) if lab.limit and lab.quick else lab.limit
    read, metrics = partial(segments, limit=limit), ("bleu", "chrf", "ter", "cder", "meteor", "bertscore")
    task = _Task(lab, _LANGUAGES, read, metrics, ("pearson", "kendall"), paper.T11, single=True, bleu="none")
    return _translated("T11", "segment", task)
