"""Pictures of series of points, all drawn alike: the figures of a `Result`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sen2pro.pictures import GREY, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """Points (x, y) of each series, and the names of the axes.

    `level` is a height to compare with and its name; `at` is a place on the x axis.
    """

    series: Mapping[str, Sequence[tuple[Any, float]]]
    x: str
    y: str
    level: tuple[str, float] | None = None
    at: float | None = None
    scales: tuple[str, str] = ("linear", "linear")
    lines: bool = True


def draw(*drawn: Panel) -> Figure:
    """Draw panels side by side."""
    figure, axes = panels(len(drawn), 7 if len(drawn) == 1 else 6)
    for ax, panel in zip(axes, drawn, strict=True):
        for name, points in panel.series.items():
            ax.plot(*zip(*points, strict=True), marker="o", linestyle="-" if panel.lines else "none", label=name)
        if panel.level is not None:
            ax.axhline(panel.level[1], color=GREY, linestyle="--", label=panel.level[0] or None)
        if panel.at is not None:
            ax.axvline(panel.at, color=GREY, linestyle="--")
        ax.set(xscale=panel.scales[0], yscale=panel.scales[1], xlabel=panel.x, ylabel=panel.y)
        ax.legend(frameon=False)
    return figure
