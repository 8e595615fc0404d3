"""Batches without padding: all sentences of a batch in one row, attention within each.

All layers but attention work token by token. transformers lets a name of ours stand for how attention is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PACKED = "sen2pro_packed"  # the name under which transformers knows our attention
_LAYOUT: ContextVar[Layout] = ContextVar("layout")


class Layout:
    """Where the sentences of a packed batch lie; `first` is the position of a sentence's first token.

    `groups` holds (sentences, tokens, length) of each run of sentences of one length, which go through attention
    together.

    >>> Layout([2, 3, 3]).groups
    [(slice(0, 1, None), slice(0, 2, None), 2), (slice(1, 3, None), slice(2, 8, None), 3)]
    """

    def __init__(self, lengths: Sequence[int], first: int = 0) -> None:
        self.lengths, self.first = list(lengths), first
        self.groups: list[tuple[slice, slice, int]] = []
        row = self.total = 0
        for length, run in groupby(self.lengths):
            count = len(list(run))
            self.groups.append((slice(row, row + count), slice(self.total, self.total + count * length), length))
            row, self.total = row + count, self.total + count * length

    def unpack(self, states: Tensor) -> Tensor:
        """Turn (1, tokens, width) into (sentences, longest length, width), padded with zeros on the right."""
        if len(self.groups) == 1:
            return states.view(len(self.lengths), self.lengths[0], -1)
        return nn.utils.rnn.pad_sequence(list(torch.split(states[0], self.lengths)), batch_first=True)

    def averages(self, states: Tensor) -> Tensor:
        """Return the average over the tokens of each sentence: (tokens, width) gives (sentences, width)."""
        parts = [states[rows].view(-1, length, states.shape[1]).mean(1) for _, rows, length in self.groups]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def first_tokens(self, states: Tensor) -> Tensor:
        """Return the state of each sentence's first token: (tokens, width) gives (sentences, width)."""
        return torch.cat([states[rows][::length] for _, rows, length in self.groups])

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let our attention go by this layout."""
        token = _LAYOUT.set(self)
        try:
            yield
        finally:
            _LAYOUT.reset(token)


def register() -> None:
    """Make our attention known to transformers; it gets no mask, since none is registered under its name."""
    from transformers import AttentionInterface

    AttentionInterface.register(PACKED, _attention)


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """Attend within each sentence of a packed batch: (1, heads, tokens, size) gives (1, tokens, heads, size)."""
    scaling, dropout = options.get("scaling"), options.get("dropout", 0.0)
    if attention_mask is not None or options.get("sliding_window") is not None or getattr(module, "is_causal", False):
        raise NotImplementedError("only full attention can be packed")
    parts = []
    for _, tokens, length in _LAYOUT.get().groups:
        q, k, v = (  # (sentences, heads, length, size)
            torch.unflatten(states[0, :, tokens], 1, (-1, length)).transpose(0, 1) for states in (query, key, value)
        )
        if module.training:
            weights = functional.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scaling is None else scaling), dim=-1)
            mixed = functional.dropout(weights, p=dropout, training=True) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, scale=scaling)
        parts.append(mixed.transpose(1, 2).flatten(0, 1))
    return (torch.cat(parts) if len(parts) > 1 else parts[0]).unsqueeze(0), None
