"""Model uncertainty: every dropout of a network active, with masks that belong to the sentence.

torch draws masks from one global generator, so a sample would depend on the other sentences of its batch. Here each
(seed, token ids, sample) owns a stream of random numbers, read site by site, over the sentence's own positions only.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sen2pro.encoder.backend import Site, key
from sen2pro.encoder.packing import Layout
from sen2pro.errors import Sen2ProError

_OTHER_DROPOUTS = {F.alpha_dropout, F.feature_alpha_dropout, F.dropout1d, F.dropout2d, F.dropout3d}


@dataclass
class KeyedDropout(TorchFunctionMode):
    """While active, replaces every dropout by one whose masks are keyed by sentence and sample."""

    seed: int  # part of every key
    ids: Sequence[Sequence[int]]  # of each row of the batch; the rest of a row is padding
    samples: Sequence[int]  # the number of the sample of each row
    rate: float | None = None  # in place of every rate of the network
    layout: Layout | None = None  # of a packed batch: the rows stand one after the other, attention comes by groups
    sites: list[Site] = field(default_factory=list)  # those that the forward pass has met

    def __post_init__(self) -> None:
        super().__init__()
        self._streams = [self._stream(*row) for row in zip(self.ids, self.samples, strict=True)]
        self._lengths = [len(ids) for ids in self.ids]
        self._shared: np.random.SFC64 | None = None
        self._group = 0  # of a packed batch, the one whose attention comes next

    def _stream(self, ids: Sequence[int], sample: int) -> np.random.SFC64:
        return np.random.SFC64(key("dropout", self.seed, " ".join(map(str, ids)), sample))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.dropout or func is torch.dropout:
            return self._dropout(*args, **kwargs)
        if func in _OTHER_DROPOUTS:
            raise Sen2ProError(f"this model uses {func.__name__}, which sen2pro cannot key by sentence")
        if func is F.scaled_dot_product_attention and (kwargs.get("dropout_p") or 0) > 0:
            raise Sen2ProError("this model hides its attention dropout in a fused kernel; load it with eager attention")
        return func(*args, **kwargs)

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool = True
    ) -> Tensor:
        return self.apply(input, p) if training and train else input

    def apply(self, input: Tensor, rate: float) -> Tensor:
        """Drop out entries of a tensor at the network's own rate, or at ours in its place."""
        mask = self.mask(input.shape, rate)
        if mask is None:
            return input
        return input * mask.to(device=input.device, dtype=input.dtype)

    def mask(self, shape: torch.Size, rate: float) -> Tensor | None:
        """Return what to multiply the next tensor with, whose shape says what it is; None at a rate of 0."""
        rate = rate if self.rate is None else self.rate
        kind, rows = self._place(tuple(shape))
        if rows.start == 0:
            self.sites.append(Site(kind, rate))
        if rate == 0:
            return None
        threshold = round(rate * 65536)  # 16 random bits an entry
        if threshold == 65536:
            return torch.zeros(shape)
        bits = self._shared_bits(shape) if kind == "shared" else self._row_bits(shape, rows)
        # numpy compares and scales five times as fast as torch here
        return torch.from_numpy(np.multiply(bits >= threshold - 32768, 65536 / (65536 - threshold), dtype=np.float32))

    def _place(self, shape: tuple[int, ...]) -> tuple[str, slice]:
        """Tell what a tensor is by its shape, and which rows of the batch it holds."""
        batch, longest, packed = len(self._lengths), max(self._lengths), self.layout
        every = rows = slice(0, batch)
        length, hidden = longest, (batch, longest)
        if packed is not None:
            (rows, _, length), hidden = packed.groups[self._group], (1, packed.total)
        if len(shape) == 3 and shape[:2] == hidden:
            return "hidden", every
        if len(shape) == 4 and (shape[0], *shape[2:]) == (rows.stop - rows.start, length, length):
            self._group = (self._group + 1) % len(packed.groups) if packed else 0
            return "attention", rows
        if len(shape) == 2 and packed is None:
            return "shared", every
        raise Sen2ProError(
            f"this model applies dropout to a tensor of shape {shape} in a batch of {batch} sentences of {longest} "
            "tokens; sen2pro does not know which part of it belongs to which sentence"
        )

    def _row_bits(self, shape: torch.Size, rows: slice) -> NDArray[np.int16]:
        """Draw bits for (batch, length, width) or (batch, heads, length, length), each row from its own stream."""
        streams, lengths = self._streams[rows], self._lengths[rows]
        if self.layout is not None:
            sizes = [n * (shape[2] if len(shape) == 3 else shape[1] * n) for n in lengths]
            if any(size % 4 for size in sizes):
                return np.concatenate(list(map(_draw, streams, sizes))).reshape(shape)
            raw = [stream.random_raw(size // 4) for stream, size in zip(streams, sizes, strict=True)]
            return _sixteen(np.concatenate(raw)).reshape(shape)  # the same bits, cut once
        bits = np.full(shape, 32767, np.int16)  # padding is kept: it is masked or ignored by the network
        for row, stream, length in zip(bits, streams, lengths, strict=True):
            part = row[:length] if len(shape) == 3 else row[:, :length, :length]
            part[...] = _draw(stream, part.size).reshape(part.shape)
        return bits

    def _shared_bits(self, shape: torch.Size) -> NDArray[np.int16]:
        """Draw bits for a tensor that all sentences share: keyed by seed and sample only."""
        samples = set(self.samples)
        assert len(samples) == 1, "a batch of a network with shared sites must hold one sample number"
        self._shared = self._shared or self._stream([], samples.pop())
        return _draw(self._shared, shape.numel()).reshape(shape)


def _draw(stream: np.random.SFC64, size: int) -> NDArray[np.int16]:
    return _sixteen(np.asarray(stream.random_raw(-(-size // 4))))[:size]


def _sixteen(raw: NDArray[np.uint64]) -> NDArray[np.int16]:
    """Cut 64 random bits into four times 16, the lowest first."""
    return raw.astype("<u8", copy=False).view("<i2")


@contextmanager
def mode(network: nn.Module, *, sampling: bool, attention: str | None = None) -> Iterator[None]:
    """Put a network into the state for sampling (or for a plain pass) and restore its own, whatever happens.

    Sampling needs the `training` flags, on which attention dropout hangs, but not LayerDrop, gradient checkpointing and
    new running statistics. `attention` names an implementation; fused kernels draw masks out of reach, so it is eager.
    """
    attention = attention or ("eager" if sampling else None)
    with ExitStack() as restore:

        def put(owner: Any, name: str, value: Any) -> None:
            before = getattr(owner, name, None)
            if before is not None and before != value:
                restore.callback(setattr, owner, name, before)
                setattr(owner, name, value)

        for module in network.modules():
            put(module, "training", sampling and not isinstance(module, nn.modules.batchnorm._NormBase))
            if sampling:
                put(module, "gradient_checkpointing", False)
                put(module, "layerdrop", 0.0)
            if attention:
                put(getattr(module, "config", None), "_attn_implementation", attention)
        yield


def with_dropout_modules(network: Any, rate: float) -> Any:
    """Return a network with real dropout modules where the class builds `nn.Identity` at rate 0 (ModernBERT).

    It is a copy that shares all parameters with the original, which is left as it is.
    """
    identities = (name for name, module in network.named_modules() if isinstance(module, nn.Identity))
    silent = [name for name in identities if "drop" in name.rpartition(".")[2]]
    if not silent:
        return network
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    twin = copy.deepcopy(network, memo=shared)
    for name in silent:
        twin.set_submodule(name, nn.Dropout(rate))
    return twin
