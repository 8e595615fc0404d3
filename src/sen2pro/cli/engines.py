"""Who encodes for a command: options for processes and a cluster, and texts that are encoded before they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from sen2pro.cli import options
from sen2pro.errors import Sen2ProError, Sen2ProWarning, TruncationWarning, one_of

if TYPE_CHECKING:
    from sen2pro.jobs import Engine, Summary

_ENGINES = ("local", "ray")
Workers = Annotated[
    int | None,
    Option(help="Processes, each with one thread; with --engine ray, actors (default there: all CPUs).", min=1),
]
EngineName = Annotated[str, Option("--engine", help="local, or ray for a cluster.")]
Address = Annotated[str | None, Option(help="Of a Ray cluster. (default: one on this machine)")]
Restart = Annotated[bool, Option("--restart", help="Throw an unfinished run away and begin anew.")]


@dataclass(frozen=True)
class Crowd:
    """Who is to encode: what these options say."""

    workers: int | None
    engine: str
    address: str | None
    restart: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        one_of("engine", self.engine, _ENGINES)
        if self.address is not None and not self.is_cluster:
            raise Sen2ProError("an address is that of a Ray cluster; pass engine='ray' too")

    @property
    def is_cluster(self) -> bool:
        """Whether a Ray cluster encodes."""
        return self.engine == "ray"

    def is_wanted(self, *, encoded: bool) -> bool:
        """Tell whether a command that could do without shall encode first; `encoded`: whether that has been done."""
        wanted = self.workers is not None or self.is_cluster
        if wanted and encoded:
            raise Sen2ProError("with --encoded nothing is left to encode; leave --workers and --engine out")
        if self.restart and not wanted:
            raise Sen2ProError("--restart is for runs with --workers or --engine ray; no other leaves parts behind")
        return wanted

    def model(self, settings: dict[str, Any]) -> Any:
        """Return the settings of a model, which a cluster loads, or a function that loads it here."""
        from sen2pro.settings import Settings

        return Settings(**settings) if self.is_cluster else lambda: options.load(**settings)

    def start(self, device: str | None) -> Engine | None:
        """Return the engine; None is processes of this machine."""
        if not self.is_cluster:
            return None
        try:
            from sen2pro.integrations.ray import RayEngine
        except ModuleNotFoundError as error:
            why = f"there is no module {error.name}"
            raise Sen2ProError(
                f"--engine ray needs Ray, but {why}; install it with: pip install 'sen2pro[ray]'"
            ) from None
        return RayEngine(self.workers, address=self.address, gpus=1 if str(device).startswith("cuda") else 0)

    @contextmanager
    def encoded(
        self, model: Any, inputs: str, output: Path, device: str | None = None, **how: Any
    ) -> Iterator[Summary]:
        """Encode files into shards, which are deleted at the end; how to read the files is as for `encode_files`."""
        from sen2pro.jobs import shards_for

        engine, workers = self.start(device), self.workers or 1
        with shards_for(model, inputs, output, workers=workers, engine=engine, restart=self.restart, **how) as summary:
            yield summary


def notes_of(done: Summary) -> list[Sen2ProWarning]:
    """Return what is to be said below the result of a run: texts that were cut, and other warnings."""
    report = done.report
    cut = [TruncationWarning(report.cut, report.rows, report.limit)] if report.cut else []
    return [*map(Sen2ProWarning, report.notes), *cut]
