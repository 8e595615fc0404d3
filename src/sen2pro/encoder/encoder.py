"""Stage 1, the encoder: token ids go in, one pooled vector a sentence comes out, with or without dropout."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sen2pro.encoder import backend
from sen2pro.encoder.dropout import KeyedDropout, Site, Tokens, mode
from sen2pro.encoder.folders import Understood, weights_hash
from sen2pro.encoder.loading import (
    Library,
    Parts,
    is_sentence_transformer,
    load,
    load_library,
    quietly,
    usable,
    with_dropout_modules,
)
from sen2pro.encoder.native import Network
from sen2pro.encoder.packing import PACKED, Layout, register
from sen2pro.encoder.propagation import Propagation
from sen2pro.errors import Sen2ProError, TruncationWarning, one_of
from sen2pro.settings import Settings
from sen2pro.validation import check_text

_PROBES = ("a probe of this network", "a longer probe of this network, with more words in it")

# A forward pass changes flags of the network, so it has to itself whoever else uses the same network.
_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()


class Encoder(Parts):
    """A pre-trained network with its tokenizer and pooling.

    A folder of a common family is read and run by our own code (`native.py`). Every other model, and one whose weights
    somebody may have changed, runs as transformers and sentence-transformers load it, which is the reference.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer` or Hugging Face model object; or the `Settings` of a `Sen2Pro`.
    **options
        Settings that say where to find the model and how to run it, such as `pooling` or `device`: see `Sen2Pro`.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self._settings = settings = model if isinstance(model, Settings) else Settings(model, **options)
        vars(self).update(vars(load(settings)))
        self.pooling, self.precision = settings.pooling, settings.precision
        self.rate = settings.dropout  # in place of the network's own rates of dropout
        self._hashed: tuple[int, str] = (-1, "")
        self._loading = threading.RLock()
        self._library: Library | None = None
        self._propagation: Propagation | None = None
        if isinstance(self.model, Library):
            self._take(self.model)
        else:
            self.sites, self.may_pad = self.model.network.sites(self.rate), True
            self.trained_with_dropout = any(site.rate for site in self.model.network.sites(None))

    def _take(self, library: Library) -> None:
        """Try a model of the libraries, and keep what is found out about it."""
        self._lock = _LOCKS.setdefault(library.network, threading.RLock())
        self._inputs = set(inspect.signature(library.network.forward).parameters)
        self._versions_at_start = self._versions(library)
        self._library = library
        register()
        with usable(self.folder):
            # Other threads may sample meanwhile: what they read, such as the rate, is never changed for a moment.
            about = self._probe(None)
            self.trained_with_dropout = any(site.rate for site in about[0])
            if self.rate is not None:
                library.network = with_dropout_modules(library.network, self.rate)
                about = self._probe(self.rate)
            self.sites, self.may_pad, self._first = about
            self._compare_with_source()

    @property
    def library(self) -> Library:
        """The model as the libraries have it: loaded when it is first asked for, if our own code runs this one."""
        with self._loading:
            if self._library is None:
                before, library = self.hash, load_library(self._settings)
                self._take(library)
                if self.hash != before:
                    self._library = None  # asking again must not give another model
                    raise Sen2ProError(f"the weights in {self.folder} have changed since they were loaded")
                return library
            return self._library

    @property
    def native(self) -> Understood | None:
        """The model as our own code runs it; None where the libraries do, or where a weight has changed."""
        return self.model if not isinstance(self.model, Library) and self.is_as_loaded else None

    source: Any = property(attrgetter("library.source"))
    """The whole model, as it was given or as the libraries load it."""
    network: Any = property(attrgetter("library.network"))
    """The transformer of `source`."""
    tokenizer: Any = property(attrgetter("library.tokenizer"))
    """The tokenizer of `source`."""

    def _versions(self, library: Library | None = None) -> int:
        """Return a number that grows with every change of a weight; inference tensors cannot change."""
        return sum(tensor._version for _, tensor in self._weights(library) if not tensor.is_inference())

    def _weights(self, library: Library | None = None) -> list[tuple[str, Tensor]]:
        library = library or self._library
        assert library is not None
        modules = (library.network, *library.tail)
        named = (item for module in modules for item in sorted(module.state_dict().items()))
        # A pooler is not used here, and random where a checkpoint has none.
        return [(name, tensor) for name, tensor in named if not name.startswith("pooler.")]

    @property
    def is_as_loaded(self) -> bool:
        """Whether no weight has changed since the encoder was made."""
        return self._library is None or self._versions() == self._versions_at_start

    @property
    def packs(self) -> bool:
        """Whether sentences stand in one row, without padding."""
        return self.native is not None or self._first is not None

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return torch.device(next(self.network.parameters()).device if self._library else "cpu")

    @property
    def family(self) -> str:
        """What the network's configuration calls its architecture, `bert` for instance."""
        native = self.native
        return native.family if native else str(self.network.config.model_type)

    @property
    def parameters(self) -> int:
        """The number of weights in use."""
        native = self.native
        return native.network.parameters if native else sum(tensor.numel() for _, tensor in self._weights())

    @property
    def token_budget(self) -> int:
        """How many tokens a batch should have: what lies in the caches of a CPU's cores, or fills a GPU."""
        if self.native is not None:
            return 512  # each thread has a batch of its own
        return min(512 * torch.get_num_threads(), 4096) if self.device.type == "cpu" else 16384

    @property
    def pooling_name(self) -> str:
        """The pooling in use, by name."""
        if self.pooling is not None:
            return self.pooling
        if not isinstance(self.model, Library):
            return self.model.pooling
        modes = next((m.pooling_mode for m in self.model.tail if hasattr(m, "pooling_mode")), "mean")
        return modes if isinstance(modes, str) else "+".join(modes)

    @property
    def hash(self) -> str:
        """Eight hex digits of a sha256 over all weights in use: the same however the model was loaded."""
        if self._library is None and not isinstance(self.model, Library):
            return self.model.hash
        state = self._versions()  # a model that was trained on gets another hash
        if self._hashed[0] != state:
            self._hashed = state, weights_hash(self._weights())
        return self._hashed[1]

    @cached_property
    def vocabulary(self) -> list[str]:
        """The whole words of the tokenizer, for word-level edits."""
        return self.texts.words()

    @cached_property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        native = self.native
        return native.network.width if native else self.forward(self.tokens(_PROBES[:1])).shape[1]

    @property
    def concurrent(self) -> bool:
        """Whether each thread may run a batch of its own."""
        return self.native is not None

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> backend.Tokens:
        """Return the token ids of texts with a prompt before each."""
        return backend.tokenize(self.texts, self.max_length, texts, prompt, self.prompt_length(prompt))

    def run(
        self, tokens: backend.Tokens, keys: backend.Keys | None = None, layers: Sequence[int] = ()
    ) -> backend.States:
        """Run one batch: a plain pass, or one with dropout where there are `keys`."""
        ids = [list(each) for each in tokens.ids]
        seed, numbers = keys or (0, None)
        columns = self.forward(ids, numbers, seed, tokens.prompt_length, layers).cpu().numpy()
        dim = self.native.network.width if self.native else self.dim
        width = (columns.shape[1] - dim) // max(len(layers), 1)
        averages = {layer: columns[:, dim + i * width : dim + (i + 1) * width] for i, layer in enumerate(layers)}
        return backend.States(columns[:, :dim], averages, tokens.lengths, tokens.words)

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
        if not prompt or self.native or all(getattr(module, "include_prompt", True) for module in self.library.tail):
            return 0
        ids = self.tokens([prompt])[0]
        return len(ids) - (ids[-1] in self.tokenizer.all_special_ids)

    def tokens(self, texts: Sequence[str], *, warn: bool = False) -> list[Tokens]:
        """Return the token ids of each text, special tokens included, cut to what the network takes."""
        if not texts:
            return []
        tokens = self.texts.ids(texts)
        long = [i for i, ids in enumerate(tokens) if len(ids) > self.max_length]
        for i in long:
            tokens[i] = self.texts.cut(texts[i], self.max_length)[0]
        if long and warn:
            warnings.warn(TruncationWarning(len(long), len(texts), self.max_length), stacklevel=5)
        if not all(tokens):
            raise Sen2ProError(f"the tokenizer finds no token in {texts[tokens.index([])]!r}")
        return tokens

    def seen(self, text: str, prompt: str = "") -> str:
        """Return a text as far as the network sees it: an edit beyond that would change nothing."""
        offsets = self.texts.cut(prompt + text, self.max_length)[1]
        if offsets is None:
            return text
        spans = [(start, end) for start, end in offsets if end > start]
        part = (prompt + text)[max(spans[0][0], len(prompt)) : spans[-1][1]] if spans else ""
        return part if part.strip() else text

    @cached_property
    def depth(self) -> int:
        """How many hidden states there are to read, the embeddings' first; 0 if the network does not show them."""
        native = self.native
        if native is not None:
            return native.network.depth + 1
        inputs, _ = self._batch(self.tokens(_PROBES[:1]), None)
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

        The sample `numbers` of the rows switch dropout on, keyed by `seed`. Further columns hold the average over the
        tokens of each hidden state in `layers`. Rows of one length should stand together. `gradient` is for training.
        """
        native, layout = None if gradient else self.native, None
        if native is not None or (not gradient and self.library and self._first is not None):
            layout = Layout([len(ids) for ids in tokens], 0 if native else self._first or 0)
        dropout = None if numbers is None else KeyedDropout(seed, tokens, numbers, self.rate, layout)
        if native is not None and layout is not None:
            return self._forward_native(native.network, tokens, dropout, layout, layers)
        return self._forward(tokens, dropout, layout, prompt_length, layers, gradient)

    @property
    def propagates(self) -> bool:
        """Whether `propagate` knows this network and its pooling."""
        return self.native is not None and self.pooling_name in ("mean", "cls")

    def propagate(self, tokens: Sequence[Tokens], layers: Sequence[int] = ()) -> Tensor:
        """Run one plain batch as `forward` does; the last k columns hold the variance of each vector under dropout."""
        native = self.native
        if native is None or not self.propagates:
            raise Sen2ProError(
                f"dropout cannot be followed through {self.name}: the method 'analytic' is for BERT, RoBERTa, XLM-R, "
                "MPNet and DistilBERT from a folder or the hub, with their weights as they were loaded, on a CPU, in "
                "float32, with mean or cls pooling; use 'one-pass' or 'sampling'"
            )
        with self._loading:
            if self._propagation is None:
                self._propagation = Propagation(native.network, self.rate)
        layout, depth, first = Layout([len(ids) for ids in tokens]), native.network.depth, self.pooling_name == "cls"
        states, variance = self._propagation(tokens, layout, {depth, *layers}, first)
        with torch.inference_mode():
            vectors = (layout.first_tokens if first else layout.averages)(states[depth])
            return torch.cat([vectors, *(layout.averages(states[number]) for number in layers), variance], dim=1)

    def _forward_native(
        self, network: Network, tokens: Sequence[Tokens], dropout: KeyedDropout | None, layout: Layout,
        layers: Sequence[int],
    ) -> Tensor:  # fmt: skip
        pooled = {"first-last-avg": (1, network.depth)}.get(self.pooling_name, (network.depth,))
        with torch.inference_mode():
            states = network(tokens, layout, dropout, {*pooled, *layers})
            pool = layout.first_tokens if self.pooling_name == "cls" else layout.averages
            vectors = torch.stack([pool(states[number]) for number in pooled]).mean(0)
            return torch.cat([vectors, *(layout.averages(states[number]) for number in layers)], dim=1)

    def _forward(
        self,
        tokens: Sequence[Tokens],
        dropout: KeyedDropout | None,
        layout: Layout | None,
        prompt_length: int = 0,
        layers: Sequence[int] = (),
        gradient: bool = False,
    ) -> Tensor:
        inputs, mask = self._batch(tokens, layout)
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
            if self.pooling is not None or not self.library.tail:
                features["sentence_embedding"] = _pool(self.pooling or "mean", hidden, mask)
            if prompt_length:
                features["prompt_length"] = prompt_length
            for module in self.library.tail:
                if not (self.pooling is not None and hasattr(module, "pooling_mode")):
                    with mode(module, sampling=False):
                        features = module(features)
        vectors: Tensor = features["sentence_embedding"].float()[:, : self.truncate_dim]
        return torch.cat([vectors, *averages], dim=1) if averages else vectors

    def _batch(self, tokens: Sequence[Tokens], layout: Layout | None) -> tuple[dict[str, Tensor], Tensor]:
        """Return what the network takes, in one row by the layout or padded, and the mask of the unpacked states."""
        length, pad = max(map(len, tokens)), self.tokenizer.pad_token_id or 0
        mask = [[1] * len(ids) + [0] * (length - len(ids)) for ids in tokens]
        if layout is not None:
            positions = [layout.first + i for n in layout.lengths for i in range(n)]
            inputs = {"input_ids": [list(chain.from_iterable(tokens))], "position_ids": [positions]}
        else:  # padding stands on the right, so that a token's position does not depend on its neighbours
            inputs = {"input_ids": [[*ids, *[pad] * (length - len(ids))] for ids in tokens], "attention_mask": mask}
        tensors = {name: torch.tensor(value, device=self.device) for name, value in inputs.items()}
        if "token_type_ids" in self.tokenizer.model_input_names:
            tensors["token_type_ids"] = torch.zeros_like(tensors["input_ids"])
        taken = {name: value for name, value in tensors.items() if name in self._inputs}
        return taken, torch.tensor(mask, device=self.device)

    def _probe(self, rate: float | None) -> tuple[list[Site], bool, int | None]:
        """Try the network at a rate of dropout, or at its own (None).

        Return its sites, whether it may pad, and where packed sentences begin (None: nowhere).
        """
        short, long = self.tokens(_PROBES)
        other = short[::-1]
        exact = self.precision == "float32" and next(self.network.parameters()).dtype == torch.float32
        tolerance = 1e-4 if exact else 3e-2

        def last(*batch: Tokens, sampled: bool = True, first: int | None = None) -> tuple[Tensor, list[Site]]:
            layout = None if first is None else Layout([len(ids) for ids in batch], first)
            dropout = KeyedDropout(0, batch, [0] * len(batch), rate, layout)
            return self._forward(batch, dropout if sampled else None, layout)[-1], dropout.sites

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
        # Positions count from 0, or from after the padding index (RoBERTa); with other ideas a network is padded.
        starts = (0, (self.tokenizer.pad_token_id or 0) + 1) if "position_ids" in self._inputs else ()
        return sites, may_pad, next((first for first in starts if packs(first)), None)

    def _compare_with_source(self) -> None:
        """Refuse a sentence-transformers pipeline that is not reproduced by network, pooling and tail."""
        if not is_sentence_transformer(self.source) or self.pooling is not None:
            return
        prompt = self.prompt(None, None)
        ours = self.forward(self.tokens([prompt + _PROBES[0]]), prompt_length=self.prompt_length(prompt))[0]
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
                self.tokenizer.save_pretrained(str(folder))


def _pool(pooling: str, states: list[Tensor], mask: Tensor) -> Tensor:
    """Pool the last of the hidden states, or the average of the first and the last that are given."""
    if pooling == "cls":
        return states[-1][:, 0]
    hidden = (states[0] + states[-1]) / 2
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
