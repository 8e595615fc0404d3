"""A folder of shards: Gaussians of one run in several Parquet files, and a list of these with their digests.

Nothing in the list is a path: the names of the files follow from their number, so that a list of a stranger's cannot
lead out of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError
from sen2pro.io import documents
from sen2pro.io.documents import COUNT, TEXT

MANIFEST = "sen2pro_shards.json"
_FORMAT = 1
_NAME = re.compile(r"shard-\d{6,12}\.parquet")
_CHECK = documents.record(
    {
        "format": COUNT,
        "rows": COUNT,
        "shards": documents.list_of(documents.record({"rows": COUNT, "digest": TEXT})),
        "skipped": documents.list_of(documents.list_of(TEXT, 2)),
        "skipped_rows": COUNT,
        "whole": TEXT,
    }
)
MOST_SKIPPED = 1000  # rows that were skipped and are named in the list


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
    """Return what lies in a folder of shards and is neither a shard nor their list.

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


def manifest(path: Path) -> dict[str, Any]:
    """Read the list of a folder, and check that all its shards are there."""
    found = documents.read(path / MANIFEST, _CHECK)
    place = path / MANIFEST
    if found["format"] != _FORMAT:
        raise Sen2ProError(f"{place} has format {found['format']}; this version reads {_FORMAT}")
    if not found["shards"] or found["rows"] != sum(each["rows"] for each in found["shards"]):
        raise Sen2ProError(f"{place}: the shards do not have the {found['rows']} rows that the list promises")
    if found["whole"] != _whole(found["shards"]):
        raise Sen2ProError(f"{place} was changed or damaged since it was written: the digests do not fit together")
    missing = [number for number in range(len(found["shards"])) if not (path / name(number)).is_file()]
    if missing:
        raise Sen2ProError(f"{len(missing)} shards are missing in {path}, for instance {name(missing[0])}")
    return found


def files(path: Path) -> list[Path]:
    """Return the shards of a folder, in their order."""
    return [path / name(number) for number in range(len(manifest(path)["shards"]))]


def write_manifest(
    path: Path, entries: Sequence[Mapping[str, Any]], skipped: Sequence[Sequence[str]], skipped_rows: int = 0
) -> str:
    """Write the list of a folder: rows and digest of each shard, and rows that were skipped; return the whole digest.

    Of the `skipped_rows` the first thousand are named.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = write_manifest(folder, [{"rows": 2, "digest": "xxh3-128:0"}], [])
    >>> (folder / name(0)).touch()
    >>> manifest(folder)["rows"]
    2
    """
    content = {
        "format": _FORMAT,
        "rows": sum(each["rows"] for each in entries),
        "shards": [dict(each) for each in entries],
        "skipped": [list(each) for each in skipped[:MOST_SKIPPED]],
        "skipped_rows": max(skipped_rows, len(skipped)),
        "whole": _whole(entries),
    }
    documents.write(path / MANIFEST, content)
    return str(content["whole"])


def _whole(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest over all shards: of their digests, in their order."""
    return documents.digest_of({"shards": [[each["rows"], each["digest"]] for each in entries]})
