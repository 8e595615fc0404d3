"""Tables 2, 6 and 10: similarity of sentences; table 3: the right one among many; table 9: analogies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from operator import itemgetter

import numpy as np

from sen2pro.gaussian import Gaussian
from sen2pro_lab.metrics import retrieval, sts
from sen2pro_lab.metrics.base import to_unit
from sen2pro_lab.metrics.bootstrap import Statistic, Undefined, mean_statistic
from sen2pro_lab.metrics.comparisons import Board, Points, average, count_verdicts
from sen2pro_lab.metrics.report import Result
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.catalogue import available, no_data
from sen2pro_lab.paper.data import EvalRank, read_analogy, read_evalrank, read_sts
from sen2pro_lab.paper.lab import KINDS, PRESETS, Lab
from sen2pro_lab.paper.tables.pairs import (
    CORRECTED,
    COSINE,
    PLAIN_ROWS,
    SPHERE,
    Pairing,
    Reading,
    Row,
    all_rows,
    certain,
)

_AGGREGATIONS = ("all", "wmean")  # of sub-tasks


class Sets:
    """STS sets with their sentences encoded, of which one must be there; those without data are `missing`."""

    def __init__(self, lab: Lab, names: Sequence[str]) -> None:
        self.lab, self.names = lab, names
        read, self.missing = available(read_sts, names)
        self.gold = {name: gold.head(lab.limit) if lab.limit else gold for name, gold in read.items()}
        self.pairs = {name: Pairing(lab, gold.left, gold.right, keep=True) for name, gold in self.gold.items()}
        self.notes = no_data(paper.TITLES[name] for name in self.missing)

    def defined(self) -> list[str]:
        """Return the sets with a correlation: some gold scores differ, and there are at least 3 pairs."""
        names = [name for name, gold in self.gold.items() if len(gold) > 2 and len(set(gold.gold.tolist())) > 1]
        if not names:
            raise Undefined(f"no correlation: all gold scores of {', '.join(self.gold)} are equal, or too few")
        return names

    def points(self, name: str, row: Row, aggregation: str = "all") -> Points:
        """Return the correlations of two similarities with the gold scores of a set."""
        gold, pairs = self.gold[name], self.pairs[name]
        groups = None if aggregation == "all" else np.array(gold.subtasks)
        statistic = partial(sts.statistic, pairs=gold, aggregation=aggregation)
        return Points.of(statistic, row.ours.runs(pairs), row.baseline.runs(pairs), len(gold), groups)

    def _add(self, board: Board, row: Row, aggregation: str) -> None:
        """Add the lines of a row: one for each set, and one for their average."""
        quoted, compared = row.quoted or {}, {}
        for name in self.names:
            labels = [paper.TITLES[name], row.label]
            if name in self.missing:
                board.leave_out(labels, "no data", quoted.get(name))
            elif points := board.add(labels, partial(self.points, name, row, aggregation), quoted.get(name)):
                compared[name] = points
        if len(compared) > 1:
            title = "Average" if len(compared) == len(self.names) else f"Average of {len(compared)}"
            said = [quoted[name] for name in compared if name in quoted]  # the paper's, over the same sets
            both = tuple(np.mean(said, axis=0).tolist()) if said else None
            board.add([title, row.label], partial(average, compared), both)

    def board(self, column: str, rows: Iterable[Row], aggregation: str = "all") -> Board:
        """Return the lines of several rows, set by set."""
        board, place = Board(["set", column]), {paper.TITLES[name]: i for i, name in enumerate(self.names)}
        for row in rows:
            self._add(board, row, aggregation)
        board.lines.sort(key=lambda line: place.get(line.labels[0], len(place)))  # averages come last
        return board


def t2(lab: Lab) -> Result:
    """Table 2: STS-12 to 16."""
    preset, quoted = paper.reference(paper.T2, lab.row)
    sets, rows = Sets(lab, paper.SETS[:5]), all_rows(quoted)
    boards = {aggregation: sets.board("similarity", rows, aggregation) for aggregation in _AGGREGATIONS}
    verdicts = [
        f"{row.label}: " + ", ".join(f"{board.verdict(row.label)} (`{name}`)" for name, board in boards.items())
        for row in rows
    ]
    title = "STS-12 to 16, Sen2Vec (cosine) against Sen2Pro"
    return _result("T2", title, sets, boards, PRESETS[preset].title, "; ".join(verdicts))


def t6(lab: Lab) -> Result:
    """Table 6: both uncertainties, the model's alone, the data's alone."""
    rows = [
        Row(f"{kind}, {reading.title}", replace(reading, kind=kind), quoted=paper.T6[kind])
        for reading in (SPHERE, CORRECTED)
        for kind in KINDS
    ]
    sets = Sets(lab, paper.SETS)
    boards = {name: sets.board("uncertainty", [*rows, *PLAIN_ROWS], name) for name in _AGGREGATIONS}
    labels = [{kind: f"{kind}, {SPHERE.title}" for kind in KINDS}, {row.label: row.label for row in PLAIN_ROWS}]
    verdicts = [
        f"{kind} (`{name}`): {board.verdict(label)}"
        for part, (name, board) in product(labels, boards.items())
        for kind, label in part.items()
    ]
    title = "Ablation of the two uncertainties on STS"
    return _result("T6", title, sets, boards, "BERT-base", f"{SPHERE.title}: " + "; ".join(verdicts))


def _result(id_: str, title: str, sets: Sets, boards: dict[str, Board], row: str, verdict: str) -> Result:
    about = f"{sets.lab.title}, Spearman x 100, aggregation"
    grids = [board.grid(row, f"{about} `{name}`") for name, board in boards.items()]
    numbers = [line for name, board in boards.items() for line in board.numbers(aggregation=name)]
    return sets.lab.result(id_, title, grids, verdict, sets.notes, numbers)


def t10(lab: Lab) -> Result:
    """Table 10: the two uncertainties estimated apart, or from pooled samples."""
    sets, unified = Sets(lab, paper.SETS), replace(SPHERE, how="unified")
    ways = {"individual": SPHERE, "unified": unified}
    board = sets.board("estimation", [Row(how, reading, quoted=paper.T10[how]) for how, reading in ways.items()])
    quoted = {name: (paper.T10["unified"][name][1], both[1]) for name, both in paper.T10["individual"].items()}
    direct = sets.board("estimation", [Row("unified to individual", SPHERE, unified, quoted)])
    about = f"{lab.title}, Spearman x 100, Sen2Vec to Sen2Pro ({SPHERE.title})"
    grids = [board.grid("BERT-base", about), direct.grid("BERT-base", "The two against each other")]
    title, numbers = "Individual against unified estimation", [*board.numbers(), *direct.numbers()]
    return lab.result("T10", title, grids, f"{title.lower()}: {direct.verdict()}", sets.notes, numbers)


def t3(lab: Lab) -> Result:
    """Table 3: EvalRank."""
    task = read_evalrank()
    if lab.limit:
        task = task.head(lab.limit)
    preset, quoted = paper.reference(paper.T3, lab.row)
    rows, board = all_rows(quoted), Board(["measure", "similarity"])
    readings = {reading for row in rows for reading in (row.ours, row.baseline)}
    runs = {reading: _runs(lab, task, reading) for reading in readings}
    for name, row in product(retrieval.MEASURES, rows):
        points = partial(Points.of, itemgetter(name), runs[row.ours], runs[row.baseline], len(task.pairs))
        board.add([name, row.label], points, row.quoted[name] if row.quoted else None)
    about = f"{lab.title}, x 100, {len(task.pairs)} queries among {len(task.background)} sentences"
    grids, verdict = [board.grid(PRESETS[preset].title, about)], board.verdicts(row.label for row in rows)
    return lab.result("T3", "EvalRank, Sen2Vec (cosine) against Sen2Pro", grids, verdict, [], board.numbers())


def _runs(lab: Lab, task: EvalRank, reading: Reading) -> list[dict[str, Statistic]]:
    """Return the measures of a similarity, once for each seed if it depends on that."""
    index = {sentence: i for i, sentence in enumerate(task.background)}
    where = np.array([(index[a], index[b]) for a, b in task.pairs])
    if reading == COSINE:
        vectors = retrieval.centred(lab.own_vectors(task.background))
        return [retrieval.measures(retrieval.ranks(where, lambda rows: vectors[rows] @ vectors.T))]

    def measured(gaussian: Gaussian) -> dict[str, Statistic]:
        bare = Gaussian(gaussian.mean, gaussian.variance)
        scores = retrieval.ranks(where, lambda rows: reading.all_pairs(bare[rows], bare), lab.store.show)
        return retrieval.measures(scores)

    if reading.plain:
        return [measured(certain(retrieval.centred(lab.own_vectors(task.background))))]
    parts = (lab.parts(task.background, seed, normalize=reading.normalize) for seed in range(lab.seeds))
    return [measured(retrieval.centred_gaussian(g) if reading.normalize else g) for g in map(lab.join, parts)]


def t9(lab: Lab) -> Result:
    """Table 9: analogies, by x of the means scaled to length 1 (the paper's) or not, and by how often D is found."""
    board, titles = Board(["set", "measure"]), {"sick": "SICK quadruples", "sats": "SATS"}
    preset, quoted = paper.reference(paper.T9, lab.row)
    sets, missing = available(read_analogy, titles)
    for name, quadruples in sets.items():
        texts = [quadruples[i][1:] for i in sts.spread(len(quadruples), lab.limit or len(quadruples))]
        index = {text: i for i, text in enumerate(dict.fromkeys(text for four in texts for text in four))}
        sentences, where = list(index), np.array([[index[text] for text in four] for four in texts])
        means = [lab.join(lab.parts(sentences, seed)).mean for seed in range(lab.seeds)]
        plain, scaled = [lab.vectors(sentences)], [to_unit(mean) for mean in means]
        for label, measure, vectors, said in (
            ("x, means of length 1", retrieval.differences, scaled, quoted),
            ("x, means as they are", retrieval.differences, means, None),
            ("D found, 3CosAdd", retrieval.completed, scaled, None),
        ):
            ours, baseline = ([measure(v, where) for v in runs] for runs in (vectors, plain))
            points = partial(Points.of, mean_statistic, ours, baseline, len(where))
            board.add([titles[name], label], points, said, smaller_is_better=label.startswith("x"))
    on_x, on_d = ([line for line in board.lines if line.labels[1].startswith(first)] for first in "xD")
    grids, notes = [board.grid(PRESETS[preset].title, f"{lab.title}, x 100")], no_data(titles[n] for n in missing)
    verdict = f"x: {count_verdicts(on_x)}; D found: {count_verdicts(on_d)}"
    return lab.result("T9", "Analogies, Sen2Vec against Sen2Pro", grids, verdict, notes, board.numbers())
