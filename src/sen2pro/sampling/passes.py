"""Run the forward passes: every sample of every sentence, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.dropout import Tokens
from sen2pro.sampling.edits import edit
from sen2pro.types import Array

if TYPE_CHECKING:
    from sen2pro.encoder.encoder import Encoder

_WINDOW = 1024  # passes prepared and sorted by length together: bounds the memory, whatever n and N
Rows = list[tuple[int, int]]  # (sentence index, sample number)


def samples(
    encoder: Encoder,
    sentences: Sequence[str],
    tokens: list[Tokens],
    source: str,
    count: int,
    *,
    seed: int,
    vocabulary: Sequence[str],
    prompt: str = "",
    batch_size: int | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Array]]:
    """Yield (sentence index (r,), sample number (r,), vectors (r, k)) until every sentence has `count` samples.

    `tokens` are those of prompt and sentence; `source` is `model` (the sentence under dropout) or `data` (edited
    copies, no dropout). The samples of a sentence stand together.
    """
    by_length = sorted(range(len(sentences)), key=lambda i: len(tokens[i]))
    rows = ((i, s) for i in by_length for s in range(count))
    while window := list(islice(rows, _WINDOW)):
        if source == "model":
            numbers = [s for _, s in window]
            vectors = embed(encoder, [tokens[i] for i, _ in window], numbers, seed, prompt, batch_size, advance)
        else:
            copies = encoder.tokens([prompt + edit(sentences[i], vocabulary, seed, s) for i, s in window])
            vectors = embed(encoder, copies, None, seed, prompt, batch_size, advance)
        index, number = np.array(window).T
        yield index, number, vectors


def embed(
    encoder: Encoder,
    tokens: list[Tokens],
    numbers: list[int] | None = None,
    seed: int = 0,
    prompt: str = "",
    batch_size: int | None = None,
    advance: Callable[[float], None] = lambda _: None,
    layers: Sequence[int] = (),
) -> Array:
    """Return one pooled vector a token list, (r, k); under keyed dropout where sample `numbers` are given.

    Further columns hold the averages of the hidden states `layers`, if any.
    """
    rows = list(zip(map(tuple, tokens), numbers or [0] * len(tokens), strict=True))
    places: dict[tuple[tuple[int, ...], int], int] = {}
    where = [places.setdefault(row, len(places)) for row in rows]  # equal rows give equal vectors: run each once
    distinct = list(places)
    advance(len(rows) - len(distinct))
    shared = numbers is not None and any(site.kind == "shared" for site in encoder.sites)

    def group(row: int) -> tuple[int, int]:
        """Say who may share a batch: a mask that all sentences share (DeBERTa) belongs to one sample number."""
        ids, number = distinct[row]
        return number if shared else 0, 0 if encoder.may_pad else len(ids)

    order = sorted(range(len(distinct)), key=lambda row: (group(row), len(distinct[row][0])))
    prompt_length = encoder.prompt_length(prompt)
    vectors: Array | None = None
    for batch in _batches(order, [len(ids) for ids, _ in distinct], group, batch_size, encoder.token_budget):
        ids = [list(distinct[row][0]) for row in batch]
        keys = None if numbers is None else [distinct[row][1] for row in batch]
        found = encoder.forward(ids, keys, seed, prompt_length, layers).cpu().numpy()
        if vectors is None:
            vectors = np.empty((len(distinct), found.shape[1]), np.float32)
        vectors[batch] = found
        advance(len(batch))
    return np.empty((0, encoder.dim), np.float32) if vectors is None else vectors[where]


def _batches(
    order: list[int], lengths: list[int], group: Callable[[int], Any], batch_size: int | None, budget: int
) -> Iterator[list[int]]:
    """Cut rows, in their order, into batches of `batch_size` or else of about `budget` tokens, each of one group."""
    batch: list[int] = []
    for row in order:
        full = len(batch) == batch_size if batch_size else (len(batch) + 1) * lengths[row] > budget
        if batch and (full or group(row) != group(batch[0])):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
