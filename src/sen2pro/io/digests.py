"""A digest of the content of a Gaussian file, whatever the format and however it was cut into chunks.

A digest tells of accidents: a flipped bit, a cut file. It is no defence: whoever changes a file can compute it anew.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray


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


def file_digest(path: str | Path) -> str:
    """Return the digest of the bytes of a file, whatever it holds."""
    state = xxhash.xxh3_128()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return f"xxh3-128:{state.hexdigest()}"
