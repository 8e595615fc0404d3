"""Safetensors files: written whole or not at all, and read with names, types and shapes checked before any number.

The format is an 8-byte length, a JSON header, then the raw numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import check_path, replacing

_PIECE = 1 << 16  # numbers that are read at once: they still lie in the cache when they are looked at
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "|b1", "I64": "<i8", "I32": "<i4"}


class Tensor(NamedTuple):
    """What a header says of a tensor."""

    type: str  # F32, BF16, ...
    shape: tuple[int, ...]


class Expected(NamedTuple):
    """What a tensor must be. Axes of one name must have one size, in all tensors of a file; a number is a size."""

    type: str  # F32, or several: F16 or F32
    axes: int | str  # how many, or their names: "k dim"


class Header(NamedTuple):
    """What the beginning of a file says of the rest."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


def read_header(path: str | Path) -> Header:
    """Read names, types and shapes, and nothing else; a file that is longer or shorter than they say is refused."""
    from safetensors import SafetensorError, safe_open

    path = check_path(path)
    if not path.is_file():
        raise Sen2ProError(f"there is no file {path}")
    try:
        with safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
            tensors = {name: Tensor(each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
            return Header(tensors, dict(file.metadata() or {}))
    except SafetensorError as error:
        raise Sen2ProError(f"{path} is not a whole safetensors file: {error}") from None


def check(header: Header, expected: Mapping[str, Expected], place: str) -> None:
    """Refuse a file that lacks a tensor, or has one of another type or shape."""
    sizes: dict[str, int] = {}
    for name, (kind, axes) in expected.items():
        if name not in header.tensors:
            raise Sen2ProError(f"{place} has no tensor {name!r}")
        tensor = header.tensors[name]
        if tensor.type not in kind.split(" or "):
            raise Sen2ProError(f"{place}: the numbers of {name!r} must be {kind}, not {tensor.type}")
        named = axes.split() if isinstance(axes, str) else [f"{name} {axis}" for axis in range(axes)]
        if len(tensor.shape) != len(named):
            shape = list(tensor.shape)
            raise Sen2ProError(f"{place}: {name!r} must have {len(named)} dimensions, not the shape {shape}")
        for axis, size in zip(named, tensor.shape, strict=True):
            sizes.setdefault(axis, int(axis) if axis.isdigit() else size)
        wanted = tuple(sizes[axis] for axis in named)
        if tensor.shape != wanted:
            raise Sen2ProError(f"{place}: {name!r} must have shape {list(wanted)}, not {list(tensor.shape)}")


def read(path: str | Path, expected: Mapping[str, Expected]) -> dict[str, NDArray[Any]]:
    """Read the tensors that are expected, after a look at the header; those of floats must be finite."""
    check(read_header(path), expected, str(path))
    arrays = read_arrays(path, expected)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Sen2ProError(f"{path}: {name!r} holds numbers that are not finite")
    return arrays


def read_arrays(
    path: str | Path, names: Iterable[str], seen: Callable[[str, NDArray[Any]], None] | None = None
) -> dict[str, NDArray[Any]]:
    """Read tensors of a file whose header was checked, in no more memory than the numbers take.

    `seen` is called with the name and each piece that was read, while it lies in the cache.
    """
    arrays = {}
    with Path(path).open("rb", buffering=0) as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))  # safetensors has read it before, so it is whole
        for name in names:
            about = header[name]
            arrays[name] = np.empty(about["shape"], _TYPES[about["dtype"]])
            flat = arrays[name].reshape(-1)
            file.seek(start + about["data_offsets"][0])
            for first in range(0, flat.size, _PIECE):
                piece = flat[first : first + _PIECE]
                if file.readinto(piece.view(np.uint8).data) != piece.nbytes:
                    raise Sen2ProError(f"{path} ended in the middle of {name!r}; was it changed while it was read?")
                if seen is not None:
                    seen(name, piece)
    return arrays


def write(path: str | Path, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> None:
    """Write arrays to a file, whole or not at all."""
    from safetensors.numpy import save_file

    with replacing(path) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary, metadata)
