"""Gaussians on disk: Parquet or safetensors by suffix, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian
from sen2pro.signature import Signature

SUFFIXES = (".parquet", ".safetensors")
_SINGLE = "sen2pro.single"
_SIGNATURE = "sen2pro.signature"


class Stored(NamedTuple):
    """What a file holds: the Gaussians and, where they were kept, their ids and texts."""

    gaussian: Gaussian
    ids: list[str] | None
    texts: list[str] | None


def _arrays(gaussian: Gaussian) -> dict[str, Any]:
    """Return what a file keeps of a Gaussian, by name."""
    arrays = {"mean": gaussian.mean, "variance": gaussian.variance, "coverage": gaussian.coverage}
    return {name: array for name, array in arrays.items() if array is not None}


def _suffix(path: Path) -> str:
    return one_of("file suffix", path.suffix.lower(), SUFFIXES)


class GaussianWriter:
    """Write Gaussians chunk by chunk under a temporary name, renamed when all is well.

    A run that fails or is killed never leaves a half file under the final name. Memory does not grow with the
    number of chunks, for either format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.parquet"
    >>> with GaussianWriter(path) as writer:
    ...     for mean in (0.0, 1.0):
    ...         writer.write(Gaussian([[mean]], [[1.0]]))
    >>> Gaussian.load(path).mean.ravel()
    array([0., 1.], dtype=float32)
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._format = _suffix(self.path)
        if self.path.is_dir():
            raise Sen2ProError(f"{self.path} is a folder; give a file name ending in {' or '.join(SUFFIXES)}")
        if not self.path.parent.is_dir():
            raise Sen2ProError(f"there is no folder {self.path.parent}")
        if self.path.exists() and not overwrite:
            raise Sen2ProError(f"{self.path} exists; pass overwrite (--overwrite) to replace it")
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        self._signature: Signature | None = None
        self._shape: tuple[int, ...] | None = None
        self._rows = 0
        self._columns: set[str] = set()
        self._parquet: Any = None
        self._tensors: dict[str, IO[bytes]] = {}

    def __enter__(self) -> GaussianWriter:
        self._temporary.touch()  # a folder that is read-only is said before the work, not after it
        return self

    def write(
        self, gaussian: Gaussian, *, ids: Sequence[str] | None = None, texts: Sequence[str] | None = None
    ) -> None:
        """Add a batch (or a single Gaussian, which then must be the only one)."""
        columns = {name: values for name, values in (("id", ids), ("text", texts)) if values is not None}
        rows = 1 if len(gaussian.shape) == 1 else len(gaussian)
        for name, values in columns.items():
            if isinstance(values, str) or len(values) != rows:
                raise Sen2ProError(f"{rows} Gaussians need a list of {rows} {name}s")
        kept = {*columns, *_arrays(gaussian)}
        if self._shape is None:
            self._signature, self._columns = gaussian.signature, kept
        elif len(self._shape) == 1 or len(gaussian.shape) == 1:
            raise Sen2ProError("a single Gaussian fills a file; write batches to write several times")
        elif (self._shape[-1], self._columns, self._signature) != (gaussian.dim, kept, gaussian.signature):
            raise Sen2ProError("every batch of a file must have the same dimensions, columns and signature")
        self._shape = gaussian.shape
        self._rows += rows
        (self._write_parquet if self._format == ".parquet" else self._write_tensors)(gaussian, columns)

    def _write_parquet(self, gaussian: Gaussian, columns: dict[str, Sequence[str]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        vectors = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), gaussian.dim)
            for name, array in _arrays(gaussian).items()
            if name != "coverage"
        }
        numbers = {} if gaussian.coverage is None else {"coverage": pa.array(np.atleast_1d(gaussian.coverage))}
        strings = {name: pa.array([str(v) for v in values], pa.string()) for name, values in columns.items()}
        table = pa.table({**strings, **vectors, **numbers})
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(
                self._temporary,
                table.schema.with_metadata(self._metadata()),
                compression="zstd",
                use_dictionary=list(strings),
                column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in vectors},
            )
        self._parquet.write_table(table.cast(self._parquet.schema))

    def _write_tensors(self, gaussian: Gaussian, columns: dict[str, Sequence[str]]) -> None:
        if columns:
            raise Sen2ProError(f"safetensors holds numbers only; to keep the {' and '.join(columns)}, write .parquet")
        for name, array in _arrays(gaussian).items():
            if name not in self._tensors:
                self._tensors[name] = self._part(name).open("w+b")
            self._tensors[name].write(array.astype("<f4", copy=False).tobytes())

    def _part(self, name: str) -> Path:
        return self._temporary.with_name(f"{self._temporary.name}.{name}")

    def _metadata(self) -> dict[str, str]:
        metadata = {_SIGNATURE: self._signature.to_json()} if self._signature else {}
        if self._shape is not None and len(self._shape) == 1:
            metadata[_SINGLE] = "true"
        return metadata

    def _finish_tensors(self) -> None:
        """Put header and tensors together; the format is an 8-byte length, a JSON header, then the raw data."""
        assert self._shape is not None
        rows = [self._rows] if len(self._shape) == 2 else []
        header: dict[str, Any] = {"__metadata__": self._metadata()}
        start = 0
        for name in self._tensors:
            shape = rows if name == "coverage" else [*rows, self._shape[-1]]
            end = start + 4 * self._rows * (1 if name == "coverage" else self._shape[-1])
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
            start = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self._temporary.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for tensor in self._tensors.values():
                tensor.seek(0)
                shutil.copyfileobj(tensor, out)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if self._shape is None:
                    raise Sen2ProError(f"nothing was written to {self.path}")
                if self._parquet is not None:
                    self._parquet.close()
                    self._parquet = None
                else:
                    self._finish_tensors()
                with self._temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                self._temporary.replace(self.path)
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        if self._parquet is not None:
            with suppress(OSError):  # closing writes a footer, which a full disk refuses; the file is deleted next
                self._parquet.close()
        for name, file in self._tensors.items():
            file.close()
            self._part(name).unlink(missing_ok=True)
        self._temporary.unlink(missing_ok=True)


