"""The backend for every model that transformers and sentence-transformers load. Its numbers are the reference."""

from __future__ import annotations

import inspect
import re
import tempfile
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sen2pro.encoder import backend
from sen2pro.encoder.backend import Ids, Keys, Site, States, TextTokenizer, Token, Tokens, check_vocabulary
from sen2pro.encoder.dropout import KeyedDropout, mode, with_dropout_modules
from sen2pro.encoder.find import quietly, usable
from sen2pro.encoder.native.load import weights_hash
from sen2pro.encoder.packing import PACKED, Layout, register
from sen2pro.errors import Sen2ProError
from sen2pro.settings import Settings

_PROBES = ("a probe of this network", "a longer probe of this network, with more words in it")

# A forward pass changes flags of the network, so only one may run at a time, even for two models with one network.
_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()


class LibraryTokenizer(TextTokenizer):
    """A tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.padding, self.named = tokenizer.pad_token_id or 0, set(tokenizer.all_special_tokens)
        added = tokenizer.added_tokens_decoder.values()
        self.special = {*self.named, *(token.content for token in added if token.special)}
        self._lock = threading.Lock()  # a call sets how it cuts and pads, which no two threads may do at once

    def numbers(self) -> dict[str, int]:
        """Return the id of each token."""
        return dict(self._tokenizer.get_vocab())

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of texts, special tokens included, not cut."""
        ids: list[Ids] = self._call(list(texts), truncation=False, padding=False)["input_ids"]
        return ids

    def cut(self, text: str, longest: int) -> tuple[Ids, list[tuple[int, int]] | None]:
        """Return at most `longest` ids of a text, and the part of the text that each stands for, if known."""
        knows = self._tokenizer.is_fast
        cut = self._call(text, truncation=True, max_length=longest, return_offsets_mapping=knows)
        return cut["input_ids"], cut["offset_mapping"] if knows else None

    def pieces(self, text: str, *, special: bool) -> list[Token]:
        """Return the tokens of a text, not cut, with or without those that the tokenizer adds."""
        knows = self._tokenizer.is_fast
        options = {"return_offsets_mapping": knows, "return_special_tokens_mask": True}
        found = self._call(text, add_special_tokens=special, **options)
        names = self._tokenizer.convert_ids_to_tokens(found["input_ids"])
        spans = found["offset_mapping"] if knows else None
        return Token.table(found["input_ids"], names, found["special_tokens_mask"], spans)

    def text(self, ids: Sequence[int]) -> str:
        """Return a text that has these tokens; special tokens are left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def word(self, token: str) -> str:
        """Return a token of the vocabulary as text."""
        return str(self._tokenizer.convert_tokens_to_string([token]))

    def _call(self, text: str | list[str], **options: Any) -> Any:
        with self._lock:
            return self._tokenizer(text, verbose=False, **options)


class TransformersModel:
    """The backend for models of transformers and sentence-transformers, on any device.

    Parameters
    ----------
    source, tokenizer
        A `SentenceTransformer`, or a model of transformers with its tokenizer.
    settings
        The device, pooling, precision and rate of dropout.
    folder
        Where the model was loaded from, if it was: its tokenizer must fit, and its errors name the folder.
    """

    concurrent = False

    def __init__(self, source: Any, tokenizer: Any, settings: Settings, folder: Path | None = None) -> None:
        self.source, self.source_tokenizer = source, tokenizer
        self.pooling, self.precision, self.rate = settings.pooling, settings.precision, settings.dropout
        self.network: Any
        self.max_length: int
        self.unit, self.truncate_dim = False, None
        self.prompts: dict[str, str | None] = {}
        self.default_prompt_name: str | None = None
        self._hashed: tuple[int, str] = (-1, "")
        register()
        with usable(folder):
            self._take_apart()
            self.tokenizer = LibraryTokenizer(self.source_tokenizer)
            self.family = str(getattr(self.network.config, "model_type", "unknown"))
            modes = next((m.pooling_mode for m in self.tail if hasattr(m, "pooling_mode")), "mean")
            self.pooling_name = self.pooling or (modes if isinstance(modes, str) else "+".join(modes))
            check_vocabulary(self.tokenizer, _embedding_rows(self.network), folder)
            if self.max_length < 1 or (self.truncate_dim is not None and self.truncate_dim < 1):
                raise Sen2ProError(
                    f"the longest input ({self.max_length} tokens) and the dimensions to keep ({self.truncate_dim}) "
                    "must be at least 1"
                )
        if settings.device is not None:
            try:
                source.to(settings.device)
            except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled for the device
                raise Sen2ProError(f"device {settings.device!r} cannot be used: {error}") from None
        self.parameters = sum(tensor.numel() for _, tensor in self._weights())
        self._lock = _LOCKS.setdefault(self.network, threading.RLock())
        self._inputs = set(inspect.signature(self.network.forward).parameters)
        self._versions_at_start = self._versions
        with usable(folder):
            # Other threads may sample meanwhile: what they read, such as the rate, is never changed for a moment.
            about = self._probe(None)
            self.trained_with_dropout = any(site.rate for site in about[0])
            if self.rate is not None:
                self.network = with_dropout_modules(self.network, self.rate)
                about = self._probe(self.rate)
            self.sites, self.may_pad, self._first = about
            self.packs = self._first is not None  # whether the sentences of a batch are one row, without padding
            self._compare_with_source()

    def _take_apart(self) -> None:
        """Find the network, its tokenizer, the modules after it, and what the pipeline says about itself."""
        model = self.source
        self.tail: list[Any] = []  # the modules after the network, without Normalize
        if not is_sentence_transformer(model):
            self.source_tokenizer = _tokenizer_of(model, self.source_tokenizer)
            self.network = _encoder_part(model)
            self.max_length = _max_length(self.network, self.source_tokenizer)
            return
        from sentence_transformers.base.modules import Normalize, Transformer

        transformer, *tail = model
        if not isinstance(transformer, Transformer):
            kind = type(transformer).__name__
            raise Sen2ProError(f"the first module of this model is a {kind}, not a transformer that can be sampled")
        self.network, self.source_tokenizer = _encoder_part(transformer.auto_model), model.tokenizer
        self.max_length = model.max_seq_length or _max_length(self.network, self.source_tokenizer)
        normalized = bool(tail) and isinstance(tail[-1], Normalize)
        self.tail = tail[:-1] if normalized else tail
        # sentence-transformers compares by cosine unless told otherwise; the public property would set that default
        self.unit = normalized or model._similarity_fn_name in (None, "cosine")
        self.prompts, self.default_prompt_name = dict(model.prompts), model.default_prompt_name
        self.truncate_dim = model.truncate_dim

    @property
    def _versions(self) -> int:
        """A number that grows with every change of a weight; inference tensors cannot change."""
        return sum(tensor._version for _, tensor in self._weights() if not tensor.is_inference())

    def _weights(self) -> list[tuple[str, Tensor]]:
        named = (item for module in (self.network, *self.tail) for item in sorted(module.state_dict().items()))
        # A pooler is not used here, and random where a checkpoint has none.
        return [(name, tensor) for name, tensor in named if not name.startswith("pooler.")]

    @property
    def is_as_loaded(self) -> bool:
        """Whether no weight has changed since the model was loaded."""
        return self._versions == self._versions_at_start

    @property
    def hash(self) -> str:
        """Eight hex digits of a sha256 over all weights in use; a model that was trained on gets another hash."""
        state = self._versions
        if self._hashed[0] != state:
            self._hashed = state, weights_hash(self._weights())
        return self._hashed[1]

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return torch.device(next(self.network.parameters()).device)

    @property
    def token_budget(self) -> int:
        """The number of tokens in a batch that fits the caches of a CPU's cores, or fills a GPU."""
        return min(512 * torch.get_num_threads(), 4096) if self.device.type == "cpu" else 16384

    @cached_property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.run(self.tokenize(_PROBES[:1])).vectors.shape[1])

    @cached_property
    def depth(self) -> int:
        """The number of hidden states, the embeddings' first; 0 if the network does not show them."""
        inputs, _ = self._batch(self.tokenize(_PROBES[:1]).ids, None)
        with self._lock, torch.inference_mode(), mode(self.network, sampling=False):
            states = self.network(**inputs, output_hidden_states=True, return_dict=True)
        hidden = getattr(states, "hidden_states", None) or ()
        return len(hidden) if all(h.shape == states.last_hidden_state.shape for h in hidden) else 0

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokens:
        """Return the token ids of texts with a prompt before each."""
        skipped = 0
        if prompt and not all(getattr(module, "include_prompt", True) for module in self.tail):
            ids = backend.tokenize(self.tokenizer, self.max_length, [prompt]).ids[0]
            skipped = len(ids) - (ids[-1] in self.source_tokenizer.all_special_ids)
        return backend.tokenize(self.tokenizer, self.max_length, texts, prompt, skipped)

    def run(self, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = ()) -> States:
        """Run one batch, see `Backend.run`."""
        vectors, averages = self.forward(tokens, keys, layers)
        layered = {number: average.cpu().numpy() for number, average in zip(layers, averages, strict=True)}
        return States(vectors.cpu().numpy(), layered, tokens.lengths, tokens.words)

    def forward(
        self, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = (), *, gradient: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the vectors and the averages of `run` as float32 tensors; with their `gradient` for training."""
        packed = not gradient and self.packs
        layout = Layout([len(ids) for ids in tokens.ids], self._first or 0) if packed else None
        dropout = keys and KeyedDropout(keys.seed, tokens.ids, keys.numbers, self.rate, layout)
        return self._forward(tokens.ids, dropout, layout, tokens.prompt_length, layers, gradient)

    def _forward(
        self,
        ids: Sequence[Sequence[int]],
        dropout: KeyedDropout | None,
        layout: Layout | None,
        prompt_length: int = 0,
        layers: Sequence[int] = (),
        gradient: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        inputs, mask = self._batch(ids, layout)
        attention = mode(self.network, sampling=dropout is not None, attention=PACKED if layout else None)
        lower: Any = nullcontext()
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
            if self.pooling is not None or not self.tail:
                features["sentence_embedding"] = _pool(self.pooling or "mean", hidden, mask)
            if prompt_length:
                features["prompt_length"] = prompt_length
            for module in self.tail:
                if not (self.pooling is not None and hasattr(module, "pooling_mode")):
                    with mode(module, sampling=False):
                        features = module(features)
        return features["sentence_embedding"].float()[:, : self.truncate_dim], averages

    def _batch(self, ids: Sequence[Sequence[int]], layout: Layout | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return what the network takes, in one row by the layout or padded, and the mask of the unpacked states."""
        length, pad = max(map(len, ids)), self.tokenizer.padding
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in ids]
        if layout is not None:
            positions = [layout.first + i for n in layout.lengths for i in range(n)]
            inputs = {"input_ids": [list(chain.from_iterable(ids))], "position_ids": [positions]}
        else:  # padding is on the right, so that a token's position does not depend on its neighbours
            inputs = {"input_ids": [[*row, *[pad] * (length - len(row))] for row in ids], "attention_mask": mask}
        tensors = {name: torch.tensor(value, device=self.device) for name, value in inputs.items()}
        if "token_type_ids" in self.source_tokenizer.model_input_names:
            tensors["token_type_ids"] = torch.zeros_like(tensors["input_ids"])
        taken = {name: value for name, value in tensors.items() if name in self._inputs}
        return taken, torch.tensor(mask, device=self.device)

    def _probe(self, rate: float | None) -> tuple[list[Site], bool, int | None]:
        """Try the network at a rate of dropout, or at its own (None).

        Return its sites, whether it may pad, and where packed sentences begin (None: nowhere).
        """
        short, long = self.tokenize(_PROBES).ids
        other = short[::-1]
        exact = self.precision == "float32" and next(self.network.parameters()).dtype == torch.float32
        tolerance = 1e-4 if exact else 3e-2

        def last(*batch: Sequence[int], sampled: bool = True, first: int | None = None) -> tuple[Tensor, list[Site]]:
            layout = None if first is None else Layout([len(ids) for ids in batch], first)
            dropout = KeyedDropout(0, batch, [0] * len(batch), rate, layout)
            return self._forward(batch, dropout if sampled else None, layout)[0][-1], dropout.sites

        def same(a: Tensor, b: Tensor) -> bool:
            return bool((a - b).abs().max() <= tolerance * a.abs().max())

        def packs(first: int) -> bool:
            try:
                return all(
                    same(last(short, sampled=sampled)[0], last(long, other, short, sampled=sampled, first=first)[0])
                    for sampled in (True, False)
                )
            except Exception as error:  # whatever a network says to a batch it was not written for
                if isinstance(error, MemoryError) or re.search("out of memory|tried to allocate", str(error), re.I):
                    raise  # torch says so in a RuntimeError
                return False

        alone, _ = last(short)
        padded, sites = last(long, short)
        may_pad = same(alone, padded)
        if not may_pad and not same(alone, last(other, short)[0]):
            raise Sen2ProError(
                f"a sentence's sample depends on its neighbours in this {type(self.network).__name__}: it draws random "
                "numbers, or mixes sentences, in a way that sen2pro cannot key by sentence"
            )
        # Positions count from 0, or from after the padding index (RoBERTa); other networks are padded.
        starts = (0, self.tokenizer.padding + 1) if "position_ids" in self._inputs else ()
        return sites, may_pad, next((first for first in starts if packs(first)), None)

    def _compare_with_source(self) -> None:
        """Refuse a sentence-transformers pipeline that is not reproduced by network, pooling and tail."""
        if not is_sentence_transformer(self.source) or self.pooling is not None:
            return
        prompt = self.prompts.get(self.default_prompt_name or "") or ""
        ours = self.forward(self.tokenize(_PROBES[:1], prompt))[0][0]
        with self._lock, mode(self.source, sampling=False):
            theirs = self.source.encode(_PROBES[0], convert_to_tensor=True, show_progress_bar=False).float()
        if self.unit:
            ours, theirs = (v / v.norm().clamp(min=1e-12) for v in (ours, theirs))
        if ours.shape != theirs.shape or (ours - theirs).abs().max() > 1e-2 * theirs.abs().max():
            modules = ", ".join(type(module).__name__ for module in self.source)
            remedy = "pass pooling='mean' to use its network with a pooling of sen2pro's"
            raise Sen2ProError(f"sen2pro cannot reproduce the pipeline of this model ({modules}); {remedy}")

    def save(self, folder: Path) -> None:
        """Write network, tokenizer and pooling to a folder that sentence-transformers and transformers can read."""
        with quietly():
            self.source.save_pretrained(str(folder))
            if not is_sentence_transformer(self.source):
                self.source_tokenizer.save_pretrained(str(folder))

    def to_files(self) -> dict[str, bytes]:
        """Return the files of the whole model, for a pickle: a network with the hooks of its library cannot be one."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder))
            paths = [path for path in Path(folder).rglob("*") if path.is_file()]
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def is_sentence_transformer(model: Any) -> bool:
    """Tell by name, so that sentence-transformers is not imported for models that do not need it."""
    return any(base.__name__ == "SentenceTransformer" for base in type(model).__mro__)


def _tokenizer_of(model: Any, tokenizer: Any) -> Any:
    """Return the tokenizer of a model of transformers: the given one, or the one of the given or the model's name."""
    kind = type(model).__name__
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        taken = "a hub id, a folder, a SentenceTransformer or a Hugging Face model"
        raise Sen2ProError(f"cannot make an encoder of {kind}; give {taken}")
    if tokenizer is not None and not isinstance(tokenizer, (str, Path)):
        return tokenizer
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(tokenizer or getattr(model.config, "_name_or_path", None))
    except (OSError, ValueError, TypeError) as error:
        why = str(error).splitlines()[0]
        raise Sen2ProError(f"no tokenizer found for this {kind} ({why}); pass tokenizer=...") from None


