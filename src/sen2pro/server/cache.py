"""A small cache of objects made from the texts of a request: indexes of documents, classifiers of examples."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")
_ENTRIES, _BYTES = 32, 128 << 20


class Cache(Generic[Value]):
    """The values that were used last, bounded in number and in bytes. Only the hash of its texts finds a value.

    >>> cache = Cache[int](entries=2)
    >>> for number, key in enumerate("abc"):
    ...     cache.put(key, number, size=8)
    >>> cache.get("a"), cache.get("c")
    (None, 2)
    """

    def __init__(self, entries: int = _ENTRIES, most_bytes: int = _BYTES) -> None:
        self.entries, self.most_bytes, self._bytes = entries, most_bytes, 0
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> Value | None:
        """Return the value of a key, if it is still there."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Keep a value of about `size` bytes, and drop the values that were not used for the longest time."""
        self._bytes += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._values and (len(self._values) > self.entries or self._bytes > self.most_bytes):
            self._bytes -= self._values.popitem(last=False)[1][1]


def key_of(texts: Sequence[str]) -> str:
    """Return the key of texts; lists that are cut differently have different keys.

    >>> key_of(["ab", "c"]) == key_of(["a", "bc"])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for data in (text.encode() for text in texts):
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
