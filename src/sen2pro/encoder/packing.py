"""Batches without padding: all sentences of a batch in one row, attention within each.

Linear layers, norms and activations work token by token, so they may run over the tokens of many sentences at once.
Only attention has to know where a sentence begins and ends; transformers lets a name of ours stand for how attention is
done. Sentences of one length go through it together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

PACKED = "sen2pro_packed"  # the name under which transformers knows our attention
_LAYOUT: ContextVar[Layout] = ContextVar("layout")


class Layout:
    """Where the sentences of a packed batch lie.

    >>> layout = Layout([2, 3, 3])
    >>> layout.starts, layout.groups
    ([0, 2, 5], [(0, 1, 2), (2, 2, 3)])
    """

    def __init__(self, lengths: Sequence[int], first: int = 0) -> None:
        self.lengths, self.first = list(lengths), first  # `first` is the position of a sentence's first token
        self.total = sum(self.lengths)
        self.starts = [0, *accumulate(self.lengths)][:-1]

    @cached_property
    def groups(self) -> list[tuple[int, int, int]]:
        """(first token, number of sentences, length) of each run of sentences of one length."""
        found, start = [], 0
        for length, run in groupby(self.lengths):
            count = len(list(run))
            found.append((start, count, length))
            start += count * length
        return found

    def unpack(self, states: Tensor) -> Tensor:
        """Turn (1, tokens, width) into (sentences, longest length, width), padded with zeros on the right."""
        if len(self.groups) == 1:
            return states.view(len(self.lengths), self.lengths[0], -1)
        return torch.nn.utils.rnn.pad_sequence(list(torch.split(states[0], self.lengths)), batch_first=True)

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
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend within each sentence of a packed batch: (1, heads, tokens, size) gives (1, tokens, heads, size)."""
    if attention_mask is not None or options.get("sliding_window") is not None or getattr(module, "is_causal", False):
        raise NotImplementedError("only full attention can be packed")
    layout = _LAYOUT.get()
    parts = []
    for start, count, length in layout.groups:
        q, k, v = (  # (sentences, heads, length, size)
            torch.unflatten(states[0, :, start : start + count * length], 1, (count, length)).transpose(0, 1)
            for states in (query, key, value)
        )
        if module.training:
            weights = functional.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scaling is None else scaling), dim=-1)
            mixed = functional.dropout(weights, p=dropout, training=True) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, scale=scaling)
        parts.append(mixed.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts).unsqueeze(0) if len(parts) > 1 else parts[0].unsqueeze(0), None
