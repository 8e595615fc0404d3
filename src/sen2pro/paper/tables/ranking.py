"""Tables 3 and 9: finding the right sentence among many, and analogies."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian
from sen2pro.metrics import retrieval
from sen2pro.metrics.base import to_unit
from sen2pro.metrics.comparisons import Board, Points, count_verdicts
from sen2pro.metrics.report import Result
from sen2pro.metrics.statistics import Statistic, mean_statistic
from sen2pro.metrics.sts import spread
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import DataMissing
from sen2pro.paper.data import EvalRank, read_analogy, read_evalrank
from sen2pro.paper.lab import PRESETS, Lab
from sen2pro.paper.tables.pairs import COSINE, PLAIN_ROWS, READINGS, Reading, Row, certain
from sen2pro.types import Array


def t3(lab: Lab) -> Result:
    """Table 3: EvalRank."""
    task = read_evalrank()
    if lab.limit:
        task = task.head(lab.limit)
    preset, quoted = paper.reference(paper.T3, lab.row)
    rows = [*(Row(reading.title, reading, quoted=quoted) for reading in READINGS), *PLAIN_ROWS]
    readings = dict.fromkeys(reading for row in rows for reading in (row.ours, row.baseline))
    found = {reading: _runs(lab, task, reading) for reading in readings}
    board = Board(["measure", "similarity"])
    for row in rows:
        for name in retrieval.MEASURES:
            ours, baseline = ([run[name] for run in found[reading]] for reading in (row.ours, row.baseline))
            points = partial(Points, ours, baseline, len(task.pairs))
            board.add([name, row.label], points, row.quoted[name] if row.quoted else None)
    board.sort(retrieval.MEASURES)
    title = f"{lab.title}, x 100, {len(task.pairs)} queries among {len(task.background)} sentences"
    notes = [
        *paper.NOTES["T3"],
        "All vectors are centred on the background. On the unit sphere, Gaussians are centred and scaled like the "
        "samples would be; Eq. 6 of raw vectors does not change when they are centred.",
        "Plain L1 and plain L2 are distances of the same plain vectors as the cosine: centred, and scaled to length 1.",
    ]
    return Result(
        "T3", "EvalRank, Sen2Vec (cosine) against Sen2Pro", [board.grid(PRESETS[preset].title, title)],
        "; ".join(f"{row.label}: {board.verdict(row.label)}" for row in rows), lab.signature(), notes, board.numbers(),
    )  # fmt: skip


def _runs(lab: Lab, task: EvalRank, reading: Reading) -> list[dict[str, Statistic]]:
    """Return the measures of a similarity, once for each seed if it depends on that."""
    if reading.plain:
        vectors = retrieval.centred(lab.own_vectors(task.background))
        if reading == COSINE:
            return [retrieval.measures(retrieval.ranks(_positions(task), lambda rows: vectors[rows] @ vectors.T))]
        return [_measured(lab, task, reading, certain(vectors))]
    found = []
    for seed in range(lab.seeds):
        joined = lab.join(lab.parts(task.background, seed, normalize=reading.normalize))
        found.append(_measured(lab, task, reading, retrieval.centred_gaussian(joined) if reading.normalize else joined))
    return found


def _measured(lab: Lab, task: EvalRank, reading: Reading, gaussian: Gaussian) -> dict[str, Statistic]:
    bare = Gaussian(gaussian.mean, gaussian.variance)
    ranks = retrieval.ranks(_positions(task), lambda rows: reading.all_pairs(bare[rows], bare), lab.store.show)
    return retrieval.measures(ranks)


def _positions(task: EvalRank) -> NDArray[np.int64]:
    index = {sentence: i for i, sentence in enumerate(task.background)}
    return np.array([(index[a], index[b]) for a, b in task.pairs])


def t9(lab: Lab) -> Result:
    """Table 9: analogies."""
    board, missing = Board(["set", "measure"]), []
    preset, quoted = paper.reference(paper.T9, lab.row)
    for name, title in (("sick", "SICK quadruples"), ("sats", "SATS")):
        try:
            quadruples = read_analogy(name)
        except DataMissing:
            missing.append(title)
            continue
        if lab.limit:
            quadruples = [quadruples[i] for i in spread(len(quadruples), lab.limit)]
        texts = [(q.a, q.b, q.c, q.d) for q in quadruples]
        index = {text: i for i, text in enumerate(dict.fromkeys(text for four in texts for text in four))}
        sentences, where = list(index), np.array([[index[text] for text in four] for four in texts])
        means = [lab.join(lab.parts(sentences, seed)).mean for seed in range(lab.seeds)]
        _add_analogies(board, title, where, lab.vectors(sentences), means, quoted)
    if not board.lines:
        raise DataMissing("there is no data for analogies; see `sen2pro data list`")
    on_x, on_d = ([line for line in board.lines if line.labels[1].startswith(first)] for first in "xD")
    notes = [*paper.NOTES["T9"], *([f"{', '.join(missing)}: no data here."] if missing else [])]
    return Result(
        "T9", "Analogies, Sen2Vec against Sen2Pro", [board.grid(PRESETS[preset].title, f"{lab.title}, x 100")],
        f"x: {count_verdicts(on_x)}; D found: {count_verdicts(on_d)}", lab.signature(), notes, board.numbers(),
    )  # fmt: skip


def _add_analogies(
    board: Board, title: str, where: NDArray[np.int64], plain: Array, means: list[Array], quoted: tuple[float, float]
) -> None:
    """Add x of the means scaled to length 1 (the paper's), x of the means as they are, and how often D is found."""
    scaled = [to_unit(mean) for mean in means]
    measures = (
        ("x, means of length 1", retrieval.differences, scaled, quoted),
        ("x, means as they are", retrieval.differences, means, None),
        ("D found, 3CosAdd", retrieval.completed, scaled, None),
    )
    for name, measure, vectors, said in measures:
        ours, baseline = ([mean_statistic(measure(v, where)) for v in runs] for runs in (vectors, [plain]))
        points = partial(Points, ours, baseline, len(where))
        board.add([title, name], points, said, smaller_is_better=name.startswith("x"))
