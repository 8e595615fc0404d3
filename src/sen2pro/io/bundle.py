"""Save and load everything that is a folder, except Gaussian files: settings as JSON, numbers as safetensors.

The settings are a `Config`: a typed record that refuses unknown keys. The JSON has one digest over the settings and the
numbers. A digest detects accidents. It is no protection: anyone who changes a file can write a new digest.

>>> import tempfile
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, has_surrogates, short_repr
from sen2pro.io import tensors
from sen2pro.io.atomic import check_path, write_text
from sen2pro.io.tensors import Expected

LARGEST = 64 << 20  # bytes of a JSON file
DIGEST = "digest"
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


def save(
    folder: str | Path, name: str, config: msgspec.Struct, arrays: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write NAME.json, and NAME.safetensors if there are arrays, to a folder; each file whole or not at all.

    To replace a whole folder at once, write to the temporary folder that `atomic.new_folder` gives.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if arrays:
        tensors.write(folder / f"{name}.safetensors", arrays)
    content = msgspec.to_builtins(config)
    content[DIGEST] = digest_of(content, arrays)
    write_text(folder / f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load(
    folder: str | Path, name: str, kind: type[Kind],
    expected: Mapping[str, Expected] | Callable[[Kind, str], Mapping[str, Expected]] | None = None,
) -> tuple[Kind, dict[str, NDArray[Any]]]:  # fmt: skip
    """Read the settings and the arrays that `save` wrote; an untrusted file is checked before it is used.

    `expected` may be a function that returns what the arrays must be, from the settings and the path of their file.
    """
    path = check_path(folder) / f"{name}.json"
    content = read_json(path)
    digest = content.pop(DIGEST, None)
    config = convert(content, kind, str(path))
    wanted = expected(config, str(path)) if callable(expected) else expected
    arrays = tensors.read(path.with_suffix(".safetensors"), wanted) if wanted else {}
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


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the JSON object in a file: UTF-8, at most 64 MiB."""
    path = Path(path)
    if not path.is_file():
        raise Sen2ProError(f"{path.parent} does not contain {path.name}")
    if path.stat().st_size > LARGEST:
        raise Sen2ProError(f"{path} is larger than {LARGEST >> 20} MiB; settings are never that large")
    content = parse(path.read_bytes(), str(path))
    if has_surrogates(json.dumps(content, ensure_ascii=False)):
        raise Sen2ProError(f"{path}: a text has half a surrogate pair, which is not Unicode text")
    if not isinstance(content, dict):
        raise Sen2ProError(f"{path} must contain a JSON object, not {short_repr(content)}")
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


def digest_of(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> str:
    """Return 32 hex digits over a JSON object and arrays; the order of keys and white space do not count."""
    state = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays or {}):
        array = np.ascontiguousarray((arrays or {})[name])
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    return state.hexdigest()[:32]
