"""Who encodes: this process, several of them, or (`sen2pro.integrations.ray`) a cluster. The results are the same."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any, Protocol

from sen2pro.errors import Sen2ProError, Sen2ProWarning, first_line
from sen2pro.io.atomic import remove_abandoned
from sen2pro.jobs.plan import About
from sen2pro.jobs.units import Advance, How, Report, Unit, encode_unit
from sen2pro.model import Sen2Pro
from sen2pro.settings import Settings
from sen2pro.validation import check_whole

Model = Sen2Pro | Settings | Callable[[], Sen2Pro]
Place = Callable[[int], Path]  # the file of a unit
MOST_DEATHS = 3  # of the processes that had the same unit in hand
_EVERY = 0.25  # seconds between two reports of a process


class Engine(Protocol):
    """Encodes units. `start` comes first, then `run`; `close` ends all that was started, whatever happened."""

    def start(self, model: Model) -> About:
        """Take the model, and tell what it is."""
        ...

    def run(self, units: Iterator[Unit], place: Place, how: How, advance: Advance) -> Iterator[tuple[Unit, Report]]:
        """Encode units into their files; yield each that is done. `advance` is told how many rows are, as they are."""
        ...

    def close(self) -> None:
        """End all that was started."""
        ...


def loaded(model: Model) -> Sen2Pro:
    """Return a model that is given as itself, as its settings, or by a function that loads it."""
    if isinstance(model, Settings):
        return Sen2Pro.from_settings(model)
    found = model if isinstance(model, Sen2Pro) else model() if callable(model) else model
    if not isinstance(found, Sen2Pro):
        raise Sen2ProError(f"model must be a Sen2Pro or its Settings, not {type(found).__name__}")
    return found


def describe(model: Sen2Pro) -> About:
    """Tell what a model is."""
    import torch

    own = model.encoder.concurrent  # whose batches do not depend on the number of threads
    threads = 0 if own else torch.get_num_threads()
    return About(model.signature(), model.dim, model.passes, model.encoder.device.type, threads)


@dataclass
class InProcess:
    """Encode here, one unit after the other, with as many threads as torch has."""

    model: Sen2Pro | None = None

    def start(self, model: Model) -> About:
        """Load the model."""
        self.model = loaded(model)
        return describe(self.model)

    def run(self, units: Iterator[Unit], place: Place, how: How, advance: Advance) -> Iterator[tuple[Unit, Report]]:
        """Encode units one after the other."""
        assert self.model is not None
        for unit in units:
            counted, path = Counted(unit.size, advance), place(unit.number)
            try:
                report = encode_unit(self.model, unit, path, how, counted)
            except BaseException:  # Ctrl-C may have come while its file was being deleted
                remove_abandoned(path)
                raise
            counted.finish()
            yield unit, report

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


class Counted:
    """Tells how many rows of a unit are done: not more than it has, and all of them in the end."""

    def __init__(self, size: int, advance: Advance) -> None:
        self._size, self._advance, self._done = size, advance, 0.0

    def __call__(self, rows: float) -> None:
        """Count some rows."""
        more = min(rows, self._size - self._done)
        self._done += more
        self._advance(more)

    def finish(self) -> None:
        """Count what is left: blank and faulty rows."""
        self(self._size - self._done)

    def undo(self) -> None:
        """Take back what was counted: the unit was lost."""
        self._advance(-self._done)
        self._done = 0.0


@dataclass
class Processes:
    """Encode in several processes of this machine, each with one thread and a model of its own.

    >>> Processes(0)
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: workers must be a whole number between 1 and 1024, not 0
    """

    workers: int
    model: Sen2Pro | None = field(default=None, init=False, repr=False)
    _running: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the number of processes."""
        check_whole("workers", self.workers, 1, 1024)

    def start(self, model: Model) -> About:
        """Load the model here, to tell what it is; it travels as its settings."""
        self.model = loaded(model)
        about = describe(self.model)
        return replace(about, threads=min(about.threads, 1))

    def run(self, units: Iterator[Unit], place: Place, how: How, advance: Advance) -> Iterator[tuple[Unit, Report]]:
        """Give units to whoever is idle; a unit whose process dies is given to another one."""
        pickled, self.model = pickle.dumps(self.model), None
        again: list[Unit] = []
        deaths: dict[int, int] = {}
        exhausted = False
        while True:
            for worker in [each for each in self._running if each.is_idle]:
                unit = again.pop() if again else None if exhausted else next(units, None)
                if unit is None:
                    exhausted = True
                    break
                worker.give(unit, place(unit.number), how, advance)
            wanted = sum(not each.is_idle for each in self._running) + len(again)
            if exhausted and not wanted:
                return
            while len(self._running) < (min(self.workers, wanted) if exhausted else self.workers):
                self._running.append(_Worker(pickled))
            for ready in connection.wait([each.pipe for each in self._running]):
                worker = next(each for each in self._running if each.pipe is ready)
                try:
                    done = worker.hear()
                except (EOFError, ConnectionResetError):
                    self._running.remove(worker)
                    lost = worker.end()
                    number = -1 if lost is None else lost.number
                    deaths[number] = deaths.get(number, 0) + 1
                    if deaths[number] >= MOST_DEATHS:
                        raise Sen2ProError(_died(lost, worker.code)) from None
                    again += [] if lost is None else [lost]
                    continue
                if done is not None:
                    yield done

    def close(self) -> None:
        """End all processes, and delete what they have half written."""
        for worker in self._running:
            worker.end()
        self._running.clear()


