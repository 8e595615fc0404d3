"""Encode files of any size into one file of Gaussians, or into a folder of shards."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io.atomic import FULL_DISK, check_path
from sen2pro.io.gaussians import GaussianBatch, GaussianWriter
from sen2pro.io.inputs import InputFile, Inputs, expand
from sen2pro.io.rows import LONGEST_LINE, file_digest
from sen2pro.jobs import workers as encoders
from sen2pro.jobs.run_folder import Plan, RunFolder, check_output, tidy, write_pieces
from sen2pro.jobs.workers import NOTE, Model, RowOptions, RowsReport, Unit, cut_into_units, encode_unit, load_model
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.signature import Signature
from sen2pro.validation import check_whole

_LOG = logging.getLogger("sen2pro")
Stops = type[BaseException] | tuple[type[BaseException], ...]
ON_ERROR = ("fail", "skip")
_CHANGED = "the input was changed while it was read; start again with restart=True"
_ONLY_ONCE = (
    "standard input and pipes can be read only once: without workers, shards, columns to keep, or an unfinished run to "
    "resume. Write the sentences to a file first"
)


@dataclass
class Summary:
    """The result of a run.

    `report` counts all rows, and `resumed` those that an earlier run had encoded. `dim` is the number of dimensions.
    """

    output: Path
    report: RowsReport
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
    on_error: str = "fail", shards: bool = False, workers: int = 1, restart: bool = False, overwrite: bool = False,
    batch_size: int | None = None, longest_line: int = LONGEST_LINE, show_progress_bar: Show = None,
) -> Summary:  # fmt: skip
    r"""Turn files of sentences into a file of Gaussians, or a folder of shards.

    A run that was stopped or killed resumes when it is called again, and writes the same bytes. Until the end its parts
    are in the folder OUTPUT.parts. Memory does not grow with the input.

    Parameters
    ----------
    model
        A `Sen2Pro`, its `Settings`, or a function that loads one.
    inputs
        Files, a folder or a pattern (see `sen2pro.io.inputs.expand`), read one after the other; `-` is standard input,
        which can be read only once, so such a run cannot be resumed.
    output
        A .parquet or .safetensors file; with `shards` the name of a new folder.
    column, id_column, skip_blank, longest_line
        As for `sen2pro.io.inputs.sentences`.
    keep
        Other columns to keep: texts, numbers or booleans.
    text
        Whether to keep the sentences in the output (Parquet).
    on_error
        `fail` stops at a row that cannot be read or encoded and names it; `skip` leaves it out and continues.
    shards
        Write a folder of Parquet files, one for each 4,096 rows of the input.
    workers
        Number of processes, each with one thread. It changes the speed, not the bytes. A script with `workers` calls
        this under `if __name__ == "__main__":`, because each process imports the script again.
    restart
        Delete an unfinished run. Without it, an unfinished run of another input or other settings is an error.

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
    found = Inputs(expand(inputs, path), column, id_column, keep, skip_blank, longest_line)
    options = RowOptions(bool(id_column), text and tables, {}, batch_size, on_error == "skip")
    return _Run(model, found, path, kind, options, workers, restart, overwrite, show_progress_bar).go()


