"""What a run is going to do: which rows make which unit, how they are encoded, and what is written.

The plan lies in the folder of a run as JSON. It is compared with the plan of whoever wants to go on, and it never
decides anything: settings, permissions and paths come from the caller alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, join_names
from sen2pro.io import documents, encoding
from sen2pro.io.documents import COUNT, NULL, TEXT, TRUTH
from sen2pro.io.gaussians import KEPT_TYPES
from sen2pro.io.inputs import InputFile
from sen2pro.jobs.units import How
from sen2pro.signature import Signature

FILE = "sen2pro_run.json"
UNIT = 4096  # rows of a unit in one pass: about half a minute of a CPU core, for a small encoder
SHARD = 49_152  # rows of a shard: about 150 MB for 384 dimensions
_FORMAT = 1
_CHECK = documents.record(
    {
        "format": COUNT,
        "signature": documents.mapping(TEXT),
        "machine": documents.record({"device": TEXT, "threads": COUNT}),
        "inputs": documents.list_of(
            documents.record({"name": TEXT, "bytes": COUNT, "digest": TEXT, "rows": COUNT, "kind": TEXT})
        ),
        "reading": documents.record(
            {
                "column": documents.either(NULL, TEXT), "id_column": documents.either(NULL, TEXT),
                "keep": documents.list_of(TEXT), "skip_blank": TRUTH,
            }
        ),
        "columns": documents.mapping(documents.one_of_texts(*KEPT_TYPES)),
        "texts": TRUTH,
        "batch_size": documents.either(NULL, COUNT),
        "output": documents.one_of_texts("parquet", "safetensors", "shards"),
        "rows": documents.record({"chunk": COUNT, "unit": COUNT, "shard": COUNT}),
    }
)  # fmt: skip


@dataclass(frozen=True)
class About:
    """What an engine's model is: its signature, dimensions, passes a sentence, and what decides its last bits.

    `threads` is 0 where their number does not change the bits.
    """

    signature: Signature
    dim: int
    passes: int
    device: str
    threads: int


@dataclass(frozen=True)
class Plan:
    """The plan of a run."""

    about: About
    inputs: tuple[InputFile, ...]
    reading: Mapping[str, object]
    how: How
    output: str  # parquet, safetensors or shards
    unit: int
    shard: int

    @property
    def rows(self) -> int:
        """All rows of the input."""
        return sum(file.rows for file in self.inputs)

    @property
    def units(self) -> int:
        """The number of units; an empty input has one."""
        return max(1, -(-self.rows // self.unit))

    @property
    def units_of_shard(self) -> int:
        """How many units make a shard."""
        return self.shard // self.unit

    def size(self, number: int) -> int:
        """Return how many rows of the input a unit has."""
        return min(self.unit, self.rows - number * self.unit)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it lies in the folder."""
        return {
            "format": _FORMAT,
            "signature": asdict(self.about.signature),
            "machine": {"device": self.about.device, "threads": self.about.threads},
            "inputs": [asdict(file) for file in self.inputs],
            "reading": dict(self.reading),
            "columns": dict(self.how.columns),
            "texts": self.how.texts,
            "batch_size": self.how.batch_size,
            "output": self.output,
            "rows": {"chunk": encoding.CHUNK, "unit": self.unit, "shard": self.shard},
        }


def unit_rows(passes: int) -> tuple[int, int]:
    """Return the rows of a unit and of a shard for a model of so many passes a sentence: multiples of a chunk.

    >>> unit_rows(1), unit_rows(30)
    ((4096, 49152), (256, 49152))
    """
    chunk = encoding.CHUNK
    unit = max(chunk, UNIT // passes // chunk * chunk)
    return unit, max(unit, SHARD // unit * unit)


def read(folder: Path) -> dict[str, Any]:
    """Read the plan that lies in a folder, as JSON."""
    found = documents.read(folder / FILE, _CHECK)
    if found["format"] != _FORMAT:
        raise Sen2ProError(f"{folder / FILE} has format {found['format']}; this version goes on with {_FORMAT} only")
    return found


def known_inputs(
    found: Mapping[str, Any], digests: list[str], kinds: list[str], names: list[str], folder: Path
) -> list[InputFile]:
    """Return what a plan says of its input, if that is still the same; else say what differs."""
    kept = found["inputs"]
    if len(kept) != len(digests):
        differs = [f"{len(kept)} input files there, {len(digests)} here"]
    else:
        pairs = list(zip(names, digests, kinds, kept, strict=True))
        differs = [f"the content of {name}" for name, digest, _, file in pairs if digest != file["digest"]]
        differs += [
            f"{name} was read as {file['kind']} there, and is as {kind} here"
            for name, digest, kind, file in pairs
            if digest == file["digest"] and kind != file["kind"]
        ]
    if differs:
        raise _other(folder, "another input", differs)
    return [InputFile(**file) for file in kept]


def check_same(found: Mapping[str, Any], wanted: Plan, folder: Path) -> None:
    """Raise if the plan that lies in a folder is another one, and say what differs."""
    there, here = dict(_flat(found)), dict(_flat(wanted.to_json()))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name) and not name.startswith("inputs")]
    told = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in names]
    if told:
        raise _other(folder, "other settings", told)


def _other(folder: Path, what: str, differs: list[str]) -> Sen2ProError:
    told = "; ".join(differs) if len(differs) <= 5 else join_names(differs, 5)
    return Sen2ProError(
        f"{folder} holds an unfinished run with {what}: {told}. To go on with it, give the same input and settings; to "
        "throw it away and begin anew, pass restart=True"
    )


def _flat(content: Any, place: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a JSON object, each with the names that lead to it."""
    if not isinstance(content, Mapping):
        return [(place, content)]
    return [leaf for name, each in content.items() for leaf in _flat(each, f"{place}.{name}" if place else str(name))]
