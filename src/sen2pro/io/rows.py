"""Read documents from a table: sentences, with other columns kept as metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.io.sentences import Record, Source
from sen2pro.io.text import LONGEST_LINE


@dataclass(frozen=True)
class Document(Record):
    """A text with its metadata."""

    metadata: dict[str, Any] = field(default_factory=dict)


class DocumentSource(Source):
    """The documents of a file, as `Source` reads sentences; `metadata` names columns to keep."""

    def __init__(
        self, path: str, column: str | None = None, id_column: str | None = None, metadata: Sequence[str] = (), *,
        skip_blank: bool = False, longest_line: int = LONGEST_LINE,
    ) -> None:  # fmt: skip
        super().__init__(path, column, id_column, skip_blank=skip_blank, longest_line=longest_line)
        self.metadata = tuple(metadata)
        if self.kind == "text" and metadata:
            raise Sen2ProError(f"{path} is read as plain text, a sentence a line, and has no columns")

    def _columns(self, names: list[str]) -> list[str]:
        return list(dict.fromkeys([*super()._columns(names), *self.metadata]))

    def _column(self, names: list[str], place: str = "") -> str:
        for asked in self.metadata if not place else ():
            one_of(f"metadata column in {self.path}", asked, names)
        return super()._column(names, place)

    def _from_row(self, place: str, row: dict[str, Any]) -> Document:
        found = super()._from_row(place, row)
        kept = {name: row[name] for name in self.metadata if row.get(name) is not None}
        for name, value in kept.items():
            if not isinstance(value, (str, int, float, bool)):
                raise self._wrong(
                    place, f"column {name!r} holds {short_repr(value)}; metadata is text, number or truth"
                )
        return Document(found.id, found.text, found.place, kept)
