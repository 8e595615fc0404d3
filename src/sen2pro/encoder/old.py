# ruff: noqa: D101, D102
"""The methods of an encoder before `Tokens` and `States`, until their last callers have changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sen2pro.encoder.backend import Keys, Tokens, tokenize
from sen2pro.encoder.packing import Layout
from sen2pro.encoder.propagation import Propagation
from sen2pro.errors import Sen2ProError, TruncationWarning


class Old:
    _propagation: Propagation | None = None

    @property
    def native(self: Any) -> Any:
        return self._native if self.is_as_loaded else None

    @property
    def texts(self: Any) -> Any:
        return self.tokenizer

    def save(self: Any, folder: Path) -> None:
        self.transformers.save(folder)

    def tokens(self: Any, texts: Sequence[str], *, warn: bool = False) -> Any:
        tokens = tokenize(self.tokenizer, self.max_length, texts)
        if warn and any(tokens.is_cut):
            warnings.warn(TruncationWarning(sum(tokens.is_cut), len(texts), self.max_length), stacklevel=5)
        return [list(ids) for ids in tokens.ids]

    def prompt_length(self: Any, prompt: str) -> int:
        return int(self.tokenize([], prompt).prompt_length)

    def seen(self: Any, text: str, prompt: str = "") -> str:
        return str(self.tokenize([text], prompt).seen[0])

    def forward(
        self: Any, ids: Any, numbers: Any = None, seed: int = 0, prompt_length: int = 0, layers: Sequence[int] = (),
    ) -> Tensor:  # fmt: skip
        none = ("",) * len(ids)
        tokens = Tokens(none, "", tuple(ids), none, (False,) * len(ids), prompt_length)
        states = self.run(tokens, None if numbers is None else Keys(seed, numbers), layers)
        return torch.cat([torch.from_numpy(x) for x in (states.vectors, *states.layers.values())], dim=1)

    @property
    def propagates(self: Any) -> bool:
        return self.native is not None and self.pooling_name in ("mean", "cls")

    def propagate(self: Any, tokens: Any, layers: Sequence[int] = ()) -> Tensor:
        native = self.native
        if native is None or not self.propagates:
            raise Sen2ProError(
                f"dropout cannot be followed through {self.name}: the method 'analytic' is for BERT, RoBERTa, XLM-R, "
                "MPNet and DistilBERT from a folder or the hub, with their weights as they were loaded, on a CPU, in "
                "float32, with mean or cls pooling; use 'one-pass' or 'sampling'"
            )
        if self._propagation is None:
            self._propagation = Propagation(native.network, self.rate)
        layout, depth, first = Layout([len(ids) for ids in tokens]), native.network.depth, self.pooling_name == "cls"
        states, variance = self._propagation(tokens, layout, {depth, *layers}, first)
        with torch.inference_mode():
            vectors = (layout.first_tokens if first else layout.averages)(states[depth])
            return torch.cat([vectors, *(layout.averages(states[number]) for number in layers), variance], dim=1)
