"""A map of sentences, drawn: for plotly, which the browser has, and as a PNG file."""

from __future__ import annotations

import json
import textwrap
from html import escape
from io import BytesIO
from typing import Any

import numpy as np

from sen2pro.errors import one_of
from sen2pro.page.mapping import SentenceMap, ellipse, outline
from sen2pro.pictures import single
from sen2pro.types import Array64

COLOURS = ("group", "uncertainty")
# Of groups; people who see few colours tell them apart too, and each group has a sign of its own.
_GROUPS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b61c4", "#8c8c8c")
_SIGNS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "triangle-down")
_SIGNS_OF_FILES = ("o", "s", "D", "^", "P", "*", "h", "v")
_LEVELS = ("#2c6fbb", "#3a9ac9", "#4fb3a5", "#c9a227", "#dd7a2b", "#c0392b")  # of uncertainty, from low to high
_NUMBERED = 60  # sentences whose numbers stand beside their dots; of more they would cover each other
_WIDE = 56  # letters of a line on hover
_QUIET: dict[str, Any] = {
    "showgrid": True, "gridcolor": "rgba(128,128,128,0.18)", "zeroline": False, "showticklabels": False, "ticks": "",
}  # fmt: skip


def level(totals: Any) -> Any:
    """Return which of the six levels of uncertainty each total variance has, by its rank; equal ones have the same.

    >>> level(np.array([0.1, 0.5, 0.3, 0.5])).tolist()
    [0, 5, 3, 5]
    """
    different, ranks = np.unique(np.round(totals, 4), return_inverse=True)
    return np.minimum(ranks * len(_LEVELS) // max(1, len(different) - 1), len(_LEVELS) - 1)


def figure(drawn: SentenceMap, colour: str = "group") -> str:
    """Return the figure as plotly reads it, in JSON: dots with the text on hover, and ellipses."""
    one_of("colour", colour, COLOURS)
    by_group = colour == "group"
    kinds = drawn.groups if by_group else level(drawn.totals)
    ellipses, dots, numbered = [], [], len(drawn) <= _NUMBERED
    for kind in sorted(set(kinds.tolist())):
        rows = np.flatnonzero(kinds == kind).tolist()
        tone, name = _look(kind, drawn.totals[rows], by_group)
        corners = [outline(drawn.points[i], drawn.covariances[i]).round(4).tolist() for i in rows]
        ellipses.append(
            {
                "type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": _faint(tone), "hoverinfo": "skip",
                "line": {"color": tone, "width": 0.6}, "opacity": 0.55, "legendgroup": name, "showlegend": False,
                "x": [x for corner in corners for x in (*(x for x, _ in corner), None)],
                "y": [y for corner in corners for y in (*(y for _, y in corner), None)],
            }
        )  # fmt: skip
        dots.append(
            {
                "type": "scatter", "mode": "markers+text" if numbered else "markers", "name": name, "legendgroup": name,
                "x": drawn.points[rows, 0].round(4).tolist(), "y": drawn.points[rows, 1].round(4).tolist(),
                "marker": {"color": tone, "size": 7, "symbol": _SIGNS[kind if by_group else 0],
                           "line": {"color": "rgba(255,255,255,0.9)", "width": 0.6}},
                "text": [str(i + 1) for i in rows], "textposition": "top right", "textfont": {"size": 11},
                "hovertext": [_hover(drawn, i) for i in rows], "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )  # fmt: skip
    layout = {
        "xaxis": _QUIET, "yaxis": {**_QUIET, "scaleanchor": "x"}, "dragmode": "pan", "hovermode": "closest",
        "height": 560, "margin": {"l": 8, "r": 8, "t": 8, "b": 8}, "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)", "legend": {"orientation": "h", "y": -0.02, "itemsizing": "constant"},
        "hoverlabel": {"align": "left", "bgcolor": "#1f2937", "font": {"color": "#ffffff", "size": 13}},
    }  # fmt: skip
    config = {
        "displaylogo": False, "scrollZoom": True, "displayModeBar": True,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"],
    }  # fmt: skip
    return json.dumps({"data": [*ellipses, *dots], "layout": layout, "config": config})


def _look(kind: int, totals: Array64, by_group: bool) -> tuple[str, str]:
    """Return the colour of a group or a level, and what the legend calls it; `totals` are its total variances."""
    if by_group:
        return _GROUPS[kind], f"group {kind + 1} ({len(totals)})"
    word = {0: "specific: ", len(_LEVELS) - 1: "vague: "}.get(kind, "")
    return _LEVELS[kind], f"{word}{totals.min():.2f} to {totals.max():.2f}"


def _faint(tone: str) -> str:
    red, green, blue = (int(tone[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def _hover(drawn: SentenceMap, row: int) -> str:
    """Return what is shown of a sentence on hover; plotly reads it as a kind of HTML."""
    other = int(drawn.nearest[row])
    return (
        f"{_wrapped(f'{row + 1}. {drawn.texts[row]}', bold=True)}<br>nearest (cosine {drawn.cosines[row]:.2f}):<br>"
        f"{_wrapped(f'{other + 1}. {drawn.texts[other]}')}<br>total variance {drawn.totals[row]:.3f}"
    )


def _wrapped(text: str, bold: bool = False) -> str:
    lines = [escape(line) for line in textwrap.wrap(textwrap.shorten(text, 6 * _WIDE, placeholder=" …"), _WIDE)]
    return "<br>".join(f"<b>{line}</b>" if bold else line for line in lines)


def png(drawn: SentenceMap, colour: str = "group") -> bytes:
    """Return the map as a PNG file."""
    from matplotlib.patches import Ellipse

    one_of("colour", colour, COLOURS)
    by_group = colour == "group"
    kinds = drawn.groups if by_group else level(drawn.totals)
    picture, axes = single(9, 7)
    for kind in sorted(set(kinds.tolist())):
        rows = np.flatnonzero(kinds == kind).tolist()
        tone, name = _look(kind, drawn.totals[rows], by_group)
        for i in rows:
            width, height, angle = ellipse(drawn.covariances[i])
            axes.add_patch(Ellipse(tuple(drawn.points[i]), width, height, angle=angle, color=tone, alpha=0.14, lw=0.6))
        sign = _SIGNS_OF_FILES[kind if by_group else 0]
        x, y = drawn.points[rows].T
        axes.scatter(x, y, c=tone, marker=sign, s=18, label=name, edgecolors="white", linewidths=0.6)
    for i, (x, y) in enumerate(drawn.points):
        axes.annotate(f"{i + 1}", (x, y), textcoords="offset points", xytext=(5, 4), fontsize=7, color="#555555")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("main directions of the means; ellipses: two standard deviations", fontsize=8)
    axes.legend(fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.06))
    file = BytesIO()
    picture.savefig(file, dpi=110)
    return file.getvalue()
