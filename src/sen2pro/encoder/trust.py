"""What a model's folder may ask for. It holds data; code, and weights from elsewhere, are for the caller to allow.

sentence-transformers and transformers read class names, keyword arguments and the names of other models from JSON files
of a folder. Whoever wrote the folder wrote those. This module reads them first, and refuses what would reach beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from sen2pro.errors import Sen2ProError, some
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
_IMPLEMENTATIONS = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")


def check_folder(folder: Path) -> None:
    """Refuse a folder that asks for code of its own, or for code or weights from elsewhere.

    `trust_remote_code=True` of the caller is what allows such a folder; then this is not called.
    """
    for place in (folder, *_modules(folder)):
        _check_network(place)


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the folders of the modules that modules.json lists."""
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
        if str(inner) != ".":
            yield folder / inner


def _module(value: Any, place: str) -> None:
    documents.mapping(_anything)(value, place)
    for name in ("type", "path"):
        documents.TEXT(value.get(name), f"{place}: '{name}'")


def _check_network(folder: Path) -> None:
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise Sen2ProError(
            f"{adapter} names another model as its base, and a folder may not choose where weights come from. Load "
            "the base and the adapter yourself, and pass the model object; or pass trust_remote_code=True if you "
            "trust the source of this folder"
        )
    if (folder / "config.json").is_file():
        _check_keywords(folder, "config.json", documents.read(folder / "config.json", _anything))
    for path in sorted(folder.glob("*.safetensors.index.json")):
        parts: Any = documents.read(path, _anything).get("weight_map")
        documents.mapping(documents.TEXT)(parts, f"{path}: 'weight_map'")
        outside = sorted(name for name in set(parts.values()) if Path(name).name != name or "\\" in name)
        if outside:
            raise Sen2ProError(f"{path}: {outside[0]!r} leads out of the folder")
    for path in sorted(folder.glob("sentence_*_config.json")):
        config = documents.read(path, _anything)
        for group in _KEYWORDS:
            given = config.get(group) or {}
            documents.mapping(_anything)(given, f"{path}: '{group}'")
            unknown = sorted(set(given) - set(_HARMLESS))
            if unknown:
                raise _needs_code(folder, f"{path.name} sets {some(unknown)} in {group!r}")
            _check_keywords(folder, path.name, given)


def _check_keywords(folder: Path, file: str, given: dict[str, Any]) -> None:
    """Refuse implementations by the name of a repository: they are compiled code, fetched from there."""
    for name in _IMPLEMENTATIONS:
        chosen = given.get(name)
        names = chosen.values() if isinstance(chosen, dict) else [chosen]
        if any(isinstance(each, str) and not each.replace("_", "").isalnum() for each in names):
            raise _needs_code(folder, f"{file} sets {name} to {chosen!r}")


def _needs_code(folder: Path, why: str) -> Sen2ProError:
    return Sen2ProError(
        f"the model in {folder} asks to run code that does not come with sen2pro's libraries: {why}. If you trust its "
        "source, pass trust_remote_code=True"
    )


def _anything(value: Any, place: str) -> None:
    """Pass every value: the libraries underneath have their own ideas of these files."""
