"""Work in parts, so that its progress is seen and it can be stopped between two of them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro

if TYPE_CHECKING:
    from sen2pro.search import Index

Found = TypeVar("Found")
Steps = Generator[tuple[int, int], None, Found]  # how much of how much is done, and in the end what was found
PART = 16  # sentences: a fraction of a second


def parts(texts: Sequence[str], size: int = PART) -> Iterator[list[str]]:
    """Cut sentences into parts.

    >>> list(parts(["a", "b", "c"], 2))
    [['a', 'b'], ['c']]
    """
    return (list(texts[start : start + size]) for start in range(0, len(texts), size))


def encode(model: Sen2Pro, texts: Sequence[str]) -> Steps[Gaussian]:
    """Encode sentences part by part.

    >>> steps = encode(Sen2Pro(method="one-pass"), ["It rains."] * 20)
    >>> list(steps)
    [(0, 20), (16, 20), (20, 20)]
    """
    found: list[Gaussian] = []
    yield 0, len(texts)
    for part in parts(texts):
        found.append(model.encode(part, show_progress_bar=False))
        yield sum(map(len, found)), len(texts)
    return Gaussian.concatenate(found)


def build_index(model: Sen2Pro, documents: Sequence[str]) -> Steps[Index]:
    """Make an index in memory, part by part; the id of a document is its number, from 0."""
    from sen2pro.search import Index

    index = Index.build(model)
    yield 0, len(documents)
    for part in parts(documents):
        done = len(index)
        index.add(part, ids=range(done, done + len(part)), show_progress_bar=False)
        yield len(index), len(documents)
    return index
