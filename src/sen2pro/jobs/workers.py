"""Encode the units of an input, in this process or in a pool of processes. The bytes are the same.

A unit is 4,096 rows of the input. It becomes one file. Its rows are encoded in chunks that follow from their place in
the input alone, so the numbers do not depend on the process, its speed, or how often a run was stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning, first_line
from sen2pro.gaussian import Gaussian, is_far
from sen2pro.io import bundle
from sen2pro.io.atomic import remove_abandoned
from sen2pro.io.bundle import Count
from sen2pro.io.gaussians import GaussianBatch, GaussianWriter, joined
from sen2pro.io.inputs import Record
from sen2pro.io.rows import Fault, printable
from sen2pro.io.shards import MOST_SKIPPED, outline
from sen2pro.model import Sen2Pro
from sen2pro.settings import Settings
from sen2pro.validation import is_blank

CHUNK = 256  # sentences that are encoded at once
UNIT = 4096  # rows of the input in one file: about half a minute of a CPU core, for a small encoder and one pass
NOTE = "sen2pro.unit"  # where a Parquet file keeps its report
_EVERY = 0.25  # seconds between two looks at the progress of the workers

Model = Sen2Pro | Settings | Callable[[], Sen2Pro]
Rows = list[tuple[str, Record]]  # each with the name of its file
Advance = Callable[[float], None]
Place = Callable[[int], Path]  # the file of a unit


class RowsReport(bundle.Config, frozen=True):
    """The outcome of some rows.

    `rows` were encoded. `cut` of them are longer than the `limit` of the model; `far` of them are unlike all text that
    its head was fitted on. `skipped` holds place and reason of the first 1,000 of the `skipped_rows` that could not be
    encoded. `notes` are other warnings.
    """

    rows: Count = 0
    cut: Count = 0
    limit: Count = 0
    far: Count = 0
    skipped: list[tuple[str, str]] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    skipped_rows: Count = 0

    def __add__(self, other: RowsReport) -> RowsReport:
        """Return the report of the rows of both."""
        return RowsReport(
            rows=self.rows + other.rows, cut=self.cut + other.cut, limit=max(self.limit, other.limit),
            far=self.far + other.far, skipped=[*self.skipped, *other.skipped][:MOST_SKIPPED],
            notes=list(dict.fromkeys([*self.notes, *other.notes])), skipped_rows=self.skipped_rows + other.skipped_rows,
        )  # fmt: skip

    def to_json(self) -> str:
        """Return the report as a file keeps it."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of_file(cls, path: Path) -> RowsReport:
        """Read the report of a file."""
        note = outline(path).metadata.get(NOTE)
        if note is None:
            raise Sen2ProError(f"{path} has no report; it was not written by encode_files")
        place = f"the report in {path}"
        report = bundle.convert(bundle.parse(note, place), cls, place)
        if report.skipped_rows < len(report.skipped):
            raise Sen2ProError(f"{place} names more skipped rows than it counts")
        return report


@dataclass(frozen=True)
class RowOptions:
    """The columns to keep of each row, and whether a faulty row is skipped or an error."""

    ids: bool = False
    texts: bool = True
    columns: dict[str, str] = field(default_factory=dict)  # name -> type
    batch_size: int | None = None
    skip_faults: bool = False


@dataclass(frozen=True)
class Unit:
    """Rows that become one file: the sentences among them, and the faults. `size` also counts blank rows."""

    number: int
    size: int
    rows: Rows
    faults: list[tuple[str, str]]


def cut_into_units(rows: Iterator[tuple[str, Record | Fault]], options: RowOptions, start: int = 0) -> Iterator[Unit]:
    """Yield the units of some rows; the first has the number `start`. An input without rows has one empty unit."""
    given = list(islice(rows, UNIT))
    number = start
    while given or number == start:
        faults = [(name, row) for name, row in given if isinstance(row, Fault)]
        if faults and not options.skip_faults:
            raise Sen2ProError(faults[0][1].why)
        sound = [(name, row) for name, row in given if isinstance(row, Record) and not is_blank(row.text)]
        reasons = [(f"{name}, {row.place}", row.why.removeprefix(f"{name}, {row.place}: ")) for name, row in faults]
        yield Unit(number, len(given), sound, [(printable(place), printable(why)) for place, why in reasons])
        number, given = number + 1, list(islice(rows, UNIT))


