"""Gaussians on disk: Parquet or safetensors by suffix, written whole or not at all, with a digest of their content."""

from __future__ import annotations

import array as arrays
import json
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, Sen2ProWarning, one_of, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.io import shards, tensors
from sen2pro.io.atomic import check_path, read_unchanged, replacing
from sen2pro.io.rows import column_values, open_parquet, parquet_batches
from sen2pro.signature import Signature
from sen2pro.validation import as_list, check_text

SUFFIXES = (".parquet", ".safetensors")
# The types of columns that can be kept besides, as Arrow calls them.
KEPT_TYPES = ("string", "int64", "double", "bool")
_SINGLE, _SIGNATURE, _DIGEST = "sen2pro.single", "sen2pro.signature", "sen2pro.digest"
_VECTORS, _STRINGS = ("mean", "variance"), ("id", "text")
_TOTALS = ("model_variance", "data_variance")
COLUMNS = (*_STRINGS, *_VECTORS, "coverage", "total_variance", *_TOTALS)  # of our own
_BATCH_AXES = {"mean": "rows k", "variance": "rows k", "coverage": "rows"}
_BATCH = 8192  # rows of a Parquet file that are decoded at once
_MOST_SHRUNK, _SMALL = 1000, 1 << 26  # no Gaussians shrink that much; what is small is not asked


class ContentDigest:
    """Fed column by column, in pieces of any size, at the speed of the memory.

    >>> whole, pieces = ContentDigest(), ContentDigest()
    >>> whole.numbers("mean", np.arange(4, dtype=np.float32))
    >>> pieces.numbers("mean", np.arange(2, dtype=np.float32))
    >>> pieces.numbers("mean", np.arange(2, 4, dtype=np.float32))
    >>> whole.value(rows=2) == pieces.value(rows=2), whole.value(rows=2) == whole.value(rows=4)
    (True, False)
    """

    def __init__(self) -> None:
        self._columns: defaultdict[str, Any] = defaultdict(xxhash.xxh3_128)

    def numbers(self, column: str, values: NDArray[Any]) -> None:
        """Add numbers to a column."""
        if values.size:
            self._columns[column].update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")))

    def texts(self, column: str, values: Sequence[str]) -> None:
        """Add texts to a column."""
        for value in values:
            encoded = value.encode("utf-8", "surrogatepass")
            self._columns[column].update(b"%d:" % len(encoded) + encoded)

    def value(self, **about: Any) -> str:
        """Return the digest of all columns and of what else is said about them, which JSON must be able to spell."""
        columns = {name: state.hexdigest() for name, state in self._columns.items()}
        content = json.dumps({"columns": columns, "about": about}, sort_keys=True)
        return f"xxh3-128:{xxhash.xxh3_128_hexdigest(content.encode())}"


class Stored(NamedTuple):
    """What a file holds: the Gaussians and, where they were kept, their ids and texts."""

    gaussian: Gaussian
    ids: list[str] | None
    texts: list[str] | None

    def find(self, id: str) -> Gaussian:
        """Return the Gaussian with this id; an id that stands there more than once is an error.

        >>> g = Gaussian([[0.0], [1.0]], [[1.0], [1.0]])
        >>> Stored(g, ["a", "b"], None).find("b").mean
        array([1.], dtype=float32)
        """
        if self.ids is None:
            raise Sen2ProError("no ids were kept in this file; write it with ids=...")
        rows = [row for row, each in enumerate(self.ids) if each == id]
        if not rows:
            raise Sen2ProError(f"there is no id {id!r} among {len(self.ids)}")
        if len(rows) > 1:
            raise Sen2ProError(f"the id {id!r} stands in {len(rows)} rows, for instance {rows[0]} and {rows[1]}")
        return self.gaussian[rows[0]]


def _arrays(gaussian: Gaussian) -> dict[str, NDArray[Any]]:
    """Return what a file keeps of a Gaussian, by name."""
    arrays = {name: getattr(gaussian, name) for name in (*_VECTORS, "coverage")}
    return {name: numbers for name, numbers in arrays.items() if numbers is not None}


def _as_texts(name: str, values: Any, rows: int) -> list[str]:
    """Return ids or texts as a list of str, one for each row."""
    wanted = f"a list of {rows} {name}s"
    given = as_list(values, wanted)
    if isinstance(values, str) or len(given) != rows:
        raise Sen2ProError(f"{rows} Gaussians need {wanted}, not {short_repr(values)}")
    try:
        texts = [str(value) for value in given]
    except Exception:  # a number of thousands of digits, or whatever a stranger's object says
        raise Sen2ProError(f"these {name}s cannot be turned into texts: {short_repr(values)}") from None
    return [check_text(f"the {name} of row {row}", text) for row, text in enumerate(texts)]


