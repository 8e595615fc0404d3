"""Randomness that belongs to a sentence: the same numbers whatever else is in the batch."""

from __future__ import annotations

import hashlib


def key(purpose: str, seed: int, sentence: str, sample: int) -> int:
    """Return a 128-bit number that stands for (purpose, seed, sentence, sample).

    >>> key("edit", 0, "A sentence.", 1) == key("edit", 0, "A sentence.", 1) != key("edit", 0, "A sentence.", 2)
    True
    """
    text = f"{purpose}\0{seed}\0{sample}\0{sentence}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
