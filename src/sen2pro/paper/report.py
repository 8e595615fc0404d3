"""What `reproduce` found: tables, notes, figures and a verdict, as text, Markdown, JSON and one HTML page."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sen2pro.errors import Sen2ProError
from sen2pro.files.atomic import write_text
from sen2pro.metrics.statistics import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

ARROW = "→"


@dataclass
class Grid:
    """A table of texts; the first `labels` columns are names, the others numbers."""

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    labels: int = 1


@dataclass
class Line:
    """One comparison with the paper: where, what the paper says (Sen2Vec, Sen2Pro), what we found, or why nothing."""

    labels: list[str]
    paper: tuple[float, float] | None = None
    ours: Comparison | None = None
    missing: str = ""


@dataclass
class Result:
    """A table or figure of the paper, made anew.

    `numbers` holds every figure for the JSON file, `figures` what is drawn, by name.
    """

    id: str
    title: str
    grids: list[Grid]
    verdict: str
    signature: str = ""
    notes: list[str] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)


def lines_grid(names: Sequence[str], lines: Sequence[Line], paper: str, *, title: str = "", digits: int = 2) -> Grid:
    """Lay out comparisons, one to a row, with the paper's numbers beside ours."""
    several = any(line.ours and line.ours.sd is not None for line in lines)
    header = [*names, f"paper ({paper})", "ours", *(["sd"] if several else []), "gain [95 %]", "p", "verdict"]
    rows = []
    for line in lines:
        quoted = f"{line.paper[0]:.{digits}f} {ARROW} {line.paper[1]:.{digits}f}" if line.paper else "–"
        if line.ours is None:
            rows.append([*line.labels, quoted, line.missing or "–", *([""] if several else []), "", "", ""])
            continue
        c = line.ours
        spread = [f"{c.sd:.{digits}f}" if c.sd is not None else ""] if several else []
        gain = f"{c.gain:+.{digits}f} [{c.low:+.{digits}f}, {c.high:+.{digits}f}]"
        rows.append(
            [
                *line.labels, quoted, f"{c.baseline:.{digits}f} {ARROW} {c.value:.{digits}f}", *spread, gain,
                format_p(c.p), c.verdict,
            ]
        )  # fmt: skip
    return Grid(header, rows, title, labels=len(names))


def line_numbers(names: Sequence[str], lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            **dict(zip(names, line.labels, strict=True)),
            "paper": list(line.paper) if line.paper else None,
            "ours": line.ours.to_dict() if line.ours else None,
            **({"missing": line.missing} if line.missing else {}),
        }
        for line in lines
    ]


def format_p(p: float) -> str:
    """Return a p-value as it is printed.

    >>> format_p(0.0004), format_p(0.21)
    ('<.001', '.210')
    """
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def count_verdicts(lines: Sequence[Line]) -> str:
    """Sum up the verdicts of several comparisons in words.

    >>> c = Comparison(1, 2, 0.5, 1.5, 0.01, 100)
    >>> count_verdicts([Line(["x"], ours=c), Line(["y"], ours=c)])
    'better in 2 of 2'
    """
    found = [line.ours.verdict for line in lines if line.ours]
    counts = {name: found.count(name) for name in ("better", "no difference", "worse", "too few")}
    words = {
        "better": "better in",
        "no difference": "no difference in",
        "worse": "worse in",
        "too few": "too few points in",
    }
    return ", ".join(f"{words[name]} {n} of {len(found)}" for name, n in counts.items() if n) or "nothing to compare"


