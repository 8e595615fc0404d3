"""What a model's folder may ask for. It holds data; code, and weights from elsewhere, are for the caller to allow.

sentence-transformers and transformers read class names, keyword arguments and the names of other models from JSON files
of a folder. Whoever wrote the folder wrote those. This module reads them first, and refuses what would reach beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from sen2pro.errors import Sen2ProError, shown, some
from sen2pro.files import documents

# The modules of sentence-transformers that hold numbers only.
_MODULES = (
    "CNN", "Dense", "Dropout", "LSTM", "LayerNorm", "Normalize", "Pooling", "Transformer", "WeightedLayerPooling",
)  # fmt: skip
# Keyword arguments of transformers that change no more than numbers.
_HARMLESS = (
    "add_pooling_layer", "attn_implementation", "do_lower_case", "dtype", "model_max_length", "padding_side",
    "torch_dtype", "truncation_side", "use_fast",
)  # fmt: skip
_KEYWORDS = ("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs")
# All that the file of sentence-transformers' Transformer may set.
_TRANSFORMER = (
    "do_lower_case", "max_seq_length", "modality_config", "module_output_name", "processing_kwargs",
    "transformer_task", "unpad_inputs", *_KEYWORDS,
)  # fmt: skip
_IMPLEMENTATIONS = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
_OWN_IMPLEMENTATIONS = ("eager", "sdpa")  # any other may be compiled code from the hub
_ACTIVATION = re.compile(r"torch\.nn(\.modules\.(activation|linear))?\.[A-Z]\w*")
_TOKENIZER_PATHS = ("vocab", "merges", "init_inputs", "sp_model_kwargs")  # which may name files anywhere


def check_folder(folder: Path, *, allow_pickle: bool = False) -> None:
    """Refuse a folder that asks for code of its own, or for code, weights or words from elsewhere.

    `trust_remote_code=True` of the caller is what allows such a folder; then this is not called.
    """
    _check_network(folder)
    for place, name in _modules(folder):
        if place != folder:
            _check_network(place)
        if name != "Transformer" and not allow_pickle:
            _check_pickle(place)


def _modules(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield folder and class of the modules that modules.json lists."""
    path = folder / "modules.json"
    if not path.is_file():
        return
    listed = documents.load(path)
    documents.list_of(_module)(listed, str(path))
    for module in listed:
        package, _, name = module["type"].rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            raise _needs_code(folder, f"modules.json names the class {module['type']!r}")
        inner = PurePosixPath(module["path"].replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts or ":" in module["path"]:
            raise Sen2ProError(f"{path}: the path {module['path']!r} leads out of the folder")
        yield folder / inner, name


def _module(value: Any, place: str) -> None:
    documents.mapping(_anything)(value, place)
    for name in ("type", "path"):
        documents.TEXT(value.get(name), f"{place}: '{name}'")


def _check_pickle(folder: Path) -> None:
    """Refuse a module whose weights could only be unpickled: beside the network, an index of parts is not read."""
    if (folder / "pytorch_model.bin").exists() and not (folder / "model.safetensors").is_file():
        raise Sen2ProError(
            f"{folder / 'pytorch_model.bin'} is in pickle format, which can run any code when loaded. Convert it to "
            "safetensors, or pass allow_pickle=True if you trust its source"
        )


def _check_network(folder: Path) -> None:
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise Sen2ProError(
            f"{adapter} names another model as its base, and a folder may not choose where weights come from. Load "
            "the base and the adapter yourself, and pass the model object; or pass trust_remote_code=True if you "
            "trust the source of this folder"
        )
    _check_config(folder, _object(folder / "config.json"))
    for path in sorted(folder.rglob("*.index.json")):
        parts: Any = _object(path).get("weight_map")
        if parts is None:
            continue
        documents.mapping(documents.TEXT)(parts, f"{path}: 'weight_map'")
        outside = sorted(name for name in set(parts.values()) if Path(name).name != name or "\\" in name)
        if outside:
            raise Sen2ProError(f"{path}: {outside[0]!r} leads out of the folder")
    for path in sorted(folder.glob("sentence_*_config.json")):
        _check_transformer(folder, path.name, _object(path))
    words = _object(folder / "tokenizer_config.json")
    for name in _TOKENIZER_PATHS:
        if words.get(name):
            raise _needs_code(folder, f"tokenizer_config.json sets {name!r}, which may name files outside the folder")


def _object(path: Path) -> dict[str, Any]:
    """Return what a JSON file of another library's says, nothing if there is none; it must be an object."""
    found = documents.load(path) if path.is_file() else {}
    documents.mapping(_anything)(found, str(path))
    return dict(found)


def _check_config(folder: Path, config: dict[str, Any]) -> None:
    """Refuse weights by another name, activations that are no classes of torch.nn, and implementations from the hub."""
    if config.get("transformers_weights"):
        raise _needs_code(folder, "config.json sets 'transformers_weights', which may name files outside the folder")
    activation = config.get("activation_function")
    if isinstance(activation, str) and "." in activation and not _ACTIVATION.fullmatch(activation):
        raise _needs_code(folder, f"config.json names the activation {activation!r}")
    _check_implementations(folder, "config.json", config)


def _check_transformer(folder: Path, file: str, config: dict[str, Any]) -> None:
    unknown = sorted(set(config) - set(_TRANSFORMER))
    if unknown:
        raise _needs_code(folder, f"{file} sets {some(unknown)}")
    for group in _KEYWORDS:
        given = config.get(group) or {}
        documents.mapping(_anything)(given, f"{folder / file}: '{group}'")
        unknown = sorted(set(given) - set(_HARMLESS))
        if unknown:
            raise _needs_code(folder, f"{file} sets {some(unknown)} in {group!r}")
    modalities = config.get("modality_config") or {}
    documents.mapping(_anything)(modalities, f"{folder / file}: 'modality_config'")
    for about in modalities.values():
        method = about.get("method", "forward") if isinstance(about, dict) else "forward"
        if method != "forward":
            raise _needs_code(folder, f"{file} calls the method {method!r}")
    _check_implementations(folder, file, config)


def _check_implementations(folder: Path, file: str, value: Any) -> None:
    """Refuse implementations that may be compiled code, fetched from the hub, wherever in a document they stand."""
    if isinstance(value, list):
        for each in value:
            _check_implementations(folder, file, each)
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        chosen = [*inner.values()] if isinstance(inner, dict) else [inner]
        if name in _IMPLEMENTATIONS and any(each not in (None, *_OWN_IMPLEMENTATIONS) for each in chosen):
            raise _needs_code(folder, f"{file} sets {name} to {shown(inner)}")
        _check_implementations(folder, file, inner)


def _needs_code(folder: Path, why: str) -> Sen2ProError:
    return Sen2ProError(
        f"the model in {folder} asks to run code that does not come with sen2pro's libraries: {why}. If you trust its "
        "source, pass trust_remote_code=True"
    )


def _anything(value: Any, place: str) -> None:
    """Pass every value: these files are another library's, and have keys that we need not know."""
