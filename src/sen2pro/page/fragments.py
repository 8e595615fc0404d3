"""The answers as HTML. Every text of a visitor's is escaped here; no other file writes HTML around one."""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

from sen2pro.calibration.comparison import Comparison
from sen2pro.calibration.default import HIGHEST
from sen2pro.page.mapping import SentenceMap
from sen2pro.specificity.measure import Explanation

if TYPE_CHECKING:
    from sen2pro.search import Result

_WIDTH, _RADIUS = 240, 96  # of the dial
_FEW = 20  # sentences of a map whose table is open


def message(text: str) -> str:
    """Return what is wrong, for the place where the answer would stand.

    >>> message("no <b> here")
    '<div class="s2p-error" role="alert">no &lt;b&gt; here</div>'
    """
    return f'<div class="s2p-error" role="alert">{escape(text)}</div>'


def note(text: str) -> str:
    """Return something to know, where nothing is wrong."""
    return f'<div class="s2p-note" role="status">{escape(text)}</div>'


def progress(done: int, total: int, what: str) -> str:
    """Return a bar that says how far the work is.

    >>> "16 of 200 sentences" in progress(16, 200, "sentences")
    True
    """
    label = f"{done:,} of {total:,} {escape(what)}"
    return (
        f'<div class="s2p-progress" role="status"><progress max="{total}" value="{done}" aria-label="{label}">'
        f"</progress><span>{label}</span></div>"
    )


def download(label: str, name: str, kind: str, content: bytes) -> str:
    """Return a link that holds a file: the server keeps no copy of it.

    >>> download("CSV", "a.csv", "text/csv", b"a")
    '<a class="s2p-download" download="a.csv" href="data:text/csv;base64,YQ==">CSV</a>'
    """
    held = base64.b64encode(content).decode()
    return (
        f'<a class="s2p-download" download="{escape(name)}" href="data:{escape(kind)};base64,{held}">'
        f"{escape(label)}</a>"
    )


