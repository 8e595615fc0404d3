"""Gaussians on disk: Parquet or safetensors by suffix, written whole or not at all, with a digest of their content.

A digest detects accidents: a flipped bit, a cut file. It is no protection: anyone who changes a file can compute one.
"""

from __future__ import annotations

import array as arrays
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from sen2pro.errors import Sen2ProError, Sen2ProWarning, one_of, short_repr
from sen2pro.io import bundle, shards
from sen2pro.io.atomic import check_path, replacing
from sen2pro.io.bundle import ContentDigest
from sen2pro.io.rows import column_values, open_parquet, parquet_batches
from sen2pro.io.shards import DIGEST, SIGNATURE, SINGLE, VECTORS, Outline, outline, signature_in
from sen2pro.signature import Signature
from sen2pro.validation import AnyArray, Array, Array64, as_list, check_numbers, check_text, place

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".safetensors")
_BATCH_AXES = {"mean": "rows k", "variance": "rows k", "coverage": "rows"}
_BATCH = 8192  # rows of a Parquet file that are decoded at once


class GaussianLike(Protocol):
    """Anything with the parts of a `Gaussian`."""

    @property
    def mean(self) -> Array: ...  # noqa: D102
    @property
    def variance(self) -> Array: ...  # noqa: D102
    @property
    def signature(self) -> Signature | None: ...  # noqa: D102
    @property
    def coverage(self) -> Array | None: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class GaussianBatch:
    """The rows of a file, or some of them; a single Gaussian has a mean and a variance of shape (k,).

    `totals` are the total variances of each source, `columns` further columns as Arrow arrays.
    """

    mean: Array
    variance: Array
    signature: Signature | None = None
    coverage: Array | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None
    totals: Mapping[str, Array64] = field(default_factory=dict)
    columns: Mapping[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.mean)

    def write_to(self, writer: GaussianWriter) -> None:
        """Write these rows."""
        writer.write(self, ids=self.ids, texts=self.texts, totals=self.totals, columns=self.columns)


def joined(batches: Sequence[GaussianBatch]) -> GaussianBatch:
    """Return the rows of several batches, of the same columns and signature, as one."""
    import pyarrow as pa

    first = batches[0]
    if len(batches) == 1:
        return first
    numbers: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in batches]) for name in _numbers(first)
    }
    return replace(
        first,
        **numbers,
        ids=None if first.ids is None else [id for each in batches for id in each.ids or ()],
        texts=None if first.texts is None else [text for each in batches for text in each.texts or ()],
        totals={name: np.concatenate([each.totals[name] for each in batches]) for name in first.totals},
        columns={name: pa.concat_arrays([each.columns[name] for each in batches]) for name in first.columns},
    )


def _numbers(gaussian: GaussianLike) -> dict[str, AnyArray]:
    """Return the arrays that a file keeps of a Gaussian, by name."""
    arrays = {name: getattr(gaussian, name) for name in (*VECTORS, "coverage")}
    return {name: numbers for name, numbers in arrays.items() if numbers is not None}


def _digest_of(digest: ContentDigest, rows: int, dim: int, metadata: Mapping[str, str]) -> str:
    single, signature = metadata.get(SINGLE) == "true", metadata.get(SIGNATURE)
    return digest.value(rows=rows, dimensions=dim, single=single, signature=signature)


