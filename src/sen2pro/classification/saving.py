"""A classifier as a small folder: numbers as safetensors, and what they are as JSON next to them. No pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.classification.choosing import Choice
from sen2pro.classification.heads import FEATURES, HEADS, Scaling, Weights
from sen2pro.classification.labels import check_labels
from sen2pro.classification.training import FineTuning
from sen2pro.encoder.find import OWN_NAMES
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.estimation.whitening import find_whitening
from sen2pro.io import bundle, documents
from sen2pro.io.atomic import new_folder, write_text
from sen2pro.io.documents import COUNT, NULL, NUMBER, TEXT, TRUTH, WHOLE, either, list_of, one_of_texts, record
from sen2pro.model import Sen2Pro
from sen2pro.settings import METHODS, FileSettings
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array64

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FORMAT = 3
CONFIG, TENSORS, ENCODER = "sen2pro_classifier.json", "sen2pro_classifier.safetensors", "encoder"


class _Recipe(FileSettings, kw_only=True):
    """The settings that make the model again."""

    model: str
    whitening: bool | None


def _check_recipe(value: Any, place: str) -> None:
    TEXT(bundle.convert(value, _Recipe, place).model, place)


_TUNING = {each.name: NUMBER for each in fields(FineTuning) if each.name != "checkpoints"}
_SETTINGS = {
    "method": one_of_texts("auto", *METHODS), "samples": either(NULL, COUNT, list_of(COUNT, 2)),
    "uncertainty": one_of_texts("both", *SOURCES), "features": one_of_texts("auto", *FEATURES),
    "head": one_of_texts("auto", *HEADS), "C": either(NULL, NUMBER), "seed": COUNT,
    "finetune": either(TRUTH, record({**_TUNING, "epochs": either(NULL, NUMBER)})),
}  # fmt: skip
_CHOICE = {
    "features": one_of_texts(*FEATURES), "head": one_of_texts(*HEADS), "C": NUMBER, "temperature": NUMBER,
    "log_loss": documents.ANY_NUMBER, "accuracy": NUMBER,
}  # fmt: skip
_CONFIG = record({
    "format": WHOLE, "version": TEXT, "model": either(NULL, TEXT, _check_recipe), "settings": record(_SETTINGS),
    "classes": either(list_of(TEXT), list_of(WHOLE), list_of(TRUTH)), "choice": record(_CHOICE),
    "scaling": record({"features": one_of_texts(*FEATURES), "mean_scale": NUMBER, "variance_scale": NUMBER}),
    "signature": either(NULL, record({each.name: TEXT for each in fields(Signature)})),
    "encoder": either(NULL, documents.mapping(TEXT)),
})  # fmt: skip
_DIMENSIONS = {"matrix": 2, "bias": 1, "mean_centre": 1, "variance_centre": 1}
_NUMBERS = {name: bundle.Expected("F64", dimensions) for name, dimensions in _DIMENSIONS.items()}


def save(classifier: Sen2ProClassifier, folder: Path) -> None:
    """Write a fitted classifier to a folder that must be new or empty."""
    from safetensors.numpy import save_file

    config = _config(classifier)
    learnt = {**vars(classifier.scaling_), **vars(classifier.weights_)}
    numbers = {name: np.ascontiguousarray(learnt[name]) for name in _NUMBERS}
    with new_folder(folder) as temporary:
        if classifier.settings_["finetune"]:
            classifier.encoder.save(temporary / ENCODER)
            config["encoder"] = _digests(temporary / ENCODER)
        config["hash"] = _hash(config, numbers)
        save_file(numbers, temporary / TENSORS)
        write_text(temporary / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def _config(classifier: Sen2ProClassifier) -> dict[str, Any]:
    settings, scaling, signature = dict(classifier.settings_), classifier.scaling_, classifier.signature_
    model, tuning = settings.pop("model"), settings["finetune"]
    if isinstance(tuning, FineTuning):
        settings["finetune"] = {name: value for name, value in asdict(tuning).items() if name != "checkpoints"}
    if isinstance(model, Sen2Pro):  # a model that was tuned is in the user's hands alone; what became of it comes along
        model = None if tuning else recipe(model)
    else:  # a folder must be found from anywhere
        is_folder = any((Path(model) / file).is_file() for file in ("config.json", "modules.json"))
        model = str(Path(model).resolve() if is_folder else model)
    config = {
        "format": FORMAT, "version": __version__, "model": model, "settings": settings,
        "classes": classifier.classes_.tolist(), "choice": asdict(classifier.choice_),
        "scaling": {name: getattr(scaling, name) for name in ("features", "mean_scale", "variance_scale")},
        "signature": None if signature is None else asdict(signature), "encoder": None,
    }  # fmt: skip
    return dict(json.loads(json.dumps(config, default=lambda number: number.item())))  # numpy's numbers as plain ones


def recipe(model: Sen2Pro) -> dict[str, Any]:
    """Return the settings that make the same model again; refuse a model of which something is only in memory."""
    encoder, lost = model.encoder, ""
    if encoder.folder is None:
        lost = "its network is in memory, not in a folder or on the hub"
    elif not encoder.is_as_loaded:
        lost = "its weights have changed since they were loaded"
    elif model.whitening and not _finds_whitening(model):
        lost = "its whitening is not in its folder"
    elif model.method != "sampling" and str(model.find_head()) != str(model.head):
        lost = "its head is neither in its folder nor one that comes with the package"
    if encoder.folder is None or lost:
        raise Sen2ProError(
            f"this model cannot be found again: {lost}. Save it, model.save(folder), and give the classifier "
            "Sen2Pro.load(folder) as its model"
        )
    own_folder = encoder.folder.resolve().name == encoder.name or (encoder.folder / "sen2pro.json").is_file()
    name = str(encoder.folder.resolve()) if own_folder else encoder.name
    return {"model": name, "whitening": None if model.whitening else False, **model.settings.to_json()}


def _finds_whitening(model: Sen2Pro) -> bool:
    found = find_whitening(None, model.encoder.folder, None, None)
    return found is not None and model.whitening is not None and found.hash == model.whitening.hash


def load(kind: type[Sen2ProClassifier], folder: Path, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
    """Read a classifier; one of another format, or whose contents were changed, is refused."""
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise Sen2ProError(f"there is no classifier in {folder}: {name} is missing")
    try:
        config, numbers = _read(folder)
    except Sen2ProError as error:
        raise Sen2ProError(f"the classifier in {folder} cannot be read: {error}; train it again") from None
    settings = {**config["settings"], "model": _model(config, folder, model)}
    if isinstance(settings["samples"], list):
        settings["samples"] = tuple(settings["samples"])
    if isinstance(settings["finetune"], dict):
        settings["finetune"] = FineTuning(**settings["finetune"])
    classifier = kind(**settings)
    classifier.settings_ = settings
    classifier.classes_ = np.array(config["classes"])
    classifier.choice_ = Choice(**config["choice"])
    classifier.weights_ = Weights(numbers["matrix"], numbers["bias"])
    centres: dict[str, Any] = {name: numbers[name] for name in ("mean_centre", "variance_centre")}
    classifier.scaling_ = Scaling(**config["scaling"], **centres)
    classifier.n_features_in_ = len(numbers["mean_centre"])
    classifier.signature_ = Signature(**config["signature"]) if config["signature"] else None
    classifier._encoder = Sen2Pro.load(folder / ENCODER) if config["encoder"] else None
    return classifier


def _model(config: Mapping[str, Any], folder: Path, given: str | Path | Sen2Pro | None) -> Any:
    """Return the model that a classifier was fitted with.

    A folder may not choose where weights come from. So what it says of its model is believed only if that is the one
    which comes with sen2pro; any other is for the caller to name.
    """
    kept = config["model"]
    name = kept["model"] if isinstance(kept, dict) else kept
    known = name in OWN_NAMES
    if config["encoder"]:
        if given is not None:
            raise Sen2ProError(f"the classifier in {folder} has an encoder of its own, fine-tuned; leave the model out")
        return name if known else None
    if given is None and not known:
        raise Sen2ProError(
            f"the classifier in {folder} was trained with the model {name!r}, which is not in its folder. A folder may "
            f"not choose where weights come from: if you trust that model, pass model={name!r}, or say where it is now"
        )
    if isinstance(given, Sen2Pro):
        return given
    name = str(given or name)
    if not isinstance(kept, dict):
        return name
    return Sen2Pro(name, whitening=kept["whitening"], **bundle.convert(kept, _Recipe, str(folder)).arguments())


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Array64]]:
    """Return the settings and the numbers of a folder, all of them checked."""
    config = documents.read(folder / CONFIG, lambda *_: None)
    if config.get("format") not in (2, FORMAT):
        raise Sen2ProError(
            f"it is of format {short_repr(config.get('format'))}, but sen2pro {__version__} reads format {FORMAT} (to "
            f"read it, install sen2pro {config.get('version', 'of its time')})"
        )
    numbers = bundle.read_arrays(folder / TENSORS, _NUMBERS)
    if config.pop("hash", None) != _hash(config, numbers):
        raise _changed("its contents do not have")
    if config["format"] == 2:
        config = _migrated(config)
    _CONFIG(config, str(folder / CONFIG))
    classes, scaling, dim = config["classes"], config["scaling"], len(numbers["mean_centre"])
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise Sen2ProError("its 'classes' must be at least two, each once")
    check_labels(classes, len(classes))
    width = dim if scaling["features"] == "mean" else 2 * dim
    wanted = {"variance_centre": (dim,), "matrix": (len(classes), width), "bias": (len(classes),)}
    for name, shape in wanted.items():
        if numbers[name].shape != shape:
            raise Sen2ProError(f"{name!r} must have shape {list(shape)}, not {list(numbers[name].shape)}")
    if not min(scaling["mean_scale"], scaling["variance_scale"], config["choice"]["temperature"]) > 0:
        raise Sen2ProError("its scales and its temperature must be above 0")
    if config["encoder"]:
        if not (folder / ENCODER).is_dir():
            raise Sen2ProError(f"it is incomplete: its folder {ENCODER} is missing")
        differing = config["encoder"].items() ^ _digests(folder / ENCODER).items()
        if differing:
            raise _changed(f"{ENCODER}/{min(differing)[0]} does not have")
    return config, numbers


def _changed(what: str) -> Sen2ProError:
    return Sen2ProError(f"it was changed since it was saved: {what} the hash that {CONFIG} says")


def _migrated(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of format 2 as format 3 has it: a temperature divides, and samples go by their source."""
    try:
        choice, model = dict(config["choice"]), config["model"]
        choice["temperature"] = 1 / choice["temperature"]
        if isinstance(model, dict) and model.get("samples") is not None:
            model = {**model, "samples": dict(zip(SOURCES, model["samples"], strict=True))}
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Sen2ProError(f"it is not of format 2, as it says ({type(error).__name__} {error})") from None
    return {**config, "format": FORMAT, "choice": choice, "model": model}


def _digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder."""
    digests = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        digests[path.relative_to(folder).as_posix()] = digest.hexdigest()
    return digests


def _hash(config: Mapping[str, Any], tensors: Mapping[str, Array64]) -> str:
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