def _died(unit: Unit | None, code: int | None) -> str:
    ended = f"ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    if unit is None:
        told = f"a worker process {ended} {MOST_DEATHS} times before it was ready; "
        if code == 1:  # each worker runs the script again, up to the call that started it
            return told + 'does the script call encode_files under `if __name__ == "__main__":`? It has to'
        return told + "is there enough memory?"
    rows = [row for chunk in unit.chunks for row in chunk]
    where = f"{rows[0][0]}, {rows[0][1].place} to {rows[-1][0]}, {rows[-1][1].place}" if rows else "no rows"
    return (
        f"a worker process {ended} {MOST_DEATHS} times on the same rows ({where}); is there enough memory? Try fewer "
        "workers or a smaller batch_size=..."
    )


class _Worker:
    """A process that encodes units, seen from the one that started it."""

    def __init__(self, pickled: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, pickled, os.getpid()), daemon=True)
        self._process.start()
        other.close()
        self._ready, self._path = False, Path()
        self._unit: Unit | None = None
        self._counted: Counted | None = None

    @property
    def is_idle(self) -> bool:
        return self._ready and self._unit is None

    @property
    def code(self) -> int | None:
        return self._process.exitcode

    def give(self, unit: Unit, path: Path, how: How, advance: Advance) -> None:
        self._unit, self._path, self._counted = unit, path, Counted(unit.size, advance)
        with suppress(OSError):  # it is dead, which `hear` finds out
            self.pipe.send((unit, path, how))

    def hear(self) -> tuple[Unit, Report] | None:
        """Take what the process says; a unit that is done is returned."""
        kind, content = self.pipe.recv()
        if kind == "ready":
            self._ready = True
        elif kind == "rows" and self._counted:
            self._counted(content)
        elif kind == "done" and self._unit and self._counted:
            self._counted.finish()
            unit, self._unit = self._unit, None
            return unit, content
        elif kind == "failed":
            raise content
        return None

    def end(self) -> Unit | None:
        """End the process if it runs; return the unit that it had in hand."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        if self._unit is not None:
            remove_abandoned(self._path)
            if self._counted:
                self._counted.undo()
        return self._unit


def _work(pipe: Any, pickled: bytes, parent: int) -> None:
    """Encode what comes through a pipe: the life of a worker process."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; one of them decides
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Sen2ProWarning)  # the process that started this one has said it
            model = pickle.loads(pickled)
        pipe.send(("ready", None))
        while True:
            unit, path, how = pipe.recv()
            report = encode_unit(model, unit, path, how, _Throttled(pipe))
            pipe.send(("done", report))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # whoever gave the work is gone
    except BaseException as error:
        with suppress(OSError):
            pipe.send(("failed", portable(error)))


def portable(error: BaseException) -> BaseException:
    """Return an error that can be sent to another process."""
    if isinstance(error, Sen2ProError):
        return Sen2ProError(str(error))
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    return Sen2ProError(f"{type(error).__name__} while encoding: {first_line(error)}")


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a killed one cannot end its children."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


class _Throttled:
    """Sends how many rows were done, some times a second."""

    def __init__(self, pipe: Any) -> None:
        self._pipe, self._rows, self._last = pipe, 0.0, time.monotonic()

    def __call__(self, rows: float) -> None:
        self._rows += rows
        if time.monotonic() - self._last >= _EVERY:
            self._pipe.send(("rows", self._rows))
            self._rows, self._last = 0.0, time.monotonic()
