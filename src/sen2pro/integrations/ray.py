"""Encode on a Ray cluster: a dataset of your own by `encode_dataset`, files by `RayEngine` for `encode_files`.

It needs the extra `ray`. The model travels as its settings, so a folder that they name must be there on every node.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.data import ActorPoolStrategy, Dataset

from sen2pro.checks import check_whole
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io.atomic import replacing
from sen2pro.io.gaussians import COLUMNS
from sen2pro.io.inputs import Record
from sen2pro.jobs.cluster import Exits, check_address
from sen2pro.jobs.engines import MOST_DEATHS, Counted, Model, Place, describe, loaded, portable
from sen2pro.jobs.plan import About
from sen2pro.jobs.units import Advance, How, Report, Unit, encode_chunk, encode_unit_bytes
from sen2pro.model import Sen2Pro
from sen2pro.settings import Settings

_LOG = logging.getLogger("sen2pro")
_EVERY = 1.0  # seconds between two looks at how far the actors are
_PATIENCE = 60.0  # seconds without an actor until that is said, and again
_SLOW, _LEAST = 3.0, 10.0  # times the usual, and seconds, after which a unit is given to a second actor too


def encode_dataset(
    dataset: Dataset, settings: Settings | Sen2Pro, *, column: str = "text", actors: int | tuple[int, int] = 1,
    cpus: float = 1, gpus: float = 0, batch_size: int = 256, on_error: str = "fail",
) -> Dataset:  # fmt: skip
    """Add the Gaussians of a column of texts to a Ray dataset.

    The new columns are `mean` and `variance` (fixed-size lists of float32), `total_variance`, `model_variance` and
    `data_variance`, and with a head `coverage`. As in all of Ray Data, nothing runs until the result is used.

    Parameters
    ----------
    dataset
        A dataset with a column of texts; its other columns stay.
    settings
        The `Settings` of a model, or a `Sen2Pro`, which travels as its settings. Each actor loads it once.
    actors
        The number of actors, or the least and the most of a pool that grows with the work.
    cpus, gpus
        What an actor takes of the cluster; torch gets so many threads. For a GPU give `Settings(device="cuda")` too.
    batch_size
        Rows that are encoded at once. The numbers of a row do not depend on it, but for rounding (1e-5).
    on_error
        `fail` ends the work at a text that cannot be encoded; `skip` leaves its row out.

    Examples
    --------
    >>> import ray
    >>> from sen2pro.settings import Settings
    >>> texts = ray.data.from_items([{"text": "One sentence."}, {"text": "Another one."}])  # doctest: +SKIP
    >>> gaussians = encode_dataset(texts, Settings(method="one-pass"), actors=2)  # doctest: +SKIP
    >>> gaussians.write_parquet("gaussians")  # doctest: +SKIP
    """
    if not isinstance(settings, (Settings, Sen2Pro)):
        raise Sen2ProError(f"give the Settings of a model, or a Sen2Pro, not {type(settings).__name__}")
    one_of("on_error", on_error, ("fail", "skip"))
    least, most = (actors, actors) if isinstance(actors, int) else actors
    check_whole("actors", least, 1)
    pool = ActorPoolStrategy(min_size=least, max_size=check_whole("actors", most, least))
    arguments = (pickle.dumps(settings), column, _threads(cpus), on_error == "skip")
    return dataset.map_batches(
        _BatchEncoder, fn_constructor_args=arguments, compute=pool, num_cpus=cpus, num_gpus=gpus,
        batch_size=check_whole("batch_size", batch_size, 1), batch_format="pyarrow",
    )  # fmt: skip


def _threads(cpus: float) -> int:
    return max(1, int(cpus))


def _load(pickled: bytes, threads: int) -> Sen2Pro:
    """Load a model in an actor, with as many threads as the actor has CPUs."""
    import torch

    torch.set_num_threads(threads)
    return loaded(pickle.loads(pickled))


class _BatchEncoder:
    """The actor class of `encode_dataset`."""

    def __init__(self, pickled: bytes, column: str, threads: int, skip: bool) -> None:
        self._model, self._column = _load(pickled, threads), column
        self._how = How(texts=False, skip_faults=skip)

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        if self._column not in table.column_names:
            raise Sen2ProError(f"there is no column {self._column!r}, only: {', '.join(table.column_names)}")
        taken = [name for name in COLUMNS if name in table.column_names and name not in ("id", "text")]
        if taken:
            raise Sen2ProError(f"the dataset has a column {taken[0]!r} already; rename it")
        rows, left_out = _rows(table.column(self._column).to_pylist(), self._how.skip_faults)
        kept = [number for number in range(len(table)) if number not in left_out]
        if rows:
            piece, report = encode_chunk(self._model, rows, How(texts=False, skip_faults=self._how.skip_faults))
            poisoned = {int(place.rsplit(" ", 1)[1]) for place, _ in report.skipped}
            kept = [number for number in kept if number not in poisoned]
            gaussian, totals = piece.gaussian, piece.totals
        if not kept:  # an empty batch has the columns of a full one
            full, _ = encode_chunk(self._model, [("", Record(None, "a", ""))], How(texts=False))
            gaussian, totals = full.part(0, 0).gaussian, full.part(0, 0).totals
        result = table.take(kept) if len(kept) < len(table) else table
        columns: dict[str, Any] = {"total_variance": gaussian.total_variance, **totals}
        if gaussian.coverage is not None:
            columns["coverage"] = gaussian.coverage
        for name, numbers in columns.items():
            result = result.append_column(name, pa.array(numbers))
        for name in ("mean", "variance"):
            flat = pa.array(getattr(gaussian, name).reshape(-1))
            result = result.append_column(name, pa.FixedSizeListArray.from_arrays(flat, gaussian.dim))
        return result


def _rows(texts: Sequence[Any], skip: bool) -> tuple[list[tuple[str, Record]], set[int]]:
    """Return texts as rows to encode, each named by its number in the batch, and the numbers of those that are none."""
    faulty = {number for number, text in enumerate(texts) if not isinstance(text, str) or not text.strip()}
    if faulty and not skip:
        number = min(faulty)
        raise Sen2ProError(f"row {number} of a batch is not a text but {texts[number]!r}; pass on_error='skip'")
    sound = [(number, text) for number, text in enumerate(texts) if number not in faulty]
    return [("the batch", Record(None, text, f"row {number}")) for number, text in sound], faulty


class _UnitEncoder:
    """The actor class of `RayEngine`: encodes units and gives back their files, so that no disk has to be shared."""

    def __init__(self, pickled: bytes, threads: int) -> None:
        self._threads, self._rows = threads, 0.0
        self._model = _load(pickled, threads)

    def about(self) -> About:
        return describe(self._model)

    def process(self) -> int:
        import os

        return os.getpid()

    def rows(self) -> float:
        """Return how many rows of the unit in hand are done; called from another thread."""
        return self._rows

    def encode(self, unit: Unit, how: How) -> tuple[bytes, Report] | BaseException:
        import torch

        torch.set_num_threads(self._threads)  # of the thread that Ray calls this in
        self._rows = 0.0
        try:
            return encode_unit_bytes(self._model, unit, how, self._count)
        except Exception as error:
            return portable(error)

    def _count(self, rows: float) -> None:
        self._rows += rows


@dataclass
class _Task:
    """A unit in the hand of an actor."""

    actor: Any
    unit: Unit
    counted: Counted
    started: float = field(default_factory=time.monotonic)
    told: float = 0.0


@dataclass
class RayEngine:
    """Encode units on a Ray cluster, for `encode_files(engine=...)` and `sen2pro encode --engine ray`.

    Each actor loads the model once, takes `cpus` and `gpus` of the cluster, and uses so many threads. The driver reads
    the input and writes the parts, so the nodes need no shared disk. The unit of an actor or node that dies is given
    to another one; a slow one's to a second actor, as soon as that has nothing else to do.

    Parameters
    ----------
    workers
        The number of actors; by default as many as the cluster has room for.
    address
        Of a cluster; by default the one that runs (`ray.init()` was called, or RAY_ADDRESS says so), else a new one on
        this machine.

    Examples
    --------
    >>> from sen2pro.jobs import encode_files
    >>> from sen2pro.settings import Settings
    >>> settings = Settings(method="one-pass")
    >>> encode_files(settings, "texts", "gaussians", shards=True, engine=RayEngine())  # doctest: +SKIP
    """

    workers: int | None = None
    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    _actors: list[Any] = field(default_factory=list, init=False, repr=False)
    _starting: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # what it will say -> actor
    _began: bool = field(default=False, init=False, repr=False)
    _pickled: bytes = field(default=b"", init=False, repr=False)
    _exits: Exits = field(default_factory=Exits, init=False, repr=False)

    def start(self, model: Model) -> About:
        """Connect to the cluster, start the actors, and ask the first of them what the model is."""
        self._exits.watch()
        with self._exits.kept():
            return self._start(model)

    def _start(self, model: Model) -> About:
        if self.workers is not None:
            check_whole("workers", self.workers, 1)
        self._pickled = pickle.dumps(model if isinstance(model, (Settings, Sen2Pro)) else loaded(model))
        self._connect()
        room = ray.cluster_resources()
        fitting = [room.get(name, 0) // each for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each]
        for _ in range(self.workers or max(1, int(min(fitting, default=1)))):
            self._add_actor()
        deaths: dict[int, int] = {}
        while not self._actors:
            for ref in self._wait(list(self._starting)):
                self._greet(ref, [], deaths)
        about: About = _get(self._actors[0].about.remote())
        return about

    def _connect(self) -> None:
        if ray.is_initialized():
            return
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        before = signal.getsignal(signal.SIGTERM)
        address = self.address or os.environ.get("RAY_ADDRESS")
        if address:
            check_address(address)
            _LOG.info("connecting to the Ray cluster at %s", address)
        try:
            ray.init(self.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise Sen2ProError(f"there is no Ray cluster at {address!r}: {error}") from None
        except SystemExit as error:
            if error.code == signal.SIGTERM and callable(before):  # Ray has a handler of its own until we take it back
                before(signal.SIGTERM, None)
            raise
        finally:
            if threading.current_thread() is threading.main_thread() and before is not None:
                signal.signal(signal.SIGTERM, before)
        self._began = True

    def _add_actor(self) -> None:
        kind = ray.remote(_UnitEncoder).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_concurrency=2, scheduling_strategy="SPREAD"
        )
        actor = kind.remote(self._pickled, _threads(self.cpus))
        self._starting[actor.about.remote()] = actor

    def _wait(self, refs: list[Any]) -> list[Any]:
        """Wait for any of some results; say so if none comes for long."""
        since = time.monotonic()
        while True:
            ready, _ = ray.wait(refs, num_returns=1, timeout=_EVERY)
            if ready or time.monotonic() - since > _PATIENCE:
                break
        if not ready:
            _LOG.info("waiting for the Ray cluster: no actor could be started yet (has it enough CPUs or GPUs?)")
        return list(ready)

    def run(self, units: Iterator[Unit], place: Place, how: How, advance: Advance) -> Iterator[tuple[Unit, Report]]:
        """Give units to idle actors, write what comes back, and yield it."""
        with self._exits.kept():
            yield from self._run(units, place, how, advance)

    def _run(self, units: Iterator[Unit], place: Place, how: How, advance: Advance) -> Iterator[tuple[Unit, Report]]:
        idle, tasks = list(self._actors), dict[Any, _Task]()
        again: list[Unit] = []
        deaths: dict[int, int] = {}
        done: set[int] = set()
        times: list[float] = []
        exhausted, looked = False, time.monotonic()
        while True:
            while idle:
                unit = again.pop() if again else None if exhausted else next(units, None)
                exhausted = exhausted or (unit is None and not again)
                unit = unit or self._slow(tasks, times)
                if unit is None:
                    break
                actor = idle.pop()
                tasks[actor.encode.remote(unit, how)] = _Task(actor, unit, Counted(unit.size, advance))
            if exhausted and not again and all(task.unit.number in done for task in tasks.values()):
                return
            ready, _ = ray.wait([*tasks, *self._starting], num_returns=1, timeout=_EVERY)
            if time.monotonic() - looked > max(_EVERY, len(tasks) / 100):
                self._look(tasks, done)
                looked = time.monotonic()
            for ref in ready:
                if ref in self._starting:
                    self._greet(ref, idle, deaths)
                    continue
                task = tasks.pop(ref)
                number = task.unit.number
                try:
                    found = ray.get(ref)
                except ray.exceptions.RayError:  # the actor, its node or its memory is gone
                    task.counted.undo()
                    self._forget(task.actor)
                    deaths[number] = deaths.get(number, 0) + 1
                    if deaths[number] > MOST_DEATHS and number not in done:
                        raise Sen2ProError(
                            f"unit {number} was lost {deaths[number]} times with its actor; is there enough memory?"
                        ) from None
                    if number not in done and all(other.unit.number != number for other in tasks.values()):
                        again.append(task.unit)
                    self._add_actor()
                    continue
                idle.append(task.actor)
                if isinstance(found, BaseException):
                    raise found
                if number in done:  # another actor was faster
                    continue
                content, report = found
                with replacing(place(number)) as temporary:
                    temporary.write_bytes(content)
                done.add(number)
                times.append(time.monotonic() - task.started)
                for other in tasks.values():
                    if other.unit.number == number:
                        other.counted.undo()
                task.counted.finish()
                yield task.unit, report

    def _greet(self, ref: Any, idle: list[Any], deaths: dict[int, int]) -> None:
        """Take in an actor that is ready; one that died before it was is replaced, some times."""
        actor = self._starting.pop(ref)
        try:
            _get(ref)
        except _Died:
            deaths[-1] = deaths.get(-1, 0) + 1
            if deaths[-1] > MOST_DEATHS:
                raise
            self._add_actor()
            return
        self._actors.append(actor)
        idle.append(actor)

    def _slow(self, tasks: dict[Any, _Task], times: list[float]) -> Unit | None:
        """Return the unit that takes far longer than the others did, if only one actor has it in hand."""
        if not times:
            return None
        limit = max(_LEAST, _SLOW * statistics.median(times))
        numbers = [task.unit.number for task in tasks.values()]
        slow = [
            task
            for task in tasks.values()
            if time.monotonic() - task.started > limit and numbers.count(task.unit.number) == 1
        ]
        return min(slow, key=lambda task: task.started).unit if slow else None

    def _look(self, tasks: dict[Any, _Task], done: set[int]) -> None:
        """Ask the actors how far they are; who does not answer at once is not waited for."""
        first: dict[int, _Task] = {}
        for task in tasks.values():
            if task.unit.number not in done:
                first.setdefault(task.unit.number, task)
        asked = {task.actor.rows.remote(): task for task in first.values()}
        answers, _ = ray.wait(list(asked), num_returns=len(asked), timeout=0.2) if asked else ([], [])
        for ref in answers:
            task = asked[ref]
            try:
                rows = float(ray.get(ref))
            except ray.exceptions.RayError:
                continue
            task.counted(max(0.0, rows - task.told))
            task.told = max(rows, task.told)

    def _forget(self, actor: Any) -> None:
        self._actors = [each for each in self._actors if each is not actor]

    def close(self) -> None:
        """End the actors, and the cluster if this engine started it."""
        self._exits.forget()
        if not ray.is_initialized():
            return
        for actor in (*self._actors, *self._starting.values()):
            ray.kill(actor)
        self._actors.clear()
        self._starting.clear()
        if self._began:
            ray.shutdown()


class _Died(Sen2ProError):
    """An actor was lost before it was ready, for a reason that may be gone the next time."""


def _get(ref: Any) -> Any:
    """Return what an actor says; why it could not start becomes one clear error."""
    try:
        return ray.get(ref)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Sen2ProError):
            raise Sen2ProError(str(cause)) from None
        told = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise _Died(f"an actor of the Ray cluster could not start: {told[-1] if told else error}") from None
