"""The folder of a run, beside its output: units and shards by rename, the plan, and a lock while somebody works."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sen2pro.errors import Sen2ProError
from sen2pro.io import documents, shards
from sen2pro.io.atomic import abandoning, locked, remove_abandoned
from sen2pro.io.gaussians import GaussianWriter, outline
from sen2pro.jobs import plan as plans
from sen2pro.jobs.joining import check_readable, join, pieces_of
from sen2pro.jobs.plan import Plan
from sen2pro.jobs.units import NOTE, Report

_LOG = logging.getLogger("sen2pro")
_UNITS, _IN_FOLDER = "units", 64  # so many units are in one folder: a long list of names is slow to read
_UNIT_NAME = re.compile(r"unit-(\d{9,15})\.parquet")
_SHARD_NAME = re.compile(r"shard-(\d{6,12})\.parquet")


class RunFolder:
    """What a run has done so far, on the disk."""

    def __init__(self, output: Path) -> None:
        self.output, self.path = output, output.with_name(f"{output.name}.parts")
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise Sen2ProError(f"{self.path} is in the way: a run keeps its parts in a folder of that name")

    @property
    def has_run(self) -> bool:
        """Whether there is a run to go on with."""
        if not self.path.is_dir():
            return False
        if not (self.path / plans.FILE).is_file():
            if [place for place in self.path.iterdir() if ".partial" not in place.name]:
                raise Sen2ProError(f"{self.path} is not the folder of a run; move it away")
            return False
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and keep others from working in it."""
        self.path.mkdir(exist_ok=True)
        with locked(self.path, strict=True) as free:
            if not free:
                raise Sen2ProError(f"another process is writing {self.output}; wait for it, or end it first")
            yield

    def unit(self, number: int) -> Path:
        """Return the file of a unit."""
        folder = self._units / f"{number // _IN_FOLDER:07d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"unit-{number:09d}.parquet"

    def shard(self, number: int) -> Path:
        """Return the file of a shard."""
        return self.path / shards.name(number)

    def write_plan(self, plan: Plan) -> None:
        """Write the plan of a new run."""
        documents.write(self.path / plans.FILE, plan.to_json())

    def done(self, plan: Plan) -> dict[int, Report]:
        """Return what is done, by the number of the first unit: units, and shards that are whole.

        A file that cannot be read, or is of another run, is deleted: its rows are encoded anew.
        """
        found: dict[int, Report] = {}
        thrown_away = 0
        for number, path in self._named(self.path, _SHARD_NAME):
            first = number * plan.units_of_shard
            report = self._checked(path, plan, range(first, first + plan.units_of_shard))
            if report is not None:
                found[first] = report
            thrown_away += report is None
        for folder in sorted(self._units.glob("*")):
            for number, path in self._named(folder, _UNIT_NAME):
                if self.shard(number // plan.units_of_shard).exists():
                    path.unlink()  # it is in the shard
                    continue
                report = self._checked(path, plan, range(number, number + 1))
                if report is not None:
                    found[number] = report
                thrown_away += report is None
        if thrown_away:
            _LOG.warning("%s: %d damaged or foreign parts are thrown away and encoded anew", self.path, thrown_away)
        return found

    @property
    def _units(self) -> Path:
        """The folder of all units; it is deleted in the end, so it may not lead elsewhere."""
        path = self.path / _UNITS
        if path.is_symlink():
            raise Sen2ProError(f"{path} is a link; a run keeps its parts in a folder of its own. Remove the link")
        return path

    def _named(self, folder: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
        matches = [(pattern.fullmatch(path.name), path) for path in sorted(folder.iterdir())]
        return [(int(match[1]), path) for match, path in matches if match]

    def _checked(self, path: Path, plan: Plan, units: range) -> Report | None:
        """Return the report of a file that holds these units; any other file is deleted."""
        try:
            about, report = outline(path), Report.of_file(path)
            size = sum(plan.size(number) for number in units if number < plan.units)
            named = report.rows + report.skipped_rows
            fits = named <= size if plan.reading.get("skip_blank") else named == size
            if about.signature == plan.about.signature and units[0] < plan.units and about.rows == report.rows and fits:
                return report
        except Sen2ProError as error:
            check_readable(path, error)
        path.unlink()
        return None

    def has_shard(self, number: int) -> bool:
        """Whether a shard is whole."""
        return self.shard(number).exists()

    def make_shard(self, number: int, plan: Plan, report: Report) -> None:
        """Join the units of a shard, and delete them."""
        first = number * plan.units_of_shard
        units = [self.unit(each) for each in range(first, min(plan.units, first + plan.units_of_shard))]
        with GaussianWriter(self.shard(number), overwrite=True) as writer:
            join(units, writer)
            writer.notes[NOTE] = report.to_json()
        for unit in units:
            unit.unlink()

    def list_shards(self, plan: Plan, report: Report) -> None:
        """Write the list of the shards: now the folder can be read as one of shards."""
        found = [outline(self.shard(number)) for number in range(-(-plan.units // plan.units_of_shard))]
        shards.write_manifest(
            self.path,
            [{"rows": each.rows, "digest": each.digest} for each in found],
            report.skipped,
            report.skipped_rows,
        )
        shutil.rmtree(self._units, ignore_errors=True)

    def check_shards(self, plan: Plan) -> None:
        """Compare all shards with their digests; one that is damaged is deleted, and an error says so."""
        for number in range(-(-plan.units // plan.units_of_shard)):
            for _ in pieces_of(self.shard(number)):
                pass

    def finish_shards(self, plan: Plan, report: Report) -> None:
        """Write the list of the shards; the folder becomes the output."""
        self.list_shards(plan, report)
        if self.output.exists():  # whoever calls this has found that it may be replaced
            with abandoning(self.output):
                self.path.rename(self.output)
        else:
            self.path.rename(self.output)
        tidy(self.output)

    def clear(self) -> None:
        """Delete the parts of an old run, whose plan a new one is going to replace.

        The plan stays until then: what is left by a kill in between is still the folder of a run.
        """
        for place in self.path.iterdir():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            elif place.name != plans.FILE:
                place.unlink()

    def remove(self) -> None:
        """Delete the folder: at once under another name, so that no half of it is ever taken for a run."""
        if self.path.is_dir():
            with abandoning(self.path):
                pass

    def bytes(self) -> int:
        """Return the size of all units."""
        return sum(path.stat().st_size for path in self._units.rglob("*.parquet"))


def tidy(output: Path) -> None:
    """Delete what a killed run may have left of a job that was done, or that had not begun."""
    parts = output.with_name(f"{output.name}.parts")
    remove_abandoned(output)
    remove_abandoned(parts)
    if parts.is_dir() and not parts.is_symlink():
        remove_abandoned(parts / plans.FILE)
        with suppress(OSError), locked(parts) as free:
            if free:
                parts.rmdir()  # which an empty folder allows, and no other
    if output.is_dir() and (output / shards.MANIFEST).is_file():
        (output / plans.FILE).unlink(missing_ok=True)
