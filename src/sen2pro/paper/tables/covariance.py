"""Table 8 and figure 4: the full covariance (SCE) against the diagonal one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sen2pro.estimation.moments import combine, estimate
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import (
    Statistic,
    Undefined,
    average_statistic,
    correlation_statistic,
    mean_of,
    paired_bootstrap,
)
from sen2pro.paper import numbers as paper
from sen2pro.paper import sts
from sen2pro.paper.data import WMT_PAIRS, DataMissing, read_wmt_systems
from sen2pro.paper.lab import Lab, moments
from sen2pro.paper.report import ARROW, Grid, Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.paper.systems import aligned, by_system
from sen2pro.paper.tables import plots
from sen2pro.paper.tables.board import Board
from sen2pro.paper.tables.readings import SPHERE
from sen2pro.paper.tables.sampled_texts import T8_NOTE, t8_line
from sen2pro.paper.tables.similarity import lines_of_sets, of_sets
from sen2pro.paper.tables.texts import Texts, dialogue, distinct, translation
from sen2pro.progress import Show, progress
from sen2pro.types import Array, Array64

_FULL_CHUNK = 64  # pairs whose full covariances are in memory at once
_SEGMENTS = 50  # of each language pair: full covariances of every output would take days


def full_distance(
    left: dict[str, Array], right: dict[str, Array], *, own_weight: bool = False, show: Show = False
) -> Array64:
    """Return Eq. 6 with full covariances (SCE), from the samples (n, N, k) of each source: (n,).

    The weight alpha of a pair is that of its diagonals, so that nothing but the estimator differs; with `own_weight` it
    is the ratio of the full covariances themselves, which is mostly clipped to 1 and leaves nothing of the means.
    """
    found = []
    count = len(next(iter(left.values())))
    with progress(count, show, threshold=1000, unit="pairs") as advance:
        for start in range(0, count, _FULL_CHUNK):
            where = slice(start, start + _FULL_CHUNK)
            means, covariances = [], []
            for side in (left, right):
                estimates = [estimate(samples[where], "full") for samples in side.values()]
                mean, covariance = combine(estimates, [1] * len(estimates), "individual")
                means.append(mean)
                covariances.append(covariance)
            of_means = np.abs(means[0] - means[1]).sum(axis=-1)
            difference = np.abs(covariances[0] - covariances[1])
            of_covariances = difference.sum(axis=(-2, -1))
            of_weight = of_covariances if own_weight else difference.diagonal(axis1=-2, axis2=-1).sum(axis=-1)
            weight = np.where(of_means > 0, np.minimum(of_weight / np.maximum(of_means, 1e-30), 1), 1.0)
            found.append((1 - weight) * of_means + weight * of_covariances)
            advance(len(of_means))
    return np.concatenate(found)


def t8(lab: Lab) -> Result:
    """Table 8: the full covariance against the diagonal one."""
    names = paper.SETS
    board = Board(lab, names)

    def of_full(name: str) -> Statistic:
        drawn = (lab.samples_of(board.sentences(name), seed) for seed in range(lab.seeds))
        return mean_of([sts.statistic(_full(board, name, samples), board.sets[name]) for samples in drawn])

    lines = lines_of_sets(board, names, "STS", None, partial(board.statistics, reading=SPHERE), of_full)
    for line in lines:
        line.paper = paper.T8["STS"] if line.labels[0].startswith("Average") else None
    others = [t8_line(lab), _dialogue_line(lab), _translation_line(lab)]
    labels = ["set", "task"]
    title = f"{lab.title}, full covariance (SCE) {ARROW} diagonal; but for TC, {SPHERE.title}"
    grid = lines_grid(labels, [*lines, *others], "BERT-base", title=title)
    return Result(
        "T8", "Full covariance against the diagonal estimator", [grid], count_verdicts([*of_sets(lines), *others]),
        lab.signature(), [*paper.NOTES["T8"], T8_NOTE, *board.notes], line_numbers(labels, [*lines, *others]),
    )  # fmt: skip


def f4(lab: Lab) -> Result:
    """Figure 4: what the full covariance costs, in time and space, for what it gives."""
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
        {"trade-off": plots.trade_off(points)},
    )  # fmt: skip


def _diagonal(board: Board, name: str, samples: dict[str, Array]) -> Array64:
    joined = board.lab.join({source: Gaussian(*moments(found)) for source, found in samples.items()})
    left, right = board.sides(name)
    return SPHERE.pairwise(joined[left], joined[right]).astype(np.float64)


def _full(board: Board, name: str, samples: dict[str, Array], *, own_weight: bool = False) -> Array64:
    left, right = ({source: x[side] for source, x in samples.items()} for side in board.sides(name))
    return -full_distance(left, right, own_weight=own_weight, show=board.lab.store.show)


def _full_and_diagonal(lab: Lab, texts: Texts, seed: int) -> tuple[Array64, Array]:
    sentences, left, right = distinct(texts)
    samples = lab.samples_of(sentences, seed)
    sides = [{source: x[side] for source, x in samples.items()} for side in (left, right)]
    joined = lab.join(lab.parts(sentences, seed, keep_samples=True))
    return -full_distance(*sides, show=lab.store.show), SPHERE.pairwise(joined[left], joined[right])


def _t8(lab: Lab, title: str, kind: str, sets: Sequence[Texts], quoted: tuple[float, float]) -> Line:
    """Compare full and diagonal covariances by their average correlation over sets, systems being drawn anew."""
    if not sets:
        raise Undefined("no correlation: there are no sets")
    sizes = [len(texts.human) for texts in sets]
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    found: list[list[Callable[[Array64], Array64]]] = [[], []]
    for seed in range(lab.seeds):
        pairs = [_full_and_diagonal(lab, texts, seed) for texts in sets]
        for which in (0, 1):
            parts = [
                correlation_statistic(kind, *aligned(by_system(texts.systems, pair[which]), texts.human))
                for texts, pair in zip(sets, pairs, strict=True)
            ]
            found[which].append(average_statistic(parts, places))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    compared = paired_bootstrap(found[1], mean_of(found[0]), int(ends[-1]), groups=groups).scaled(100)
    return Line([f"Average of {len(sets)}", title], quoted, compared)


def _dialogue_line(lab: Lab) -> Line:
    """Return the dialogue line of Table 8."""
    try:
        sets = [dialogue(name, lab.limit) for name in paper.DIALOGUE]
        return _t8(lab, "Dialog", "spearman", sets, paper.T8["Dialog"])
    except (DataMissing, Undefined) as error:
        return Line(["Average", "Dialog"], paper.T8["Dialog"], missing=_reason(error))


def _translation_line(lab: Lab) -> Line:
    """Return the translation line of Table 8, on a part of the segments."""
    count = min(lab.limit or _SEGMENTS, _SEGMENTS)
    sets = []
    for pair in WMT_PAIRS:
        try:
            found = read_wmt_systems(pair)
        except DataMissing:
            continue
        sets.append(translation(found, count))
    title = f"Average of {len(sets)}, {count} segments"
    try:
        return replace(_t8(lab, "NMT", "pearson", sets, paper.T8["NMT"]), labels=[title, "NMT"])
    except Undefined as error:
        return Line([title, "NMT"], paper.T8["NMT"], missing=_reason(error) if sets else "no data")


def _reason(error: DataMissing | Undefined) -> str:
    return "no data" if isinstance(error, DataMissing) else str(error)