def read(path: str | Path) -> Stored:
    """Read Gaussians, ids and texts from a file that `Gaussian.save` or `sen2pro encode` wrote."""
    path = Path(path)
    if not path.is_file():
        raise Sen2ProError(f"there is no file {path}")
    return _read_parquet(path) if _suffix(path) == ".parquet" else _read_tensors(path)


def _stored(
    arrays: dict[str, Any], metadata: dict[str, str], ids: list[str] | None = None, texts: list[str] | None = None
) -> Stored:
    if metadata.get(_SINGLE) == "true":
        shapes = {"mean": (-1,), "variance": (-1,), "coverage": ()}
        arrays = {name: array.reshape(shapes[name]) for name, array in arrays.items()}
    signature = Signature.from_json(metadata[_SIGNATURE]) if _SIGNATURE in metadata else None
    return Stored(Gaussian(**arrays, signature=signature), ids, texts)


def _read_parquet(path: Path) -> Stored:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise Sen2ProError(f"{path} is not a whole Parquet file: {error}") from None
    for name in ("mean", "variance"):
        if name not in table.column_names or not pa.types.is_fixed_size_list(table.schema.field(name).type):
            raise Sen2ProError(f"{path} has no column {name!r} of fixed-size lists; was it written by sen2pro?")

    def matrix(name: str) -> Any:
        size = table.schema.field(name).type.list_size
        chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in table.column(name).chunks]
        return np.concatenate([np.empty(0, np.float32), *chunks]).reshape(-1, size)

    def strings(name: str) -> list[str] | None:
        return table.column(name).to_pylist() if name in table.column_names else None

    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    arrays = {name: matrix(name) for name in ("mean", "variance")}
    if "coverage" in table.column_names:
        arrays["coverage"] = table.column("coverage").to_numpy()
    return _stored(arrays, metadata, strings("id"), strings("text"))


def _read_tensors(path: Path) -> Stored:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            missing = {"mean", "variance"} - set(file.keys())
            if missing:
                raise Sen2ProError(f"{path} has no tensor {sorted(missing)[0]!r}; was it written by sen2pro?")
            names = {"mean", "variance", "coverage"} & set(file.keys())
            return _stored({name: file.get_tensor(name) for name in names}, file.metadata() or {})
    except SafetensorError as error:
        raise Sen2ProError(f"{path} is not a whole safetensors file: {error}") from None