def _suffix(path: Path) -> str:
    return one_of("file suffix", path.suffix.lower(), SUFFIXES)


class GaussianWriter:
    """Write Gaussians chunk by chunk under a temporary name, renamed when all is well.

    A run that fails or is killed never leaves a half file. Memory does not grow with the number of chunks, but for 8
    bytes a row where there are ids: `check_ids` warns of those that stand there twice.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.parquet"
    >>> with GaussianWriter(path) as writer:
    ...     for mean in (0.0, 1.0):
    ...         writer.write(Gaussian([[mean]], [[1.0]]))
    >>> Gaussian.load(path).mean.ravel()
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
        self._ids = arrays.array("q")  # hashes: 8 bytes a row
        self._parquet: Any = None
        self._tensors: dict[str, IO[bytes]] = {}
        self.notes: dict[str, str] = {}
        """What else a Parquet file shall say of itself, under names that begin with `sen2pro.`."""
        self.digest = ""
        """The digest of what was written, when all of it is."""

    def __enter__(self) -> GaussianWriter:
        self._temporary = self._open.enter_context(replacing(self.path, overwrite=self._overwrite))
        self._open.callback(self._close)
        return self

    def write(
        self, gaussian: Gaussian, *, ids: Sequence[str] | None = None, texts: Sequence[str] | None = None,
        parts: Mapping[str, Gaussian] | None = None, totals: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Add a batch (or a single Gaussian, which then must be the only one).

        A Parquet file also gets the column `total_variance` and, where `parts` gives the Gaussians of the sources as
        `encode_sources` does, `model_variance` and `data_variance`: for other tools, to sort and filter by. `totals`
        gives these two by name instead. `columns` are Arrow arrays to keep besides (see `KEPT_TYPES`).
        """
        if self._temporary == self.path:
            raise Sen2ProError("write inside a with block: with GaussianWriter(path) as writer: ...")
        rows = gaussian.mean.size // gaussian.dim
        given = (("id", ids), ("text", texts))
        strings = {name: _as_texts(name, values, rows) for name, values in given if values is not None}
        named = [*strings, *(columns or {})]
        if named and self._format != ".parquet":
            raise Sen2ProError(f"safetensors holds numbers only; to keep the {' and '.join(named)}, write .parquet")
        numbers = _arrays(gaussian)
        kind = (gaussian.dim, {*named, *numbers}, gaussian.signature)
        if self._shape is not None and 1 in (len(self._shape), len(gaussian.shape)):
            raise Sen2ProError("a single Gaussian fills a file; write batches to write several times")
        if self._shape is not None and kind != self._kind:
            raise Sen2ProError("every batch of a file must have the same dimensions, columns and signature")
        self._shape, self._kind = gaussian.shape, kind
        self._rows += rows
        self._ids.extend(map(hash, strings.get("id", ())) if self._check_ids else ())
        for name, values in strings.items():
            self._digest.texts(name, values)
        for name, array in numbers.items():
            self._digest.numbers(name, array)
        if self._format == ".parquet":
            sums = {f"{name}_variance": np.atleast_1d(each.total_variance) for name, each in (parts or {}).items()}
            self._write_parquet(gaussian, strings, {**sums, **(totals or {})}, columns or {})
            return
        for name, array in numbers.items():
            if name not in self._tensors:
                part = self._temporary.with_name(f"{self._temporary.name}.{name}")
                self._tensors[name] = part.open("w+b")
            self._tensors[name].write(array.astype("<f4", copy=False).tobytes())

    def _write_parquet(
        self, gaussian: Gaussian, strings: Mapping[str, list[str]], totals: Mapping[str, Any], kept: Mapping[str, Any]
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: pa.array(values, pa.string()) for name, values in strings.items()} | dict(kept)
        for name, sums in {"total_variance": np.atleast_1d(gaussian.total_variance), **totals}.items():
            columns[name] = pa.array(sums, pa.float64())
        for name, array in _arrays(gaussian).items():
            flat = pa.array(array.reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, gaussian.dim) if name in _VECTORS else flat
        table = pa.table(columns)
        if self._parquet is None:
            schema = table.schema.with_metadata(self._metadata())
            split = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in _VECTORS}
            self._parquet = pq.ParquetWriter(
                self._temporary, schema, compression="zstd", use_dictionary=list(strings), column_encoding=split,
                write_page_checksum=True,
            )  # fmt: skip
        self._parquet.write_table(table.cast(self._parquet.schema))

    def _metadata(self) -> dict[str, str]:
        signature = self._kind[-1]
        metadata = {_SIGNATURE: signature.to_json()} if signature else {}
        if self._shape is not None and len(self._shape) == 1:
            metadata[_SINGLE] = "true"
        return metadata

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
        self.digest = _digest_value(self._digest, self._rows, self._shape, self._metadata())
        digest = {_DIGEST: self.digest}
        if self._parquet is not None:
            self._parquet.add_key_value_metadata({**self.notes, **digest})
            self._parquet.close()
            return
        header: dict[str, Any] = {"__metadata__": {**self._metadata(), **digest}}
        shape, end = [self._rows, self._shape[-1]][-len(self._shape) :], 0
        for name, tensor in self._tensors.items():
            start, end = end, end + tensor.tell()
            own_shape = shape if name in _VECTORS else shape[:-1]
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
                f"{len(same)} of {len(hashes)} ids in {self.path} stand there before, for instance that of row "
                f"{second}, which is that of row {first} too; looking one up will be an error"
            )
            warnings.warn(message, Sen2ProWarning, stacklevel=3)


