"""Table 8 and figure 4: the full covariance (SCE) against the diagonal one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sen2pro.metrics import sts
from sen2pro.metrics.charts import Panel, draw
from sen2pro.metrics.comparisons import ARROW, Board, Points, average, count_verdicts
from sen2pro.metrics.report import Grid, Result
from sen2pro.metrics.statistics import aligned, by_system, correlation_statistic
from sen2pro.paper import numbers as paper
from sen2pro.paper.catalogue import WMT_PAIRS, DataMissing
from sen2pro.paper.data import read_wmt_systems
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables import sampled_texts
from sen2pro.paper.tables.generation import Texts, dialogue, speaking, translation
from sen2pro.paper.tables.pairs import FULL, SPHERE, Pairing, Row, full_scores
from sen2pro.paper.tables.similarity import Sets
from sen2pro.types import Array, Array64

_SEGMENTS = 50  # of each language pair: full covariances of every output would take days


def t8(lab: Lab) -> Result:
    """Table 8: the full covariance against the diagonal one."""
    sets, size = Sets(lab, paper.SETS), sampled_texts.size(lab)
    board = sets.board("task", [Row("STS", SPHERE, FULL)])
    for line in board.lines:
        line.paper = paper.T8["STS"] if line.labels[0].startswith("Average") else None
    counted = board.having("STS")
    before = len(board.lines)
    sampled_texts.add_to(board, lab)
    segments = min(lab.items or _SEGMENTS, _SEGMENTS)
    _add_systems(board, lab, "Dialog", "spearman", lambda: [dialogue(name, lab.items) for name in paper.DIALOGUE], "")
    _add_systems(board, lab, "NMT", "pearson", lambda: _translations(segments), f", {segments} segments")
    title = f"{lab.title}, full covariance (SCE) {ARROW} diagonal; but for TC, {SPHERE.title}"
    about = (
        f"TC: {size.shots} examples of each class, {size.draws} draws, a head that averages over the covariance in "
        "question; its penalty is what cross-validation chooses with the diagonal one, so that nothing but the "
        "estimator differs."
    )
    return Result(
        "T8", "Full covariance against the diagonal estimator", [board.grid("BERT-base", title)],
        count_verdicts([*counted, *board.lines[before:]]), lab.signature(),
        [*paper.NOTES["T8"], about, *sets.notes], board.numbers(),
    )  # fmt: skip


def _translations(segments: int) -> list[Texts]:
    found = []
    for pair in WMT_PAIRS:
        with suppress(DataMissing):
            found.append(translation(read_wmt_systems(pair), segments))
    return found


def _add_systems(board: Board, lab: Lab, task: str, kind: str, read: Callable[[], Sequence[Texts]], about: str) -> None:
    """Add the average correlation of systems' scores with human ones over several sets, systems being drawn anew."""
    try:
        sets = read()
    except DataMissing:
        sets = []
    if not sets:
        board.leave_out([f"Average of 0{about}", task], "no data", paper.T8[task])
        return

    def points(texts: Texts) -> Points:
        pairs = Pairing(lab, speaking(texts.candidates), speaking(texts.references), keep_samples=True)
        ours, baseline = (
            [
                correlation_statistic(kind, *aligned(by_system(texts.systems, scores), texts.human))
                for scores in reading.runs(pairs)
            ]
            for reading in (SPHERE, FULL)
        )
        return Points(ours, baseline, len(texts.human))

    board.add(
        [f"Average of {len(sets)}{about}", task],
        lambda: average({str(i): points(texts) for i, texts in enumerate(sets)}),
        paper.T8[task],
    )


def f4(lab: Lab) -> Result:
    """Figure 4: what the full covariance costs, in time and space, for what it gives."""
    name = "stsb_test"
    sets = Sets(lab, [name])
    pairs, gold = sets.pairs[name], sets.gold[name]
    samples = pairs.samples()
    k = next(iter(samples.values())).shape[-1]
    estimators: dict[str, Callable[[], Array | Array64]] = {
        "diagonal (the paper's banding estimator)": partial(_diagonal, pairs, samples),
        "full (SCE), alpha of the diagonal": partial(full_scores, pairs, samples),
        "full (SCE), alpha of its own": partial(full_scores, pairs, samples, own_weight=True),
    }
    numbers: list[dict[str, Any]] = []
    for title, work in estimators.items():
        start = time.perf_counter()
        scores = work()
        milliseconds = 1e3 * (time.perf_counter() - start) / len(gold)
        size = 4 * (2 * k if title.startswith("diagonal") else k + k * k)
        value = 100 * sts.correlation(scores, gold)
        numbers.append({"estimator": title, "spearman": value, "ms a pair": milliseconds, "bytes a sentence": size})
    rows = [
        [n["estimator"], f"{n['spearman']:.2f}", f"{n['ms a pair']:.2f}", f"{n['bytes a sentence']:,}"] for n in numbers
    ]
    grid = Grid(["estimator", "Spearman x 100", "ms a pair", "bytes a sentence"], rows, f"{lab.title}, STS-B test")
    points = {n["estimator"]: [(n["ms a pair"], n["spearman"])] for n in numbers}
    axes = "milliseconds a pair (log scale)", "Spearman × 100"
    times, space = (numbers[1][what] / max(numbers[0][what], 1e-9) for what in ("ms a pair", "bytes a sentence"))
    return Result(
        "F4", "What the estimators cost", [grid],
        f"the full covariance takes {times:.0f} times the time and {space:.0f} times the space", lab.signature(),
        ["Estimation and distance only: drawing the samples costs the same for both."], numbers,
        {"trade-off": draw(Panel(points, *axes, scales=("log", "linear")))},
    )  # fmt: skip


def _diagonal(pairs: Pairing, samples: dict[str, Array]) -> Array:
    return SPHERE.pairwise(*pairs.sides(pairs.lab.of_samples(samples)))