def encode_unit(model: Sen2Pro, unit: Unit, options: RowOptions, advance: Advance) -> tuple[GaussianBatch, RowsReport]:
    """Return the Gaussians of a unit and its report; `advance` counts each row, also blank and faulty ones."""
    left = float(unit.size)

    def count(rows: float) -> None:
        nonlocal left
        done = min(rows, left)
        left -= done
        advance(done)

    report = RowsReport(skipped=unit.faults[:MOST_SKIPPED], skipped_rows=len(unit.faults))
    pieces = []
    for start in range(0, len(unit.rows), CHUNK):
        piece, more = encode_chunk(model, unit.rows[start : start + CHUNK], options, count)
        report += more
        pieces += [piece] if len(piece) else []
    count(left)
    return joined(pieces) if pieces else _batch(model.encode([])), report


def encode_chunk(
    model: Sen2Pro, rows: Rows, options: RowOptions, advance: Advance = lambda _: None
) -> tuple[GaussianBatch, RowsReport]:
    """Encode a few rows. A row that the model fails on is named in the error, or left out if faults are skipped."""
    poisoned: list[tuple[str, str]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Sen2ProWarning)
        try:
            piece = _encoded(model, rows, options, advance)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # whatever a library raises for a text that it cannot take
            rows, poisoned = _without_poison(model, rows, options, error)
            piece = _encoded(model, rows, options, lambda _: None)
    messages = [each.message for each in caught]
    cuts = [message for message in messages if isinstance(message, TruncationWarning)]
    others = [m for m in messages if isinstance(m, Sen2ProWarning) and not isinstance(m, TruncationWarning)]
    return piece, RowsReport(
        rows=len(rows), cut=cuts[-1].count if cuts else 0, limit=cuts[-1].limit if cuts else 0,
        far=int(is_far(piece).sum()), notes=list(dict.fromkeys(map(str, others))),
        skipped=[(printable(place), printable(why)) for place, why in poisoned], skipped_rows=len(poisoned),
    )  # fmt: skip


def _encoded(model: Sen2Pro, rows: Rows, options: RowOptions, advance: Advance) -> GaussianBatch:
    import pyarrow as pa

    records = [record for _, record in rows]
    texts = [record.text for record in records]
    parts = model.encode_sources(
        texts, batch_size=options.batch_size, show_progress_bar=lambda done: advance(done / model.passes)
    )
    kept = {
        name: pa.array([_value(record, name, kind) for record in records], pa.type_for_alias(kind))
        for name, kind in options.columns.items()
    }
    return replace(
        _batch(model.join(parts)),
        ids=[str(record.id) for record in records] if options.ids else None,
        texts=texts if options.texts else None,
        totals={f"{name}_variance": part.total_variance for name, part in parts.items()},
        columns=kept,
    )


def _batch(gaussian: Gaussian) -> GaussianBatch:
    return GaussianBatch(gaussian.mean, gaussian.variance, gaussian.signature, gaussian.coverage)


def _value(record: Record, name: str, kind: str) -> Any:
    value = record.metadata.get(name)
    return float(value) if kind == "double" and value is not None else value


def _without_poison(
    model: Sen2Pro, rows: Rows, options: RowOptions, error: Exception
) -> tuple[Rows, list[tuple[str, str]]]:
    """Find the rows that cannot be encoded even alone; where all of them fail, the rows are not to blame."""
    sound: Rows = []
    poisoned: list[tuple[str, str]] = []
    for name, record in rows:
        try:
            _encoded(model, [(name, record)], options, lambda _: None)
        except (MemoryError, OSError):
            raise
        except Exception as reason:
            poisoned.append((f"{name}, {record.place}", first_line(reason)))
            if not options.skip_faults:
                raise Sen2ProError(
                    f"{poisoned[0][0]}: this row cannot be encoded: {first_line(reason)}. Correct or remove it, or "
                    "pass on_error='skip'"
                ) from reason
        else:
            sound.append((name, record))
    if not poisoned or (not sound and len(rows) > 1):
        raise error
    return sound, poisoned


