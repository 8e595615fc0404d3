"""Run forward passes in batches of similar length."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from threading import Barrier
from typing import Any

import numpy as np
import torch

from sen2pro.encoder.backend import Keys, States, Tokens
from sen2pro.encoder.encoder import Encoder

LARGEST = 1.5  # budgets that one batch may have, where two would be small
_NOTHING = np.empty((0, 0), np.float32)


def run_passes(
    encoder: Encoder, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = (),
    batch_size: int | None = None, advance: Callable[[float], None] = lambda _: None,
) -> States:  # fmt: skip
    """Run one pass over each text, with dropout where there are `keys`; `layers` are the hidden states to average."""
    numbers = keys.numbers if keys else [0] * len(tokens)
    places: dict[tuple[tuple[int, ...], int], int] = {}
    where = [places.setdefault(row, len(places)) for row in zip(map(tuple, tokens.ids), numbers, strict=True)]
    first = np.unique(where, return_index=True)[1].tolist()  # equal rows give equal vectors: run each once
    lengths, samples = [len(ids) for ids, _ in places], [number for _, number in places]
    advance(len(where) - len(first))
    shared = keys is not None and any(site.kind == "shared" for site in encoder.sites)

    def group(row: int) -> tuple[int, int]:
        """Say who may share a batch: a mask that all sentences share (DeBERTa) belongs to one sample number."""
        return samples[row] if shared else 0, 0 if encoder.may_pad else lengths[row]

    def run(batch: list[int]) -> tuple[list[int], States]:
        drawn = keys and Keys(keys.seed, [samples[row] for row in batch])
        return batch, encoder.run(tokens.rows([first[row] for row in batch]), drawn, layers)

    order = sorted(range(len(first)), key=lambda row: (group(row), lengths[row]))
    if encoder.concurrent and batch_size is None:
        batches = _even_batches(order, lengths, encoder.token_budget)
    else:
        batches = _batches(order, lengths, group, batch_size, encoder.token_budget)
    done: list[int] = []
    parts: list[States] = []
    for batch, states in (_in_threads if encoder.concurrent else map)(run, batches):
        done += batch
        parts.append(states)
        advance(len(batch))
    if not parts:
        return States(np.empty((0, encoder.dim), np.float32), dict.fromkeys(layers, _NOTHING))
    states = States.join(parts).rows(np.argsort(done)[where])
    return replace(states, words=tokens.words)


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


def _even_batches(order: list[int], lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Cut rows, in their order, into batches of equally many tokens, about `budget` at most.

    Their number is even, so that neither of two threads waits for the other; it does not depend on the threads. What
    is up to half a budget more is still one batch, since two small ones cost more.

    >>> list(_even_batches([0, 1, 2, 3, 4, 5, 6, 7], [3] * 8, budget=9))
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    >>> list(_even_batches([0, 1, 2, 3], [3] * 4, budget=9))
    [[0, 1, 2, 3]]
    """
    total = sum(lengths)
    count = -(-total // budget) if total > LARGEST * budget else 1
    count += count % 2 if count > 1 else 0
    batches: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for row in order:
        batches[before * count // total].append(row)
        before += lengths[row]
    return (batch for batch in batches if batch)


def _in_threads(run: Callable[[list[int]], Any], batches: Iterator[list[int]]) -> Iterator[Any]:
    """Run batches in parallel, one on each thread: two threads on one product lose a tenth of their time."""
    first, threads = list(islice(batches, 2)), torch.get_num_threads()
    every = chain(first, batches)
    return _pool(threads, os.getpid()).map(run, every) if threads > 1 and len(first) > 1 else map(run, every)


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return threads that do not share their work; a forked process has none of its parent's."""
    started = Barrier(threads + 1)

    def start() -> None:
        torch.set_num_threads(1)  # of this thread, and of threads that start later
        started.wait()

    pool = ThreadPoolExecutor(threads, "sen2pro", start)
    for _ in range(threads):
        pool.submit(int)
    started.wait()
    torch.set_num_threads(threads)
    return pool
