"""Empty pictures, for those who draw: the colours, and axes that need no window."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, RED = "#2a6f97", "#adb5bd", "#c1121f"


def panels(count: int, width: float = 7, height: float = 4) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many axes side by side, of that size each (inches)."""
    if find_spec("matplotlib") is None:
        raise Sen2ProError("pictures need matplotlib: pip install 'sen2pro[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    FigureCanvasAgg(figure)
    every = [figure.add_subplot(1, count, i + 1) for i in range(count)]
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, every


def single(width: float = 7, height: float = 4) -> tuple[Figure, Axes]:
    """Return a figure and its axes."""
    figure, (axes,) = panels(1, width, height)
    return figure, axes