def table_file(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a link that holds a table as CSV."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([_no_formula(cell) for cell in row] for row in (header, *rows))
    return download("Download CSV", name, "text/csv;charset=utf-8", file.getvalue().encode())


def _no_formula(cell: Any) -> Any:
    """Return a cell that spreadsheets show and do not calculate.

    >>> _no_formula("=1+1"), _no_formula(-1.5)
    ("'=1+1", -1.5)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def comparison(answer: Comparison, first: str, second: str) -> str:
    """Return how two sentences compare: in words, as a dial, and as a file."""
    headline, *more = str(answer).rstrip(".").split(". ")
    words = "".join(f"<p>{escape(sentence)}.</p>" for sentence in more)
    names = ("probability", "similarity", "low", "high")
    numbers = [round(getattr(answer, name), 4) for name in names]
    file = table_file(
        "comparison.csv", ("first", "second", *names, "vaguer"), [(first, second, *numbers, answer.vaguer or "")]
    )
    return (
        f'<section class="s2p-answer s2p-{answer.word}" role="status"><div class="s2p-words">'
        f"<h2>{escape(headline)}</h2>{words}<p>{file}</p></div>{dial(answer)}</section>"
    )


def dial(answer: Comparison) -> str:
    """Return the graded similarity as a dial from 0 to 5, with its interval as a broad arc."""
    middle = _WIDTH / 2

    def at(grade: float, radius: float = _RADIUS) -> tuple[float, float]:
        turn = pi * (1 - grade / HIGHEST)
        return round(middle + radius * cos(turn), 1), round(middle - 8 - radius * sin(turn), 1)

    def arc(start: float, end: float) -> str:
        (x1, y1), (x2, y2) = at(start), at(end)
        return f"M {x1} {y1} A {_RADIUS} {_RADIUS} 0 0 1 {x2} {y2}"

    tip, foot = at(answer.similarity, _RADIUS + 11), at(answer.similarity, _RADIUS - 11)
    ticks = "".join(
        f'<text x="{at(grade, _RADIUS - 22)[0]}" y="{at(grade, _RADIUS - 22)[1] + 4}">{grade}</text>'
        for grade in range(int(HIGHEST) + 1)
    )
    said = (
        f"similarity {answer.similarity:.1f} of {HIGHEST:.0f}, probably between {answer.low:.1f} and {answer.high:.1f}"
    )
    low, high = min(answer.low, HIGHEST - 0.02), max(answer.high, answer.low + 0.02)
    return (
        f'<svg class="s2p-dial" viewBox="0 0 {_WIDTH} {middle + 14:.0f}" role="img" aria-label="{said}">'
        f'<path class="s2p-scale" d="{arc(0, HIGHEST)}"/>'
        f'<path class="s2p-interval" d="{arc(low, min(high, HIGHEST))}"/>'
        f'<line x1="{foot[0]}" y1="{foot[1]}" x2="{tip[0]}" y2="{tip[1]}"/><g class="s2p-ticks">{ticks}</g>'
        f'<text class="s2p-value" x="{middle}" y="{middle - 24}">{answer.similarity:.1f}</text>'
        f'<text class="s2p-range" x="{middle}" y="{middle - 4}">{answer.low:.1f} to {answer.high:.1f}</text></svg>'
    )


def shaded(name: str, explanation: Explanation) -> str:
    """Return a sentence with each word shaded by how far the meaning moves without it; the number stands below it."""
    strongest = max(float(explanation.share.max()), 1e-9)
    words = []
    for word, share, move in zip(explanation.words, explanation.share, explanation.moves, strict=True):
        said = f"Without “{word}” the sentence moves by {move:.2f} (1 − cosine): {share:.0%} of all moves"
        words.append(
            f'<span class="s2p-word" style="--shade:{share / strongest:.2f}" title="{escape(said)}">'
            f"<span>{escape(word)}</span><small>{100 * share:.0f} %</small></span>"
        )
    return f'<div class="s2p-shaded"><h3>{escape(name)}</h3><p dir="auto">{" ".join(words)}</p></div>'


def rows_of(drawn: SentenceMap) -> list[tuple[Any, ...]]:
    """Return a map as the rows of a table: number, sentence, group, total variance, nearest, cosine, x, y."""
    return [
        (
            i + 1, text, int(drawn.groups[i]) + 1, round(float(drawn.totals[i]), 4), int(drawn.nearest[i]) + 1,
            round(float(drawn.cosines[i]), 4), *drawn.points[i].round(4).tolist(),
        )
        for i, text in enumerate(drawn.texts)
    ]  # fmt: skip


def map_table(drawn: SentenceMap, picture: bytes) -> str:
    """Return the sentences of a map as a table, the vaguest first, and both files."""
    rows = rows_of(drawn)
    file = table_file("map.csv", ("number", "sentence", "group", "total_variance", "nearest", "cosine", "x", "y"), rows)
    body = "".join(
        f'<tr><td class="s2p-number">{number}</td><td>{escape(text)}</td><td class="s2p-number">{group}</td>'
        f'<td class="s2p-number">{total:.3f}</td><td>{near}. {escape(drawn.texts[near - 1])}</td></tr>'
        for number, text, group, total, near, *_ in sorted(rows, key=lambda row: -row[3])
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("#", "sentence", "group", "total variance", "nearest"))
    return (
        f"<p>{file} {download('Download PNG', 'map.png', 'image/png', picture)}</p>"
        f"<details{' open' if len(drawn) <= _FEW else ''}>"
        f"<summary>All {len(drawn)} sentences as a table, the most uncertain first</summary>"
        f'<div class="s2p-scroll" tabindex="0" role="region" aria-label="Sentences of the map"><table><thead><tr>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def hits(result: Result, documents: int) -> str:
    """Return what a search found: the answer, or that there is no good match, and all hits below it."""
    answer = result.answer
    if answer is None:
        headline, kind = str(result), "unlikely"
        more = "None of the documents is likely to be the answer. The nearest ones are below."
    else:
        kind = "likely" if answer.probability is not None else "unsure"
        headline = answer.text
        sure = f"{100 * answer.probability:.0f} % likely right" if answer.probability is not None else "not calibrated"
        more = f"Best match of {documents:,} documents: {sure}."
    body = "".join(
        f'<li><div class="s2p-hit"><span>{escape(hit.text)}</span>{_bar(hit.probability)}'
        f"<small>similarity {hit.similarity:.2f}, document {int(hit.id) + 1}</small></div></li>"
        for hit in result
    )
    file = table_file(
        "hits.csv", ("question", "document", "text", "probability", "similarity"),
        [
            (result.query, int(hit.id) + 1, hit.text, "" if hit.probability is None else round(hit.probability, 4),
             round(hit.similarity, 4))
            for hit in result
        ],
    )  # fmt: skip
    return (
        f'<section class="s2p-answer s2p-{kind}" role="status"><div class="s2p-words"><h2>{escape(headline)}</h2>'
        f'<p>{escape(more)}</p></div></section><ol class="s2p-hits">{body}</ol><p>{file}</p>'
    )


def _bar(probability: float | None) -> str:
    if probability is None:
        return "<b>–</b>"
    return (
        f'<span class="s2p-bar" style="--part:{probability:.3f}" aria-hidden="true"></span>'
        f"<b>{100 * probability:.0f} %</b>"
    )


def classes(
    texts: Sequence[str], labels: Sequence[str], probabilities: Sequence[Sequence[float]], sure: Sequence[bool]
) -> str:
    """Return the class of each text with all probabilities; `sure` says whether one is likely."""
    cards, rows = [], []
    for text, shares, is_sure in zip(texts, probabilities, sure, strict=True):
        order = sorted(range(len(labels)), key=lambda i: -shares[i])
        best = labels[order[0]]
        verdict = best if is_sure else f"unsure (perhaps {best})"
        bars = "".join(
            f'<li><div class="s2p-hit"><span>{escape(labels[i])}</span>{_bar(shares[i])}</div></li>' for i in order
        )
        cards.append(
            f'<section class="s2p-answer s2p-{"likely" if is_sure else "unsure"}"><div class="s2p-words">'
            f"<h2>{escape(verdict)}</h2><p>{escape(text)}</p></div><ul>{bars}</ul></section>"
        )
        rows.append((text, best, "yes" if is_sure else "no", *(round(share, 4) for share in shares)))
    file = table_file("classes.csv", ("text", "label", "likely", *labels), rows)
    return f'<div role="status">{"".join(cards)}</div><p>{file}</p>'
