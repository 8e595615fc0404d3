"""Tables 2, 6, 8 and 10: sentence similarity."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from sen2pro.estimation import combine, estimate
from sen2pro.evaluation import paper, sts
from sen2pro.evaluation.lab import KINDS, Lab, moments
from sen2pro.evaluation.presets import PRESETS
from sen2pro.evaluation.report import Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.evaluation.reproduce.board import Board
from sen2pro.evaluation.reproduce.readings import CORRECTED, OURS, READINGS, SPHERE
from sen2pro.evaluation.statistics import Statistic, Undefined
from sen2pro.gaussian import Array, Array64, Gaussian

Quoted = Mapping[str, tuple[float, float]]
_FULL_CHUNK = 64  # pairs whose full covariances are in memory at once


def _lines(
    board: Board,
    names: tuple[str, ...],
    label: str,
    quoted: Quoted | None,
    ours: Callable[[str], list[Statistic]],
    baseline: Callable[[str], Statistic],
    aggregation: str = "all",
) -> list[Line]:
    """Return a line for each set, and one for their average."""
    lines, kept, base = [], {}, {}
    for name in names:
        numbers = (quoted or {}).get(name)
        if name in board.missing:
            lines.append(Line([paper.TITLES[name], label], numbers, missing="no data"))
            continue
        try:
            mine, plain = ours(name), baseline(name)
        except Undefined as error:
            lines.append(Line([paper.TITLES[name], label], numbers, missing=str(error)))
            continue
        kept[name], base[name] = mine, plain
        found = board.compare(name, mine, plain, aggregation)
        missing, comparison = (found, None) if isinstance(found, str) else ("", found)
        lines.append(Line([paper.TITLES[name], label], numbers, comparison, missing))
    if len(kept) > 1:
        title = "Average" if len(kept) == len(names) else f"Average of {len(kept)}"
        lines.append(Line([title, label], (quoted or {}).get("average"), board.average(kept, base, aggregation)))
    return lines


def t2(lab: Lab) -> Result:
    """Table 2: STS-12 to 16."""
    names = paper.SETS[:5]
    board = Board(lab, names)
    row, quoted = paper.reference(paper.T2, lab.row)
    grids, numbers = [], []
    verdicts: dict[str, list[str]] = {reading.title: [] for reading in READINGS}
    for aggregation in ("all", "wmean"):
        lines: list[Line] = []
        for reading in READINGS:
            found = _lines(
                board, names, reading.title, quoted,
                partial(board.statistics, reading=reading, aggregation=aggregation),
                partial(board.plain_statistic, aggregation=aggregation),
                aggregation,
            )  # fmt: skip
            lines += found
            verdicts[reading.title].append(f"{count_verdicts(_of_sets(found))} (`{aggregation}`)")
        lines.sort(key=lambda line: _place(line, names))
        title = f"{lab.title}, Spearman x 100, aggregation `{aggregation}`"
        grids.append(lines_grid(["set", "similarity"], lines, PRESETS[row].title, title=title))
        numbers += [{"aggregation": aggregation, **n} for n in line_numbers(["set", "similarity"], lines)]
    verdict = "; ".join(f"{title}: {', '.join(found_)}" for title, found_ in verdicts.items())
    return Result(
        "T2", "STS-12 to 16, Sen2Vec (cosine) against Sen2Pro", grids, verdict, lab.signature(),
        [*paper.NOTES["T2"], *board.notes], numbers,
    )  # fmt: skip


def _place(line: Line, names: tuple[str, ...]) -> int:
    titles = [paper.TITLES[name] for name in names]
    return titles.index(line.labels[0]) if line.labels[0] in titles else len(titles)


def _of_sets(lines: list[Line]) -> list[Line]:
    return [line for line in lines if not line.labels[0].startswith("Average")]


def t6(lab: Lab) -> Result:
    """Table 6: both uncertainties, the model's alone, the data's alone."""
    board = Board(lab, paper.SETS)
    lines: list[Line] = []
    verdicts = []
    for reading in (SPHERE, CORRECTED):
        for kind in KINDS:
            found = _lines(
                board, paper.SETS, f"{kind}, {reading.title}", paper.T6[kind],
                partial(board.statistics, reading=reading, kind=kind),
                board.plain_statistic,
            )  # fmt: skip
            lines += found
            if reading is OURS:
                verdicts.append(f"{kind}: {count_verdicts(_of_sets(found))}")
    lines.sort(key=lambda line: _place(line, paper.SETS))
    grid = lines_grid(["set", "uncertainty"], lines, "BERT-base", title=f"{lab.title}, Spearman x 100")
    numbers = line_numbers(["set", "uncertainty"], lines)
    verdict = f"{OURS.title}: " + "; ".join(verdicts)
    return Result(
        "T6", "Ablation of the two uncertainties on STS", [grid], verdict, lab.signature(),
        [*paper.NOTES["T6"], *board.notes], numbers,
    )  # fmt: skip


def t10(lab: Lab) -> Result:
    """Table 10: the two uncertainties estimated apart, or from pooled samples."""
    board = Board(lab, paper.SETS)
    lines = []
    for how in ("individual", "unified"):
        lines += _lines(
            board, paper.SETS, how, paper.T10[how],
            partial(board.statistics, reading=SPHERE, how=how),
            board.plain_statistic,
        )  # fmt: skip
    lines.sort(key=lambda line: _place(line, paper.SETS))
    quoted = {name: (paper.T10["unified"][name][1], paper.T10["individual"][name][1]) for name in paper.T10["unified"]}

    def unified(name: str) -> Statistic:
        found = board.statistics(name, SPHERE, how="unified")
        return lambda counts: np.asarray(np.mean([statistic(counts) for statistic in found], axis=0))

    direct = _lines(
        board, paper.SETS, "unified to individual", quoted, partial(board.statistics, reading=SPHERE), unified
    )
    names = ["set", "estimation"]
    grids = [
        lines_grid(
            names, lines, "BERT-base", title=f"{lab.title}, Spearman x 100, Sen2Vec to Sen2Pro ({SPHERE.title})"
        ),
        lines_grid(names, direct, "BERT-base", title="The two against each other"),
    ]
    verdict = f"individual against unified estimation: {count_verdicts(_of_sets(direct))}"
    return Result(
        "T10", "Individual against unified estimation", grids, verdict, lab.signature(),
        [*paper.NOTES["T10"], *board.notes], line_numbers(names, [*lines, *direct]),
    )  # fmt: skip


def full_distance(left: dict[str, Array], right: dict[str, Array], *, own_weight: bool = False) -> Array64:
    """Return Eq. 6 with full covariances (SCE), from the samples (n, N, k) of each source: (n,).

    The weight alpha of a pair is that of its diagonals, so that nothing but the estimator differs; with `own_weight` it
    is the ratio of the full covariances themselves, which is mostly clipped to 1 and leaves nothing of the means.
    """
    found = []
    for start in range(0, len(next(iter(left.values()))), _FULL_CHUNK):
        where = slice(start, start + _FULL_CHUNK)
        means, covariances = [], []
        for side in (left, right):
            estimates = [estimate(samples[where], "full") for samples in side.values()]
            mean, covariance = combine(estimates, [1] * len(estimates), "individual")
            means.append(mean)
            covariances.append(covariance)
        of_means = np.abs(means[0] - means[1]).sum(axis=-1)
        of_covariances = np.abs(covariances[0] - covariances[1]).sum(axis=(-2, -1))
        difference = covariances[0] - covariances[1]
        of_weight = of_covariances if own_weight else np.abs(difference.diagonal(axis1=-2, axis2=-1)).sum(axis=-1)
        weight = np.where(of_means > 0, np.minimum(of_weight / np.maximum(of_means, 1e-30), 1), 1.0)
        found.append((1 - weight) * of_means + weight * of_covariances)
    return np.concatenate(found)


def t8(lab: Lab) -> Result:
    """Table 8: the full covariance against the diagonal one, on STS; and figure 4, their cost."""
    from sen2pro.evaluation.reproduce.generation import t8_dialogue, t8_translation

    names = paper.SETS
    board = Board(lab, names)
    full: dict[str, list[Statistic]] = {name: [] for name in board.sets}
    for name, pairs in board.sets.items():
        for seed in range(lab.seeds):
            scores = _full(board, name, lab.samples_of(board.sentences(name), seed))
            full[name].append(sts.statistic(scores, pairs))

    def of_full(name: str) -> Statistic:
        return lambda counts: np.asarray(np.mean([statistic(counts) for statistic in full[name]], axis=0))

    lines = _lines(board, names, "STS", None, partial(board.statistics, reading=SPHERE), of_full)
    for line in lines:
        line.paper = paper.T8["STS"] if line.labels[0].startswith("Average") else None
    others = [*t8_dialogue(lab), *t8_translation(lab)]
    labels = ["set", "task"]
    title = f"{lab.title}, full covariance (SCE) {chr(0x2192)} diagonal, {SPHERE.title}"
    grid = lines_grid(labels, [*lines, *others], "BERT-base", title=title)
    return Result(
        "T8", "Full covariance against the diagonal estimator", [grid], count_verdicts([*_of_sets(lines), *others]),
        lab.signature(), [*paper.NOTES["T8"], *board.notes], line_numbers(labels, [*lines, *others]),
    )  # fmt: skip


def f4(lab: Lab) -> Result:
    """Figure 4: what the full covariance costs, in time and space, for what it gives."""
    from sen2pro.evaluation.reproduce.plots import trade_off

    name = "stsb_test"
    board = Board(lab, [name])
    samples = lab.samples_of(board.sentences(name))
    k = next(iter(samples.values())).shape[-1]
    pairs = len(board.sets[name])
    rows, points, numbers = [], [], []
    estimators = {
        "diagonal (the paper's banding estimator)": partial(_diagonal, board, name, samples),
        "full (SCE), alpha of the diagonal": partial(_full, board, name, samples),
        "full (SCE), alpha of its own": partial(_full, board, name, samples, own_weight=True),
    }
    for title, work in estimators.items():
        start = time.perf_counter()
        scores = work()
        seconds = time.perf_counter() - start
        value = 100 * sts.correlation(scores, board.sets[name])
        size = 4 * (2 * k if title.startswith("diagonal") else k + k * k)
        rows.append([title, f"{value:.2f}", f"{1e3 * seconds / pairs:.2f}", f"{size:,}"])
        points.append((title, 1e3 * seconds / pairs, value))
        numbers.append({"estimator": title, "spearman": value, "ms a pair": points[-1][1], "bytes a sentence": size})
    times, space = (
        points[1][1] / max(points[0][1], 1e-9),
        numbers[1]["bytes a sentence"] / numbers[0]["bytes a sentence"],
    )
    grid = Grid(["estimator", "Spearman x 100", "ms a pair", "bytes a sentence"], rows, f"{lab.title}, STS-B test")
    verdict = f"the full covariance takes {times:.0f} times the time and {space:.0f} times the space"
    notes = ["Estimation and distance only: drawing the samples costs the same for both."]
    return Result(
        "F4", "What the estimators cost", [grid], verdict, lab.signature(), notes, numbers,
        {"trade-off": trade_off(points)},
    )  # fmt: skip


def _diagonal(board: Board, name: str, samples: dict[str, Array]) -> Array64:
    joined = board.lab.join({source: Gaussian(*moments(found)) for source, found in samples.items()})
    left, right = board.sides(name)
    return SPHERE.pairwise(joined[left], joined[right]).astype(np.float64)


def _full(board: Board, name: str, samples: dict[str, Array], *, own_weight: bool = False) -> Array64:
    left, right = ({source: x[side] for source, x in samples.items()} for side in board.sides(name))
    return -full_distance(left, right, own_weight=own_weight)
