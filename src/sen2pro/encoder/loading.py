"""From whatever the user has (a name, a folder, a model object) to the parts of an encoder."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sen2pro.encoder.resolve import resolve
from sen2pro.encoder.trust import check_folder
from sen2pro.errors import Sen2ProError, shown


@dataclass
class Parts:
    """What an encoder is made of."""

    source: Any  # the whole model, as it was given or loaded
    network: Any  # its transformer (of an encoder-decoder model, the encoder)
    tokenizer: Any
    max_length: int
    name: str = ""
    folder: Path | None = None
    tail: list[Any] = field(default_factory=list)  # sentence-transformers modules after the network, less Normalize
    unit: bool = False  # made for cosine
    prompts: dict[str, str | None] = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: int | None = None

    @property
    def is_sentence_transformer(self) -> bool:
        """Whether the source is a SentenceTransformer, and not a plain network."""
        return _is_sentence_transformer(self.source)


def load(
    model: Any,
    *,
    tokenizer: Any = None,
    device: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> Parts:
    """Load a hub id or folder, or take apart a `SentenceTransformer` or Hugging Face model object."""
    folder, name = None, ""
    if device is not None and not isinstance(device, (str, torch.device)):
        raise Sen2ProError(f"device must be a text such as 'cpu' or 'cuda', not {shown(device)}")
    if tokenizer is not None and not isinstance(tokenizer, (str, Path)) and not hasattr(tokenizer, "model_max_length"):
        raise Sen2ProError(f"tokenizer must be a tokenizer of transformers, or the name of one, not {shown(tokenizer)}")
    if isinstance(model, (str, Path)):
        folder = resolve(str(model), revision=revision, allow_pickle=allow_pickle, code=trust_remote_code)
        name = folder.resolve().name if folder == Path(model) else str(model)
        device = device or _best_device()
        model, tokenizer = _load_folder(folder, tokenizer, trust_remote_code, allow_pickle)
    with usable(folder):
        parts = _parts_of(model, tokenizer)
        if parts.max_length < 1 or (parts.truncate_dim is not None and parts.truncate_dim < 1):
            raise Sen2ProError(
                f"the longest input ({parts.max_length} tokens) and the dimensions to keep ({parts.truncate_dim}) must "
                "be at least 1"
            )
    parts.folder = folder
    own_name = str(getattr(parts.network.config, "_name_or_path", "") or type(model).__name__)
    parts.name = name or Path(own_name).name
    if device is not None:
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled for the device
            raise Sen2ProError(f"device {device!r} cannot be used: {error}") from None
    return parts


def _parts_of(model: Any, tokenizer: Any) -> Parts:
    if _is_sentence_transformer(model):
        return _from_sentence_transformer(model)
    if isinstance(model, nn.Module) and hasattr(model, "config"):
        return _from_network(model, tokenizer)
    raise Sen2ProError(
        f"cannot make an encoder of {type(model).__name__}; give a hub id, a folder, a SentenceTransformer or a "
        "Hugging Face model"
    )


@contextmanager
def usable(folder: Path | None) -> Iterator[None]:
    """Turn whatever the libraries say to a folder's files, which may hold anything, into one clear error."""
    try:
        yield
    except Sen2ProError:
        raise
    except Exception as error:
        if folder is None:  # a model object of the caller's, whose errors are the caller's to see
            raise
        raise Sen2ProError(f"the model in {folder} cannot be used: {_said(error)}") from error


def _load_folder(folder: Path, tokenizer: Any, trust_remote_code: bool, allow_pickle: bool) -> tuple[Any, Any]:
    """Load a folder with sentence-transformers if it says how (modules.json), else as a plain network."""
    from safetensors import SafetensorError

    options: dict[str, Any] = {} if allow_pickle else {"use_safetensors": True}
    # A folder that is not trusted stays by itself: nothing is fetched for it.
    where: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": not trust_remote_code}
    if not trust_remote_code:
        check_folder(folder, allow_pickle=allow_pickle)
    try:
        with quietly():
            return _loaded(folder, tokenizer, where, options)
    except SafetensorError as error:
        raise Sen2ProError(f"the weights in {folder} are broken ({error}); fetch them again") from None
    except Sen2ProError:
        raise
    except Exception as error:  # whatever the libraries say to files that they were not written for
        raise Sen2ProError(f"the model in {folder} cannot be loaded: {_said(error)}") from error