class GaussianWriter:
    """Write Gaussians batch by batch under a temporary name, renamed when all is well.

    A run that fails or is killed never leaves a half file. Memory does not grow with the number of batches, except for
    8 bytes per id: `check_ids` warns of duplicates.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.parquet"
    >>> with GaussianWriter(path) as writer:
    ...     for mean in (0.0, 1.0):
    ...         writer.write(GaussianBatch(np.full((1, 1), mean, np.float32), np.ones((1, 1), np.float32)))
    >>> read(path).mean.ravel()
    array([0., 1.], dtype=float32)
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False, check_ids: bool = True) -> None:
        self.path, self._check_ids = check_path(path), check_ids
        self._format = _suffix(self.path)
        if self.path.is_dir():
            raise Sen2ProError(f"{self.path} is a folder; give a file name ending in {' or '.join(SUFFIXES)}")
        if not self.path.parent.is_dir():
            raise Sen2ProError(f"there is no folder {self.path.parent}")
        if self.path.exists() and not overwrite:
            raise Sen2ProError(f"{self.path} exists; pass overwrite=True to replace it")
        self._overwrite, self._temporary = overwrite, self.path
        self._open = ExitStack()
        self._digest = ContentDigest()
        self._shape: tuple[int, ...] | None = None  # of the last batch
        self._kind: tuple[int, set[str], Signature | None] = (0, set(), None)  # dimensions, columns and signature
        self._rows = 0
        self._ids = arrays.array("q")  # hashes: 8 bytes per row
        self._parquet: Any = None
        self._tensors: dict[str, IO[bytes]] = {}
        self.notes: dict[str, str] = {}
        """Further metadata of a Parquet file, under names that begin with `sen2pro.`."""
        self.digest = ""
        """The digest of the content, when all of it is written."""

    def __enter__(self) -> GaussianWriter:
        self._temporary = self._open.enter_context(replacing(self.path, overwrite=self._overwrite))
        self._open.callback(self._close)
        return self

    def write(
        self, gaussian: GaussianLike, *, ids: Sequence[str] | None = None, texts: Sequence[str] | None = None,
        totals: Mapping[str, Array64] | None = None, columns: Mapping[str, pa.Array] | None = None,
    ) -> None:  # fmt: skip
        """Add a batch (or a single Gaussian, which then must be the only one).

        A Parquet file also gets the column `total_variance` and, from `totals`, `model_variance` and `data_variance`,
        by which other tools can sort and filter. `columns` are further Arrow arrays to keep (see `KEPT_TYPES`).
        """
        if self._temporary == self.path:
            raise Sen2ProError("write inside a with block: with GaussianWriter(path) as writer: ...")
        shape = gaussian.mean.shape
        rows = gaussian.mean.size // shape[-1]
        given = (("id", ids), ("text", texts))
        strings = {name: _as_texts(name, values, rows) for name, values in given if values is not None}
        named = [*strings, *(columns or {})]
        if named and self._format != ".parquet":
            raise Sen2ProError(f"safetensors holds numbers only; to keep the {' and '.join(named)}, write .parquet")
        numbers = _numbers(gaussian)
        kind = (shape[-1], {*named, *numbers}, gaussian.signature)
        if self._shape is not None and 1 in (len(self._shape), len(shape)):
            raise Sen2ProError("a single Gaussian fills a file; write batches to write several times")
        if self._shape is not None and kind != self._kind:
            raise Sen2ProError("every batch of a file must have the same dimensions, columns and signature")
        self._shape, self._kind = shape, kind
        self._rows += rows
        self._ids.extend(map(hash, strings.get("id", ())) if self._check_ids else ())
        for name, values in strings.items():
            self._digest.texts(name, values)
        for name, array in numbers.items():
            self._digest.numbers(name, array)
        if self._format == ".parquet":
            total = np.atleast_1d(gaussian.variance.sum(axis=-1, dtype=np.float64))
            self._write_parquet(numbers, strings, {"total_variance": total, **(totals or {})}, columns or {})
            return
        for name, array in numbers.items():
            if name not in self._tensors:
                part = self._temporary.with_name(f"{self._temporary.name}.{name}")
                self._tensors[name] = part.open("w+b")
            self._tensors[name].write(array.astype("<f4", copy=False).tobytes())

    def _write_parquet(
        self, numbers: Mapping[str, AnyArray], strings: Mapping[str, list[str]], totals: Mapping[str, Array64],
        kept: Mapping[str, pa.Array],
    ) -> None:  # fmt: skip
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: pa.array(values, pa.string()) for name, values in strings.items()} | dict(kept)
        columns |= {name: pa.array(sums, pa.float64()) for name, sums in totals.items()}
        for name, array in numbers.items():
            flat = pa.array(array.reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, array.shape[-1]) if name in VECTORS else flat
        table = pa.table(columns)
        if self._parquet is None:
            schema = table.schema.with_metadata(self._metadata())
            split = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in VECTORS}
            self._parquet = pq.ParquetWriter(
                self._temporary, schema, compression="zstd", use_dictionary=list(strings), column_encoding=split,
                write_page_checksum=True,
            )  # fmt: skip
        self._parquet.write_table(table.cast(self._parquet.schema))

    def _metadata(self) -> dict[str, str]:
        signature = self._kind[-1]
        single = {SINGLE: "true"} if self._shape is not None and len(self._shape) == 1 else {}
        return ({SIGNATURE: signature.to_json()} if signature else {}) | single

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._open.__exit__(*error)  # which deletes the temporary file, and does not rename it
            return
        with self._open:
            self._finish()
        if self._check_ids:
            self._warn_of_duplicates()

    def _finish(self) -> None:
        if self._shape is None:
            raise Sen2ProError(f"nothing was written to {self.path}")
        self.digest = _digest_of(self._digest, self._rows, self._shape[-1], self._metadata())
        if self._parquet is not None:
            self._parquet.add_key_value_metadata({**self.notes, DIGEST: self.digest})
            self._parquet.close()
            return
        header: dict[str, object] = {"__metadata__": {**self._metadata(), DIGEST: self.digest}}
        shape, end = [self._rows, self._shape[-1]][-len(self._shape) :], 0
        for name, tensor in self._tensors.items():
            start, end = end, end + tensor.tell()
            own_shape = shape if name in VECTORS else shape[:-1]
            header[name] = {"dtype": "F32", "shape": own_shape, "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self._temporary.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for tensor in self._tensors.values():
                tensor.seek(0)
                shutil.copyfileobj(tensor, out)

    def _close(self) -> None:
        for file in (self._parquet, *self._tensors.values()):
            with suppress(OSError):  # closing writes a footer, which a full disk refuses; the file is deleted next
                if file is not None:
                    file.close()

    def _warn_of_duplicates(self) -> None:
        hashes = np.array(self._ids, np.int64)
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(np.diff(hashes[order]) == 0)
        if len(same):
            first, second = order[same[0] : same[0] + 2]
            message = (
                f"{len(same)} of {len(hashes)} ids in {self.path} are duplicates (e.g. rows {first} and {second}). "
                "Looking up a duplicate id raises an error"
            )
            warnings.warn(message, Sen2ProWarning, stacklevel=3)


def _suffix(path: Path) -> str:
    return one_of("file suffix", path.suffix.lower(), SUFFIXES)


def _as_texts(name: str, values: object, rows: int) -> list[str]:
    """Return ids or texts as a list of str, one for each row."""
    wanted = f"a list of {rows} {name}s"
    given = as_list(values, wanted)
    if isinstance(values, str) or len(given) != rows:
        raise Sen2ProError(f"{rows} Gaussians need {wanted}, not {short_repr(values)}")
    try:
        texts = [str(value) for value in given]
    except Exception:  # a number of thousands of digits, or any object whose conversion fails
        raise Sen2ProError(f"these {name}s cannot be turned into texts: {short_repr(values)}") from None
    return [check_text(f"the {name} of row {row}", text) for row, text in enumerate(texts)]


def stream(path: str | Path, size: int, *, verify: bool = True) -> Iterator[GaussianBatch]:
    """Yield the content of a Parquet file, or of a folder of shards, in batches of at most `size` rows.

    With `verify` the content is compared with its digest after the last batch of each file.
    """
    for file in outline(path).files:
        for batch in _batches(file, size, verify=verify, strict=True):
            _check(batch, file.path)
            yield batch


def read(path: str | Path, *, verify: bool = True) -> GaussianBatch:
    """Read a whole file of Gaussians, with ids and texts, or a folder of shards; `sen2pro.gaussian.read` calls this.

    Types, shapes and sizes are checked before anything is read. Rows without a value are refused. `verify` compares the
    content with its digest; a file without one, of a version before 0.5, is read with a warning.
    """
    path = check_path(path)
    if not shards.is_folder(path) and not path.is_file():
        raise Sen2ProError(f"there is no file {path}")
    if path.is_file() and _suffix(path) == ".safetensors":
        return _read_tensors(path, verify)
    found = outline(path)
    shapes = {name: (found.rows, size)[: 1 + (name in VECTORS)] for name, size in found.sizes.items()}
    numbers: dict[str, Any] = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}
    strings: dict[str, list[str]] = {name: [] for name in found.strings}
    done = 0
    for file in found.files:
        without_more = replace(file, totals=[], kept=())
        for batch in _batches(without_more, _BATCH, verify=verify, strict=path.is_dir()):
            for name, values in numbers.items():
                values[done : done + len(batch)] = getattr(batch, name)
            for name, texts in strings.items():
                texts += getattr(batch, f"{name}s") or ()
            done += len(batch)
    if found.metadata.get(SINGLE) == "true":
        if found.rows != 1:
            raise Sen2ProError(f"{path} says that it holds a single Gaussian, but has {found.rows} rows")
        numbers = {name: values[0] for name, values in numbers.items()}
    return GaussianBatch(**numbers, signature=found.signature, ids=strings.get("id"), texts=strings.get("text"))


def _read_tensors(path: Path, verify: bool) -> GaussianBatch:
    arrays, metadata = bundle.read_header(path)
    signature = signature_in(metadata, path)
    single = "mean" in arrays and len(arrays["mean"][1]) == 1
    axes = {"mean": "k", "variance": "k", "coverage": ""} if single else _BATCH_AXES
    known = {name: each for name, each in axes.items() if name in VECTORS or name in arrays}
    numbers: dict[str, Any] = bundle.read_arrays(
        path, {name: bundle.Expected("F32", each) for name, each in known.items()}, finite=False
    )
    if verify:
        digest, mean = ContentDigest(), numbers["mean"]
        for name, values in numbers.items():
            digest.numbers(name, values)
        rows = mean.size // max(1, mean.shape[-1])
        _check_digest(path, metadata.get(DIGEST), _digest_of(digest, rows, mean.shape[-1], metadata), strict=False)
    return GaussianBatch(**numbers, signature=signature)


def _check(batch: GaussianBatch, path: Path) -> None:
    """Refuse numbers that no Gaussian can have."""
    try:
        for name, numbers in _numbers(batch).items():
            check_numbers(name, numbers, np.float32, axes=["row"] if name == "coverage" else ("row", "dimension"))
        if (batch.variance < 0).any():
            index = np.unravel_index(int(np.argmax(batch.variance < 0)), batch.variance.shape)
            raise Sen2ProError(f"a variance cannot be negative, but {place(index)} is {batch.variance[index]}")
    except Sen2ProError as error:
        raise Sen2ProError(f"{path}: {error}") from None
    if any(not np.isfinite(each).all() or (each < 0).any() for each in batch.totals.values()):
        raise Sen2ProError(f"{path}: a total variance is negative or not finite")


def _check_digest(path: Path, kept: str | None, found: str, *, strict: bool) -> None:
    """Compare the digest in a file with that of its content; a missing one is a warning, or an error if `strict`."""
    if kept is None and not strict:
        why = "it was written by sen2pro before 0.5 or by another program. Save it again to give it one"
        warnings.warn(f"{path} has no digest, so damage cannot be detected; {why}", Sen2ProWarning, stacklevel=6)
    elif kept is None:
        raise Sen2ProError(f"{path} has no digest, so damage cannot be detected. Write it again")
    elif kept != found:
        raise Sen2ProError(
            f"{path} was changed or damaged since it was written: its content has another digest. Write it again, or "
            "read it as it is with verify=False"
        )


def _batches(found: Outline, size: int, *, verify: bool, strict: bool) -> Iterator[GaussianBatch]:
    """Yield the rows of a Parquet file, and compare its digest after the last of them."""
    path, signature, digest, done = found.path, found.signature, ContentDigest(), 0
    with open_parquet(path, read_dictionary=found.strings) as file:  # texts that repeat are kept once
        for rows in parquet_batches(file, size, [*found.sizes, *found.strings, *found.totals, *found.kept]):
            _check_rows(path, rows, done, found.kept)
            done += len(rows)
            if done > found.rows:
                raise Sen2ProError(f"{path} is not a whole Parquet file: more than the {found.rows} rows of its end")
            numbers: dict[str, AnyArray] = {}
            for name in (*found.sizes, *found.totals):
                column = rows.column(name).flatten() if name in VECTORS else rows.column(name)
                shape = (len(rows), found.sizes[name]) if name in VECTORS else (len(rows),)
                kind = np.float64 if name in found.totals else np.float32
                numbers[name] = column.to_numpy(zero_copy_only=False).astype(kind).reshape(shape)
            strings = {name: column_values(rows.column(name)) for name in found.strings}
            for name in found.sizes if verify else ():
                digest.numbers(name, numbers[name])
            for name, texts in strings.items() if verify else ():
                digest.texts(name, texts)
            totals = {name: numbers.pop(name) for name in found.totals}
            columns = {name: rows.column(name) for name in found.kept}
            yield GaussianBatch(
                **numbers, signature=signature, ids=strings.get("id"), texts=strings.get("text"), totals=totals,
                columns=columns,
            )  # fmt: skip
    if done != found.rows:
        raise Sen2ProError(f"{path} is not a whole Parquet file: {done} rows where its end says {found.rows}")
    if verify:
        _check_digest(path, found.digest, _digest_of(digest, done, found.sizes["mean"], found.metadata), strict=strict)


def _check_rows(path: Path, batch: pa.RecordBatch, first: int, kept: Sequence[str]) -> None:
    """Refuse rows without a value (except in columns that are only kept), and vectors with one missing."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in kept:
            continue
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if not missing.any() and name in VECTORS and column.flatten().null_count:
            inner = column.flatten().is_null().to_numpy(zero_copy_only=False)
            missing = inner.reshape(len(column), -1).any(axis=1)
        if missing.any():
            raise Sen2ProError(f"{path}, row {first + int(missing.argmax()) + 1}: there is no {name}, or not all of it")
