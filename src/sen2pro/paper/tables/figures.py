"""Figures 1, 2 and 3: which features matter, where Sen2Pro helps, how many samples it takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import Undefined, pearson, spearman
from sen2pro.paper import numbers as paper
from sen2pro.paper import sts
from sen2pro.paper.lab import Lab, moments
from sen2pro.paper.report import Grid, Result
from sen2pro.paper.tables import plots, sampled_texts
from sen2pro.paper.tables.board import Board
from sen2pro.paper.tables.readings import OURS, SPHERE, Reading

GROUPS = ("I", "II", "III", "IV", "V")
POOLINGS = ("mean", "first-last-avg", "cls")


def importance(gaussian: Gaussian, board: Board, name: str, reading: Reading = SPHERE) -> list[float]:
    """Return how much the correlation changes without each fifth of the features, the most uncertain first; x 100.

    The groups are cut by the mean variance of a feature over the set; features that are left out are 0 in mean and
    variance.
    """
    order = np.argsort(-gaussian.variance.mean(axis=0, dtype=np.float64), kind="stable")
    left, right = board.sides(name)

    def correlation(without: NDArray[np.int64]) -> float:
        mean, variance = gaussian.mean.copy(), gaussian.variance.copy()
        mean[:, without] = variance[:, without] = 0
        kept = Gaussian(mean, variance)
        return 100 * sts.correlation(reading.pairwise(kept[left], kept[right]), board.sets[name])

    whole = correlation(order[:0])
    return [abs(whole - correlation(group)) for group in np.array_split(order, len(GROUPS))]


def f1(lab: Lab) -> Result:
    """Figure 1: the importance of five groups of features, cut by their model uncertainty."""
    board = Board(lab, paper.SETS[:5])
    rows, numbers, drawn, falls = [], [], {}, 0
    for name in board.defined():
        runs = np.array(
            [
                importance(lab.join(board.parts(name, seed, normalize=True), "m"), board, name)
                for seed in range(lab.seeds)
            ]
        )
        mean = runs.mean(axis=0)
        trend = spearman(mean, np.arange(5)[::-1]) if len(set(mean)) > 1 else 0.0
        falls += trend > 0
        spread = [
            f"{m:.2f} ({low:.2f} to {high:.2f})" for m, low, high in zip(mean, runs.min(0), runs.max(0), strict=True)
        ]
        rows.append([paper.TITLES[name], *(spread if lab.seeds > 1 else [f"{m:.2f}" for m in mean]), f"{trend:+.2f}"])
        drawn[paper.TITLES[name]] = runs
        numbers.append({"set": paper.TITLES[name], "importance": runs.tolist(), "trend": trend})
    head = ["set", *GROUPS, "trend"]
    grid = Grid(head, rows, f"{lab.title}, |change of Spearman x 100| without a group; I is the most uncertain fifth")
    verdict = f"importance falls with uncertainty, as the paper says, on {falls} of {len(rows)} sets"
    notes = [
        "Model uncertainty alone, Eq. 6 on the unit sphere. The trend is the rank correlation of importance with "
        "uncertainty over the five groups: +1 would be the paper's claim.",
        *board.notes,
    ]
    return Result("F1", "Importance of features by their uncertainty", [grid], verdict, lab.signature(), notes, numbers,
                  {"importance": plots.importance(drawn, GROUPS)})  # fmt: skip


def f2(lab: Lab) -> Result:
    """Figure 2: fluctuation rate against improvement."""
    rows, numbers, notes = [], [], []
    points: list[tuple[str, float, float]] = []
    for pooling in POOLINGS:
        board = Board(lab, paper.SETS[:5], pooling)
        notes = board.notes
        for name in board.defined():
            rates = {
                unit: np.mean(
                    [
                        board.parts(name, seed, unit)["model"].variance.mean(dtype=np.float64)
                        for seed in range(lab.seeds)
                    ]
                )
                for unit in (False, True)
            }
            ones = np.ones((1, len(board.sets[name])))
            ours = np.mean([float(s(ones)[0]) for s in board.statistics(name, OURS)])
            gain = 100 * float(ours - board.plain_statistic(name)(ones)[0])
            points.append((pooling, 1e4 * float(rates[True]), gain))
            rows.append([pooling, paper.TITLES[name], f"{rates[False]:.2e}", f"{rates[True]:.2e}", f"{gain:+.2f}"])
            numbers.append(
                {
                    "pooling": pooling,
                    "set": paper.TITLES[name],
                    "Q raw": rates[False],
                    "Q unit": rates[True],
                    "gain": gain,
                }
            )
    rate, gain_ = [p[1] for p in points], [p[2] for p in points]
    try:
        verdict = f"correlation of fluctuation rate and improvement over {len(points)} points: "
        verdict += f"Pearson {pearson(rate, gain_):+.2f}, Spearman {spearman(rate, gain_):+.2f} (the paper: positive)"
    except Undefined as error:
        verdict = str(error)
    grid = Grid(
        ["pooling", "set", "Q, raw", "Q, unit sphere", f"improvement ({OURS.title})"], rows,
        f"{lab.title}: fluctuation rate Q, the mean model variance; improvement in Spearman x 100", labels=2,
    )  # fmt: skip
    return Result("F2", "Fluctuation rate against improvement", [grid], verdict,
                  lab.signature(pooling=",".join(POOLINGS)), notes, numbers,
                  {"scatter": plots.scatter(points)})  # fmt: skip


def f3(lab: Lab) -> Result:
    """Figure 3: how many samples it takes."""
    board = Board(lab, paper.SETS[:5])
    curves: dict[str, dict[int, list[float]]] = {"n1 (model)": {}, "n2 (data)": {}}
    for name in board.defined():
        for seed in range(lab.seeds):
            samples = lab.samples_of(board.sentences(name), seed)
            for title, source in zip(curves, samples, strict=True):
                for count in _counts(samples[source].shape[1]):
                    chosen = {s: x[:, :count] if s == source else x for s, x in samples.items()}
                    joined = lab.join({s: Gaussian(*moments(x)) for s, x in chosen.items()})
                    left, right = board.sides(name)
                    score = sts.correlation(OURS.pairwise(joined[left], joined[right]), board.sets[name])
                    curves[title].setdefault(count, []).append(100 * score)
    plain = float(np.mean([100 * sts.correlation(board.plain(name), board.sets[name]) for name in board.defined()]))
    means = {title: {count: float(np.mean(v)) for count, v in curve.items()} for title, curve in curves.items()}
    what = f"average Spearman × 100 on {len(board.defined())} STS sets ({OURS.title})"
    texts, plain_texts, names = sampled_texts.curves(lab, _counts)
    parts = [("STS", what, means, plain)]
    notes = [f"The plain cosine has {plain:.2f}. The paper takes n1 up to 50 and beyond: `--samples 50`.", *board.notes]
    if names:
        shots, draws, tests = sampled_texts.SHOTS, sampled_texts.DRAWS, sampled_texts.tests(lab)
        what = (
            f"average accuracy × 100 on {len(names)} sets of texts ({', '.join(names)}: {shots} examples of each "
            f"class, {draws} draws, tested on {tests} texts of each)"
        )
        parts.append(("TC", what, texts, plain_texts))
        notes.append(
            f"The plain vector with the same head has an accuracy of {plain_texts:.2f}. Features and penalty are those "
            "that cross-validation chooses with all samples; texts are cut to what the encoder takes. One more text "
            f"that is right, in one draw, is {100 / (tests * draws * len(names)):.2f} points: the curves are rough."
        )
    return Result(
        "F3", "Number of samples", [_curve_grid(lab, what, curve) for _, what, curve, _ in parts],
        ". ".join(f"{title}: {_ends(curve)}" for title, _, curve, _ in parts), lab.signature(), notes,
        [{"task": title, "varied": t, "curve": c, "plain": base} for title, _, m, base in parts for t, c in m.items()],
        {"samples": plots.curves({what.split(" (")[0]: (curve, base) for _, what, curve, base in parts})},
    )  # fmt: skip


def _curve_grid(lab: Lab, what: str, curves: Mapping[str, Mapping[int, float]]) -> Grid:
    counts = sorted({count for curve in curves.values() for count in curve})
    rows = [[title, *(f"{c[count]:.2f}" if count in c else "" for count in counts)] for title, c in curves.items()]
    return Grid(["varied", *map(str, counts)], rows, f"{lab.title}, {what}; the other source keeps all its samples")


def _ends(curves: Mapping[str, Mapping[int, float]]) -> str:
    return "; ".join(f"{t} from {min(c)} to {max(c)}: {c[max(c)] - c[min(c)]:+.2f}" for t, c in curves.items())


def _counts(most: int) -> list[int]:
    if most < 3:
        raise Sen2ProError(f"a curve over numbers of samples needs at least 3 of them, not {most}")
    usual = (2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40, 50, 75, 100)
    return sorted({*(n for n in usual if n < most), most})