@contextmanager
def shards_for(
    model: Model, inputs: str | Path | Sequence[str | Path], output: str | Path, *, column: str | None = None,
    id_column: str | None = None, keep: Sequence[str] = (), skip_blank: bool = False, workers: int = 1,
    restart: bool = False, longest_line: int = LONGEST_LINE, show_progress_bar: Show = None,
) -> Iterator[Summary]:  # fmt: skip
    r"""Encode files into shards from which `output` is then made: an index, for instance.

    The summary's `output` is the folder of the shards, OUTPUT.parts, while the block lasts. When the block ends without
    an error, the folder is deleted. Otherwise it stays, and the same call resumes. Arguments are as for `encode_files`.

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
    found = Inputs(expand(inputs, path), column, id_column, keep, skip_blank, longest_line)
    options = RowOptions(bool(id_column))
    with _Run(model, found, path, "shards", options, workers, restart, True, show_progress_bar).parts() as summary:
        yield summary


def _named(output: str | Path) -> Path:
    path = check_path(output)
    if path.name in ("", ".."):
        raise Sen2ProError(f"{str(output)!r} is an existing folder; give the name of a new file or folder")
    return path


@dataclass
class _Run:
    """One call of `encode_files` or `shards_for`."""

    model: Model
    inputs: Inputs
    output: Path
    kind: str  # parquet, safetensors or shards
    options: RowOptions
    workers: int
    restart: bool
    overwrite: bool
    show: Show
    report: RowsReport = field(default_factory=RowsReport)
    resumed: int = 0
    _loaded: Sen2Pro | None = None
    _dim: int = 0

    def __post_init__(self) -> None:
        check_whole("workers", self.workers, 1, 1024)
        self._started = time.monotonic()

    def go(self) -> Summary:
        """Write the output."""
        tidy(self.output)
        folder = RunFolder(self.output)
        resumes = folder.has_run and not self.restart
        check_output(
            self.output, self.kind, self.inputs.paths, overwrite=self.overwrite or (resumes and self.kind != "shards")
        )
        if not self.inputs.lasting:
            if resumes or self.kind == "shards" or self.workers > 1 or self.inputs.keep:
                raise Sen2ProError(_ONLY_ONCE)
            signature = self._load().signature()
            self._straight(folder, None)
            return self._summary(signature, self.output)
        plan = self._plan(folder, resumes)
        if plan.units == 1 and self.kind != "shards" and not resumes:  # there is nothing that could be resumed
            self._straight(folder, plan.rows)
            return self._summary(plan.signature, self.output)
        with folder.held():
            folder.begin(plan, restart=self.restart)
            with self._keeping(folder, plan):
                self._encode(folder, plan)
                self._finish(folder, plan)
        return self._summary(plan.signature, self.output)

    @contextmanager
    def parts(self) -> Iterator[Summary]:
        """Encode, and give the folder of the run to be read; it is deleted when the block ends without an error."""
        check_output(self.output, "parts", self.inputs.paths, overwrite=True)
        if not self.inputs.lasting:
            raise Sen2ProError(_ONLY_ONCE)
        tidy(self.output)
        folder = RunFolder(self.output)
        plan = self._plan(folder, folder.has_run and not self.restart)
        with folder.held():
            folder.begin(plan, restart=self.restart)
            with self._keeping(folder, plan):
                self._encode(folder, plan)
            folder.list_shards(plan, self.report)
            for _ in folder.pieces(plan) if self.resumed else ():
                pass  # compares the shards of an earlier run with their digests
            self._loaded = None  # the block may need the memory
            with self._keeping(folder, plan, BaseException):
                yield self._summary(plan.signature, folder.path)
            folder.remove()

    def _load(self) -> Sen2Pro:
        self._loaded = load_model(self.model)
        self._dim = self._loaded.dim
        return self._loaded

    def _summary(self, signature: Signature, output: Path) -> Summary:
        return Summary(output, self.report, signature, self._dim, time.monotonic() - self._started, self.resumed)

    def _plan(self, folder: RunFolder, resumes: bool) -> Plan:
        """Check the input and load the model: all that decides the output.

        An input that an unfinished run has checked is not read again, but compared with its digests.
        """
        if resumes:
            old = folder.read_plan()
            paths, kinds = self.inputs.paths, [reader.kind for reader in self.inputs.readers]
            files: Sequence[InputFile] = folder.known_inputs(old, [*map(file_digest, paths)], kinds, paths)
            columns = old.columns
        else:
            files, columns = self.inputs.scan(skip_faults=self.options.skip_faults)
        self.options = replace(self.options, columns=columns)
        model = self._load()
        if sum(file.rows for file in files) <= encoders.UNIT:
            self.workers = 1  # one unit is not worth the start of other processes
        return Plan(
            signature=model.signature(), device=model.encoder.device.type, threads=_threads(model, self.workers),
            inputs=tuple(files), reading=self.inputs.options, columns=columns, texts=self.options.texts,
            batch_size=self.options.batch_size, output=self.kind, unit=encoders.UNIT,
        )  # fmt: skip

    def _straight(self, folder: RunFolder, total: int | None) -> None:
        """Write the output without parts; an old run, which is to be replaced, is deleted at the end."""
        model = self._loaded
        assert model is not None
        with progress(total, self.show, unit="sentences") as advance:

            def pieces() -> Iterator[GaussianBatch]:
                for unit in cut_into_units(self.inputs.rows(), self.options):
                    piece, report = encode_unit(model, unit, self.options, advance)
                    self.report += report
                    yield piece

            with GaussianWriter(self.output, overwrite=self.overwrite) as writer:
                write_pieces(pieces(), writer)
                if self.report.skipped_rows:
                    writer.notes[NOTE] = self.report.to_json()
        if folder.path.is_dir():
            with folder.held():
                folder.remove()

    def _encode(self, folder: RunFolder, plan: Plan) -> None:
        """Encode the units that are missing."""
        done = folder.done(plan)
        self.resumed, before = sum(done.values()), sum(map(plan.size, done))
        self._check_free(folder)
        if done:
            _LOG.info("resuming %s: %s of %s rows are done", folder.path, f"{before:,}", f"{plan.rows:,}")
        state = self.inputs.state()
        units = self._missing(plan, set(done))
        with progress(plan.rows, self.show, unit="sentences", before=before) as advance:
            model = self._loaded
            assert model is not None
            if self.workers == 1 or len(done) == plan.units:
                encoders.run_here(model, units, folder.shard, self.options, advance)
            else:
                pickled, model, self._loaded = pickle.dumps(model), None, None  # the workers need the memory
                encoders.run_in_pool(pickled, self.workers, units, folder.shard, self.options, advance)
        if self.inputs.state() != state:
            raise Sen2ProError(_CHANGED)
        self.report = folder.report(plan)

    @contextmanager
    def _keeping(self, folder: RunFolder, plan: Plan, stops: Stops = (KeyboardInterrupt, SystemExit)) -> Iterator[None]:
        """Say how many rows are kept when one of the `stops`, or a full disk, ends a run."""
        try:
            yield
        except BaseException as error:
            rows = sum(plan.size(number) for number in range(plan.units) if folder.shard(number).exists())
            kept = f"{rows:,} of {plan.rows:,} rows are kept in {folder.path}"
            if isinstance(error, OSError) and error.errno in FULL_DISK:
                why = f"{os.strerror(error.errno)}. {kept}; make room and run the same command again to resume"
                raise OSError(error.errno, why, str(self.output)) from error
            if isinstance(error, stops):
                _LOG.info("Stopped. %s. Run the same command again to resume.", kept)
            raise

    def _check_free(self, folder: RunFolder) -> None:
        """Refuse to replace an output that this run did not make; it may have been made while we worked."""
        if self.output.exists() and not self.overwrite and not folder.is_output():
            raise Sen2ProError(
                f"{self.output} exists; pass overwrite=True to replace it. Rows are kept in {folder.path}"
            )

    def _missing(self, plan: Plan, done: set[int]) -> Iterator[Unit]:
        """Yield the units that are not done, in their order; the input is read from the first of them on."""
        first = next((number for number in range(plan.units) if number not in done), None)
        if first is None:
            return
        rows = self.inputs.rows(first * plan.unit, [file.rows for file in plan.inputs])
        for number in range(first, plan.units):
            given = islice(rows, plan.unit)
            if number in done:
                for _ in given:
                    pass
                continue
            unit = next(cut_into_units(given, self.options, number))
            if unit.size != plan.size(number):
                raise Sen2ProError(_CHANGED)
            yield unit

    def _finish(self, folder: RunFolder, plan: Plan) -> None:
        """Make the output of the shards, and delete the folder."""
        self._check_free(folder)
        if self.kind == "shards":
            check_output(self.output, self.kind, self.inputs.paths, overwrite=self.overwrite)
            folder.list_shards(plan, self.report)
            folder.become_output()
            return
        if not folder.is_output():
            with progress(self.report.rows, self.show, unit="sentences", title="joining") as advance:
                folder.join(plan, self.report, advance, overwrite=self.overwrite)
        folder.remove()


def _threads(model: Sen2Pro, workers: int) -> int:
    """Return the number of threads that encode; 0 where their number does not change the bytes."""
    import torch

    if model.encoder.concurrent:  # its batches do not depend on the number of threads
        return 0
    return torch.get_num_threads() if workers == 1 else 1
