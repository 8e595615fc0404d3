"""The numbers that the paper prints, as it prints them (`numbers.json`); notes say where they cannot be right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from sen2pro_lab.paper.catalogue import WMT_PAIRS

Row = TypeVar("Row")
Pair = tuple[float, float]

_OTHERS = {"stsb_test": "STS-B", "sick_test": "SICK-R", "stsb_dev": "STS-B dev", "sick_trial": "SICK trial"}
TITLES = {**{f"sts{year}": f"STS-{year}" for year in range(12, 17)}, **_OTHERS}
SETS = tuple(TITLES)[:7]
DIALOGUE = {"paper_daily_h": "Daily(H)", "paper_convai2": "Convai2", "paper_empathetic": "Empathetic"}
WMT_COLUMNS = (*WMT_PAIRS, "average")
TEXT_TITLES = {"ag_news": "AG News", "dbpedia14": "DBpedia", "yahoo": "Yahoo", "imdb": "IMDB"}
_SHOTS: tuple[int | str, ...] = (10, 200, "full")
_PRINTED: dict[str, Any] = json.loads(files("sen2pro_lab.paper").joinpath("numbers.json").read_text(encoding="utf-8"))
NOTES: dict[str, list[str]] = _PRINTED["notes"]


def _pairs(columns: Sequence[str], values: Sequence[Sequence[float]]) -> dict[str, Pair]:
    return {column: (first, second) for column, (first, second) in zip(columns, values, strict=True)}


T1: dict[str, dict[int | str, Pair]] = {
    name: {shots: tuple(row[str(shots)]) for shots in _SHOTS} for name, row in _PRINTED["T1"].items()
}
T2 = {preset: _pairs((*SETS[:5], "average"), row) for preset, row in _PRINTED["T2"].items()}
T3: dict[str, dict[str, Pair]]
T3 = {preset: {measure: tuple(both) for measure, both in row.items()} for preset, row in _PRINTED["T3"].items()}
T4 = {metric: _pairs(list(DIALOGUE), row) for metric, row in _PRINTED["T4"].items()}
T5, T11 = (
    {metric: dict[str, float](zip(WMT_COLUMNS, row, strict=True)) for metric, row in _PRINTED[name].items()}
    for name in ("T5", "T11")
)
T6 = {  # each number after that of BERT-base
    kind: _pairs((*SETS, "average"), list(zip(_PRINTED["T6"]["plain"], _PRINTED["T6"][kind], strict=True)))
    for kind in ("m+d", "m", "d")
}
T7: dict[str, dict[str, dict[int | str, Pair]]] = {
    kind: {
        name: {shots: (T1[name][shots][0], value) for shots, value in zip(_SHOTS, values, strict=True)}
        for name, values in rows.items()
    }
    for kind, rows in _PRINTED["T7"].items()
}
T8, T9 = (_pairs(list(_PRINTED[name]), list(_PRINTED[name].values())) for name in ("T8", "T9"))
T10 = {"individual": T6["m+d"], "unified": T6["m"]}


def reference(table: Mapping[str, Row], preset: str) -> tuple[str, Row]:
    """Return whose row of the paper stands beside an encoder, its own or BERT-base's, and the row."""
    name = preset if preset in table else "bert-base"
    return name, table[name]