def _digest_value(digest: ContentDigest, rows: int, shape: tuple[int, ...], metadata: dict[str, str]) -> str:
    return digest.value(rows=rows, dimensions=shape[-1], single=len(shape) == 1, signature=metadata.get(_SIGNATURE))


def read(path: str | Path, *, verify: bool = True) -> Stored:
    """Read Gaussians, ids and texts from a file that `Gaussian.save` or `sen2pro encode` wrote, or a folder of shards.

    Types, shapes and sizes are checked before anything is read. Rows without a value, and numbers that are not finite,
    are refused. `verify` compares the content with its digest, so that a file that changed says so; a file that has
    none, of a version before 0.5, is read with a warning.
    """
    path = check_path(path)
    return read_unchanged(path, partial(_read, path, verify))


def _read(path: Path, verify: bool) -> Stored:
    if shards.is_folder(path):
        return _read_folder(path, verify)
    if not path.is_file():
        raise Sen2ProError(f"there is no file {path}")
    digest = ContentDigest()
    reader = _read_parquet if _suffix(path) == ".parquet" else _read_tensors
    numbers, strings, metadata = reader(path, digest if verify else None)
    try:
        signature = Signature.from_json(metadata[_SIGNATURE]) if _SIGNATURE in metadata else None
        gaussian = Gaussian(**numbers, signature=signature, copy=False)
    except Sen2ProError as error:
        raise Sen2ProError(f"{path}: {error}") from None
    kept = metadata.get(_DIGEST)
    if verify and kept is None:
        why = "it was written by sen2pro before 0.5 or by another program. Save it again to give it one"
        warnings.warn(f"{path} has no digest, so damage to it cannot be told; {why}", Sen2ProWarning, stacklevel=5)
    elif verify and kept != _digest_value(digest, gaussian.mean.size // gaussian.dim, gaussian.shape, metadata):
        raise Sen2ProError(
            f"{path} was changed or damaged since it was written: its content has another digest. Write it again, or "
            "read it as it is with verify=False"
        )
    return Stored(gaussian, strings.get("id"), strings.get("text"))


Content = tuple[dict[str, NDArray[Any]], dict[str, list[str]], dict[str, str]]


@dataclass(frozen=True)
class Outline:
    """What the end of a Parquet file says of the rest: numbers a row of each column, names of texts, and metadata."""

    rows: int
    sizes: dict[str, int]
    strings: list[str]
    totals: list[str]
    metadata: dict[str, str]
    kept: tuple[str, ...] = ()

    @property
    def signature(self) -> Signature | None:
        """How the Gaussians were made."""
        return Signature.from_json(self.metadata[_SIGNATURE]) if _SIGNATURE in self.metadata else None

    @property
    def digest(self) -> str | None:
        """The digest that was written with the content."""
        return self.metadata.get(_DIGEST)


def outline(path: str | Path) -> Outline:
    """Read what a Parquet file of Gaussians, or a folder of such shards, holds, and no number."""
    path = check_path(path)
    if shards.is_folder(path):
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
        return Outline(rows, sizes, [name for name in _STRINGS if name in schema.names], totals, metadata, kept)


class Piece(NamedTuple):
    """Some rows of a file: with the total variances of each source, and columns kept besides as Arrow arrays."""

    gaussian: Gaussian
    ids: list[str] | None
    texts: list[str] | None
    totals: dict[str, NDArray[np.float64]]
    columns: dict[str, Any]

    def part(self, start: int, stop: int | None = None) -> Piece:
        """Return some of the rows."""
        rows = slice(start, stop)
        return Piece(
            self.gaussian[rows],
            None if self.ids is None else self.ids[rows],
            None if self.texts is None else self.texts[rows],
            {name: each[rows] for name, each in self.totals.items()},
            {name: each[rows] for name, each in self.columns.items()},
        )

    def write_to(self, writer: GaussianWriter) -> None:
        """Write these rows."""
        writer.write(self.gaussian, ids=self.ids, texts=self.texts, totals=self.totals, columns=self.columns)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return the rows of several pieces, of the same columns and signature, as one."""
    import pyarrow as pa

    first = pieces[0]
    if len(pieces) == 1:
        return first
    arrays = {
        name: np.concatenate([_arrays(each.gaussian)[name] for each in pieces]) for name in _arrays(first.gaussian)
    }
    return Piece(
        Gaussian(**arrays, signature=first.gaussian.signature, copy=False),
        None if first.ids is None else [id for each in pieces for id in each.ids or ()],
        None if first.texts is None else [text for each in pieces for text in each.texts or ()],
        {name: np.concatenate([each.totals[name] for each in pieces]) for name in first.totals},
        {name: pa.concat_arrays([each.columns[name] for each in pieces]) for name in first.columns},
    )


def stream(path: str | Path, size: int, *, verify: bool = True) -> Iterator[Piece]:
    """Yield what a Parquet file, or a folder of shards, holds in batches of at most `size` rows.

    With `verify` the content is compared with its digest after the last batch of each file.
    """
    path, digest = check_path(path), ContentDigest()
    if shards.is_folder(path):
        _folder_outline(path)
        for shard in shards.files(path):
            yield from stream(shard, size, verify=verify)
        return
    found = outline(path)
    for numbers, strings, columns in _batches(path, found, size, digest if verify else None):
        totals = {name: numbers.pop(name) for name in found.totals}
        try:
            gaussian = Gaussian(**numbers, signature=found.signature, copy=False)
        except Sen2ProError as error:
            raise Sen2ProError(f"{path}: {error}") from None
        if any(not np.isfinite(each).all() or (each < 0).any() for each in totals.values()):
            raise Sen2ProError(f"{path}: a total variance is negative or not finite")
        yield Piece(gaussian, strings.get("id"), strings.get("text"), totals, columns)
    shape = (found.rows, found.sizes["mean"])[found.metadata.get(_SINGLE) == "true" :]
    if verify and found.digest != _digest_value(digest, found.rows, shape, found.metadata):
        raise Sen2ProError(f"{path} has no digest, or was changed or damaged since it was written. Write it again")


def _folder_outline(path: Path) -> Outline:
    """Read what a folder of shards holds; a shard that is missing, or of another run, is an error."""
    wanted, found = shards.manifest(path), [outline(file) for file in shards.files(path)]
    for entry, each, file in zip(wanted["shards"], found, shards.files(path), strict=True):
        if (each.rows, each.digest) != (entry["rows"], entry["digest"]):
            raise Sen2ProError(f"{file} is not the file that {shards.MANIFEST} speaks of; write the folder again")
    full = [each for each in found if each.rows] or found[:1]
    if len({(*each.sizes.items(), *each.strings, each.metadata.get(_SIGNATURE)) for each in full}) > 1:
        raise Sen2ProError(f"the shards in {path} have different columns or signatures; write the folder again")
    return replace(full[0], rows=sum(each.rows for each in found))


def _read_folder(path: Path, verify: bool) -> Stored:
    """Read all shards of a folder into one."""
    found = _folder_outline(path)
    numbers = {
        name: np.empty((found.rows, size)[: 1 + (name in _VECTORS)], np.float32) for name, size in found.sizes.items()
    }
    ids: list[str] | None = [] if "id" in found.strings else None
    texts: list[str] | None = [] if "text" in found.strings else None
    done = 0
    for piece in stream(path, _BATCH, verify=verify):
        here = slice(done, done + len(piece.gaussian))
        for name, values in _arrays(piece.gaussian).items():
            if name in numbers:
                numbers[name][here] = values
        if ids is not None:
            ids += piece.ids or ()
        if texts is not None:
            texts += piece.texts or ()
        done = here.stop
    return Stored(Gaussian(**numbers, signature=found.signature, copy=False), ids, texts)


def _batches(
    path: Path, found: Outline, size: int, digest: ContentDigest | None
) -> Iterator[tuple[dict[str, NDArray[Any]], dict[str, list[str]], dict[str, Any]]]:
    """Yield the columns of a file, some rows at a time, and feed them to a digest."""
    done = 0
    with open_parquet(path, read_dictionary=found.strings) as file:  # texts that repeat are kept once
        wanted = [*found.sizes, *found.strings, *found.totals, *found.kept]
        for batch in parquet_batches(file, size, wanted):
            _check_rows(path, batch, done, found.kept)
            if done + len(batch) > found.rows:
                raise Sen2ProError(
                    f"{path} is not a whole Parquet file: more rows than the {found.rows} that its end says"
                )
            numbers: dict[str, NDArray[Any]] = {}
            for name in (*found.sizes, *found.totals):
                column = batch.column(name).flatten() if name in _VECTORS else batch.column(name)
                shape = (len(batch), found.sizes[name]) if name in _VECTORS else (len(batch),)
                kind = np.float64 if name in found.totals else np.float32
                numbers[name] = column.to_numpy(zero_copy_only=False).astype(kind).reshape(shape)
                if digest is not None and name in found.sizes:
                    digest.numbers(name, numbers[name])
            strings = {name: column_values(batch.column(name)) for name in found.strings}
            for name, texts in strings.items():
                if digest is not None:
                    digest.texts(name, texts)
            yield numbers, strings, {name: batch.column(name) for name in found.kept}
            done += len(batch)
        if done != found.rows:
            raise Sen2ProError(f"{path} is not a whole Parquet file: {done} rows where its end says {found.rows}")


def _read_parquet(path: Path, digest: ContentDigest | None) -> Content:
    found = replace(outline(path), totals=[], kept=())
    rows, sizes, metadata = found.rows, found.sizes, found.metadata
    numbers = {name: np.empty((rows, size)[: 1 + (name in _VECTORS)], np.float32) for name, size in sizes.items()}
    strings: dict[str, list[str]] = {name: [] for name in found.strings}
    done = 0
    for part, texts, _ in _batches(path, found, _BATCH, digest):
        here = slice(done, done + len(part["mean"]))
        for name, values in part.items():
            numbers[name][here] = values
        for name, more in texts.items():
            strings[name] += more
        done = here.stop
    if metadata.get(_SINGLE) == "true":
        if rows != 1:
            raise Sen2ProError(f"{path} says that it holds a single Gaussian, but has {rows} rows")
        numbers = {name: values[0] for name, values in numbers.items()}
    return numbers, strings, metadata


def _sizes(schema: Any, path: Path) -> dict[str, int]:
    """Return how many numbers each column has in a row, after a look at the types."""
    import pyarrow as pa

    if len(set(schema.names)) < len(schema.names):
        raise Sen2ProError(f"{path} has a column twice: {', '.join(schema.names)}")
    types, sizes = dict(zip(schema.names, schema.types, strict=True)), {}
    for name in _VECTORS:
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
    for name in _STRINGS:
        if name in types and types[name] not in (pa.string(), pa.large_string()):
            raise Sen2ProError(f"{path}: the column {name!r} must hold texts, not {types[name]}")
    return sizes


def _check_rows(path: Path, batch: Any, first: int, kept: Sequence[str]) -> None:
    """Refuse rows without a value, but for columns that are only kept, and vectors with one missing."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in kept:
            continue
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if not missing.any() and name in _VECTORS and column.flatten().null_count:
            inner = column.flatten().is_null().to_numpy(zero_copy_only=False)
            missing = inner.reshape(len(column), -1).any(axis=1)
        if missing.any():
            raise Sen2ProError(f"{path}, row {first + int(missing.argmax()) + 1}: there is no {name}, or not all of it")


def _check_size(path: Path, rows: int, claimed: int) -> None:
    """Refuse a small file that says it holds a great many numbers, before there is room made for them."""
    if rows < 0:
        raise Sen2ProError(f"{path} is not a whole Parquet file: its end says that it has {rows} rows")
    size = path.stat().st_size
    if claimed > _SMALL and claimed > _MOST_SHRUNK * size:
        claim = f"{path} has {size:,} bytes but claims to hold {claimed:,} bytes of numbers"
        raise Sen2ProError(f"{claim}; no file of Gaussians shrinks that much")


def _read_tensors(path: Path, digest: ContentDigest | None) -> Content:
    header = tensors.read_header(path)
    single = "mean" in header.tensors and len(header.tensors["mean"].shape) == 1
    axes = {"mean": "k", "variance": "k", "coverage": ""} if single else _BATCH_AXES
    known = {name: each for name, each in axes.items() if name in _VECTORS or name in header.tensors}
    expected = {name: tensors.Expected("F32", each) for name, each in known.items()}
    tensors.check(header, expected, str(path))
    numbers = tensors.read_arrays(path, expected, digest.numbers if digest else None)
    return numbers, {}, header.metadata
