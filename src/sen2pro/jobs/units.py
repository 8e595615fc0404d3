"""A unit of work: some thousand rows that are encoded in chunks, written as one file, and lost or kept as a whole.

Which rows share a chunk follows from their place in the input alone. So the numbers do not depend on who encodes a
unit, how fast, and how often a run was stopped.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning, first_line
from sen2pro.io import documents, encoding
from sen2pro.io.gaussians import GaussianWriter, Piece, outline
from sen2pro.io.inputs import Record, printable
from sen2pro.io.rows import Fault
from sen2pro.io.shards import MOST_SKIPPED
from sen2pro.model import Sen2Pro
from sen2pro.validation import is_blank

NOTE = "sen2pro.unit"  # where a file of a unit or a shard keeps its report
Advance = Callable[[float], None]
_REPORT = documents.record(
    {
        "rows": documents.COUNT, "cut": documents.COUNT, "limit": documents.COUNT, "far": documents.COUNT,
        "skipped": documents.list_of(documents.list_of(documents.TEXT, 2)),
        "notes": documents.list_of(documents.TEXT), "skipped_rows": documents.COUNT,
    }
)  # fmt: skip


@dataclass
class Report:
    """What became of some rows.

    `cut` of them are longer than the `limit` of the model, `far` from all that its head knows. `skipped` holds place
    and reason of the first 1,000 of the `skipped_rows` that could not be encoded. `notes` are other warnings.
    """

    rows: int = 0
    cut: int = 0
    limit: int = 0
    far: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped_rows: int = 0

    def skip(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add rows that could not be encoded, each with its place and the reason."""
        self.skipped_rows += len(rows)
        named = rows[: max(0, MOST_SKIPPED - len(self.skipped))]
        self.skipped += [(printable(place), printable(why)) for place, why in named]

    def add(self, other: Report) -> None:
        """Add what became of more rows."""
        self.rows, self.cut, self.far = self.rows + other.rows, self.cut + other.cut, self.far + other.far
        self.limit = max(self.limit, other.limit)
        self.skip(other.skipped)
        self.skipped_rows += other.skipped_rows - len(other.skipped)
        self.notes = list(dict.fromkeys([*self.notes, *other.notes]))

    def to_json(self) -> str:
        """Return the report as a file keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def of_file(cls, path: Path) -> Report:
        """Read the report of a file."""
        found = outline(path).metadata.get(NOTE)
        if found is None:
            raise Sen2ProError(f"{path} was not written by such a run: it has no report")
        content = documents.parse(found, f"the report in {path}")
        _REPORT(content, f"the report in {path}")
        if content["skipped_rows"] < len(content["skipped"]):
            raise Sen2ProError(f"the report in {path} names more skipped rows than it counts")
        return cls(**{**content, "skipped": [(place, why) for place, why in content["skipped"]]})


@dataclass(frozen=True)
class How:
    """What is kept of each row, and what is done about a faulty one."""

    ids: bool = False
    texts: bool = True
    columns: dict[str, str] = field(default_factory=dict)  # name -> type
    batch_size: int | None = None
    skip_faults: bool = False


Rows = list[tuple[str, Record]]  # each with the name of its file


@dataclass(frozen=True)
class Unit:
    """Rows to be encoded, by chunks. `size` counts those of the input, so also blank and faulty ones."""

    number: int
    size: int
    chunks: list[Rows]
    faults: list[tuple[str, str]]


def cut_into_chunks(rows: Iterator[tuple[str, Record | Fault]], how: How) -> Iterator[tuple[int, Rows, list[Any]]]:
    """Yield chunks of rows: how many there were in the input, the sentences among them, and the faults."""
    while given := list(islice(rows, encoding.CHUNK)):
        faults = [(name, row) for name, row in given if isinstance(row, Fault)]
        if faults and not how.skip_faults:
            raise Sen2ProError(faults[0][1].why)
        # Blank rows come through only where they may be passed over.
        sound = [(name, row) for name, row in given if isinstance(row, Record) and not is_blank(row.text)]
        yield len(given), sound, [(f"{name}, {row.place}", _reason(name, row)) for name, row in faults]


def _reason(name: str, fault: Fault) -> str:
    return fault.why.removeprefix(f"{name}, {fault.place}: ")


def encode_chunk(model: Sen2Pro, rows: Rows, how: How, advance: Advance = lambda _: None) -> tuple[Piece, Report]:
    """Encode one chunk. A row that the model fails on is named in the error, or left out if faults are skipped."""
    report = Report()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Sen2ProWarning)
        try:
            piece = _encoded(model, rows, how, advance)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # whatever the libraries underneath raise for a text they cannot take
            rows, poisoned = _without_poison(model, rows, how, error)
            report.skipped, report.skipped_rows = poisoned, len(poisoned)  # a chunk is small: all are named
            piece = _encoded(model, rows, how, lambda _: None)
    for each in caught:
        if isinstance(each.message, TruncationWarning):
            report.limit = each.message.limit
        elif isinstance(each.message, Sen2ProWarning):
            report.notes.append(str(each.message))
    report.notes = list(dict.fromkeys(report.notes))
    last = [each.message for each in caught if isinstance(each.message, TruncationWarning)]
    report.cut = last[-1].count if last else 0
    report.rows, report.far = len(rows), encoding.far_from_head(piece.gaussian)
    return piece, report


def _encoded(model: Sen2Pro, rows: Rows, how: How, advance: Advance) -> Piece:
    import pyarrow as pa

    records = [record for _, record in rows]
    texts = [record.text for record in records]
    parts = model.encode_sources(
        texts, batch_size=how.batch_size, show_progress_bar=lambda done: advance(done / model.passes)
    )
    kept = {
        name: pa.array([_value(record, name, kind) for record in records], pa.type_for_alias(kind))
        for name, kind in how.columns.items()
    }
    return Piece(
        model.join(parts),
        [str(record.id) for record in records] if how.ids else None,
        texts if how.texts else None,
        {f"{name}_variance": part.total_variance for name, part in parts.items()},
        kept,
    )


def _value(record: Record, name: str, kind: str) -> Any:
    value = record.metadata.get(name)
    return float(value) if kind == "double" and value is not None else value


def _without_poison(model: Sen2Pro, rows: Rows, how: How, error: Exception) -> tuple[Rows, list[tuple[str, str]]]:
    """Find the rows that cannot be encoded even alone; where all of them fail, the rows are not to blame."""
    sound: Rows = []
    poisoned: list[tuple[str, str]] = []
    for name, record in rows:
        try:
            _encoded(model, [(name, record)], how, lambda _: None)
        except (MemoryError, OSError):
            raise
        except Exception as reason:
            poisoned.append((f"{name}, {record.place}", first_line(reason)))
            if not how.skip_faults:
                raise Sen2ProError(
                    f"{poisoned[0][0]}: this row cannot be encoded: {first_line(reason)}. Mend or remove it, or pass "
                    "on_error='skip'"
                ) from reason
        else:
            sound.append((name, record))
    if not poisoned or (not sound and len(rows) > 1):
        raise error
    return sound, poisoned


def encode_unit(model: Sen2Pro, unit: Unit, path: Path, how: How, advance: Advance = lambda _: None) -> Report:
    """Encode a unit into a file, which appears when it is whole, and return what became of its rows."""
    report = Report()
    report.skip(unit.faults)
    with GaussianWriter(path, overwrite=True, check_ids=False) as writer:
        for rows in unit.chunks:
            piece, more = encode_chunk(model, rows, how, advance) if rows else (None, Report())
            if piece is not None and len(piece.gaussian):
                piece.write_to(writer)
            report.add(more)
        if not report.rows:
            writer.write(model.encode([]))
        writer.notes[NOTE] = report.to_json()
    return report


def encode_unit_bytes(model: Sen2Pro, unit: Unit, how: How, advance: Advance = lambda _: None) -> tuple[bytes, Report]:
    """Encode a unit; return what its file holds, for whoever writes it, and what became of its rows."""
    with tempfile.TemporaryDirectory(prefix="sen2pro-") as folder:
        path = Path(folder) / "unit.parquet"
        report = encode_unit(model, unit, path, how, advance)
        return path.read_bytes(), report
