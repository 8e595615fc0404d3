"""Read pairs of sentences from a table, with labels if they are wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io.sentences import Record, Source
from sen2pro.io.text import LONGEST_LINE

_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Pair(Record):
    """Two sentences (`text` is the first), and their label; without one it is NaN."""

    second: str = ""
    label: float = math.nan


class PairSource(Source):
    """The pairs of a CSV, TSV, JSONL or Parquet file (also .gz and .xz), in the columns `first` and `second`.

    With `labelled` a column `label` holds numbers, or true and false.
    """

    _blank = "a sentence of the pair is empty or blank; leave the row out"

    def __init__(self, path: str, *, labelled: bool = False, longest_line: int = LONGEST_LINE) -> None:
        super().__init__(path, longest_line=longest_line)
        self._wanted = ["first", "second", *(["label"] if labelled else [])]
        if self.kind == "text":
            raise Sen2ProError(
                f"{path} is read as plain text; pairs stand in the columns {', '.join(self._wanted)} of a .csv, .tsv, "
                ".jsonl or .parquet file"
            )

    def pairs(self, size: int) -> Iterator[list[Pair]]:
        """Yield the pairs in lists of at most `size`."""
        return cast("Iterator[list[Pair]]", self.chunks(size))

    def _columns(self, names: list[str]) -> list[str]:
        self._column(names)
        return self._wanted

    def _column(self, names: list[str], place: str = "") -> str:
        missing = [name for name in self._wanted if name not in names]
        if missing:
            remedy = f"pairs stand in the columns {', '.join(self._wanted)}"
            found = f"there is no column {missing[0]!r}, only: {', '.join(names) or 'nothing'}"
            raise self._wrong(place, f"{found}; {remedy}")
        return self._wanted[0]

    def _from_row(self, place: str, row: dict[str, Any]) -> Pair:
        self._column(list(row), place)
        first, second = (self._record(place, row[name], None).text for name in ("first", "second"))
        label = self._label(place, row["label"]) if "label" in self._wanted else math.nan
        return Pair(None, first, place, second, label)

    def _label(self, place: str, given: Any) -> float:
        text = str(given).strip().lower() if isinstance(given, (str, bool)) else given
        try:
            label = _TRUTH[text] if text in _TRUTH else float(text)
        except (TypeError, ValueError, OverflowError):
            label = math.nan
        if not math.isfinite(label):
            what = f"the label is {short_repr(given)}" if given not in (None, "") else "there is no label"
            raise self._wrong(place, f"{what}; it is 1 for a match and 0 for none, or a grade")
        return label
