"""What a model's folder may ask for: it holds data; code, and weights from elsewhere, are for the caller to allow.

The libraries follow names of classes, files and models in a folder's JSON files. This module reads those files first.
"""

from __future__ import annotations

import re
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
_OWN_IMPLEMENTATIONS = (None, "eager", "sdpa")  # any other may be compiled code from the hub
_ACTIVATION = re.compile(r"torch\.nn(\.modules\.(activation|linear))?\.[A-Z]\w*")
# Keys that may name files anywhere.
_PATHS = {
    "config.json": ("transformers_weights",),
    "tokenizer_config.json": ("vocab", "merges", "init_inputs", "sp_model_kwargs"),
}
_OBJECT = documents.mapping(lambda *_: None)  # these files are another library's, with keys that we need not know


def check_weights(folder: Path) -> None:
    """Refuse weights that could only be unpickled. Only the caller can allow them, with `allow_pickle=True`."""
    for pickled in sorted(folder.rglob("*_model*.bin")):  # pytorch_model.bin, adapter_model.bin, also in parts
        safe = "adapter_model" if pickled.name.startswith("adapter") else "model"
        _check_pickle(pickled, f"{safe}.safetensors", f"{safe}.safetensors.index.json")  # whole, or in parts


def _check_pickle(pickled: Path, *safe: str) -> None:
    if not any((pickled.parent / name).is_file() for name in safe):
        raise Sen2ProError(
            f"{pickled} is in pickle format, which can run any code when loaded. Convert it to safetensors, or pass "
            "allow_pickle=True if you trust its source"
        )


def check_folder(folder: Path, *, allow_pickle: bool = False) -> None:
    """Refuse a folder that asks for code of its own, or for code, weights or words from elsewhere.

    Only the caller can allow such a folder, with `trust_remote_code=True`; then this is not called.
    """
    _check_network(folder)
    path = folder / "modules.json"
    modules = documents.load(path) if path.is_file() else []
    documents.list_of(_check_module)(modules, str(path))
    for module in modules:
        package, _, name = module["type"].rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            raise _needs_code(folder, f"modules.json names the class {module['type']!r}")
        inner = PurePosixPath(module["path"].replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts or ":" in module["path"]:
            raise Sen2ProError(f"{path}: the path {module['path']!r} leads out of the folder")
        if folder / inner != folder:
            _check_network(folder / inner)
        pickled = folder / inner / "pytorch_model.bin"
        if name != "Transformer" and not allow_pickle and pickled.exists():
            _check_pickle(pickled, "model.safetensors")  # beside the network, an index of parts is not read


def _check_module(value: Any, place: str) -> None:
    _OBJECT(value, place)
    for name in ("type", "path"):
        documents.TEXT(value.get(name), f"{place}: '{name}'")


def _check_network(folder: Path) -> None:
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise Sen2ProError(
            f"{adapter} names another model as its base, and a folder may not choose where weights come from. Load "
            "both yourself and pass the model object; or pass trust_remote_code=True if you trust the folder's source"
        )
    for file, names in _PATHS.items():
        content = _object(folder / file)
        for name in names:
            if content.get(name):
                raise _needs_code(folder, f"{file} sets {name!r}, which may name files outside the folder")
    config = _object(folder / "config.json")
    activation = config.get("activation_function")
    if isinstance(activation, str) and "." in activation and not _ACTIVATION.fullmatch(activation):
        raise _needs_code(folder, f"config.json names the activation {activation!r}")
    _check_implementations(folder, "config.json", config)
    for path in sorted(folder.rglob("*.index.json")):
        parts: Any = _object(path).get("weight_map")
        if parts is None:
            continue
        documents.mapping(documents.TEXT)(parts, f"{path}: 'weight_map'")
        for name in sorted(set(parts.values())):
            if Path(name).name != name or "\\" in name:
                raise Sen2ProError(f"{path}: {name!r} leads out of the folder")
    for path in sorted(folder.glob("sentence_*_config.json")):
        _check_transformer(folder, path.name, _object(path))


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of another library's; nothing if there is no file."""
    content = documents.load(path) if path.is_file() else {}
    _OBJECT(content, str(path))
    return dict(content)


def _check_transformer(folder: Path, file: str, config: dict[str, Any]) -> None:
    unknown = sorted(set(config) - set(_TRANSFORMER))
    if unknown:
        raise _needs_code(folder, f"{file} sets {some(unknown)}")
    for group in (*_KEYWORDS, "modality_config"):
        _OBJECT(config.get(group) or {}, f"{folder / file}: '{group}'")
    for group in _KEYWORDS:
        unknown = sorted(set(config.get(group) or {}) - set(_HARMLESS))
        if unknown:
            raise _needs_code(folder, f"{file} sets {some(unknown)} in {group!r}")
    for about in (config.get("modality_config") or {}).values():
        if isinstance(about, dict) and about.get("method", "forward") != "forward":
            raise _needs_code(folder, f"{file} calls the method {about['method']!r}")
    _check_implementations(folder, file, config)


def _check_implementations(folder: Path, file: str, value: Any) -> None:
    """Refuse implementations that may be compiled code, fetched from the hub, wherever in a document they stand."""
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in entries:
        chosen = inner.values() if isinstance(inner, dict) else [inner]
        if name in _IMPLEMENTATIONS and any(each not in _OWN_IMPLEMENTATIONS for each in chosen):
            raise _needs_code(folder, f"{file} sets {name} to {shown(inner)}")
        _check_implementations(folder, file, inner)


def _needs_code(folder: Path, why: str) -> Sen2ProError:
    return Sen2ProError(
        f"the model in {folder} asks to run code that does not come with sen2pro's libraries: {why}. If you trust its "
        "source, pass trust_remote_code=True"
    )
