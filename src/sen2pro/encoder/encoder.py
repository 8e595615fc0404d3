"""Stage 1, the encoder: token ids go in, one pooled vector a sentence comes out, with or without dropout."""

from __future__ import annotations

import hashlib
import inspect
import threading
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sen2pro.checks import check_text
from sen2pro.encoder.dropout import KeyedDropout, Site, Tokens, mode
from sen2pro.encoder.loading import load, quietly, usable, with_dropout_modules
from sen2pro.encoder.packing import PACKED, Layout, register
from sen2pro.encoder.vocabulary import whole_words
from sen2pro.errors import Sen2ProError, TruncationWarning, one_of
from sen2pro.settings import POOLINGS, PRECISIONS

_PROBES = ("a probe of this network", "a longer probe of this network, with more words in it")

# A forward pass changes flags of the network, so it has to itself whoever else uses the same network.
_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()


class Probed(NamedTuple):
    """What a small batch has shown of a network."""

    sites: list[Site]  # where it has dropout
    may_pad: bool  # a few architectures look at padding; theirs are batches of one length
    packs: bool  # whether sentences may stand in one row without padding
    first_position: int  # of a packed sentence's first token


class Encoder:
    """A pre-trained network with its tokenizer and pooling.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer`, or Hugging Face model object.
    pooling
        `mean`, `cls` or `first-last-avg`; the model's own by default (mean, if it is a plain network).
    dropout
        One rate for all dropout of the network, in place of its own.
    precision
        `float32`, or `bfloat16` or `float16` for the matrix products alone (autocast), which a GPU does faster.
    **options
        Where to find the model and how to load it: see `sen2pro.encoder.loading.load`.
    """

    def __init__(
        self,
        model: Any,
        *,
        pooling: str | None = None,
        dropout: float | None = None,
        precision: str = "float32",
        **options: Any,
    ) -> None:
        if pooling is not None:
            one_of("pooling", pooling, POOLINGS)
        self.precision = one_of("precision", precision, PRECISIONS)
        parts = load(model, **options)
        self.source, self.network, self.tokenizer = parts.source, parts.network, parts.tokenizer
        self.name, self.folder, self.unit = parts.name, parts.folder, parts.unit
        self.max_length, self.truncate_dim = parts.max_length, parts.truncate_dim
        self.prompts, self.default_prompt_name = parts.prompts, parts.default_prompt_name
        self._is_sentence_transformer, self._tail = parts.is_sentence_transformer, parts.tail
        self.pooling = pooling
        self.rate: float | None = None
        self._lock = _LOCKS.setdefault(self.network, threading.RLock())
        self._inputs = set(inspect.signature(self.network.forward).parameters)
        self._hashed: tuple[int, str] = (-1, "")
        with usable(self.folder):
            self._probed = self._probe()
            self.trained_with_dropout = any(site.rate for site in self.sites)
            if dropout is not None:
                self.rate = dropout
                self.network = with_dropout_modules(self.network, dropout)
                self._probed = self._probe()
            self._compare_with_source()
        self._versions_at_start = self._versions()

    def _versions(self) -> int:
        """Return a number that grows with every change of a weight; inference tensors cannot change."""
        return sum(tensor._version for _, tensor in self._weights() if not tensor.is_inference())

    def _weights(self) -> list[tuple[str, Tensor]]:
        return [
            (name, tensor)
            for module in (self.network, *self._tail)
            for name, tensor in sorted(module.state_dict().items())
            if not name.startswith("pooler.")  # not used here, and random where a checkpoint has none
        ]

    @property
    def is_as_loaded(self) -> bool:
        """Whether no weight has changed since the encoder was made."""
        return self._versions() == self._versions_at_start

    def forget_folder(self) -> None:
        """Forget where the files came from, because they are not there any more."""
        self.folder = None

    @property
    def sites(self) -> list[Site]:
        """Where the network has dropout, and at which rates."""
        return self._probed.sites

    @property
    def may_pad(self) -> bool:
        """Whether sentences of different lengths may share a batch."""
        return self._probed.may_pad

    @property
    def packs(self) -> bool:
        """Whether sentences stand in one row, without padding."""
        return self._probed.packs

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        device: torch.device = next(self.network.parameters()).device
        return device

    @property
    def token_budget(self) -> int:
        """How many tokens a batch should have: what lies in the caches of a CPU's cores, or fills a GPU."""
        return min(512 * torch.get_num_threads(), 4096) if self.device.type == "cpu" else 16384

    @property
    def pooling_name(self) -> str:
        """The pooling in use, by name."""
        if self.pooling is not None:
            return self.pooling
        modes = next((m.pooling_mode for m in self._tail if hasattr(m, "pooling_mode")), "mean")
        return modes if isinstance(modes, str) else "+".join(modes)

    @property
    def hash(self) -> str:
        """Eight hex digits of a sha256 over all weights in use: the same however the model was loaded."""
        state = self._versions()  # a model that was trained on gets another hash
        if self._hashed[0] != state:
            digest = hashlib.sha256()
            for name, tensor in self._weights():
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
            self._hashed = state, digest.hexdigest()[:8]
        return self._hashed[1]

    @cached_property
    def vocabulary(self) -> list[str]:
        """The whole words of the tokenizer, for word-level edits."""
        special = set(self.tokenizer.all_special_tokens)
        ordered = sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])
        tokens = [token for token, _ in ordered if token not in special]
        return whole_words(tokens, lambda token: str(self.tokenizer.convert_tokens_to_string([token])))

    @cached_property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.forward(self.tokens(_PROBES[:1])).shape[1]

    def prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        """Return the text to put before each sentence, as sentence-transformers would choose it."""
        if prompt is not None:
            return check_text("prompt", prompt)
        if prompt_name is not None:
            one_of("prompt_name", check_text("prompt_name", prompt_name), self.prompts)
        name = prompt_name or self.default_prompt_name
        return (self.prompts.get(name) or "") if name else ""

    def prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt takes, for models that leave it out of the pooling (0 for the others)."""
        if not prompt or all(getattr(module, "include_prompt", True) for module in self._tail):
            return 0
        ids = self.tokens([prompt])[0]
        return len(ids) - (ids[-1] in self.tokenizer.all_special_ids)

    def tokens(self, texts: Sequence[str], *, warn: bool = False) -> list[Tokens]:
        """Return the token ids of each text, special tokens included, cut to what the network takes."""
        if not texts:
            return []
        tokens: list[Tokens] = self.tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
        long = [i for i, ids in enumerate(tokens) if len(ids) > self.max_length]
        for i in long:
            tokens[i] = self._truncated(texts[i])["input_ids"]
        if long and warn:
            warnings.warn(TruncationWarning(len(long), len(texts), self.max_length), stacklevel=5)
        for text, ids in zip(texts, tokens, strict=True):
            if not ids:
                raise Sen2ProError(f"the tokenizer finds no token in {text!r}")
        return tokens

    def seen(self, text: str, prompt: str = "") -> str:
        """Return a text as far as the network sees it: an edit beyond that would change nothing."""
        if not self.tokenizer.is_fast:
            return text
        offsets = self._truncated(prompt + text, return_offsets_mapping=True)["offset_mapping"]
        spans = [(start, end) for start, end in offsets if end > start]
        part = (prompt + text)[max(spans[0][0], len(prompt)) : spans[-1][1]] if spans else ""
        return part if part.strip() else text

    def _truncated(self, text: str, **options: Any) -> Any:
        return self.tokenizer(text, truncation=True, max_length=self.max_length, verbose=False, **options)

    @cached_property
    def depth(self) -> int:
        """How many hidden states there are to read, the embeddings' first; 0 if the network does not show them."""
        inputs, _ = self._padded(self.tokens(_PROBES[:1]))
        with self._lock, torch.inference_mode(), mode(self.network, sampling=False):
            states = self.network(**inputs, output_hidden_states=True, return_dict=True)
        hidden = getattr(states, "hidden_states", None) or ()
        return len(hidden) if all(h.shape == states.last_hidden_state.shape for h in hidden) else 0

    def forward(
        self,
        tokens: Sequence[Tokens],
        numbers: Sequence[int] | None = None,
        seed: int = 0,
        prompt_length: int = 0,
        layers: Sequence[int] = (),
        gradient: bool = False,
    ) -> Tensor:
        """Run one batch: (batch, k) float32 on the network's device, not normalised.

        Under dropout, keyed by `seed`, where the sample `numbers` of the rows are given. The average over the tokens of
        each of the hidden states `layers` follows, in further columns. Rows of one length should stand together. With
        `gradient`, to train the network, what comes back can be differentiated.
        """
        layout = None
        if self._probed.packs and not gradient:
            layout = Layout([len(ids) for ids in tokens], self._probed.first_position)
        dropout = None if numbers is None else KeyedDropout(seed, tokens, numbers, self.rate, layout)
        return self._forward(tokens, dropout, layout, prompt_length, layers, gradient)

    def _forward(
        self,
        tokens: Sequence[Tokens],
        dropout: KeyedDropout | None,
        layout: Layout | None,
        prompt_length: int = 0,
        layers: Sequence[int] = (),
        gradient: bool = False,
    ) -> Tensor:
        inputs, mask = self._padded(tokens) if layout is None else self._packed(tokens, layout)
        attention = mode(self.network, sampling=dropout is not None, attention=PACKED if layout else None)
        lower: AbstractContextManager[Any] = nullcontext()
        if self.precision != "float32":
            lower = torch.autocast(self.device.type, getattr(torch, self.precision))
        with self._lock, torch.inference_mode(not gradient), attention, lower:
            with dropout or nullcontext(), layout.active() if layout else nullcontext():
                every = bool(layers) or self.pooling == "first-last-avg"
                states = self.network(**inputs, output_hidden_states=every, return_dict=True)
            unpack = layout.unpack if layout else lambda h: h
            hidden = [unpack(states.last_hidden_state)]
            if self.pooling == "first-last-avg":
                hidden.insert(0, unpack(states.hidden_states[1]))  # not the embeddings: the paper means the first layer
            averages = [_pool("mean", [unpack(states.hidden_states[i])], mask).float() for i in layers]
            features = {"token_embeddings": hidden[-1], "attention_mask": mask}
            if self.pooling is not None or not self._tail:
                features["sentence_embedding"] = _pool(self.pooling or "mean", hidden, mask)
            if prompt_length:
                features["prompt_length"] = prompt_length
            for module in self._tail:
                if not (self.pooling is not None and hasattr(module, "pooling_mode")):
                    with mode(module, sampling=False):
                        features = module(features)
        vectors: Tensor = features["sentence_embedding"].float()[:, : self.truncate_dim]
        return torch.cat([vectors, *averages], dim=1) if averages else vectors

    def _packed(self, tokens: Sequence[Tokens], layout: Layout) -> tuple[dict[str, Tensor], Tensor]:
        """Put all sentences into one row; the mask is that of the unpacked states."""
        positions = [layout.first + i for n in layout.lengths for i in range(n)]
        inputs = {"input_ids": [list(chain.from_iterable(tokens))], "position_ids": [positions]}
        mask = [[1] * n + [0] * (max(layout.lengths) - n) for n in layout.lengths]
        return self._tensors(inputs), torch.tensor(mask, device=self.device)

    def _padded(self, tokens: Sequence[Tokens]) -> tuple[dict[str, Tensor], Tensor]:
        """Pad on the right, so that a token's position does not depend on its neighbours."""
        length = max(map(len, tokens))
        pad = self.tokenizer.pad_token_id or 0
        mask = [[1] * len(ids) + [0] * (length - len(ids)) for ids in tokens]
        inputs = {"input_ids": [[*ids, *[pad] * (length - len(ids))] for ids in tokens], "attention_mask": mask}
        return self._tensors(inputs), torch.tensor(mask, device=self.device)

    def _tensors(self, inputs: dict[str, list[list[int]]]) -> dict[str, Tensor]:
        tensors = {name: torch.tensor(value, device=self.device) for name, value in inputs.items()}
        if "token_type_ids" in self.tokenizer.model_input_names:
            tensors["token_type_ids"] = torch.zeros_like(tensors["input_ids"])
        return {name: value for name, value in tensors.items() if name in self._inputs}

    def _probe(self) -> Probed:
        """Run a small batch to see what can be done with this network."""
        short, long = self.tokens(_PROBES)
        other = short[::-1]
        exact = self.precision == "float32" and next(self.network.parameters()).dtype == torch.float32
        tolerance = 1e-4 if exact else 3e-2

        def last(*batch: Tokens, dropout: bool = True, first: int | None = None) -> tuple[Tensor, list[Site]]:
            layout = None if first is None else Layout([len(ids) for ids in batch], first)
            keyed = KeyedDropout(0, batch, [0] * len(batch), self.rate, layout)
            return self._forward(batch, keyed if dropout else None, layout)[-1], keyed.sites

        def same(a: Tensor, b: Tensor) -> bool:
            return bool((a - b).abs().max() <= tolerance * a.abs().max())

        def packs(first: int) -> bool:
            try:
                return all(
                    same(last(short, dropout=keyed)[0], last(long, other, short, dropout=keyed, first=first)[0])
                    for keyed in (True, False)
                )
            except Exception as error:  # whatever a network says to a batch it was not written for
                if isinstance(error, MemoryError) or "memory" in str(error).lower():
                    raise
                return False

        alone, _ = last(short)
        padded, sites = last(long, short)
        may_pad = same(alone, padded)
        if not may_pad and not same(alone, last(other, short)[0]):
            raise Sen2ProError(
                f"a sentence's sample depends on its neighbours in this {type(self.network).__name__}: it draws random "
                "numbers, or mixes sentences, in a way that sen2pro cannot key by sentence"
            )
        register()
        # Positions count from 0, or from after the padding index (RoBERTa); with other ideas a network is padded.
        tried = (0, (self.tokenizer.pad_token_id or 0) + 1) if "position_ids" in self._inputs else ()
        first = next((first for first in tried if packs(first)), None)
        return Probed(sites, may_pad, first is not None, first or 0)

    def _compare_with_source(self) -> None:
        """Refuse a sentence-transformers pipeline that is not reproduced by network, pooling and tail."""
        if not self._is_sentence_transformer or self.pooling is not None:
            return
        prompt = self.prompt(None, None)
        ours = self.forward(self.tokens([prompt + _PROBES[0]]), prompt_length=self.prompt_length(prompt))[0]
        with self._lock, mode(self.source, sampling=False):
            theirs = self.source.encode(_PROBES[0], convert_to_tensor=True, show_progress_bar=False).float()
        if self.unit:
            ours, theirs = (v / v.norm().clamp(min=1e-12) for v in (ours, theirs))
        if ours.shape != theirs.shape or (ours - theirs).abs().max() > 1e-2 * theirs.abs().max():
            modules = ", ".join(type(module).__name__ for module in self.source)
            raise Sen2ProError(
                f"sen2pro cannot reproduce the pipeline of this model ({modules}); pass pooling='mean' to use its "
                "network with a pooling of sen2pro's"
            )

    def save(self, folder: Path) -> None:
        """Write network, tokenizer and pooling to a folder that sentence-transformers and transformers can read."""
        with quietly():
            self.source.save_pretrained(str(folder))
            if not self._is_sentence_transformer:
                self.tokenizer.save_pretrained(str(folder))


def _pool(pooling: str, states: list[Tensor], mask: Tensor) -> Tensor:
    """Pool the last of the hidden states, or the average of the first and the last that are given."""
    if pooling == "cls":
        return states[-1][:, 0]
    hidden = (states[0] + states[-1]) / 2
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
