"""Tables 3 and 9: finding the right sentence among many, and analogies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import Statistic, mean_statistic, paired_bootstrap
from sen2pro.paper import analogy, evalrank
from sen2pro.paper import numbers as paper
from sen2pro.paper.data import DataMissing, read_analogy, read_evalrank, spread
from sen2pro.paper.lab import Lab
from sen2pro.paper.presets import PRESETS
from sen2pro.paper.report import Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.paper.store import to_unit
from sen2pro.paper.tables.readings import READINGS, Reading
from sen2pro.types import Array


def t3(lab: Lab) -> Result:
    """Table 3: EvalRank."""
    task = read_evalrank()
    if lab.limit:
        task = task.head(lab.limit)
    vectors = evalrank.centred(lab.own_vectors(task.background))
    plain = evalrank.statistics(evalrank.ranks(task, lambda rows: vectors[rows] @ vectors.T))
    row, quoted = paper.reference(paper.T3, lab.row)
    lines, verdicts = [], []
    for reading in READINGS:
        seeds: list[dict[str, Statistic]] = []
        for seed in range(lab.seeds):
            joined = lab.join(lab.parts(task.background, seed, normalize=reading.normalize))
            centred = evalrank.centred_gaussian(joined) if reading.normalize else joined
            seeds.append(evalrank.statistics(evalrank.ranks(task, _blocks(centred, reading), lab.store.show)))
        found = [
            Line(
                [name, reading.title],
                quoted[name],
                paired_bootstrap([s[name] for s in seeds], plain[name], len(task.pairs)).scaled(100),
            )
            for name in evalrank.MEASURES
        ]
        lines += found
        verdicts.append(f"{reading.title}: {count_verdicts(found)}")
    lines.sort(key=lambda line: evalrank.MEASURES.index(line.labels[0]))
    names = ["measure", "similarity"]
    title = f"{lab.title}, x 100, {len(task.pairs)} queries among {len(task.background)} sentences"
    notes = [
        *paper.NOTES["T3"],
        "All vectors are centred on the background. On the unit sphere, Gaussians are centred and scaled like the "
        "samples would be; Eq. 6 of raw vectors does not change when they are centred.",
    ]
    return Result(
        "T3", "EvalRank, Sen2Vec (cosine) against Sen2Pro", [lines_grid(names, lines, PRESETS[row].title, title=title)],
        "; ".join(verdicts), lab.signature(), notes, line_numbers(names, lines),
    )  # fmt: skip


def _blocks(gaussian: Gaussian, reading: Reading) -> evalrank.Block:
    bare = Gaussian(gaussian.mean, gaussian.variance)
    return lambda rows: reading.all_pairs(bare[rows], bare)


def t9(lab: Lab) -> Result:
    """Table 9: analogies."""
    lines, missing = [], []
    row, quoted = paper.reference(paper.T9, lab.row)
    for name, title in (("sick", "SICK quadruples"), ("sats", "SATS")):
        try:
            quadruples = read_analogy(name)
        except DataMissing:
            missing.append(title)
            continue
        if lab.limit:
            quadruples = [quadruples[i] for i in spread(len(quadruples), lab.limit)]
        sentences, where = analogy.positions(quadruples)
        plain = lab.vectors(sentences)
        means = [lab.join(lab.parts(sentences, seed)).mean for seed in range(lab.seeds)]
        lines += _analogy_lines(title, where, plain, means, quoted)
    if not lines:
        raise DataMissing("there is no data for analogies; see `sen2pro data list`")
    names = ["set", "measure"]
    title = f"{lab.title}, x 100"
    on_x = [line for line in lines if line.labels[1].startswith("x")]
    verdict = f"x: {count_verdicts(on_x)}; D found: {count_verdicts([line for line in lines if line not in on_x])}"
    notes = [*paper.NOTES["T9"], *([f"{', '.join(missing)}: no data here."] if missing else [])]
    return Result(
        "T9", "Analogies, Sen2Vec against Sen2Pro", [lines_grid(names, lines, PRESETS[row].title, title=title)],
        verdict, lab.signature(), notes, line_numbers(names, lines),
    )  # fmt: skip


def _analogy_lines(
    title: str, where: NDArray[np.int64], plain: Array, means: list[Array], quoted: tuple[float, float]
) -> list[Line]:
    """Return x of the means scaled to length 1 (the paper's), of the means as they are, and how often D is found."""
    scaled = [to_unit(mean) for mean in means]
    n = len(where)
    baseline = mean_statistic(analogy.differences(plain, where))

    def x(vectors: list[Array]) -> list[Statistic]:
        return [mean_statistic(analogy.differences(v, where)) for v in vectors]

    found = paired_bootstrap(
        [mean_statistic(analogy.found(v, where)) for v in scaled], mean_statistic(analogy.found(plain, where)), n
    )
    return [
        Line(
            [title, "x, means of length 1"], quoted,
            paired_bootstrap(x(scaled), baseline, n, smaller_is_better=True).scaled(100),
        ),
        Line(
            [title, "x, means as they are"], None,
            paired_bootstrap(x(means), baseline, n, smaller_is_better=True).scaled(100),
        ),
        Line([title, "D found, 3CosAdd"], None, found.scaled(100)),
    ]  # fmt: skip
