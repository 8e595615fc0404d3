"""Tables 2, 6, 8 and 10: sentence similarity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from sen2pro.metrics.statistics import Statistic, Undefined, mean_of
from sen2pro.paper import numbers as paper
from sen2pro.paper.lab import KINDS, Lab
from sen2pro.paper.presets import PRESETS
from sen2pro.paper.report import Line, Result, count_verdicts, line_numbers, lines_grid
from sen2pro.paper.tables.board import Board
from sen2pro.paper.tables.readings import CORRECTED, OURS, READINGS, SPHERE

Quoted = Mapping[str, tuple[float, float]]
_FULL_CHUNK = 64  # pairs whose full covariances are in memory at once


def lines_of_sets(
    board: Board,
    names: tuple[str, ...],
    label: str,
    quoted: Quoted | None,
    ours: Callable[[str], list[Statistic]],
    baseline: Callable[[str], Statistic],
    aggregation: str = "all",
) -> list[Line]:
    """Return a line for each set, and one for their average."""
    lines, kept, base = [], {}, {}
    for name in names:
        numbers = (quoted or {}).get(name)
        if name in board.missing:
            lines.append(Line([paper.TITLES[name], label], numbers, missing="no data"))
            continue
        try:
            mine, plain = ours(name), baseline(name)
        except Undefined as error:
            lines.append(Line([paper.TITLES[name], label], numbers, missing=str(error)))
            continue
        kept[name], base[name] = mine, plain
        found = board.compare(name, mine, plain, aggregation)
        missing, comparison = (found, None) if isinstance(found, str) else ("", found)
        lines.append(Line([paper.TITLES[name], label], numbers, comparison, missing))
    if len(kept) > 1:
        title = "Average" if len(kept) == len(names) else f"Average of {len(kept)}"
        said = np.mean([quoted[name] for name in kept], axis=0) if quoted else None  # over the same sets
        both = None if said is None else (float(said[0]), float(said[1]))
        lines.append(Line([title, label], both, board.average(kept, base, aggregation)))
    return lines


def t2(lab: Lab) -> Result:
    """Table 2: STS-12 to 16."""
    names = paper.SETS[:5]
    board = Board(lab, names)
    row, quoted = paper.reference(paper.T2, lab.row)
    grids, numbers = [], []
    verdicts: dict[str, list[str]] = {reading.title: [] for reading in READINGS}
    for aggregation in ("all", "wmean"):
        lines: list[Line] = []
        for reading in READINGS:
            found = lines_of_sets(
                board, names, reading.title, quoted,
                partial(board.statistics, reading=reading, aggregation=aggregation),
                partial(board.plain_statistic, aggregation=aggregation),
                aggregation,
            )  # fmt: skip
            lines += found
            verdicts[reading.title].append(f"{count_verdicts(of_sets(found))} (`{aggregation}`)")
        lines.sort(key=lambda line: _place(line, names))
        title = f"{lab.title}, Spearman x 100, aggregation `{aggregation}`"
        grids.append(lines_grid(["set", "similarity"], lines, PRESETS[row].title, title=title))
        numbers += [{"aggregation": aggregation, **n} for n in line_numbers(["set", "similarity"], lines)]
    verdict = "; ".join(f"{title}: {', '.join(found_)}" for title, found_ in verdicts.items())
    return Result(
        "T2", "STS-12 to 16, Sen2Vec (cosine) against Sen2Pro", grids, verdict, lab.signature(),
        [*paper.NOTES["T2"], *board.notes], numbers,
    )  # fmt: skip


def _place(line: Line, names: tuple[str, ...]) -> int:
    titles = [paper.TITLES[name] for name in names]
    return titles.index(line.labels[0]) if line.labels[0] in titles else len(titles)


def of_sets(lines: list[Line]) -> list[Line]:
    """Leave out the line of the average."""
    return [line for line in lines if not line.labels[0].startswith("Average")]


def t6(lab: Lab) -> Result:
    """Table 6: both uncertainties, the model's alone, the data's alone."""
    board = Board(lab, paper.SETS)
    names = ["set", "uncertainty"]
    grids, numbers, verdicts = [], [], []
    for aggregation in ("all", "wmean"):
        lines: list[Line] = []
        for reading in (SPHERE, CORRECTED):
            for kind in KINDS:
                found = lines_of_sets(
                    board, paper.SETS, f"{kind}, {reading.title}", paper.T6[kind],
                    partial(board.statistics, reading=reading, aggregation=aggregation, kind=kind),
                    partial(board.plain_statistic, aggregation=aggregation),
                    aggregation,
                )  # fmt: skip
                lines += found
                if reading is OURS:
                    verdicts.append(f"{kind} (`{aggregation}`): {count_verdicts(of_sets(found))}")
        lines.sort(key=lambda line: _place(line, paper.SETS))
        title = f"{lab.title}, Spearman x 100, aggregation `{aggregation}`"
        grids.append(lines_grid(names, lines, "BERT-base", title=title))
        numbers += [{"aggregation": aggregation, **n} for n in line_numbers(names, lines)]
    return Result(
        "T6", "Ablation of the two uncertainties on STS", grids, f"{OURS.title}: " + "; ".join(verdicts),
        lab.signature(), [*paper.NOTES["T6"], *board.notes], numbers,
    )  # fmt: skip


def t10(lab: Lab) -> Result:
    """Table 10: the two uncertainties estimated apart, or from pooled samples."""
    board = Board(lab, paper.SETS)
    lines = []
    for how in ("individual", "unified"):
        lines += lines_of_sets(
            board, paper.SETS, how, paper.T10[how],
            partial(board.statistics, reading=SPHERE, how=how),
            board.plain_statistic,
        )  # fmt: skip
    lines.sort(key=lambda line: _place(line, paper.SETS))
    quoted = {name: (paper.T10["unified"][name][1], paper.T10["individual"][name][1]) for name in paper.T10["unified"]}

    def unified(name: str) -> Statistic:
        return mean_of(board.statistics(name, SPHERE, how="unified"))

    direct = lines_of_sets(
        board, paper.SETS, "unified to individual", quoted, partial(board.statistics, reading=SPHERE), unified
    )
    names = ["set", "estimation"]
    grids = [
        lines_grid(
            names, lines, "BERT-base", title=f"{lab.title}, Spearman x 100, Sen2Vec to Sen2Pro ({SPHERE.title})"
        ),
        lines_grid(names, direct, "BERT-base", title="The two against each other"),
    ]
    verdict = f"individual against unified estimation: {count_verdicts(of_sets(direct))}"
    return Result(
        "T10", "Individual against unified estimation", grids, verdict, lab.signature(),
        [*paper.NOTES["T10"], *board.notes], line_numbers(names, [*lines, *direct]),
    )  # fmt: skip
