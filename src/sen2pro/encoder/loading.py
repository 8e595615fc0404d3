"""From whatever the user has (a name, a folder, a model object) to the parts of an encoder."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sen2pro.encoder.folders import Understood, understand
from sen2pro.encoder.resolve import known_hash, resolve
from sen2pro.encoder.texts import LibraryTokenizer, TextTokenizer
from sen2pro.encoder.trust import check_folder, check_types, check_weights, fetching_nothing
from sen2pro.encoder.vocabulary import check_vocabulary
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.settings import Settings


@dataclass(eq=False, repr=False)
class Library:
    """A model as transformers and sentence-transformers have it."""

    source: Any  # the whole model, as it was given or loaded
    network: Any  # its transformer (of an encoder-decoder model, the encoder)
    tokenizer: Any
    tail: list[Any] = field(default_factory=list)  # sentence-transformers modules after the network, less Normalize


@dataclass(eq=False, repr=False)
class Parts:
    """What an encoder is made of, as it was loaded: a model of the libraries, or a folder that we understand."""

    model: Library | Understood
    texts: TextTokenizer
    max_length: int
    name: str = ""
    folder: Path | None = None
    unit: bool = False  # made for cosine
    prompts: dict[str, str | None] = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: int | None = None


def load(settings: Settings, *, native: bool = True) -> Parts:
    """Load the hub id or folder that the settings name, or take their model object apart.

    A folder that we understand is read without the libraries if `native`, in float32 on a CPU.
    """
    model, tokenizer, device = settings.model, settings.tokenizer, settings.device
    folder, name = None, ""
    if device is not None and not isinstance(device, (str, torch.device)):
        raise Sen2ProError(f"device must be a text such as 'cpu' or 'cuda', not {short_repr(device)}")
    if tokenizer is not None and not isinstance(tokenizer, (str, Path)) and not hasattr(tokenizer, "model_max_length"):
        raise Sen2ProError(
            f"tokenizer must be a tokenizer of transformers, or the name of one, not {short_repr(tokenizer)}"
        )
    if isinstance(model, (str, Path)):
        pickle, code = settings.allow_pickle, settings.trust_remote_code
        folder = resolve(str(model), revision=settings.revision, allow_pickle=pickle, code=code)
        if not pickle:
            check_weights(folder)
        if not code:
            check_folder(folder, allow_pickle=pickle)
        name = folder.resolve().name if folder == Path(model) else str(model)
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        plain = str(device) == "cpu" and settings.precision == "float32" and tokenizer is None
        understood = understand(folder, known_hash(str(model), folder)) if native and plain and not code else None
        if understood is not None:
            return Parts(
                understood, understood.tokenizer, understood.max_length, name, folder, understood.unit,
                understood.prompts, understood.default_prompt_name,
            )  # fmt: skip
        with usable(folder, "loaded"), nullcontext() if code else fetching_nothing(), quietly():
            if not code:
                check_types(folder)
            model, tokenizer = _load_folder(folder, tokenizer, pickle, code)
    with usable(folder):
        parts = _parts_of(model, tokenizer)
        assert isinstance(parts.model, Library)
        check_vocabulary(parts.texts, _rows(parts.model.network), folder)
        if parts.max_length < 1 or (parts.truncate_dim is not None and parts.truncate_dim < 1):
            limits = f"the longest input ({parts.max_length} tokens) and the dimensions to keep ({parts.truncate_dim})"
            raise Sen2ProError(f"{limits} must be at least 1")
    parts.folder = folder
    own_name = getattr(parts.model.network.config, "_name_or_path", "") or type(model).__name__
    parts.name = name or Path(str(own_name)).name
    if device is not None:
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled for the device
            raise Sen2ProError(f"device {device!r} cannot be used: {error}") from None
    return parts


def load_library(settings: Settings) -> Library:
    """Load a model with the libraries, also where we understand its folder."""
    library = load(settings, native=False).model
    assert isinstance(library, Library)
    return library


def _load_folder(folder: Path, tokenizer: Any, pickle: bool, code: bool) -> tuple[Any, Any]:
    """Load a folder with sentence-transformers if it says how (modules.json), else as a plain network."""
    from safetensors import SafetensorError

    options: dict[str, Any] = {} if pickle else {"use_safetensors": True}
    # A folder that is not trusted stays by itself: nothing is fetched for it.
    where: dict[str, Any] = {"trust_remote_code": code, "local_files_only": not code}
    try:
        if (folder / "modules.json").is_file():
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(str(folder), device="cpu", model_kwargs=options, **where), None
        from transformers import AutoModel, AutoTokenizer

        network = AutoModel.from_pretrained(folder, **where, **options)
        return network, tokenizer or AutoTokenizer.from_pretrained(folder, **where)
    except SafetensorError as error:
        raise Sen2ProError(f"the weights in {folder} are broken ({error}); fetch them again") from None


@contextmanager
def usable(folder: Path | None, how: str = "used") -> Iterator[None]:
    """Turn whatever the libraries say to a folder's files, which may hold anything, into one clear error."""
    try:
        yield
    except Exception as error:
        if folder is None or isinstance(error, Sen2ProError):  # a model object's errors are for its owner to see
            raise
        speaks = str(error) and isinstance(error, (OSError, ValueError, RuntimeError, ImportError))
        said = str(error) if speaks else f"{type(error).__name__} {error}"
        raise Sen2ProError(f"the model in {folder} cannot be {how}: {said}") from error