@contextmanager
def quietly() -> Iterator[None]:
    """Switch off the loading bars and the advice of the libraries underneath for a while.

    Their advice quotes files of the folder as they are, control codes included.
    """
    from transformers.utils import logging as bars

    had_bars, level = bars.is_progress_bar_enabled(), bars.get_verbosity()
    others = logging.getLogger("sentence_transformers")
    before = others.level
    bars.disable_progress_bar()  # type: ignore[no-untyped-call]
    bars.set_verbosity_error()  # type: ignore[no-untyped-call]
    others.setLevel(logging.ERROR)
    try:
        yield
    finally:
        others.setLevel(before)
        bars.set_verbosity(level)
        if had_bars:
            bars.enable_progress_bar()  # type: ignore[no-untyped-call]


def _loaded(folder: Path, tokenizer: Any, where: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    if (folder / "modules.json").is_file():
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device="cpu", model_kwargs=options, **where), None
    from transformers import AutoModel, AutoTokenizer

    network = AutoModel.from_pretrained(folder, **where, **options)
    return network, tokenizer or AutoTokenizer.from_pretrained(folder, **where)


def _said(error: Exception) -> str:
    """Return the message of an error of a library, with its kind where the message alone says little."""
    known = isinstance(error, (OSError, ValueError, RuntimeError, ImportError))
    return str(error) if known and str(error) else f"{type(error).__name__} {error}"


def _from_sentence_transformer(model: Any) -> Parts:
    from sentence_transformers.base.modules import Normalize, Transformer

    transformer = model[0]
    if not isinstance(transformer, Transformer):
        raise Sen2ProError(
            f"the first module of this model is a {type(transformer).__name__}, not a transformer that can be sampled"
        )
    tail = list(model)[1:]
    normalized = bool(tail) and isinstance(tail[-1], Normalize)
    network = _encoder_part(transformer.auto_model)
    return Parts(
        source=model,
        network=network,
        tokenizer=model.tokenizer,
        max_length=model.max_seq_length or _max_length(network, model.tokenizer),
        tail=tail[:-1] if normalized else tail,
        # sentence-transformers compares by cosine unless told otherwise; the public property would set that default
        unit=normalized or model._similarity_fn_name in (None, "cosine"),
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        truncate_dim=model.truncate_dim,
    )


def _from_network(model: Any, tokenizer: Any) -> Parts:
    if tokenizer is None or isinstance(tokenizer, (str, Path)):
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(tokenizer or model.config._name_or_path)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise Sen2ProError(
                f"no tokenizer found for this {type(model).__name__} ({reason}); pass tokenizer=..."
            ) from None
    network = _encoder_part(model)
    return Parts(source=model, network=network, tokenizer=tokenizer, max_length=_max_length(network, tokenizer))


def _is_sentence_transformer(model: Any) -> bool:
    """Tell by name, so that sentence-transformers is not imported for models that do not need it."""
    return any(base.__name__ == "SentenceTransformer" for base in type(model).__mro__)


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _encoder_part(network: Any) -> Any:
    """Strip task heads and decoders; a T5EncoderModel becomes the same stack as the encoder of a T5Model."""
    network = getattr(network, "base_model", network)
    if hasattr(network, "decoder") or type(network).__name__.endswith("EncoderModel"):
        return network.get_encoder()
    return network


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

    def silent(name: str, module: nn.Module) -> bool:
        return "drop" in name.rpartition(".")[2] and isinstance(module, nn.Identity)

    if not any(silent(*item) for item in network.named_modules()):
        return network
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    twin = copy.deepcopy(network, memo=shared)
    for name, module in list(twin.named_modules()):
        if silent(name, module):
            parent, _, attribute = name.rpartition(".")
            setattr(twin.get_submodule(parent), attribute, nn.Dropout(rate))
    return twin
