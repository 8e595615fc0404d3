"""The folder of a run, OUTPUT.parts: its plan, its shards, and a lock while a process works in it.

A shard that is there is done: that is all a run needs to resume. The plan is compared with the plan of the process that
wants to resume. It decides nothing: settings, permissions and paths come from the caller alone.
"""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from sen2pro.errors import Sen2ProError, Sen2ProWarning, first_line, join_names, short_repr
from sen2pro.io import bundle, shards
from sen2pro.io.atomic import abandoning, locked, remove_abandoned, replacing
from sen2pro.io.bundle import Count
from sen2pro.io.gaussians import GaussianBatch, GaussianWriter, read, stream
from sen2pro.io.inputs import InputFile
from sen2pro.io.rows import machine_trouble
from sen2pro.io.shards import KEPT_TYPES, outline
from sen2pro.jobs.workers import CHUNK, NOTE, UNIT, RowsReport
from sen2pro.signature import Signature

PLAN = "sen2pro_run"
FORMAT = 2
_LOG = logging.getLogger("sen2pro")


class Plan(bundle.Config, frozen=True, kw_only=True):
    """What decides the bytes of the output. `threads` is 0 where their number does not matter."""

    format: Count = FORMAT
    signature: Signature
    device: str
    threads: Count
    inputs: tuple[InputFile, ...]
    reading: dict[str, object]
    columns: dict[str, str]
    texts: bool
    batch_size: Count | None
    output: str  # parquet, safetensors or shards
    chunk: Count = CHUNK
    unit: Count = UNIT

    @property
    def rows(self) -> int:
        """All rows of the input."""
        return sum(file.rows for file in self.inputs)

    @property
    def units(self) -> int:
        """The number of units; an empty input has one."""
        return max(1, -(-self.rows // self.unit))

    def size(self, number: int) -> int:
        """Return how many rows of the input a unit has."""
        return min(self.unit, self.rows - number * self.unit)


class RunFolder:
    """The folder of a run, beside its output."""

    def __init__(self, output: Path) -> None:
        self.output, self.path = output, output.with_name(f"{output.name}.parts")
        self._joined = self.path / f"joined{output.suffix.lower()}"
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise Sen2ProError(f"{self.path} is not a folder; a run keeps its parts there. Move it away")

    @property
    def has_run(self) -> bool:
        """Whether there is a run to resume."""
        if not self.path.is_dir():
            return False
        if not (self.path / f"{PLAN}.json").is_file():
            if [place for place in self.path.iterdir() if ".partial" not in place.name]:
                raise Sen2ProError(f"{self.path} is not the folder of a run; move it away")
            return False
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other processes from working in it."""
        self.path.mkdir(exist_ok=True)
        with locked(self.path, strict=True) as free:
            if not free:
                raise Sen2ProError(f"another process is writing {self.output}; wait for it, or end it first")
            yield

    # The plan.

    def read_plan(self) -> Plan:
        """Read the plan of the run."""
        if bundle.read_json(self.path / f"{PLAN}.json").get("format") != FORMAT:
            raise Sen2ProError(
                f"{self.path} holds an unfinished run of another version of sen2pro. To delete it and start again, "
                "pass restart=True"
            )
        plan = bundle.load(self.path, PLAN, Plan)[0]
        if any(file.rows < 0 for file in plan.inputs) or not set(plan.columns.values()) <= set(KEPT_TYPES):
            raise Sen2ProError(f"{self.path / PLAN}.json: a number of rows or a type of a column is wrong")
        return plan

    def begin(self, plan: Plan, *, restart: bool) -> None:
        """Write the plan of a new run, or compare it with that of the run to resume.

        The parts of an old run are deleted before its plan is replaced. So a folder that is left by a kill in between
        is still the folder of a run.
        """
        if self.has_run and not restart:
            self._check_same(plan)
            return
        for place in self.path.iterdir() if restart else ():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            elif place.name != f"{PLAN}.json":
                place.unlink()
        bundle.save(self.path, PLAN, plan)

    def known_inputs(
        self, plan: Plan, digests: Sequence[str], kinds: Sequence[str], names: Sequence[str]
    ) -> tuple[InputFile, ...]:
        """Return the input files of the plan, if they are unchanged; else raise an error that names the difference."""
        known = plan.inputs
        if len(known) != len(digests):
            raise self._other_run("another input", [f"{len(known)} input files there, {len(digests)} here"])
        files = list(zip(names, digests, kinds, known, strict=True))
        differences = [f"the content of {name}" for name, digest, _, file in files if digest != file.digest]
        differences += [
            f"{name} was read as {file.kind} there, and is read as {kind} here"
            for name, digest, kind, file in files
            if digest == file.digest and kind != file.kind
        ]
        if differences:
            raise self._other_run("another input", differences)
        return known

    def _check_same(self, wanted: Plan) -> None:
        there, here = (dict(_leaves(msgspec.to_builtins(plan))) for plan in (self.read_plan(), wanted))
        names = [name for name in {**there, **here} if there.get(name) != here.get(name) and name != "inputs"]
        if names:
            told = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in names]
            raise self._other_run("other settings", told)

    def _other_run(self, what: str, differences: list[str]) -> Sen2ProError:
        told = "; ".join(differences) if len(differences) <= 5 else join_names(differences, 5)
        return Sen2ProError(
            f"{self.path} holds an unfinished run with {what}: {told}. To resume it, give the same input and settings; "
            "to delete it and start again, pass restart=True"
        )

    # The shards.

    def shard(self, number: int) -> Path:
        """Return the file of a unit."""
        return self.path / shards.name(number)

    def done(self, plan: Plan) -> dict[int, int]:
        """Return the units that are done, and how many rows of each were encoded.

        A file that cannot be read, or that belongs to another run, is deleted: its rows are encoded again.
        """
        paths = sorted(self.path.glob("shard-*.parquet"))
        numbers = {shards.name(number): number for number in range(plan.units)}
        rows = [self._rows_of(path, numbers.get(path.name), plan) for path in paths]
        if None in rows:
            lost = rows.count(None)
            _LOG.warning("%s: %d damaged or foreign parts were deleted and are encoded again", self.path, lost)
        return {numbers[path.name]: each for path, each in zip(paths, rows, strict=True) if each is not None}

    def _rows_of(self, path: Path, number: int | None, plan: Plan) -> int | None:
        """Return the encoded rows of a file if it holds this unit; delete any other file."""
        try:
            about, report = outline(path), RowsReport.of_file(path)
            named, size = report.rows + report.skipped_rows, 0 if number is None else plan.size(number)
            fits = named <= size if plan.reading.get("skip_blank") else named == size
            if number is not None and about.signature == plan.signature and about.rows == report.rows and fits:
                return report.rows
        except Sen2ProError as error:
            _check_readable(path, error)
        path.unlink()
        return None

    def report(self, plan: Plan) -> RowsReport:
        """Return the report of all units."""
        return sum((RowsReport.of_file(self.shard(number)) for number in range(plan.units)), RowsReport())

    def pieces(self, plan: Plan) -> Iterator[GaussianBatch]:
        """Yield the rows of each unit in their order. A file whose digest is wrong is deleted."""
        for number in range(plan.units):
            path = self.shard(number)
            try:
                found = list(stream(path, plan.unit))
                yield from found or [read(path)]
            except Sen2ProError as error:
                _check_readable(path, error)
                path.unlink(missing_ok=True)
                raise Sen2ProError(
                    f"a part of the run was damaged on the disk and is deleted; start again to encode it ({error})"
                ) from None

    # The end.

    def is_output(self) -> bool:
        """Return whether the output is the joined file of this run, which was killed before its folder was deleted."""
        return self._joined.is_file() and self.output.is_file() and self._joined.samefile(self.output)

    def join(self, plan: Plan, report: RowsReport, advance: Callable[[float], None], *, overwrite: bool) -> None:
        """Join all units into the output. It first is a file in this folder, so that it is known after a kill."""
        if not self._joined.exists():
            with self._naming_output(), GaussianWriter(self._joined) as writer:
                write_pieces(self.pieces(plan), writer, advance)
                if report.skipped_rows:
                    writer.notes[NOTE] = report.to_json()
        with replacing(self.output, overwrite=overwrite) as temporary:
            temporary.unlink()
            try:
                os.link(self._joined, temporary)
            except OSError:  # a file system without links
                self._joined.rename(temporary)

    @contextmanager
    def _naming_output(self) -> Iterator[None]:
        """Let warnings of the block name the output instead of the joined file."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", Sen2ProWarning)
            yield
        for each in caught:
            message = str(each.message).replace(str(self._joined), str(self.output))
            warnings.warn(message, Sen2ProWarning, stacklevel=5)

    def list_shards(self, plan: Plan, report: RowsReport) -> None:
        """Write the list of the shards: the folder can be read as one of shards."""
        found = [outline(self.shard(number)) for number in range(plan.units)]
        entries = [shards.Shard(rows=each.rows, digest=each.digest or "") for each in found]
        shards.write_manifest(self.path, entries, report.skipped, report.skipped_rows)

    def become_output(self) -> None:
        """Rename the folder of shards to the output; an old output was found to be replaceable."""
        if self.output.exists():
            with abandoning(self.output):
                self.path.rename(self.output)
        else:
            self.path.rename(self.output)
        tidy(self.output)

    def remove(self) -> None:
        """Delete the folder: at once under another name, so that no half of it is ever taken for a run."""
        if self.path.is_dir():
            with abandoning(self.path):
                pass


def write_pieces(
    pieces: Iterator[GaussianBatch], writer: GaussianWriter, advance: Callable[[float], None] = lambda _: None
) -> None:
    """Write one group of rows for each unit that has any; of an input without rows, an empty one."""
    first, rows = None, 0
    for piece in pieces:
        first = piece if first is None else first
        rows += len(piece)
        if len(piece):
            piece.write_to(writer)
            advance(len(piece))
    if not rows and first is not None:
        first.write_to(writer)


def _check_readable(path: Path, error: Sen2ProError) -> None:
    """Raise if the machine is the reason that a part could not be read: then the part stays."""
    behind = machine_trouble(error)
    if behind is not None:
        why = first_line(behind) or type(behind).__name__
        raise Sen2ProError(
            f"{path}, a part of the run, cannot be read now: {why}. It is kept; correct that, and run the same command "
            "again to resume"
        ) from None


def _leaves(content: Any, place: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a JSON object, each with the names that lead to it."""
    if not isinstance(content, Mapping):
        return [(place, content)]
    inner = [(f"{place}.{name}" if place else str(name), each) for name, each in content.items()]
    return [leaf for path, each in inner for leaf in _leaves(each, path)]


def tidy(output: Path) -> None:
    """Delete what a killed run may have left when it was complete, or had not begun."""
    parts = output.with_name(f"{output.name}.parts")
    remove_abandoned(output)
    remove_abandoned(parts)
    if parts.is_dir() and not parts.is_symlink():
        remove_abandoned(parts / f"{PLAN}.json")
        with suppress(OSError), locked(parts) as free:
            if free:
                parts.rmdir()  # which an empty folder allows, and no other
    if output.is_dir() and (output / shards.MANIFEST).is_file():
        (output / f"{PLAN}.json").unlink(missing_ok=True)


def check_output(output: Path, kind: str, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Raise if an output cannot be written; `kind` is that of the plan, or `parts` if something else writes it."""
    if kind not in ("shards", "parts"):
        GaussianWriter(output, overwrite=overwrite)
    if not output.absolute().parent.is_dir():
        raise Sen2ProError(f"there is no folder {output.parent}")
    if output.exists() and any(path != "-" and Path(path).exists() and output.samefile(path) for path in inputs):
        raise Sen2ProError(f"{output} is a file to be read; give another name for the output")
    if kind != "shards" or not output.exists():
        return
    if output.is_dir() and not any(output.iterdir()):
        output.rmdir()
        return
    if not output.is_dir() or not shards.is_folder(output):
        raise Sen2ProError(f"{output} is not a folder of shards; name a new one")
    if not overwrite:
        raise Sen2ProError(f"{output} exists; pass overwrite=True to replace it")
    inside = [path for path in inputs if Path(path).resolve().is_relative_to(output.resolve())]
    if inside:
        raise Sen2ProError(f"{inside[0]} is to be read and lies in {output}; give another name for the output")
    foreign = shards.foreign(output)
    if foreign:
        raise Sen2ProError(
            f"{output} also holds {short_repr(foreign[0])}, which is not part of a folder of shards, so it is not "
            "replaced; move that away, or name a new folder"
        )