def write_unit(model: Sen2Pro, unit: Unit, path: Path, options: RowOptions, advance: Advance) -> None:
    """Encode a unit into a file, which appears when it is complete."""
    piece, report = encode_unit(model, unit, options, advance)
    try:
        with GaussianWriter(path, overwrite=True, check_ids=False) as writer:
            piece.write_to(writer)
            writer.notes[NOTE] = report.to_json()
    except BaseException:  # Ctrl-C may come while the writer deletes its file
        remove_abandoned(path)
        raise


def load_model(model: Model) -> Sen2Pro:
    """Return a model that is given as itself, as its settings, or by a function that loads it."""
    if isinstance(model, Settings):
        return Sen2Pro.from_settings(model)
    loaded = model if isinstance(model, Sen2Pro) else model() if callable(model) else model
    if not isinstance(loaded, Sen2Pro):
        raise Sen2ProError(f"model must be a Sen2Pro or its Settings, not {type(loaded).__name__}")
    return loaded


def run_here(model: Sen2Pro, units: Iterator[Unit], place: Place, options: RowOptions, advance: Advance) -> None:
    """Encode units into their files, one after the other."""
    for unit in units:
        write_unit(model, unit, place(unit.number), options, advance)


def run_in_pool(
    pickled: bytes, workers: int, units: Iterator[Unit], place: Place, options: RowOptions, advance: Advance
) -> None:
    """Encode units into their files in several processes, each with one thread and a copy of the pickled model.

    A process that dies ends the run with an error; the files of complete units stay.
    """
    context = multiprocessing.get_context("spawn")
    stop, done = context.Event(), context.Value("d", 0.0)
    pool = ProcessPoolExecutor(workers, context, _start_worker, (pickled, os.getpid(), stop, done))
    waiting: dict[Future[None], Path] = {}
    told = 0.0
    try:
        while True:
            for unit in islice(units, 2 * workers - len(waiting)):
                path = place(unit.number)
                waiting[pool.submit(_work, unit, path, options)] = path
            if not waiting:
                return
            finished, _ = wait(waiting, _EVERY, FIRST_COMPLETED)
            for future in finished:
                future.result()
                del waiting[future]
            advance(-told + (told := done.value))
    except BrokenProcessPool:
        if not told:
            why = 'before it was ready: does the script call encode_files under `if __name__ == "__main__":`? It has to'
            raise Sen2ProError(f"a worker process ended {why}. Or is there too little memory?") from None
        raise Sen2ProError(
            "a worker process was killed; is there enough memory? Use fewer workers or a smaller batch_size=..., and "
            "run the same command again to resume"
        ) from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        for path in waiting.values():
            remove_abandoned(path)


@dataclass
class _Worker:
    """The state of a worker process."""

    model: Sen2Pro
    stop: Any
    done: Any

    def advance(self, rows: float) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt
        with self.done.get_lock():
            self.done.value += rows


_worker: _Worker | None = None


def _start_worker(pickled: bytes, parent: int, stop: Any, done: Any) -> None:
    """Load the model in a new process."""
    global _worker
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent decides
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Sen2ProWarning)  # the parent has given them
        _worker = _Worker(pickle.loads(pickled), stop, done)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _work(unit: Unit, path: Path, options: RowOptions) -> None:
    """Encode a unit in a worker process."""
    assert _worker is not None
    try:
        write_unit(_worker.model, unit, path, options, _worker.advance)
    except (Sen2ProError, OSError, MemoryError):
        raise
    except Exception as error:  # of any library: perhaps one that cannot be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {first_line(error)}") from None
