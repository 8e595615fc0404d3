"""Figures 1 to 4 and table 8: which features matter, where Sen2Pro helps, how many samples and which covariance."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.validation import Array, Array64
from sen2pro_lab.metrics import sts
from sen2pro_lab.metrics.bootstrap import Undefined
from sen2pro_lab.metrics.comparisons import ARROW, Board, Points, average, count_verdicts
from sen2pro_lab.metrics.report import Grid, Panel, Result, draw
from sen2pro_lab.metrics.statistics import pearson, spearman
from sen2pro_lab.metrics.sts import Pairs
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.catalogue import WMT_PAIRS, DataMissing, available
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.tables import sampled_texts
from sen2pro_lab.paper.tables.generation import Texts, correlated, dialogue, translation
from sen2pro_lab.paper.tables.pairs import COSINE, FULL, OURS, SPHERE, Pairing, Reading, Row, full_scores
from sen2pro_lab.paper.tables.similarity import Sets

GROUPS = ("I", "II", "III", "IV", "V")
POOLINGS = ("mean", "first-last-avg", "cls")
_SEGMENTS = 50  # of each language pair: full covariances of every output would take days


def importance(gaussian: Gaussian, pairs: Pairing, gold: Pairs, reading: Reading = SPHERE) -> list[float]:
    """Return how much the correlation changes without each fifth of the features, the most uncertain first; x 100.

    The groups are cut by the mean variance of a feature over the set; features that are left out are 0 in mean and
    variance.
    """
    order = np.argsort(-gaussian.variance.mean(axis=0, dtype=np.float64), kind="stable")

    def correlation(without: NDArray[np.int64]) -> float:
        mean, variance = gaussian.mean.copy(), gaussian.variance.copy()
        mean[:, without] = variance[:, without] = 0
        return 100 * sts.correlation(reading.pairwise(*pairs.sides(Gaussian(mean, variance))), gold)

    whole = correlation(order[:0])
    return [abs(whole - correlation(group)) for group in np.array_split(order, len(GROUPS))]


def f1(lab: Lab) -> Result:
    """Figure 1: the importance of five groups of features, cut by their model uncertainty."""
    sets = Sets(lab, paper.SETS[:5])
    rows, drawn = [], {}
    numbers: list[dict[str, Any]] = []
    for name in sets.defined():
        pairs, title = sets.pairs[name], paper.TITLES[name]
        models = [lab.join(pairs.parts(seed), "m") for seed in range(lab.seeds)]
        runs = np.array([importance(gaussian, pairs, sets.gold[name]) for gaussian in models])
        mean = runs.mean(axis=0)
        trend = spearman(mean, np.arange(5)[::-1]) if len(set(mean)) > 1 else 0.0
        spread = [
            f"{m:.2f}" + (f" ({low:.2f} to {high:.2f})" if lab.seeds > 1 else "")
            for m, low, high in zip(mean, runs.min(0), runs.max(0), strict=True)
        ]
        rows.append([title, *spread, f"{trend:+.2f}"])
        drawn[title] = list(zip(GROUPS, mean.tolist(), strict=True))
        numbers.append({"set": title, "importance": runs.tolist(), "trend": trend})
    about = f"{lab.title}, |change of Spearman x 100| without a group; I is the most uncertain fifth"
    falls = sum(number["trend"] > 0 for number in numbers)
    verdict = f"importance falls with uncertainty, as the paper says, on {falls} of {len(rows)} sets"
    axes = "fifths of the features, I = most uncertain", "importance: |change of Spearman × 100|"
    grids, figures = [Grid(["set", *GROUPS, "trend"], rows, about)], {"importance": draw(Panel(drawn, *axes))}
    title = "Importance of features by their uncertainty"
    return lab.result("F1", title, grids, verdict, sets.notes, numbers, figures=figures)


def f2(lab: Lab) -> Result:
    """Figure 2: fluctuation rate against improvement."""
    numbers: list[dict[str, Any]] = []
    for pooling in POOLINGS:
        sets = Sets(replace(lab, settings={**lab.settings, "pooling": pooling}), paper.SETS[:5])
        for name in sets.defined():
            pairs, gold = sets.pairs[name], sets.gold[name]
            parts = [
                [pairs.parts(seed, normalize=unit)["model"] for seed in range(lab.seeds)] for unit in (False, True)
            ]
            raw, unit = (float(np.mean([part.variance.mean(dtype=np.float64) for part in runs])) for runs in parts)
            ours, plain = (
                np.mean([sts.correlation(scores, gold) for scores in reading.runs(pairs)]) for reading in (OURS, COSINE)
            )
            about = {"pooling": pooling, "set": paper.TITLES[name]}
            numbers.append({**about, "Q raw": raw, "Q unit": unit, "gain": 100 * float(ours - plain)})
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for n in numbers:
        points[f"{n['pooling']} pooling"].append((1e4 * n["Q unit"], n["gain"]))
    rate, gain = zip(*chain(*points.values()), strict=True)
    try:
        verdict = f"correlation of fluctuation rate and improvement over {len(numbers)} points: "
        verdict += f"Pearson {pearson(rate, gain):+.2f}, Spearman {spearman(rate, gain):+.2f} (the paper: positive)"
    except Undefined as error:
        verdict = str(error)
    grid = Grid(
        ["pooling", "set", "Q, raw", "Q, unit sphere", f"improvement ({OURS.title})"],
        [[n["pooling"], n["set"], f"{n['Q raw']:.2e}", f"{n['Q unit']:.2e}", f"{n['gain']:+.2f}"] for n in numbers],
        f"{lab.title}: fluctuation rate Q, the mean model variance; improvement in Spearman x 100", labels=2,
    )  # fmt: skip
    axes = "fluctuation rate Q on the unit sphere, × 10⁴", "improvement in Spearman × 100"
    figures = {"scatter": draw(Panel(points, *axes, level=("", 0), lines=False))}
    signature, title = sets.lab.signature(pooling=",".join(POOLINGS)), "Fluctuation rate against improvement"
    return lab.result("F2", title, [grid], verdict, sets.notes, numbers, figures=figures, signature=signature)


def f3(lab: Lab) -> Result:
    """Figure 3: how many samples it takes."""
    sets = Sets(lab, paper.SETS[:5])
    names, scores = sets.defined(), defaultdict(list)
    for name in names:
        pairs, gold = sets.pairs[name], sets.gold[name]
        for samples in map(pairs.samples, range(lab.seeds)):
            for point, fewer in sampled_texts.thinned(samples, _counts):
                score = sts.correlation(OURS.pairwise(*pairs.sides(lab.of_samples(fewer))), gold)
                scores[point].append(100 * score)
    plain = float(np.mean([100 * sts.correlation(COSINE.runs(sets.pairs[n])[0], sets.gold[n]) for n in names]))
    what = f"average Spearman × 100 on {len(names)} STS sets ({OURS.title})"
    parts: list[tuple[str, str, sampled_texts.Curves, float]] = [("STS", what, sampled_texts.means(scores), plain)]
    notes = [f"The plain cosine has {plain:.2f}. The paper takes n1 up to 50 and beyond: `--samples 50`.", *sets.notes]
    texts, plain_texts, titles = sampled_texts.curves(lab, _counts)
    if titles:
        shots, draws, tests = sampled_texts.size(lab)
        what = (
            f"average accuracy × 100 on {len(titles)} sets of texts ({', '.join(titles)}: {shots} examples of "
            f"each class, {draws} draws, tested on {tests} texts of each)"
        )
        parts.append(("TC", what, texts, plain_texts))
        notes.append(
            f"The plain vector with the same head has an accuracy of {plain_texts:.2f}. Features and penalty are those "
            "that cross-validation chooses with all samples; texts are cut to what the encoder takes. One more text "
            f"that is right, in one draw, is {100 / (tests * draws * len(titles)):.2f} points: the curves are rough."
        )
    grids, panels, verdicts = [], [], []
    numbers: list[dict[str, Any]] = []
    for task, what, curves, base in parts:
        counts = sorted({count for curve in curves.values() for count in curve})
        rows = [[title, *(f"{c[n]:.2f}" if n in c else "" for n in counts)] for title, c in curves.items()]
        about = f"{lab.title}, {what}; the other source keeps all its samples"
        grids.append(Grid(["varied", *map(str, counts)], rows, about))
        series = {title: list(curve.items()) for title, curve in curves.items()}
        panels.append(Panel(series, "number of samples of that source", what.split(" (")[0], ("plain vector", base)))
        ends = [f"{t} from {min(c)} to {max(c)}: {c[max(c)] - c[min(c)]:+.2f}" for t, c in curves.items()]
        verdicts.append(f"{task}: {'; '.join(ends)}")
        numbers += [{"task": task, "varied": t, "curve": c, "plain": base} for t, c in curves.items()]
    figures = {"samples": draw(*panels)}
    return lab.result("F3", "Number of samples", grids, ". ".join(verdicts), notes, numbers, figures=figures)


def _counts(most: int) -> list[int]:
    if most < 3:
        raise Sen2ProError(f"a curve over numbers of samples needs at least 3 of them, not {most}")
    usual = (2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40, 50, 75, 100)
    return [*(count for count in usual if count < most), most]


def f4(lab: Lab) -> Result:
    """Figure 4: what the full covariance costs, in time and space, for what it gives."""
    sets = Sets(lab, ["stsb_test"])
    pairs, gold = sets.pairs["stsb_test"], sets.gold["stsb_test"]
    samples = pairs.samples()
    k = next(iter(samples.values())).shape[-1]
    full = partial(full_scores, pairs, samples)
    estimators: dict[str, tuple[int, Callable[[], Array | Array64]]] = {
        "diagonal (the paper's banding estimator)": (
            2 * k, lambda: SPHERE.pairwise(*pairs.sides(lab.of_samples(samples))),
        ),
        "full (SCE), alpha of the diagonal": (k + k * k, full),
        "full (SCE), alpha of its own": (k + k * k, partial(full, own_weight=True)),
    }  # fmt: skip
    numbers: list[dict[str, Any]] = []
    for title, (size, work) in estimators.items():
        start = time.perf_counter()
        scores = work()
        milliseconds = 1e3 * (time.perf_counter() - start) / len(gold)
        value = 100 * sts.correlation(scores, gold)
        numbers.append({"estimator": title, "spearman": value, "ms a pair": milliseconds, "bytes a sentence": 4 * size})
    rows = [
        [n["estimator"], f"{n['spearman']:.2f}", f"{n['ms a pair']:.2f}", f"{n['bytes a sentence']:,}"] for n in numbers
    ]
    grid = Grid(["estimator", "Spearman x 100", "ms a pair", "bytes a sentence"], rows, f"{lab.title}, STS-B test")
    points = {n["estimator"]: [(n["ms a pair"], n["spearman"])] for n in numbers}
    axes = "milliseconds a pair (log scale)", "Spearman × 100"
    figures = {"trade-off": draw(Panel(points, *axes, scales=("log", "linear")))}
    times, space = (numbers[1][what] / max(numbers[0][what], 1e-9) for what in ("ms a pair", "bytes a sentence"))
    verdict = f"the full covariance takes {times:.0f} times the time and {space:.0f} times the space"
    return lab.result("F4", "What the estimators cost", [grid], verdict, [], numbers, figures=figures)


def t8(lab: Lab) -> Result:
    """Table 8: the full covariance against the diagonal one."""
    sets, (shots, draws, _) = Sets(lab, paper.SETS), sampled_texts.size(lab)
    board = sets.board("task", [Row("STS", SPHERE, FULL)])
    for line in board.lines:
        line.paper = paper.T8["STS"] if line.labels[0].startswith("Average") else None
    counted, before = board.having("STS"), len(board.lines)
    sampled_texts.add_to(board, lab)
    segments = min(lab.items or _SEGMENTS, _SEGMENTS)
    _add_systems(board, lab, "Dialog", "spearman", partial(dialogue, limit=lab.items), paper.DIALOGUE)
    about = f", {segments} segments"
    _add_systems(board, lab, "NMT", "pearson", partial(translation, limit=segments), WMT_PAIRS, about)
    title = f"{lab.title}, full covariance (SCE) {ARROW} diagonal; but for TC, {SPHERE.title}"
    note = (
        f"TC: {shots} examples of each class, {draws} draws, a head that averages over the covariance in "
        "question; its penalty is what cross-validation chooses with the diagonal one, so that nothing but the "
        "estimator differs."
    )
    grids, verdict = [board.grid("BERT-base", title)], count_verdicts([*counted, *board.lines[before:]])
    title = "Full covariance against the diagonal estimator"
    return lab.result("T8", title, grids, verdict, [note, *sets.notes], board.numbers())


def _add_systems(
    board: Board, lab: Lab, task: str, kind: str, read: Callable[[str], Texts], names: Iterable[str], about: str = ""
) -> None:
    """Add the average correlation of systems' scores with human ones over several sets, with new systems for each."""
    try:
        sets, _ = available(read, names)
    except DataMissing:
        board.leave_out([f"Average of 0{about}", task], "no data", paper.T8[task])
        return

    def points(texts: Texts) -> Points:
        pairs = texts.pairing(lab, keep=True)
        ours, baseline = (map(texts.scored, reading.runs(pairs)) for reading in (SPHERE, FULL))
        return Points.of(correlated(kind), ours, baseline, len(texts.human))

    def every() -> Points:
        return average({str(i): points(texts) for i, texts in enumerate(sets.values())})

    board.add([f"Average of {len(sets)}{about}", task], every, paper.T8[task])
