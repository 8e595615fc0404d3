"""Stage 1, the encoder: token ids go in, one pooled vector a sentence comes out, with or without dropout."""

from __future__ import annotations

import copy
import hashlib
import inspect
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sen2pro.errors import Sen2ProError, TruncationWarning, one_of
from sen2pro.resolve import resolve
from sen2pro.sampling.dropout import KeyedDropout, Site, mode
from sen2pro.sampling.edits import whole_words

POOLINGS = ("mean", "cls", "first-last-avg")
Tokens = list[int]


class Encoder:
    """A pre-trained network with its tokenizer and pooling, made from whatever the user has.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer`, or Hugging Face model object.
    pooling
        `mean`, `cls` or `first-last-avg`; the model's own by default (mean, if it is a plain network).
    tokenizer
        For a Hugging Face model object whose tokenizer cannot be found under its own name.
    device
        Where to run; a model object stays where it is by default.
    """

    def __init__(
        self,
        model: Any,
        *,
        pooling: str | None = None,
        dropout: float | None = None,
        tokenizer: Any = None,
        device: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
    ) -> None:
        if pooling is not None:
            one_of("pooling", pooling, POOLINGS)
        self.folder: Path | None = None
        self.name = str(model)
        if isinstance(model, (str, Path)):
            self.folder = resolve(str(model), revision=revision, allow_pickle=allow_pickle, code=trust_remote_code)
            self.name = self.folder.resolve().name if Path(model).is_dir() else str(model)
            device = device or _best_device()
            model, tokenizer = _load(self.folder, tokenizer, trust_remote_code, allow_pickle)
        self.source = model
        self.network: Any
        self.tokenizer: Any
        self.max_length: int
        self._tail: list[Any] = []
        self.prompts: dict[str, str | None] = {}
        self.default_prompt_name: str | None = None
        self.truncate_dim: int | None = None
        self.unit = False
        if _is_sentence_transformer(model):
            self._from_sentence_transformer(model)
        elif isinstance(model, nn.Module) and hasattr(model, "config"):
            self._from_network(model, tokenizer)
        else:
            raise Sen2ProError(
                f"cannot make an encoder of {type(model).__name__}; give a hub id, a folder, a SentenceTransformer or "
                "a Hugging Face model"
            )
        if self.folder is None:
            self.name = Path(str(getattr(self.network.config, "_name_or_path", "") or type(self.network).__name__)).name
        self.pooling = pooling
        if device is not None:
            self._to(device)
        self._inputs = set(inspect.signature(self.network.forward).parameters)
        self._lock = threading.RLock()
        self.rate: float | None = None
        self.trained_with_dropout = True
        if dropout is not None:
            self.trained_with_dropout = any(site.rate for site in self._probe())
            self.rate = dropout
            self.network = _with_dropout_modules(self.network, dropout)

    def _from_sentence_transformer(self, model: Any) -> None:
        from sentence_transformers.base.modules import Normalize, Transformer

        transformer = model[0]
        if not isinstance(transformer, Transformer):
            raise Sen2ProError(
                f"the first module of this model is a {type(transformer).__name__}, not a transformer; it has no "
                "dropout to sample from"
            )
        modules = list(model)[1:]
        self._tail = [m for m in modules if not isinstance(m, Normalize)]
        self.network = _encoder_part(transformer.auto_model)
        self.tokenizer = model.tokenizer
        self.max_length = model.max_seq_length or _max_length(self.network, self.tokenizer)
        self.prompts = dict(model.prompts)
        self.default_prompt_name = model.default_prompt_name
        self.truncate_dim = model.truncate_dim
        self.unit = len(self._tail) < len(modules) or model._similarity_fn_name in (None, "cosine")

    def _from_network(self, network: Any, tokenizer: Any) -> None:
        if tokenizer is None:
            from transformers import AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(network.config._name_or_path)
            except (OSError, ValueError, TypeError) as error:
                raise Sen2ProError(
                    f"no tokenizer found for this {type(network).__name__} ({str(error).splitlines()[0]}); "
                    "pass tokenizer=..."
                ) from None
        self.network = _encoder_part(network)
        self.tokenizer = tokenizer
        self.max_length = _max_length(self.network, tokenizer)

    def _to(self, device: str) -> None:
        try:
            for module in (self.network, *self._tail):
                module.to(device)
        except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled for the device
            raise Sen2ProError(f"device {device!r} cannot be used: {error}") from None

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        device: torch.device = next(self.network.parameters()).device
        return device

    @property
    def pooling_name(self) -> str:
        """The pooling in use, by name."""
        if self.pooling is not None:
            return self.pooling
        modes = next((m.pooling_mode for m in self._tail if hasattr(m, "pooling_mode")), "mean")
        return modes if isinstance(modes, str) else "+".join(modes)

    @cached_property
    def hash(self) -> str:
        """Eight hex digits of a sha256 over all weights: the same however the model was loaded."""
        digest = hashlib.sha256()
        for module in (self.network, *self._tail):
            for name, tensor in sorted(module.state_dict().items()):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return digest.hexdigest()[:8]

    @cached_property
    def sites(self) -> list[Site]:
        """Every place where dropout acts, in the order of a forward pass."""
        return self._probe()

    def _probe(self) -> list[Site]:
        """Find the dropout sites by running one small batch through the network."""
        tokens = self.tokens(["probe"])[0]
        batch = [tokens[:1] * 5] * 3
        dropout = KeyedDropout(0, [("", 0)] * 3, [5] * 3, self.rate)
        self.forward(batch, dropout)
        if any(site.kind == "shared" and site.shape[0] == len(batch) for site in dropout.sites):
            raise Sen2ProError("this network applies dropout to pooled vectors, which sen2pro cannot key by sentence")
        return dropout.sites

    @cached_property
    def vocabulary(self) -> list[str]:
        """The whole words of the tokenizer, for word-level edits."""
        special = set(self.tokenizer.all_special_tokens)
        tokens = [
            t for t, _ in sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1]) if t not in special
        ]
        return whole_words(tokens, lambda token: str(self.tokenizer.convert_tokens_to_string([token])))

    @cached_property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.forward([self.tokens(["probe"])[0]]).shape[1]

    def prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        """Return the text to put before each sentence, as sentence-transformers would choose it."""
        if prompt is not None:
            return prompt
        if prompt_name is not None:
            one_of("prompt_name", prompt_name, self.prompts)
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
            cut = self.tokenizer(texts[i], truncation=True, max_length=self.max_length, verbose=False)
            tokens[i] = cut["input_ids"]
        if long and warn:
            warnings.warn(TruncationWarning(len(long), len(texts), self.max_length), stacklevel=5)
        for text, ids in zip(texts, tokens, strict=True):
            if not ids:
                raise Sen2ProError(f"the tokenizer finds no token in {text!r}")
        return tokens

    def forward(self, tokens: Sequence[Tokens], dropout: KeyedDropout | None = None, prompt_length: int = 0) -> Tensor:
        """Run one batch: (batch, k) float32 on the network's device, not normalised."""
        features = self._pad(tokens)
        inputs = {name: value for name, value in features.items() if name in self._inputs}
        with self._lock, torch.inference_mode(), mode(self.network, sampling=dropout is not None):
            with dropout or nullcontext():
                states = self.network(**inputs, output_hidden_states=self.pooling == "first-last-avg", return_dict=True)
            features["token_embeddings"] = states.last_hidden_state
            if self.pooling is not None or not self._tail:
                features["sentence_embedding"] = _pool(self.pooling or "mean", states, features["attention_mask"])
            if prompt_length:
                features["prompt_length"] = prompt_length
            for module in self._tail:
                if not (self.pooling is not None and hasattr(module, "pooling_mode")):
                    with mode(module, sampling=False):
                        features = module(features)
        vectors: Tensor = features["sentence_embedding"].float()
        return vectors[:, : self.truncate_dim]

    def _pad(self, tokens: Sequence[Tokens]) -> dict[str, Any]:
        """Pad on the right, so that a token's position does not depend on its neighbours."""
        length = max(map(len, tokens))
        pad = self.tokenizer.pad_token_id or 0
        features = {
            "input_ids": torch.tensor([[*ids, *[pad] * (length - len(ids))] for ids in tokens]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids in tokens]),
        }
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        return {name: value.to(self.device) for name, value in features.items()}

    def save(self, folder: Path) -> None:
        """Write network, tokenizer and pooling to a folder that sentence-transformers and transformers can read."""
        self.source.save_pretrained(str(folder))
        if not _is_sentence_transformer(self.source):
            self.tokenizer.save_pretrained(str(folder))


