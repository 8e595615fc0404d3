"""The pictures of the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro.pictures import BLUE, GREY, RED, panels, single

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def importance(runs: Mapping[str, Any], groups: Sequence[str]) -> Figure:
    """Bars of the importance of each group of features, set by set, with the range over runs."""
    figure, axes = single(8)
    width = 0.8 / len(runs)
    for i, (name, values) in enumerate(runs.items()):
        mean = values.mean(axis=0)
        places = np.arange(len(groups)) + (i - (len(runs) - 1) / 2) * width
        axes.bar(places, mean, width, label=name, yerr=[mean - values.min(axis=0), values.max(axis=0) - mean])
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlabel("fifths of the features, I = most uncertain")
    axes.set_ylabel("importance: |change of Spearman × 100|")
    axes.legend(frameon=False)
    return figure


def scatter(points: Sequence[tuple[str, float, float]]) -> Figure:
    """Fluctuation rate against improvement, a colour for each pooling."""
    figure, axes = single()
    for name in dict.fromkeys(point[0] for point in points):
        mine = [point for point in points if point[0] == name]
        axes.scatter([p[1] for p in mine], [p[2] for p in mine], label=name)
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xlabel("fluctuation rate Q on the unit sphere, × 10⁴")
    axes.set_ylabel("improvement in Spearman × 100")
    axes.legend(title="pooling", frameon=False)
    return figure


def curves(tasks: Mapping[str, tuple[Mapping[str, Mapping[int, float]], float]]) -> Figure:
    """Score by number of samples, a panel for each task, with that of the plain vector."""
    figure, axes = panels(len(tasks), 6)
    for panel, (what, (means, plain)) in zip(axes, tasks.items(), strict=True):
        for name, curve in means.items():
            panel.plot(list(curve), list(curve.values()), marker="o", label=name)
        panel.axhline(plain, color=GREY, linestyle="--", label="plain vector")
        panel.set_xlabel("number of samples of that source")
        panel.set_ylabel(what)
        panel.legend(frameon=False)
    return figure


def trade_off(points: Sequence[tuple[str, float, float]]) -> Figure:
    """Score against time, for each estimator."""
    figure, axes = single()
    for (name, milliseconds, value), colour in zip(points, (BLUE, RED, GREY), strict=True):
        axes.scatter([milliseconds], [value], color=colour, s=80)
        axes.annotate(name, (milliseconds, value), xytext=(6, 8), textcoords="offset points")
    axes.set_xscale("log")
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    axes.set_xlim(low / 3, high * 20)
    axes.margins(y=0.3)
    axes.set_xlabel("milliseconds a pair (log scale)")
    axes.set_ylabel("Spearman × 100")
    return figure


def rates(by_n: Mapping[int, float], by_k: Mapping[int, float], exponents: tuple[float, float]) -> Figure:
    """Error of the diagonal estimator by number of samples and by dimension."""
    figure, axes = single()
    axes.loglog(list(by_n), list(by_n.values()), marker="o", color=BLUE, label=f"by n: n^{exponents[0]:.2f}")
    axes.loglog(list(by_k), list(by_k.values()), marker="s", color=RED, label=f"by k: (log k)^{exponents[1]:.2f}")
    axes.set_xlabel("samples n, or dimensions k")
    axes.set_ylabel("median of the largest error of a variance")
    axes.legend(frameon=False)
    return figure


def shares(found: Mapping[int, Mapping[float, float]]) -> Figure:
    """Share of trials in which Theorem 2's inequality holds, on both sides of its condition."""
    figure, axes = single()
    for n, curve in found.items():
        axes.plot(list(curve), list(curve.values()), marker="o", label=f"{n} samples")
    axes.axvline(1, color=GREY, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlabel("ε as a multiple of the theorem's bound")
    axes.set_ylabel("share of trials where Sen2Pro is closer")
    axes.legend(frameon=False)
    return figure
