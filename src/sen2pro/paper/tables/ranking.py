"""Tables 3 and 9: finding the right sentence among many, and analogies."""

from __future__ import annotations

from functools import partial

import numpy as np

from sen2pro.gaussian import Gaussian
from sen2pro.metrics import retrieval
from sen2pro.metrics.base import to_unit
from sen2pro.metrics.comparisons import Board, Points, count_verdicts
from sen2pro.metrics.report import Result
from sen2pro.metrics.statistics import Statistic, mean_statistic
from sen2pro.metrics.sts import spread
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import available, no_data
from sen2pro.paper.data import EvalRank, read_analogy, read_evalrank
from sen2pro.paper.lab import PRESETS, Lab
from sen2pro.paper.tables.pairs import COSINE, Reading, all_rows, certain, summary


def t3(lab: Lab) -> Result:
    """Table 3: EvalRank."""
    task = read_evalrank()
    if lab.limit:
        task = task.head(lab.limit)
    preset, quoted = paper.reference(paper.T3, lab.row)
    rows, runs = all_rows(quoted), {}
    for reading in dict.fromkeys(reading for row in rows for reading in (row.ours, row.baseline)):
        runs[reading] = _runs(lab, task, reading)
    board = Board(["measure", "similarity"])
    for name in retrieval.MEASURES:
        for row in rows:
            ours, baseline = ([run[name] for run in runs[reading]] for reading in (row.ours, row.baseline))
            points = partial(Points, ours, baseline, len(task.pairs))
            board.add([name, row.label], points, row.quoted[name] if row.quoted else None)
    title = f"{lab.title}, x 100, {len(task.pairs)} queries among {len(task.background)} sentences"
    return Result(
        "T3", "EvalRank, Sen2Vec (cosine) against Sen2Pro", [board.grid(PRESETS[preset].title, title)],
        summary(board, rows), lab.signature(), list(paper.NOTES["T3"]), board.numbers(),
    )  # fmt: skip


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
    joined = map(lab.join, parts)
    return [measured(retrieval.centred_gaussian(g) if reading.normalize else g) for g in joined]


def t9(lab: Lab) -> Result:
    """Table 9: analogies, by x of the means scaled to length 1 (the paper's) or not, and by how often D is found."""
    board, titles = Board(["set", "measure"]), {"sick": "SICK quadruples", "sats": "SATS"}
    preset, quoted = paper.reference(paper.T9, lab.row)
    sets, missing = available(read_analogy, titles)
    for name, quadruples in sets.items():
        chosen = spread(len(quadruples), lab.limit) if lab.limit else range(len(quadruples))
        texts = [quadruples[i][1:] for i in chosen]
        index = {text: i for i, text in enumerate(dict.fromkeys(text for four in texts for text in four))}
        sentences, where = list(index), np.array([[index[text] for text in four] for four in texts])
        means = [lab.join(lab.parts(sentences, seed)).mean for seed in range(lab.seeds)]
        plain, scaled = [lab.vectors(sentences)], [to_unit(mean) for mean in means]
        for label, measure, vectors, said in (
            ("x, means of length 1", retrieval.differences, scaled, quoted),
            ("x, means as they are", retrieval.differences, means, None),
            ("D found, 3CosAdd", retrieval.completed, scaled, None),
        ):
            ours, baseline = ([mean_statistic(measure(v, where)) for v in runs] for runs in (vectors, plain))
            points = partial(Points, ours, baseline, len(where))
            board.add([titles[name], label], points, said, smaller_is_better=label.startswith("x"))
    on_x, on_d = ([line for line in board.lines if line.labels[1].startswith(first)] for first in "xD")
    notes = [*paper.NOTES["T9"], *no_data(titles[name] for name in missing)]
    return Result(
        "T9", "Analogies, Sen2Vec against Sen2Pro", [board.grid(PRESETS[preset].title, f"{lab.title}, x 100")],
        f"x: {count_verdicts(on_x)}; D found: {count_verdicts(on_d)}", lab.signature(), notes, board.numbers(),
    )  # fmt: skip