@contextmanager
def quietly() -> Iterator[None]:
    """Switch off the loading bars of the libraries underneath, and their advice: it quotes control codes in files."""
    from transformers.utils import logging as bars

    with ExitStack() as restore:
        if bars.is_progress_bar_enabled():
            restore.callback(bars.enable_progress_bar)
            bars.disable_progress_bar()  # type: ignore[no-untyped-call]
        for name in ("transformers", "sentence_transformers"):
            logger = logging.getLogger(name)
            restore.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield


def is_sentence_transformer(model: Any) -> bool:
    """Tell by name, so that sentence-transformers is not imported for models that do not need it."""
    return any(base.__name__ == "SentenceTransformer" for base in type(model).__mro__)


def _parts_of(model: Any, tokenizer: Any) -> Parts:
    if is_sentence_transformer(model):
        return _from_sentence_transformer(model)
    kind = type(model).__name__
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        taken = "a hub id, a folder, a SentenceTransformer or a Hugging Face model"
        raise Sen2ProError(f"cannot make an encoder of {kind}; give {taken}")
    if tokenizer is None or isinstance(tokenizer, (str, Path)):
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(tokenizer or getattr(model.config, "_name_or_path", None))
        except (OSError, ValueError, TypeError) as error:
            why = str(error).splitlines()[0]
            raise Sen2ProError(f"no tokenizer found for this {kind} ({why}); pass tokenizer=...") from None
    network = _encoder_part(model)
    library = Library(model, network, tokenizer)
    return Parts(library, LibraryTokenizer(tokenizer), _max_length(network, tokenizer))


def _from_sentence_transformer(model: Any) -> Parts:
    from sentence_transformers.base.modules import Normalize, Transformer

    transformer, *tail = model
    if not isinstance(transformer, Transformer):
        kind = type(transformer).__name__
        raise Sen2ProError(f"the first module of this model is a {kind}, not a transformer that can be sampled")
    network, tokenizer = _encoder_part(transformer.auto_model), model.tokenizer
    normalized = bool(tail) and isinstance(tail[-1], Normalize)
    library = Library(model, network, tokenizer, tail[:-1] if normalized else tail)
    longest = model.max_seq_length or _max_length(network, tokenizer)
    parts = Parts(library, LibraryTokenizer(tokenizer), longest)
    # sentence-transformers compares by cosine unless told otherwise; the public property would set that default
    parts.unit = normalized or model._similarity_fn_name in (None, "cosine")
    parts.prompts, parts.default_prompt_name = dict(model.prompts), model.default_prompt_name
    parts.truncate_dim = model.truncate_dim
    return parts


def _encoder_part(network: Any) -> Any:
    """Strip task heads and decoders; a T5EncoderModel becomes the same stack as the encoder of a T5Model."""
    network = getattr(network, "base_model", network)
    has_more = hasattr(network, "decoder") or type(network).__name__.endswith("EncoderModel")
    return network.get_encoder() if has_more else network


def _rows(network: Any) -> int | None:
    """Return how many tokens a network has embeddings for; None where it does not say (CANINE has no such table)."""
    try:
        rows: int | None = getattr(network.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):  # a module of one's own need not have this
        return None
    return rows


def _max_length(network: Any, tokenizer: Any) -> int:
    """Return the shorter of what tokenizer and position embeddings take (T5 has no limit but the tokenizer's)."""
    positions = getattr(network.config, "max_position_embeddings", None) or 0
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= module.padding_idx + 1  # RoBERTa and its kin count positions from the padding index
            break
    return int(min(tokenizer.model_max_length, positions if positions > 0 else 1_000_000))


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
