"""Figures 1, 2 and 3: which features matter, where Sen2Pro helps, how many samples it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.metrics import sts
from sen2pro.metrics.charts import Panel, draw
from sen2pro.metrics.report import Grid, Result
from sen2pro.metrics.statistics import Undefined, pearson, spearman
from sen2pro.metrics.sts import Pairs
from sen2pro.paper import numbers as paper
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables import sampled_texts
from sen2pro.paper.tables.pairs import COSINE, OURS, SPHERE, Pairing, Reading
from sen2pro.paper.tables.similarity import Sets

GROUPS = ("I", "II", "III", "IV", "V")
POOLINGS = ("mean", "first-last-avg", "cls")


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
    head = ["set", *GROUPS, "trend"]
    grid = Grid(head, rows, f"{lab.title}, |change of Spearman x 100| without a group; I is the most uncertain fifth")
    falls = sum(number["trend"] > 0 for number in numbers)
    notes = [
        "Model uncertainty alone, Eq. 6 on the unit sphere. The trend is the rank correlation of importance with "
        "uncertainty over the five groups: +1 would be the paper's claim.",
        *sets.notes,
    ]
    axes = "fifths of the features, I = most uncertain", "importance: |change of Spearman × 100|"
    return Result(
        "F1", "Importance of features by their uncertainty", [grid],
        f"importance falls with uncertainty, as the paper says, on {falls} of {len(rows)} sets", lab.signature(), notes,
        numbers, {"importance": draw(Panel(drawn, *axes))},
    )  # fmt: skip


def f2(lab: Lab) -> Result:
    """Figure 2: fluctuation rate against improvement."""
    numbers: list[dict[str, Any]] = []
    notes: list[str] = []
    for pooling in POOLINGS:
        sets = Sets(lab, paper.SETS[:5], pooling)
        notes = sets.notes
        for name in sets.defined():
            pairs, gold = sets.pairs[name], sets.gold[name]
            raw, unit = (
                float(np.mean([_fluctuation(pairs, seed, normalize) for seed in range(lab.seeds)]))
                for normalize in (False, True)
            )
            ours, plain = (
                np.mean([sts.correlation(scores, gold) for scores in reading.runs(pairs)]) for reading in (OURS, COSINE)
            )
            about = {"pooling": pooling, "set": paper.TITLES[name]}
            numbers.append({**about, "Q raw": raw, "Q unit": unit, "gain": 100 * float(ours - plain)})
    rate, gain = [1e4 * n["Q unit"] for n in numbers], [n["gain"] for n in numbers]
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
    points = {
        f"{pooling} pooling": [(1e4 * n["Q unit"], n["gain"]) for n in numbers if n["pooling"] == pooling]
        for pooling in POOLINGS
    }
    axes = "fluctuation rate Q on the unit sphere, × 10⁴", "improvement in Spearman × 100"
    return Result(
        "F2", "Fluctuation rate against improvement", [grid], verdict, lab.signature(pooling=",".join(POOLINGS)), notes,
        numbers, {"scatter": draw(Panel(points, *axes, level=("", 0), lines=False))},
    )  # fmt: skip


def _fluctuation(pairs: Pairing, seed: int, normalize: bool) -> float:
    return float(pairs.parts(seed, normalize=normalize)["model"].variance.mean(dtype=np.float64))


def f3(lab: Lab) -> Result:
    """Figure 3: how many samples it takes."""
    sets = Sets(lab, paper.SETS[:5])
    curves: dict[str, dict[int, list[float]]] = {"n1 (model)": {}, "n2 (data)": {}}
    for name in sets.defined():
        pairs, gold = sets.pairs[name], sets.gold[name]
        for seed in range(lab.seeds):
            samples = pairs.samples(seed)
            for title, source in zip(curves, samples, strict=True):
                for count in _counts(samples[source].shape[1]):
                    some = lab.of_samples(sampled_texts.first(samples, source, count))
                    score = sts.correlation(OURS.pairwise(*pairs.sides(some)), gold)
                    curves[title].setdefault(count, []).append(100 * score)
    plain = float(np.mean([100 * sts.correlation(COSINE.runs(sets.pairs[n])[0], sets.gold[n]) for n in sets.defined()]))
    means = {title: {count: float(np.mean(v)) for count, v in curve.items()} for title, curve in curves.items()}
    what = f"average Spearman × 100 on {len(sets.defined())} STS sets ({OURS.title})"
    texts, plain_texts, names = sampled_texts.curves(lab, _counts)
    parts = [("STS", what, means, plain)]
    notes = [f"The plain cosine has {plain:.2f}. The paper takes n1 up to 50 and beyond: `--samples 50`.", *sets.notes]
    if names:
        size = sampled_texts.size(lab)
        what = (
            f"average accuracy × 100 on {len(names)} sets of texts ({', '.join(names)}: {size.shots} examples of each "
            f"class, {size.draws} draws, tested on {size.tests} texts of each)"
        )
        parts.append(("TC", what, texts, plain_texts))
        step = 100 / (size.tests * size.draws * len(names))
        notes.append(
            f"The plain vector with the same head has an accuracy of {plain_texts:.2f}. Features and penalty are those "
            "that cross-validation chooses with all samples; texts are cut to what the encoder takes. One more text "
            f"that is right, in one draw, is {step:.2f} points: the curves are rough."
        )
    return Result(
        "F3", "Number of samples", [_curve_grid(lab, what, curve) for _, what, curve, _ in parts],
        ". ".join(f"{title}: {_ends(curve)}" for title, _, curve, _ in parts), lab.signature(), notes,
        [{"task": title, "varied": t, "curve": c, "plain": base} for title, _, m, base in parts for t, c in m.items()],
        {"samples": draw(*(_curve_panel(what, curve, base) for _, what, curve, base in parts))},
    )  # fmt: skip


Curves = Mapping[str, Mapping[int, float]]  # what is varied -> number of samples -> score


def _curve_grid(lab: Lab, what: str, curves: Curves) -> Grid:
    counts = sorted({count for curve in curves.values() for count in curve})
    rows = [[title, *(f"{c[count]:.2f}" if count in c else "" for count in counts)] for title, c in curves.items()]
    return Grid(["varied", *map(str, counts)], rows, f"{lab.title}, {what}; the other source keeps all its samples")


def _curve_panel(what: str, curves: Curves, plain: float) -> Panel:
    series = {title: list(curve.items()) for title, curve in curves.items()}
    return Panel(series, "number of samples of that source", what.split(" (")[0], ("plain vector", plain))


def _ends(curves: Curves) -> str:
    return "; ".join(f"{t} from {min(c)} to {max(c)}: {c[max(c)] - c[min(c)]:+.2f}" for t, c in curves.items())


def _counts(most: int) -> list[int]:
    if most < 3:
        raise Sen2ProError(f"a curve over numbers of samples needs at least 3 of them, not {most}")
    usual = (2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40, 50, 75, 100)
    return sorted({*(n for n in usual if n < most), most})