def print_result(result: Result, console: Console) -> None:
    """Print a result on a terminal."""
    from rich.table import Table
    from rich.text import Text

    colours = {"better": "green", "worse": "red"}
    console.print(f"\n{result.id}: {result.title}", style="bold", highlight=False)
    for grid in result.grids:
        table = Table(title=grid.title or None, title_justify="left")
        for i, name in enumerate(grid.header):
            narrow = name in ("p", "sd", "verdict")
            side: Literal["left", "right"] = "left" if i < grid.labels or name == "verdict" else "right"
            table.add_column(name, justify=side, no_wrap=narrow, overflow="fold")
        for row, after in zip(grid.rows, [*grid.rows[1:], None], strict=True):
            ends = grid.labels > 1 and after is not None and after[0] != row[0]
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row), end_section=ends)
        console.print(table)
    console.print(f"verdict: {result.verdict}", highlight=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    console.print(f"signature: {result.signature}", style="dim", markup=False, highlight=False, soft_wrap=True)


def to_markdown(result: Result, *, level: int = 2, pictures: str = "") -> str:
    """Return a result as Markdown; pictures are looked for in the folder `pictures`."""
    parts = [f"{'#' * level} {result.id}: {result.title}", f"**Verdict:** {result.verdict}"]
    for grid in result.grids:
        if grid.title:
            parts.append(f"*{grid.title}*")
        rule = ["---" if i < grid.labels else "---:" for i in range(len(grid.header))]
        rows = [grid.header, rule, *grid.rows]
        parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows))
    parts += [f"![{result.id}, {name}]({pictures}{result.id}-{name}.png)" for name in result.figures]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    parts.append(f"`{result.signature}`")
    return "\n\n".join(parts) + "\n"


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as plain data."""
    return {
        "id": result.id,
        "title": result.title,
        "verdict": result.verdict,
        "signature": result.signature,
        "notes": result.notes,
        "grids": [vars(grid) for grid in result.grids],
        "numbers": result.numbers,
        "figures": sorted(result.figures),
    }


def write(results: Sequence[Result], folder: str | Path) -> list[Path]:
    """Write each result as JSON, Markdown, PNG and SVG, and all in the folder as one HTML page; return the files."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise Sen2ProError(f"{target} is not a folder")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for result in results:
        for name, figure in result.figures.items():
            for suffix in ("png", "svg"):
                path = target / f"{result.id}-{name}.{suffix}"
                figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == "svg" else None)
                written.append(path)
        written.append(
            write_text(target / f"{result.id}.json", json.dumps(to_json(result), indent=1, ensure_ascii=False) + "\n")
        )
        written.append(write_text(target / f"{result.id}.md", to_markdown(result)))
    written.append(write_text(target / "report.html", to_html(target)))
    return written


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th.label, td.label { text-align: left; } .better { color: #18794e; font-weight: 600; } .worse { color: #b42318; }
.signature { color: #777; font: 12px monospace; overflow-wrap: anywhere; } .note { color: #7a5b00; }
nav a { margin-right: .7rem; } img { max-width: 100%; }
"""


def to_html(folder: Path) -> str:
    """Return one page with every result in a folder, pictures inside it: it needs no network and no other file."""
    found = [result for path in sorted(folder.glob("*.json"), key=report_order) for result in _read(path)]
    body = io.StringIO()
    links = " ".join(f'<a href="#{r["id"]}">{r["id"]}</a>' for r in found)
    body.write(f"<h1>Sen2Pro: the tables and figures of the paper, made anew</h1><nav>{links}</nav>")
    for result in found:
        body.write(f'<h2 id="{result["id"]}">{result["id"]}: {html.escape(result["title"])}</h2>')
        body.write(f"<p><b>Verdict:</b> {html.escape(result['verdict'])}</p>")
        for grid in result["grids"]:
            body.write(_html_table(grid))
        for name in result["figures"]:
            picture = folder / f"{result['id']}-{name}.svg"
            if picture.is_file():
                data = base64.b64encode(picture.read_bytes()).decode()
                body.write(f'<img alt="{result["id"]}, {html.escape(name)}" src="data:image/svg+xml;base64,{data}">')
        body.write("".join(f'<p class="note">{html.escape(note)}</p>' for note in result["notes"]))
        body.write(f'<p class="signature">{html.escape(result["signature"])}</p>')
    title = "<title>Sen2Pro, reproduced</title>"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">{title}<style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body.getvalue()}</body></html>\n'


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the result in a file, or nothing where it is a file of somebody else's."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return []
    return [found] if isinstance(found, dict) and "grids" in found else []


def _html_table(grid: dict[str, Any]) -> str:
    def cells(row: list[str], tag: str) -> str:
        marked = []
        for i, cell in enumerate(row):
            names = ["label"] if i < grid["labels"] else []
            names += [cell] if cell in ("better", "worse") else []
            marked.append(f'<{tag} class="{" ".join(names)}">{html.escape(cell)}</{tag}>')
        return f"<tr>{''.join(marked)}</tr>"

    caption = f"<caption>{html.escape(grid['title'])}</caption>" if grid["title"] else ""
    rows = "".join(cells(row, "td") for row in grid["rows"])
    return f"<table>{caption}<thead>{cells(grid['header'], 'th')}</thead><tbody>{rows}</tbody></table>"


def report_order(path: Path) -> tuple[str, int]:
    """Tables before figures before theorems, each by number."""
    letters = path.stem.rstrip("0123456789")
    number = path.stem[len(letters) :]
    return {"T": "0", "F": "1", "Th": "2"}.get(letters, "3"), int(number or 0)
