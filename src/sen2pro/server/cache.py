"""A small cache of what was made from the texts of a request: indexes of documents, classifiers of examples."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value")
_ENTRIES, _BYTES = 32, 128 << 20


class Cache:
    """The values that were used last, bounded in number and in bytes. A value is found by the hash of its texts alone.

    >>> cache = Cache(entries=2)
    >>> cache.put("a", 1, size=8), cache.put("b", 2, size=8), cache.put("c", 3, size=8)
    (None, None, None)
    >>> cache.get("a", int), cache.get("c", int)
    (None, 3)
    """

    def __init__(self, entries: int = _ENTRIES, most_bytes: int = _BYTES) -> None:
        self.entries, self.most_bytes = entries, most_bytes
        self._values: OrderedDict[str, tuple[object, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, kind: type[Value]) -> Value | None:
        """Return the value of a key if there is one of this type."""
        value = self._values.get(key, (None, 0))[0]
        if not isinstance(value, kind):
            return None
        self._values.move_to_end(key)
        return value

    def put(self, key: str, value: object, size: int) -> None:
        """Keep a value of about `size` bytes, and drop the values that were not used for the longest time."""
        self._bytes += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._values and (len(self._values) > self.entries or self._bytes > self.most_bytes):
            self._bytes -= self._values.popitem(last=False)[1][1]


def key_of(kind: str, texts: Sequence[str]) -> str:
    """Return the key of texts; lists that are cut differently have different keys.

    >>> key_of("index", ["ab", "c"]) == key_of("index", ["a", "bc"])
    False
    """
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
