"""Encode files of any size: the whole run, from what is asked for to the finished file."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io import shards as shard_files
from sen2pro.io.atomic import FULL_DISK, check_path
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.io.inputs import InputFile, Inputs, expand
from sen2pro.io.rows import LONGEST_LINE
from sen2pro.jobs import plan as plans
from sen2pro.jobs.engines import Engine, InProcess, Model, Processes
from sen2pro.jobs.folder import RunFolder, tidy
from sen2pro.jobs.joining import Regrouped, join
from sen2pro.jobs.output import check_no_input, check_output, check_parent, holds
from sen2pro.jobs.plan import About, Plan, unit_rows
from sen2pro.jobs.units import NOTE, How, Report, Unit, cut_into_chunks, encode_chunk
from sen2pro.progress import Show, progress
from sen2pro.signature import Signature

_LOG = logging.getLogger("sen2pro")
MOST_NAMED = 10 * shard_files.MOST_SKIPPED  # skipped rows whose names are in memory
ON_ERROR = ("fail", "skip")
_CHANGED = "the input was changed while it was read; begin anew with restart=True"
_ONLY_ONCE = (
    "standard input and pipes can be read only once: without workers, engine, shards, columns to keep, or an "
    "unfinished run to go on with. Write the sentences to a file first"
)


@dataclass
class Summary:
    """What a run did.

    `report` says what became of the rows, those of earlier runs too, of which there were `resumed`. `dim` is the number
    of dimensions.
    """

    output: Path
    report: Report
    signature: Signature
    dim: int
    seconds: float
    resumed: int = 0

    def __str__(self) -> str:
        rows, skipped = self.report.rows, self.report.skipped_rows
        parts = [f"{rows:,} sentence{'s' * (rows != 1)} -> {self.output} ({self.dim} dimensions)"]
        parts += [f"{self.resumed:,} of them by an earlier run"] * bool(self.resumed)
        parts += [f"{skipped:,} row{'s' * (skipped != 1)} skipped"] * bool(skipped)
        speed = (rows - self.resumed) / max(self.seconds, 1e-9)
        return f"{', '.join(parts)}, {self.seconds:,.1f} seconds" + f", {speed:,.0f} a second" * (rows > 1)


def encode_files(
    model: Model, inputs: str | Path | Sequence[str | Path], output: str | Path, *, column: str | None = None,
    id_column: str | None = None, keep: Sequence[str] = (), text: bool = True, skip_blank: bool = False,
    on_error: str = "fail", shards: bool = False, workers: int = 1, engine: Engine | None = None, restart: bool = False,
    overwrite: bool = False, batch_size: int | None = None, longest_line: int = LONGEST_LINE,
    show_progress_bar: Show = None,
) -> Summary:  # fmt: skip
    r"""Turn files of sentences into a file of Gaussians, or a folder of shards.

    A run that was stopped or killed goes on where it was when it is called again, and writes the same bytes. Until the
    end its parts are in the folder OUTPUT.parts. Memory does not grow with the input.

    Parameters
    ----------
    model
        A `Sen2Pro`, its `Settings`, or a function that loads one.
    inputs
        Files, a folder or a pattern (see `sen2pro.io.inputs.expand`), read one after the other as `sentences` reads
        them; `-` is standard input, which can be read only once, so such a run cannot be resumed.
    output
        A .parquet or .safetensors file; with `shards` the name of a new folder.
    column, id_column, skip_blank, longest_line
        As for `sen2pro.io.inputs.sentences`.
    keep
        Other columns to keep: texts, numbers or truths.
    text
        Whether to keep the sentences in the output (Parquet).
    on_error
        `fail` stops at a row that cannot be read or encoded and names it; `skip` leaves it out and goes on.
    workers, engine
        So many processes of this machine, each with one thread; or another engine. They change the speed, not the
        bytes. A script with `workers` calls this under `if __name__ == "__main__":`, because each process imports the
        script again.
    restart
        Throw an unfinished run away. Without it, an unfinished run of another input or other settings is an error.

    Examples
    --------
    >>> import tempfile
    >>> from sen2pro import Gaussian, Sen2Pro
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.txt").write_text("One sentence.\nAnother one.\n")
    >>> model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    >>> encode_files(model, folder / "in.txt", folder / "out.parquet").report.rows
    2
    >>> Gaussian.load(folder / "out.parquet").shape
    (2, 384)
    """
    one_of("on_error", on_error, ON_ERROR)
    path = _named(output)
    kind = "shards" if shards else path.suffix.lower().lstrip(".")
    tables = kind != "safetensors"
    if not tables and (id_column or keep):
        raise Sen2ProError("ids and columns are kept in Parquet files only; name the output .parquet")
    found = Inputs(expand(inputs, path), column, id_column, tuple(dict.fromkeys(keep)), skip_blank, longest_line)
    how = How(bool(id_column), text and tables, {}, batch_size, on_error == "skip")
    chosen = engine or (InProcess() if workers == 1 else Processes(workers))
    try:
        return _Run(model, found, path, kind, how, chosen, restart, overwrite, show_progress_bar).go()
    finally:
        chosen.close()


@contextmanager
def shards_for(
    model: Model, inputs: str | Path | Sequence[str | Path], output: str | Path, *, column: str | None = None,
    id_column: str | None = None, keep: Sequence[str] = (), skip_blank: bool = False, workers: int = 1,
    engine: Engine | None = None, restart: bool = False, longest_line: int = LONGEST_LINE,
    show_progress_bar: Show = None,
) -> Iterator[Summary]:  # fmt: skip
    r"""Encode files into shards of which something else is made: `output`, an index for instance.

    The summary's `output` is the folder of the shards, OUTPUT.parts, for as long as the block lasts. When the block
    ends without an error, the folder is deleted. Else it stays, and the same call goes on where it was. Arguments are
    as for `encode_files`.

    Examples
    --------
    >>> import tempfile
    >>> from sen2pro import Gaussian, Sen2Pro
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.txt").write_text("One sentence.\nAnother one.\n")
    >>> with shards_for(Sen2Pro(method="one-pass"), folder / "in.txt", folder / "means.txt") as summary:
    ...     means = Gaussian.load(summary.output).mean
    >>> means.shape, summary.output.exists()
    ((2, 384), False)
    """
    path = _named(output)
    found = Inputs(expand(inputs, path), column, id_column, tuple(dict.fromkeys(keep)), skip_blank, longest_line)
    chosen = engine or (InProcess() if workers == 1 else Processes(workers))
    how = How(bool(id_column))
    run = _Run(model, found, path, "shards", how, chosen, restart, False, show_progress_bar, stays=True)
    try:
        with run.parts() as summary:
            yield summary
    finally:
        chosen.close()


def _named(output: str | Path) -> Path:
    path = check_path(output)
    if path.name in ("", ".."):
        raise Sen2ProError(f"{str(output)!r} is a folder that is there; give the name of a new file or folder")
    return path


@dataclass
class _Run:
    """One call of `encode_files` or `shards_for`, where the shards stay in the folder of the run."""

    model: Model
    inputs: Inputs
    output: Path
    kind: str
    how: How
    engine: Engine
    restart: bool
    overwrite: bool
    show: Show
    stays: bool = False
    report: Report = field(default_factory=Report)
    resumed: int = 0
    _named: int = 0  # skipped rows whose names are in memory

    def go(self) -> Summary:
        started = time.monotonic()
        about = self._go()
        return self._summary(about, self.output, started)

    def _summary(self, about: About, output: Path, started: float) -> Summary:
        seconds = time.monotonic() - started
        return Summary(output, self.report, about.signature, about.dim, seconds, self.resumed)

    def _go(self) -> About:
        tidy(self.output)
        folder = RunFolder(self.output)
        goes_on = folder.has_run and not self.restart
        self._check_output(goes_on)
        if not self.inputs.lasting:
            return self._once(goes_on, folder)
        plan = self._plan(folder, goes_on)
        alone = isinstance(self.engine, InProcess) and plan.units == 1 and self.kind != "shards"
        if alone and not goes_on:  # there is nothing that could be resumed
            self._alone(plan.rows, folder)
            return plan.about
        with folder.held():
            self._begin(folder, plan)
            self._in_parts(folder, plan)
        return plan.about

    @contextmanager
    def parts(self) -> Iterator[Summary]:
        """Encode, and give the folder of the run to be read; it is deleted when the block ends without an error."""
        started = time.monotonic()
        check_parent(self.output)
        check_no_input(self.output, self.inputs.paths)
        if not self.inputs.lasting:
            raise Sen2ProError(_ONLY_ONCE)
        tidy(self.output)
        folder = RunFolder(self.output)
        plan = self._plan(folder, folder.has_run and not self.restart)
        with folder.held():
            self._begin(folder, plan)
            self._in_parts(folder, plan)
            if self.resumed:
                folder.check_shards(plan)
            self.engine.close()  # what comes next may need the memory
            try:
                yield self._summary(plan.about, folder.path, started)
            except BaseException:
                so_far = f"the {self.report.rows:,} encoded rows are kept in {folder.path}"
                _LOG.info("%s; the same command goes on from there", so_far)
                raise
            folder.remove()

    def _check_output(self, goes_on: bool) -> None:
        overwrite = self.overwrite or (goes_on and self.kind != "shards")
        check_output(self.output, self.kind, self.inputs.paths, overwrite=overwrite)

    def _plan(self, folder: RunFolder, goes_on: bool) -> Plan:
        """Read the input, start the engine, and say what is to be done."""
        files, columns = self._files(folder, goes_on)
        self.how = How(self.how.ids, self.how.texts, columns, self.how.batch_size, self.how.skip_faults)
        about, self.engine = self._started(files, goes_on)
        unit, shard = unit_rows(about.passes)
        return Plan(about, tuple(files), self.inputs.options(), self.how, self.kind, unit, shard)

    def _begin(self, folder: RunFolder, plan: Plan) -> None:
        """Write the plan, or compare it with that of the run that is to go on."""
        if folder.has_run and not self.restart:
            plans.check_same(plans.read(folder.path), plan, folder.path)
            return
        if self.restart:
            folder.clear()
        folder.write_plan(plan)

    def _files(self, folder: RunFolder, goes_on: bool) -> tuple[list[InputFile], dict[str, str]]:
        """Return what the input holds: as the unfinished run knows it if it is unchanged, else by reading it."""
        if not goes_on:
            return self.inputs.scan(skip_faults=self.how.skip_faults)
        found = plans.read(folder.path)
        files = plans.known_inputs(found, self.inputs.digests(), self.inputs.kinds(), self.inputs.paths, folder.path)
        return files, found["columns"]

    def _started(self, files: Sequence[InputFile], goes_on: bool) -> tuple[About, Engine]:
        """Start the engine; one unit is not worth the start of other processes."""
        about = self.engine.start(self.model)
        few = sum(file.rows for file in files) <= unit_rows(about.passes)[0]
        if isinstance(self.engine, Processes) and few and not goes_on:
            here = InProcess()
            return here.start(self.engine.model or self.model), here
        return about, self.engine

    def _once(self, goes_on: bool, folder: RunFolder) -> About:
        """Encode what can be read only once."""
        if goes_on or self.kind == "shards" or not isinstance(self.engine, InProcess) or self.inputs.keep:
            raise Sen2ProError(_ONLY_ONCE)
        about = self.engine.start(self.model)
        self._alone(None, folder)
        return about

    def _alone(self, total: int | None, folder: RunFolder) -> None:
        """Encode without parts; those of an old run, which is to be thrown away, go when all is done."""
        if not folder.path.is_dir():
            self._straight(total)
            return
        with folder.held():
            self._straight(total)
            folder.remove()

    def _straight(self, total: int | None) -> None:
        """Encode all rows straight into the output: the same chunks and row groups, without parts."""
        assert isinstance(self.engine, InProcess)
        model = self.engine.model
        assert model is not None
        with (
            GaussianWriter(self.output, overwrite=self.overwrite) as writer,
            progress(total, self.show, unit="sentences") as advance,
        ):
            groups = Regrouped(writer)
            for _, rows, faults in cut_into_chunks(self.inputs.rows(), self.how):
                self.report.skip(faults)
                if rows:
                    piece, more = encode_chunk(model, rows, self.how, advance)
                    self.report.add(more)
                    if len(piece.gaussian):
                        groups.add(piece)
            groups.finish()
            if not self.report.rows:
                writer.write(model.encode([]))
            self._note_skipped(writer)

    def _note_skipped(self, writer: GaussianWriter) -> None:
        if self.report.skipped_rows:
            writer.notes[NOTE] = self.report.to_json()

    def _in_parts(self, folder: RunFolder, plan: Plan) -> None:
        """Encode what is missing, unit by unit, and make the output of all."""
        done = folder.done(plan)
        self.resumed = sum(report.rows for report in done.values())
        rows = self._rows_of(done, plan)
        if self.kind != "shards" and rows < plan.rows and self.output.exists() and not self.overwrite:
            raise Sen2ProError(f"{self.output} exists; pass overwrite=True to replace it")
        if done:
            _LOG.info("going on with %s: %s of %s rows are done", folder.path, f"{rows:,}", f"{plan.rows:,}")
        state = self.inputs.state()
        try:
            with progress(plan.rows, self.show, unit="sentences", before=rows) as advance:
                missing = self._missing(done, folder, plan)
                for unit, report in self.engine.run(missing, folder.unit, self.how, advance):
                    done[unit.number] = report
                    if self.kind == "shards":
                        self._finish_shard(unit.number // plan.units_of_shard, done, folder, plan)
                    self._forget_skipped(done, folder, plan, len(report.skipped))
            if self.inputs.state() != state:
                raise Sen2ProError(_CHANGED)
            for number in sorted(done):
                self.report.add(done[number])
            self._finish(folder, plan)
        except OSError as error:
            raise self._full(error, folder, plan, done) from error
        except (KeyboardInterrupt, SystemExit):
            so_far = f"{self._rows_of(done, plan):,} of {plan.rows:,} rows are done and kept in {folder.path}"
            _LOG.info("stopped: %s; the same command goes on from there", so_far)
            raise

    def _forget_skipped(self, done: dict[int, Report], folder: RunFolder, plan: Plan, more: int) -> None:
        """Keep in memory only those names of skipped rows that the end can want: the first ones of all."""
        self._named += more
        if self._named <= MOST_NAMED:
            return
        left = shard_files.MOST_SKIPPED
        for number in sorted(done):
            names = done[number].skipped
            if self.kind != "shards" or folder.has_shard(number // plan.units_of_shard):  # other shards need theirs
                del names[left:]
            left = max(0, left - len(names))
        self._named = sum(len(report.skipped) for report in done.values())

    def _rows_of(self, done: dict[int, Report], plan: Plan) -> int:
        """Return how many rows of the input are done: skipped ones too."""
        return sum(plan.size(number) for number in self._units(done, plan))

    def _units(self, done: dict[int, Report], plan: Plan) -> set[int]:
        """Return the numbers of the units that are done, alone or in a shard."""
        folder = RunFolder(self.output)
        found = set(done)
        for number in done:
            shard, first = divmod(number, plan.units_of_shard)
            if self.kind == "shards" and not first and folder.has_shard(shard):
                found |= set(range(number, min(plan.units, number + plan.units_of_shard)))
        return {number for number in found if number < plan.units}

    def _missing(self, done: dict[int, Report], folder: RunFolder, plan: Plan) -> Iterator[Unit]:
        """Yield the units that are not done, in their order; the input is read once from the first of them on."""
        have = self._units(done, plan)
        if self.kind == "shards":
            for number in {each // plan.units_of_shard for each in have}:
                self._finish_shard(number, done, folder, plan)
        first = next((number for number in range(plan.units) if number not in have), None)
        if first is None:
            return
        rows = self.inputs.rows(first * plan.unit, [file.rows for file in plan.inputs])
        for number in range(first, plan.units):
            given = islice(rows, plan.unit)
            if number in have:
                for _ in given:
                    pass
                continue
            chunks = list(cut_into_chunks(given, self.how))
            size = sum(chunk[0] for chunk in chunks)
            if size != plan.size(number):
                raise Sen2ProError(_CHANGED)
            yield Unit(number, size, [chunk[1] for chunk in chunks], [each for chunk in chunks for each in chunk[2]])

    def _finish_shard(self, number: int, done: dict[int, Report], folder: RunFolder, plan: Plan) -> None:
        """Make a shard if all its units are done."""
        first = number * plan.units_of_shard
        units = range(first, min(plan.units, first + plan.units_of_shard))
        if folder.has_shard(number) or not all(each in done for each in units):
            return
        report = Report()
        for each in units:
            report.add(done[each])
        folder.make_shard(number, plan, report)
        for each in units:
            del done[each]
        done[first] = report

    def _finish(self, folder: RunFolder, plan: Plan) -> None:
        if self.stays:
            folder.list_shards(plan, self.report)
            return
        if self.kind == "shards":
            if self.output.exists() and not self.overwrite:  # it was made while we worked
                raise Sen2ProError(
                    f"{self.output} exists; pass overwrite=True to replace it. All rows are done and kept in "
                    f"{folder.path}"
                )
            self._check_output(goes_on=True)
            folder.finish_shards(plan, self.report)
            return
        units = [folder.unit(number) for number in range(plan.units)]
        if self.output.exists() and not self.overwrite:
            if not holds(self.output, units, self.report):
                raise Sen2ProError(f"{self.output} exists; pass overwrite=True to replace it")
        else:
            missing = folder.bytes() - shutil.disk_usage(self.output.absolute().parent).free
            if missing > 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.output))
            with (
                GaussianWriter(self.output, overwrite=self.overwrite) as writer,
                progress(self.report.rows, self.show, unit="sentences", title="joining") as advance,
            ):
                join(units, writer, advance)
                self._note_skipped(writer)
        folder.remove()

    def _full(self, error: OSError, folder: RunFolder, plan: Plan, done: dict[int, Report]) -> OSError:
        """Say of a full disk how much room is missing, about; any other error is returned as it is."""
        if error.errno not in FULL_DISK or not folder.path.is_dir():
            return error
        written, rows = folder.bytes(), sum(report.rows for report in done.values())
        left = plan.rows - self._rows_of(done, plan)
        per_row = written / rows if rows and written else 8.0 * plan.about.dim
        wanted = left * per_row + (0 if self.kind == "shards" else plan.rows * per_row)
        free = shutil.disk_usage(folder.path).free
        more = f"about {max(wanted - free, per_row * plan.unit) / 1e6:,.0f} MB more are needed"
        kept = f"{self._rows_of(done, plan):,} of {plan.rows:,} rows are kept in {folder.path}"
        why = f"{os.strerror(error.errno)}; {more}. {kept}; make room, and the same command goes on"
        return OSError(error.errno, why, error.filename or str(self.output))
