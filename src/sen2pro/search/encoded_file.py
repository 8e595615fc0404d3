"""A Parquet file of `sen2pro encode`, or a folder of shards, a batch at a time: memory does not grow with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sen2pro.errors import Sen2ProError, Sen2ProWarning, one_of, short_repr
from sen2pro.io.atomic import check_path
from sen2pro.io.gaussians import Piece, outline, stream
from sen2pro.search.encoding import Encoded
from sen2pro.search.rows import LARGEST_WHOLE, Value, check_key
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, as_list


class Batch(NamedTuple):
    """Some rows of a file, with ids and texts where it has them; the metadata are its other columns."""

    encoded: Encoded
    ids: list[str] | None
    texts: list[str] | None
    metadata: list[dict[str, Value]]


class EncodedFile:
    """The rows of a file, checked against its digest before the first of them is used.

    `metadata` names the columns that become the metadata of the rows; by default all that were kept besides.
    """

    def __init__(self, path: str | Path, metadata: Sequence[str] | None = None) -> None:
        self._path = check_path(path)
        if self._path.suffix.lower() != ".parquet" and not self._path.is_dir():
            raise Sen2ProError(f"{self._path}: only a Parquet file keeps ids and texts; write one with sen2pro encode")
        found = outline(self._path)
        self.signature: Signature | None = found.signature
        self._rows = found.rows
        self._chosen = metadata is not None
        self._columns = list(found.kept)
        if metadata is not None:
            self._columns = list(dict.fromkeys(as_list(metadata, "a list of columns")))
            for name in self._columns:
                one_of(f"metadata column in {self._path}", check_key(name), found.kept)

    def __len__(self) -> int:
        return self._rows

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield batches as they are encoded, after a first pass over the file that finds what is wrong with it."""
        unfit = {name: why for name in self._columns if (why := _unfit_key(name))}
        for piece in stream(self._path, size):  # at its end the digest is compared
            for name, values in piece.columns.items():
                if name in self._columns and name not in unfit and (why := _unfit(values)):
                    unfit[name] = why
        for name, why in unfit.items():
            if self._chosen:
                raise Sen2ProError(f"{self._path}: the column {name!r} cannot be metadata: {why}; leave it out")
            message = f"the column {name!r} of {self._path} does not become metadata: {why}"
            warnings.warn(message, Sen2ProWarning, stacklevel=3)
        names = [name for name in self._columns if name not in unfit]
        for piece in stream(self._path, size, verify=False):
            yield Batch(self._encoded(piece), piece.ids, piece.texts, _metadata(piece, names))

    def _encoded(self, piece: Piece) -> Encoded:
        n = len(piece.gaussian)
        words = [len(text.split()) for text in piece.texts] if piece.texts is not None else [0] * n
        columns = [piece.totals.get(f"{source}_variance", np.zeros(n)) for source in SOURCES]
        return Encoded(None, piece.gaussian, np.stack([*columns, words], axis=1).astype(np.float32))


def _metadata(piece: Piece, names: Sequence[str]) -> list[dict[str, Value]]:
    """Return the metadata of each row: a key whose value is missing is left out."""
    columns = {name: piece.columns[name].to_pylist() for name in names if name in piece.columns}
    rows = range(len(piece.gaussian))
    return [{name: each[row] for name, each in columns.items() if each[row] is not None} for row in rows]


def _unfit_key(name: str) -> str | None:
    try:
        check_key(name)
    except Sen2ProError as error:
        return str(error)
    return None


def _unfit(values: Any) -> str | None:
    """Return why a column cannot be metadata, by the rules of `check_value`, for all values at once; None if it can."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return "it holds what is no text of UTF-8"
    if pa.types.is_integer(values.type):
        wrong = pc.or_(pc.greater(values, LARGEST_WHOLE), pc.less(values, -LARGEST_WHOLE))
        rule = f"a whole number is between -{LARGEST_WHOLE} and {LARGEST_WHOLE}"
    elif pa.types.is_floating(values.type):
        wrong, rule = pc.invert(pc.is_finite(values)), "a number is finite"
    elif pa.types.is_string(values.type):
        wrong, rule = pc.match_substring(values, "\0"), "a text holds no NUL"
    else:
        return None
    found = values.filter(wrong)
    return f"{rule}, not {short_repr(found[0].as_py())}" if len(found) else None
