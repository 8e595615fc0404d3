"""A model by name, folder or object, and the backend that runs it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from sen2pro.encoder.backend import Keys, Site, States, TextTokenizer, Tokens
from sen2pro.encoder.find import find, known_hash, load_source
from sen2pro.encoder.native.load import NativeModel, load_native
from sen2pro.encoder.transformers import TransformersModel
from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.settings import Settings
from sen2pro.validation import check_text


def _of_backend(name: str) -> Any:
    return property(attrgetter(f"backend.{name}"))


class Encoder:
    """A pre-trained network with its tokenizer and pooling.

    A folder of a common family is run by our own code (`native`). Every other model, and one whose weights have
    changed, is run by transformers, which is the reference.

    Parameters
    ----------
    model
        Hub id, local folder, `SentenceTransformer` or Hugging Face model object; or the `Settings` of a `Sen2Pro`.
    **options
        Settings that say where to find the model and how to run it, such as `pooling` or `device`: see `Sen2Pro`.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        settings = model if isinstance(model, Settings) else Settings(model, **options)
        model, tokenizer, device = settings.model, settings.tokenizer, settings.device
        if device is not None and not isinstance(device, (str, torch.device)):
            raise Sen2ProError(f"device must be a text such as 'cpu' or 'cuda', not {short_repr(device)}")
        if not (tokenizer is None or isinstance(tokenizer, (str, Path)) or hasattr(tokenizer, "model_max_length")):
            raise Sen2ProError(
                f"tokenizer must be a tokenizer of transformers or its name, not {short_repr(tokenizer)}"
            )
        self.pooling, self.precision, self.rate = settings.pooling, settings.precision, settings.dropout
        self.folder: Path | None = None
        self._loading = threading.RLock()
        self._native: NativeModel | None = None
        self._transformers: TransformersModel | None = None
        if isinstance(model, (str, Path)):
            self.folder = find(settings)
            if device is None:
                device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
                settings = settings.changed(device=device)
            plain = (str(device), self.precision, tokenizer, settings.trust_remote_code)
            if plain == ("cpu", "float32", None, False):
                known = known_hash(str(model), self.folder)
                self._native = load_native(self.folder, known_hash=known, pooling=self.pooling, rate=self.rate)
        self._settings = settings
        if self._native is None:
            self._transformers = TransformersModel(*load_source(settings, self.folder), settings, self.folder)
        if self.folder is not None:
            self.name = self.folder.resolve().name if self.folder == Path(model) else str(model)
        else:
            own_name = getattr(self.transformers.network.config, "_name_or_path", "") or type(model).__name__
            self.name = Path(str(own_name)).name

    @property
    def transformers(self) -> TransformersModel:
        """The model as transformers has it, for training for instance: loaded when it is first asked for."""
        with self._loading:
            if self._transformers is None:
                assert self._native is not None
                folder = find(self._settings)
                model = TransformersModel(*load_source(self._settings, folder), self._settings, folder)
                if model.hash != self._native.hash:  # asking again must not give another model
                    raise Sen2ProError(f"the weights in {self.folder} have changed since they were loaded")
                self._transformers = model
            return self._transformers

    @property
    def source(self) -> Any:
        """The whole model, as it was given or as the libraries load it."""
        return self.transformers.source

    @property
    def is_as_loaded(self) -> bool:
        """Whether no weight has changed since the encoder was made."""
        return self._transformers is None or self._transformers.is_as_loaded

    @property
    def backend(self) -> NativeModel | TransformersModel:
        """The backend in use: our own if there is one and the weights are as they were loaded."""
        return self._native if self._native is not None and self.is_as_loaded else self.transformers

    unit: bool = _of_backend("unit")
    truncate_dim: int | None = _of_backend("truncate_dim")
    trained_with_dropout: bool = _of_backend("trained_with_dropout")
    prompts: Mapping[str, str | None] = _of_backend("prompts")
    default_prompt_name: str | None = _of_backend("default_prompt_name")
    dim: int = _of_backend("dim")
    depth: int = _of_backend("depth")
    max_length: int = _of_backend("max_length")
    hash: str = _of_backend("hash")
    sites: list[Site] = _of_backend("sites")
    family: str = _of_backend("family")
    parameters: int = _of_backend("parameters")
    pooling_name: str = _of_backend("pooling_name")
    tokenizer: TextTokenizer = _of_backend("tokenizer")
    device: torch.device = _of_backend("device")
    token_budget: int = _of_backend("token_budget")
    may_pad: bool = _of_backend("may_pad")
    packs: bool = _of_backend("packs")
    concurrent: bool = _of_backend("concurrent")

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokens:
        """Return the token ids of texts, see `Backend.tokenize`."""
        return self.backend.tokenize(texts, prompt)

    def run(self, tokens: Tokens, keys: Keys | None = None, layers: Sequence[int] = ()) -> States:
        """Run one batch, see `Backend.run`."""
        return self.backend.run(tokens, keys, layers)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The whole words of the tokenizer, for word-level edits."""
        return self.tokenizer.words()

    def prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        """Return the text to put before each sentence, as sentence-transformers would choose it."""
        if prompt is not None:
            return check_text("prompt", prompt)
        if prompt_name is not None:
            one_of("prompt_name", check_text("prompt_name", prompt_name), self.prompts)
        name = prompt_name or self.default_prompt_name
        return (self.prompts.get(name) or "") if name else ""