def _encoder_part(network: Any) -> Any:
    """Strip task heads and decoders; a T5EncoderModel becomes the same stack as the encoder of a T5Model."""
    network = getattr(network, "base_model", network)
    has_more = hasattr(network, "decoder") or type(network).__name__.endswith("EncoderModel")
    return network.get_encoder() if has_more else network


def _embedding_rows(network: Any) -> int | None:
    """Return how many tokens a network has embeddings for; None where it does not say (CANINE has no such table)."""
    try:
        rows: int | None = getattr(network.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):  # a custom module need not have this
        return None
    return rows


def _max_length(network: Any, tokenizer: Any) -> int:
    """Return the shorter of the tokenizer's and the position embeddings' limits (T5 has only the tokenizer's)."""
    positions = getattr(network.config, "max_position_embeddings", None) or 0
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= module.padding_idx + 1  # RoBERTa and its kin count positions from the padding index
            break
    return int(min(tokenizer.model_max_length, positions if positions > 0 else 1_000_000))


def _pool(pooling: str, states: list[Tensor], mask: Tensor) -> Tensor:
    """Pool the last of the hidden states, or the average of the first and the last that are given."""
    if pooling == "cls":
        return states[-1][:, 0]
    hidden = (states[0] + states[-1]) / 2
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