def _pool(pooling: str, states: Any, mask: Tensor) -> Tensor:
    last: Tensor = states.last_hidden_state
    if pooling == "cls":
        return last[:, 0]
    # hidden_states[0] is the embedding layer; the paper means the first transformer layer.
    hidden: Tensor = last if pooling == "mean" else (states.hidden_states[1] + last) / 2
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def _is_sentence_transformer(model: Any) -> bool:
    """Tell by name, so that sentence-transformers is not imported for models that do not need it."""
    return any(base.__name__ == "SentenceTransformer" for base in type(model).__mro__)


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _load(folder: Path, tokenizer: Any, trust_remote_code: bool, allow_pickle: bool) -> tuple[Any, Any]:
    """Load a folder with sentence-transformers if it says how (modules.json), else as a plain network."""
    from safetensors import SafetensorError

    options: dict[str, Any] = {} if allow_pickle else {"use_safetensors": True}
    try:
        if (folder / "modules.json").is_file():
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(
                str(folder), device="cpu", trust_remote_code=trust_remote_code, model_kwargs=options
            )
            return model, None
        from transformers import AutoModel, AutoTokenizer

        network = AutoModel.from_pretrained(folder, trust_remote_code=trust_remote_code, **options)
        tokenizer = tokenizer or AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
        return network, tokenizer
    except SafetensorError as error:
        raise Sen2ProError(f"the weights in {folder} are broken ({error}); fetch them again") from None
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise Sen2ProError(f"the model in {folder} cannot be loaded: {error}") from error


def _encoder_part(network: Any) -> Any:
    return network.get_encoder() if network.config.is_encoder_decoder and hasattr(network, "get_encoder") else network


def _max_length(network: Any, tokenizer: Any) -> int:
    """Return the shorter of what tokenizer and position embeddings take (T5 has no limit but the tokenizer's)."""
    positions = getattr(network.config, "max_position_embeddings", None) or 1_000_000
    if network.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= network.config.pad_token_id + 1  # their positions start after the padding index
    return int(min(tokenizer.model_max_length, positions))


def _with_dropout_modules(network: Any, rate: float) -> Any:
    """Return a network with real dropout modules where the class builds `nn.Identity` at rate 0 (ModernBERT).

    The copy shares its weights with the original, which is left as it is.
    """
    if not any("drop" in name and isinstance(module, nn.Identity) for name, module in network.named_modules()):
        return network
    config = copy.deepcopy(network.config)
    for name, value in vars(config).items():
        if "drop" in name and "layer" not in name and isinstance(value, (int, float)):
            setattr(config, name, rate)
    twin = type(network)(config)
    twin.load_state_dict(network.state_dict(), assign=True)
    return twin.to(next(network.parameters()).device)
