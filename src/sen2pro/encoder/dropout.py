"""Model uncertainty: every dropout of a network active, with masks that belong to the sentence.

torch draws dropout masks from one global generator, so a sentence's sample depends on its neighbours in the
batch. Here each (seed, sentence, sample) owns a stream of random numbers, read site by site in the order of the
forward pass and, within a site, over the sentence's own positions, never over padding. The sentence is its token ids:
what the network cannot tell apart gets the same masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from sen2pro.encoder.keys import key
from sen2pro.encoder.packing import Layout
from sen2pro.errors import Sen2ProError

Tokens = list[int]
_OTHER_DROPOUTS = {
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
}


@dataclass(frozen=True)
class Site:
    """A place in the network where dropout is applied, as one forward pass meets it."""

    kind: str  # attention | hidden | shared (one mask for the whole batch, as in DeBERTa's relative positions)
    rate: float


@dataclass
class KeyedDropout(TorchFunctionMode):
    """While active, replaces every dropout by one whose masks are keyed by sentence and sample.

    Parameters
    ----------
    seed
        Part of every key.
    tokens, samples
        Token ids and sample number of each row of the batch; what lies beyond a row's tokens is padding.
    rate
        Overrides every rate of the network where given.
    layout
        Of a packed batch: the rows stand one after the other, and attention comes group by group.
    """

    seed: int
    tokens: Sequence[Tokens]
    samples: Sequence[int]
    rate: float | None = None
    layout: Layout | None = None
    sites: list[Site] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._streams = [self._stream(*row) for row in zip(self.tokens, self.samples, strict=True)]
        self._lengths = [len(ids) for ids in self.tokens]
        self._shared: np.random.SFC64 | None = None
        self._group = 0  # of a packed batch, the one whose attention comes next

    def _stream(self, tokens: Tokens, sample: int) -> np.random.SFC64:
        return np.random.SFC64(key("dropout", self.seed, " ".join(map(str, tokens)), sample))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout or func is torch.dropout:
            return self._dropout(*args, **kwargs)
        if func in _OTHER_DROPOUTS:
            raise Sen2ProError(f"this model uses {func.__name__}, which sen2pro cannot key by sentence")
        if func is functional.scaled_dot_product_attention and (kwargs.get("dropout_p") or 0) > 0:
            raise Sen2ProError("this model hides its attention dropout in a fused kernel; load it with eager attention")
        return func(*args, **kwargs)

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool = True
    ) -> Tensor:
        rate = p if self.rate is None else self.rate
        if not (training and train):
            return input
        kind, rows = self._place(input)
        if rows.start == 0:
            self.sites.append(Site(kind, rate))
        if rate == 0:
            return input
        threshold = round(rate * 65536)  # 16 random bits an entry
        if threshold == 65536:
            return torch.zeros_like(input)
        bits = self._shared_bits(input.shape) if kind == "shared" else self._row_bits(input.shape, rows)
        kept, scale = bits >= threshold - 32768, 65536 / (65536 - threshold)
        if input.device.type != "cpu":
            return input * torch.from_numpy(kept).to(input.device) * scale  # a byte an entry crosses over
        # numpy compares and scales five times as fast as torch here
        mask = np.multiply(kept, scale, dtype=np.float32)
        return input * torch.from_numpy(mask).to(input.dtype)

    def _place(self, input: Tensor) -> tuple[str, slice]:
        """Tell what a tensor is, and which rows of the batch it holds."""
        batch, shape = len(self._lengths), tuple(input.shape)
        if self.layout is not None:
            if len(shape) == 3 and shape[:2] == (1, self.layout.total):
                return "hidden", slice(0, batch)
            start, count, length = self.layout.groups[self._group]
            if len(shape) == 4 and (shape[0], *shape[2:]) == (count, length, length):
                self._group = (self._group + 1) % len(self.layout.groups)
                first = self.layout.starts.index(start)
                return "attention", slice(first, first + count)
        else:
            length = max(self._lengths)
            if len(shape) == 4 and (shape[0], *shape[2:]) == (batch, length, length):
                return "attention", slice(0, batch)
            if len(shape) == 3 and shape[:2] == (batch, length):
                return "hidden", slice(0, batch)
            if len(shape) == 2:
                return "shared", slice(0, batch)
        raise Sen2ProError(
            f"this model applies dropout to a tensor of shape {shape} in a batch of {batch} sentences of "
            f"{max(self._lengths)} tokens; sen2pro does not know which part of it belongs to which sentence"
        )

    def _row_bits(self, shape: torch.Size, rows: slice) -> np.ndarray[Any, np.dtype[np.int16]]:
        """Random bits for (batch, length, width) or (batch, heads, length, length), each row from its own stream."""
        streams, lengths = self._streams[rows], self._lengths[rows]
        if self.layout is not None:
            sizes = [n * (shape[2] if len(shape) == 3 else shape[1] * n) for n in lengths]
            drawn = [_draw(stream, size) for stream, size in zip(streams, sizes, strict=True)]
            return np.concatenate(drawn).reshape(shape)
        bits = np.full(shape, 32767, np.int16)  # padding is kept: it is masked or ignored by the network
        for row, stream, length in zip(bits, streams, lengths, strict=True):
            part = row[:length] if len(shape) == 3 else row[:, :length, :length]
            part[...] = _draw(stream, part.size).reshape(part.shape)
        return bits

    def _shared_bits(self, shape: torch.Size) -> np.ndarray[Any, np.dtype[np.int16]]:
        """Random bits for a tensor that all sentences share: keyed by seed and sample only."""
        samples = set(self.samples)
        assert len(samples) == 1, "a batch of a network with shared sites must hold one sample number"
        if self._shared is None:
            self._shared = self._stream([], samples.pop())
        return _draw(self._shared, shape.numel()).reshape(shape)


def _draw(stream: np.random.SFC64, size: int) -> np.ndarray[Any, np.dtype[np.int16]]:
    raw = np.asarray(stream.random_raw(-(-size // 4)))
    return raw.astype("<u8", copy=False).view("<i2")[:size]


@contextmanager
def mode(network: nn.Module, *, sampling: bool, attention: str | None = None) -> Iterator[None]:
    """Put a network into the state for sampling (or for a plain pass) and restore its own, whatever happens.

    Sampling needs `training` flags, because attention dropout hangs on its parent's flag, but nothing else that
    training brings: no LayerDrop, no gradient checkpointing, no update of running statistics. `attention` names how
    attention is done, for transformers; sampling is eager by default, since fused kernels draw masks out of reach.
    """
    attention = attention or ("eager" if sampling else None)
    saved: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        if before != value:
            saved.append((owner, name, before))
            setattr(owner, name, value)

    try:
        configs: dict[int, Any] = {}
        for module in network.modules():
            running_statistics = isinstance(module, nn.modules.batchnorm._NormBase)
            put(module, "training", sampling and not running_statistics)
            config = getattr(module, "config", None)
            if getattr(config, "_attn_implementation", None) is not None:
                configs[id(config)] = config
            for name, off in (("gradient_checkpointing", False), ("layerdrop", 0.0)):
                if sampling and getattr(module, name, None):
                    put(module, name, off)
        if attention:
            for config in configs.values():
                put(config, "_attn_implementation", attention)
        yield
    finally:
        for owner, name, value in reversed(saved):
            setattr(owner, name, value)
