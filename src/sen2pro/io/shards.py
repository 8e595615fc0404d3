"""Describe Gaussians on disk: the columns of a Parquet file, and a folder of shards with the list of their digests.

Nothing in the list is a path: the names of the files follow from their number, so that an untrusted list cannot lead
out of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path
from sen2pro.io.bundle import Count
from sen2pro.io.rows import open_parquet
from sen2pro.signature import Signature

if TYPE_CHECKING:
    import pyarrow as pa

KEPT_TYPES = ("string", "int64", "double", "bool")  # of further columns, as Arrow calls them
SINGLE, SIGNATURE, DIGEST = "sen2pro.single", "sen2pro.signature", "sen2pro.digest"
VECTORS, STRINGS = ("mean", "variance"), ("id", "text")
_TOTALS = ("model_variance", "data_variance")
COLUMNS = (*STRINGS, *VECTORS, "coverage", "total_variance", *_TOTALS)  # of our own
_MOST_SHRUNK, _SMALL = 1000, 1 << 26  # no Gaussians shrink that much; small files are not checked for it

MANIFEST = "sen2pro_shards.json"
MOST_SKIPPED = 1000  # rows that were skipped and are named in the list
_FORMAT = 1
_NAME = re.compile(r"shard-\d{6,12}\.parquet")


class Shard(bundle.Config, frozen=True):
    """The rows and the digest of a shard."""

    rows: Count
    digest: str


class Manifest(bundle.Config, frozen=True):
    """The list of a folder of shards; `whole` is the digest over all of them."""

    format: Count
    rows: Count
    shards: list[Shard]
    skipped: list[tuple[str, str]]
    skipped_rows: Count
    whole: str


def name(number: int) -> str:
    """Return the name of a shard.

    >>> name(12)
    'shard-000012.parquet'
    """
    return f"shard-{number:06d}.parquet"


def is_folder(path: Path) -> bool:
    """Tell whether this is a folder of shards; any other folder is an error where Gaussians are expected."""
    if not path.is_dir():
        return False
    if not (path / MANIFEST).is_file():
        raise Sen2ProError(f"{path} is a folder without {MANIFEST}; give a Gaussian file, or a folder of shards")
    return True


def foreign(path: Path) -> list[str]:
    """Return the names in a folder of shards that are neither a shard nor their list.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for each in (MANIFEST, name(0), "notes.txt"):
    ...     (folder / each).touch()
    >>> foreign(folder)
    ['notes.txt']
    """
    return sorted(
        place.name
        for place in path.iterdir()
        if place.is_dir() or not (place.name == MANIFEST or _NAME.fullmatch(place.name))
    )


def manifest(path: Path) -> Manifest:
    """Read the list of a folder, and check that all its shards are there."""
    place = path / MANIFEST
    found = bundle.load(path, place.stem, Manifest)[0]
    if found.format != _FORMAT:
        raise Sen2ProError(f"{place} has format {found.format}; this version reads {_FORMAT}")
    if not found.shards or found.rows != sum(each.rows for each in found.shards):
        raise Sen2ProError(f"{place}: the shards do not have the {found.rows} rows of the list")
    if found.whole != _whole(found.shards):
        raise Sen2ProError(f"{place} was changed or damaged since it was written: the digests do not fit together")
    missing = [number for number in range(len(found.shards)) if not (path / name(number)).is_file()]
    if missing:
        raise Sen2ProError(f"{len(missing)} shards are missing in {path}, for instance {name(missing[0])}")
    return found


def write_manifest(
    path: Path, entries: Sequence[Shard], skipped: Sequence[tuple[str, str]], skipped_rows: int = 0
) -> str:
    """Write the list of a folder: its shards, and the rows that were skipped; return the digest of the whole.

    Of the `skipped_rows` the first thousand are named, each with its place and the reason.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = write_manifest(folder, [Shard(rows=2, digest="xxh3-128:0")], [])
    >>> (folder / name(0)).touch()
    >>> manifest(folder).rows
    2
    """
    content = Manifest(
        format=_FORMAT, rows=sum(each.rows for each in entries), shards=list(entries), whole=_whole(entries),
        skipped=list(skipped[:MOST_SKIPPED]), skipped_rows=max(skipped_rows, len(skipped)),
    )  # fmt: skip
    bundle.save(path, Path(MANIFEST).stem, content)
    return content.whole


def _whole(entries: Sequence[Shard]) -> str:
    """Return the digest over all shards: of their digests, in their order."""
    return bundle.digest_of({"shards": [[each.rows, each.digest] for each in entries]})


@dataclass(frozen=True)
class Outline:
    """The description at the end of a Parquet file: numbers per row of each column, names of texts, and metadata.

    That of a folder holds those of its `shards`.
    """

    path: Path
    rows: int
    sizes: dict[str, int]
    strings: list[str]
    totals: list[str]
    metadata: dict[str, str]
    kept: tuple[str, ...] = ()
    shards: tuple[Outline, ...] = ()

    @property
    def signature(self) -> Signature | None:
        """How the Gaussians were made."""
        return signature_in(self.metadata, self.path)

    @property
    def files(self) -> tuple[Outline, ...]:
        """The shards of a folder, in their order, or this file."""
        return self.shards or (self,)

    @property
    def digest(self) -> str | None:
        """The digest that was written with the content."""
        return self.metadata.get(DIGEST)


def signature_in(metadata: Mapping[str, str], path: Path) -> Signature | None:
    """Return the signature in the metadata of a file, if there is one."""
    try:
        return Signature.from_json(metadata[SIGNATURE]) if SIGNATURE in metadata else None
    except Sen2ProError as error:
        raise Sen2ProError(f"{path}: {error}") from None


def outline(path: str | Path) -> Outline:
    """Read the description of a Parquet file of Gaussians, or of a folder of such shards, and no number."""
    path = check_path(path)
    if is_folder(path):
        return _folder_outline(path)
    with open_parquet(path) as file:
        about = file.metadata.metadata or {}
        metadata = {key.decode(): value.decode() for key, value in about.items() if b"sen2pro." in key}
        schema, rows = file.schema_arrow, file.metadata.num_rows
        sizes = _sizes(schema, path)
        _check_size(path, rows, 4 * rows * sum(sizes.values()))
        kinds = dict(zip(schema.names, map(str, schema.types), strict=True))
        totals = [name for name in schema.names if name in _TOTALS and kinds[name] in ("float", "double")]
        kept = tuple(name for name in schema.names if name not in COLUMNS and kinds[name] in KEPT_TYPES)
        return Outline(path, rows, sizes, [name for name in STRINGS if name in schema.names], totals, metadata, kept)


def _folder_outline(path: Path) -> Outline:
    """Read the description of a folder of shards; a shard that is missing, or of another run, is an error."""
    wanted = manifest(path).shards
    found = tuple(outline(path / name(number)) for number in range(len(wanted)))
    for entry, each in zip(wanted, found, strict=True):
        if (each.rows, each.digest) != (entry.rows, entry.digest):
            raise Sen2ProError(f"{each.path} is not the file that {MANIFEST} lists; write the folder again")
    full = [each for each in found if each.rows] or found[:1]
    if len({(*each.sizes.items(), *each.strings, each.metadata.get(SIGNATURE)) for each in full}) > 1:
        raise Sen2ProError(f"the shards in {path} have different columns or signatures; write the folder again")
    return replace(full[0], path=path, rows=sum(each.rows for each in found), shards=found)


def _sizes(schema: pa.Schema, path: Path) -> dict[str, int]:
    """Return how many numbers each column has per row, after a check of the types."""
    import pyarrow as pa

    if len(set(schema.names)) < len(schema.names):
        raise Sen2ProError(f"{path} has a column twice: {', '.join(schema.names)}")
    types, sizes = dict(zip(schema.names, schema.types, strict=True)), {}
    for name in VECTORS:
        if name not in types or not pa.types.is_fixed_size_list(types[name]):
            raise Sen2ProError(f"{path} has no column {name!r} of fixed-size lists; was it written by sen2pro?")
        sizes[name], types[name] = types[name].list_size, types[name].value_type
    if sizes["mean"] != sizes["variance"]:
        raise Sen2ProError(f"{path}: mean and variance have {sizes['mean']} and {sizes['variance']} dimensions")
    if "coverage" in types:
        sizes["coverage"] = 1
    for name in sizes:
        if types[name] not in (pa.float32(), pa.float64()):
            raise Sen2ProError(f"{path}: the numbers of {name!r} must be float or double, not {types[name]}")
    for name in STRINGS:
        if name in types and types[name] not in (pa.string(), pa.large_string()):
            raise Sen2ProError(f"{path}: the column {name!r} must hold texts, not {types[name]}")
    return sizes


def _check_size(path: Path, rows: int, claimed: int) -> None:
    """Refuse a small file that claims to hold a great many numbers, before memory is allocated for them."""
    if rows < 0:
        raise Sen2ProError(f"{path} is not a whole Parquet file: its end says that it has {rows} rows")
    size = path.stat().st_size
    if claimed > _SMALL and claimed > _MOST_SHRUNK * size:
        claim = f"{path} has {size:,} bytes but claims to hold {claimed:,} bytes of numbers"
        raise Sen2ProError(f"{claim}; no file of Gaussians shrinks that much")
