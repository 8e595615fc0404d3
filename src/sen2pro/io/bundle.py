"""Save and load everything that is a folder, except Gaussian files: settings as JSON, numbers as safetensors.

The settings are a `Config`: a typed record that refuses unknown keys. The JSON has one digest over the settings and the
numbers. A digest detects accidents. It is no protection: anyone who changes a file can write a new digest.

>>> import tempfile
>>> import numpy as np
>>> class Fruit(Config):
...     name: str
...     seeds: Count = 0
>>> folder = tempfile.mkdtemp()
>>> save(folder, "fruit", Fruit(name="fig"), {"sizes": np.ones(2, np.float32)})
>>> load(folder, "fruit", Fruit, {"sizes": Expected("F32", 1)})
(Fruit(name='fig', seeds=0), {'sizes': array([1., 1.], dtype=float32)})
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
import xxhash

from sen2pro.errors import Sen2ProError, has_surrogates, short_repr
from sen2pro.io.atomic import check_path, replacing, write_text

if TYPE_CHECKING:  # what reads no arrays, such as the help of a command, starts without numpy
    from sen2pro.validation import AnyArray

LARGEST = 64 << 20  # bytes of a JSON file
DIGEST = "digest"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # of a surrogate pair, as JSON spells it
# Only the caller may decide these. A file that could set them could run code, or fetch it.
GRANTED_BY_CALLER = (
    "allow_pickle", "device", "head", "model", "revision", "token", "tokenizer", "trust_remote_code", "whitening",
)  # fmt: skip

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e30)]
Finite = Annotated[float, msgspec.Meta(gt=-1e308, lt=1e308)]  # NaN is neither above nor below anything


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings that are saved; a field without a default must be in the file."""


Kind = TypeVar("Kind")
JsonObject = dict[str, Any]
"""The content of a JSON object."""


def save(folder: str | Path, name: str, config: msgspec.Struct, arrays: Mapping[str, AnyArray] | None = None) -> None:
    """Write NAME.json, and NAME.safetensors if there are arrays, to a folder; each file whole or not at all.

    To replace a whole folder at once, write to the temporary folder that `atomic.new_folder` gives.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if arrays:
        write_arrays(folder / f"{name}.safetensors", arrays)
    content = msgspec.to_builtins(config, enc_hook=lambda number: number.item())  # of numpy
    content[DIGEST] = digest_of(content, arrays)
    write_text(folder / f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load(
    folder: str | Path, name: str, kind: type[Kind],
    expected: Mapping[str, Expected] | Callable[[Kind, str], Mapping[str, Expected]] | None = None,
) -> tuple[Kind, dict[str, AnyArray]]:  # fmt: skip
    """Read the settings and the arrays that `save` wrote; an untrusted file is checked before it is used.

    `expected` may be a function that returns what the arrays must be, from the settings and the path of their file.
    """
    path = check_path(folder) / f"{name}.json"
    content = read_json(path)
    digest = content.pop(DIGEST, None)
    config = convert(content, kind, str(path))
    wanted = expected(config, str(path)) if callable(expected) else expected
    arrays = read_arrays(path.with_suffix(".safetensors"), wanted) if wanted else {}
    if digest is not None and digest not in (digest_of(content, arrays), digest_of(content)):
        # Up to version 0.11 the digest was of the settings alone.
        raise Sen2ProError(
            f"{path} was changed or damaged since it was saved. If you changed it yourself, remove its {DIGEST!r}"
        )
    return config, arrays


def convert(content: object, kind: type[Kind], place: str) -> Kind:
    """Return plain objects as a typed record; an error names the place and the key."""
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the second for half a character
        unknown = re.search(r"unknown field `(\w+)`", str(error))
        if unknown and unknown[1] in GRANTED_BY_CALLER:
            raise Sen2ProError(
                f"{place}: a file may not set {unknown[1]!r}. If you trust the source of this folder and it needs "
                f"{unknown[1]}, pass {unknown[1]}=... yourself; then remove the key from the file"
            ) from None
        raise Sen2ProError(f"{place}: {error}") from None


def read_json(path: str | Path) -> JsonObject:
    """Return the JSON object in a file: UTF-8, at most 64 MiB."""
    path = Path(path)
    if not path.is_file():
        raise Sen2ProError(f"{path.parent} does not contain {path.name}")
    content = load_json(path)
    if not isinstance(content, dict):
        raise Sen2ProError(f"{path} must contain a JSON object, not {short_repr(content)}")
    return content


def load_json(path: Path) -> Any:
    """Return the content of a JSON file: UTF-8, at most 64 MiB."""
    if path.stat().st_size > LARGEST:
        raise Sen2ProError(f"{path} is larger than {LARGEST >> 20} MiB; settings are never that large")
    data = path.read_bytes()
    content = parse(data, str(path))
    if _HALF.search(data) and has_surrogates(json.dumps(content, ensure_ascii=False)):
        raise Sen2ProError(f"{path}: a text has half a surrogate pair, which is not Unicode text")
    return content


def parse(text: str | bytes, place: str) -> Any:
    """Return the content of a JSON text in UTF-8; an error names its place."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise Sen2ProError(f"{place}: not JSON that can be read: too many brackets inside each other") from None
    except UnicodeDecodeError as error:
        raise Sen2ProError(f"{place}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None
    except ValueError as error:  # includes whole numbers of thousands of digits
        raise Sen2ProError(f"{place}: not JSON ({error})") from None


def digest_of(content: Mapping[str, object], arrays: Mapping[str, AnyArray] | None = None) -> str:
    """Return 32 hex digits over a JSON object and arrays; the order of keys and white space do not count."""
    state = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays or {}):
        import numpy as np

        array = np.ascontiguousarray((arrays or {})[name])
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    return state.hexdigest()[:32]


class Expected(NamedTuple):
    """The type and shape that an array must have; axes of one name have one size in all arrays, a number is a size."""

    type: str  # F32, or several: F16 or F32
    axes: int | str  # how many, or their names: "k dim"


class Header(NamedTuple):
    """The beginning of a safetensors file: type and shape of each array, and the metadata."""

    arrays: dict[str, tuple[str, tuple[int, ...]]]
    metadata: dict[str, str]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise Sen2ProError(f"there is no file {path}")
    try:
        with safe_open(path, "np") as file:
            yield file
    except SafetensorError as error:
        raise Sen2ProError(f"{path} is not a whole safetensors file: {error}") from None


def read_header(path: str | Path) -> Header:
    """Read names, types, shapes and metadata, and no number; a file that is longer or shorter is refused."""
    with _opened(check_path(path)) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        arrays = {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
        return Header(arrays, dict(file.metadata() or {}))


def read_arrays(path: str | Path, expected: Mapping[str, Expected], *, finite: bool = True) -> dict[str, AnyArray]:
    """Read the expected arrays of a safetensors file after a check of the header; floats must be `finite`."""
    import numpy as np

    path = check_path(path)
    _check_shapes(read_header(path), expected, str(path))
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in expected}
    for name, array in arrays.items():
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Sen2ProError(f"{path}: {name!r} has numbers that are not finite")
    return arrays


def _check_shapes(header: Header, expected: Mapping[str, Expected], place: str) -> None:
    """Refuse a file that lacks an array, or has one of another type or shape."""
    sizes: dict[str, int] = {}
    for name, (kind, axes) in expected.items():
        if name not in header.arrays:
            raise Sen2ProError(f"{place} has no tensor {name!r}")
        found, shape = header.arrays[name]
        if found not in kind.split(" or "):
            raise Sen2ProError(f"{place}: the numbers of {name!r} must be {kind}, not {found}")
        named = axes.split() if isinstance(axes, str) else [f"{name} {axis}" for axis in range(axes)]
        if len(shape) != len(named):
            raise Sen2ProError(f"{place}: {name!r} must have {len(named)} dimensions, not the shape {list(shape)}")
        for axis, size in zip(named, shape, strict=True):
            sizes.setdefault(axis, int(axis) if axis.isdigit() else size)
        wanted = tuple(sizes[axis] for axis in named)
        if shape != wanted:
            raise Sen2ProError(f"{place}: {name!r} must have shape {list(wanted)}, not {list(shape)}")


def write_arrays(path: str | Path, arrays: Mapping[str, AnyArray], metadata: dict[str, str] | None = None) -> None:
    """Write arrays to a safetensors file, whole or not at all."""
    import numpy as np
    from safetensors.numpy import save_file

    with replacing(path) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary, metadata)


class ContentDigest:
    """The digest of the columns of a file, whatever its format and however it was cut into batches.

    >>> import numpy as np
    >>> whole, parts = ContentDigest(), ContentDigest()
    >>> whole.numbers("mean", np.arange(4, dtype=np.float32))
    >>> parts.numbers("mean", np.arange(2, dtype=np.float32))
    >>> parts.numbers("mean", np.arange(2, 4, dtype=np.float32))
    >>> whole.value(rows=2) == parts.value(rows=2), whole.value(rows=2) == whole.value(rows=4)
    (True, False)
    """

    def __init__(self) -> None:
        self._columns: defaultdict[str, xxhash.xxh3_128] = defaultdict(xxhash.xxh3_128)

    def numbers(self, column: str, values: AnyArray) -> None:
        """Add numbers to a column."""
        if values.size:
            self._columns[column].update(values.astype(values.dtype.newbyteorder("<"), order="C", copy=False).data)

    def texts(self, column: str, values: Sequence[str]) -> None:
        """Add texts to a column."""
        for value in values:
            encoded = value.encode("utf-8", "surrogatepass")
            self._columns[column].update(b"%d:" % len(encoded) + encoded)

    def value(self, **about: object) -> str:
        """Return the digest of all columns and of further facts, which JSON must be able to spell."""
        columns = {name: state.hexdigest() for name, state in self._columns.items()}
        content = json.dumps({"columns": columns, "about": about}, sort_keys=True)
        return f"xxh3-128:{xxhash.xxh3_128_hexdigest(content.encode())}"
