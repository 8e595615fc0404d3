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
from sen2pro.checks import SOURCES
from sen2pro.classification.choosing import Choice
from sen2pro.classification.features import FEATURES, Scaling
from sen2pro.classification.heads import HEADS, Weights
from sen2pro.classification.labels import check_labels
from sen2pro.classification.loading import place, rebuilt, recipe
from sen2pro.classification.training import FineTuning
from sen2pro.encoder.resolve import OWN_NAMES
from sen2pro.errors import Sen2ProError, shown
from sen2pro.files import documents, tensors
from sen2pro.files.atomic import new_folder, write_text
from sen2pro.files.documents import (
    ANY_NUMBER,
    COUNT,
    NULL,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    either,
    list_of,
    mapping,
    one_of_texts,
    record,
)
from sen2pro.model import Sen2Pro
from sen2pro.settings import ADDED_LATER, JSON_CHECKS, METHODS
from sen2pro.signature import Signature
from sen2pro.types import Array64

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FORMAT = 3
CONFIG, TENSORS, ENCODER = "sen2pro_classifier.json", "sen2pro_classifier.safetensors", "encoder"


def save(classifier: Sen2ProClassifier, folder: Path) -> None:
    """Write a fitted classifier to a folder that must be new or empty."""
    from safetensors.numpy import save_file

    config, numbers = _config(classifier), _tensors(classifier)
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
    if not isinstance(model, Sen2Pro):
        model = place(model)
    elif tuning:
        model = None  # what it was is in the user's hands alone; what became of it comes along
    else:
        model = recipe(model)
    config = {
        "format": FORMAT,
        "version": __version__,
        "model": model,
        "settings": settings,
        "classes": classifier.classes_.tolist(),
        "choice": asdict(classifier.choice_),
        "scaling": {name: getattr(scaling, name) for name in ("features", "mean_scale", "variance_scale")},
        "signature": None if signature is None else asdict(signature),
        "encoder": None,
    }
    return dict(json.loads(json.dumps(config, default=lambda number: number.item())))  # numpy's numbers as plain ones


def load(kind: type[Sen2ProClassifier], folder: Path, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
    """Read a classifier; one of another format, or whose contents were changed, is refused."""
    config, numbers = _read(folder)
    settings = dict(config["settings"])
    if isinstance(settings["samples"], list):
        settings["samples"] = tuple(settings["samples"])
    if isinstance(settings["finetune"], dict):
        settings["finetune"] = FineTuning(**settings["finetune"])
    settings["model"] = _model(config, folder, model)
    classifier = kind(**settings)
    classifier.settings_ = settings
    classifier.classes_ = np.array(config["classes"])
    classifier.choice_ = Choice(**config["choice"])
    classifier.scaling_ = Scaling(
        **config["scaling"], mean_centre=numbers["mean_centre"], variance_centre=numbers["variance_centre"]
    )
    classifier.weights_ = Weights(numbers["matrix"], numbers["bias"])
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
            f"not choose where weights come from: if you trust that model, pass model={name!r}, or say where "
            "it is now"
        )
    if isinstance(given, Sen2Pro):
        return given
    name = str(given or name)
    return rebuilt({**kept, "model": name}) if isinstance(kept, dict) else name


_RECIPE = record(
    {"model": TEXT, "whitening": either(NULL, TRUTH),
     **{name: check for name, check in JSON_CHECKS.items() if name not in ADDED_LATER}},
    {name: JSON_CHECKS[name] for name in ADDED_LATER},
)  # fmt: skip
_TUNING = {name: NUMBER for name in (f.name for f in fields(FineTuning)) if name != "checkpoints"}
_SETTINGS = record(
    {
        "method": one_of_texts("auto", *METHODS), "samples": either(NULL, COUNT, list_of(COUNT, 2)),
        "uncertainty": one_of_texts("both", *SOURCES), "features": one_of_texts("auto", *FEATURES),
        "head": one_of_texts("auto", *HEADS), "C": either(NULL, NUMBER), "seed": COUNT,
        "finetune": either(TRUTH, record({**_TUNING, "epochs": either(NULL, NUMBER)})),
    }
)  # fmt: skip
_CHOICE = {
    "features": one_of_texts(*FEATURES), "head": one_of_texts(*HEADS), "C": NUMBER, "temperature": NUMBER,
    "log_loss": ANY_NUMBER, "accuracy": NUMBER,
}  # fmt: skip
_CONFIG = record(
    {
        "format": WHOLE, "version": TEXT, "model": either(NULL, TEXT, _RECIPE), "settings": _SETTINGS,
        "classes": either(list_of(TEXT), list_of(WHOLE), list_of(TRUTH)), "choice": record(_CHOICE),
        "scaling": record({"features": one_of_texts(*FEATURES), "mean_scale": NUMBER, "variance_scale": NUMBER}),
        "signature": either(NULL, record({f.name: TEXT for f in fields(Signature)})),
        "encoder": either(NULL, mapping(TEXT)),
    }
)  # fmt: skip
_NUMBERS = {
    "matrix": tensors.Expected("F64", 2), "bias": tensors.Expected("F64", 1),
    "mean_centre": tensors.Expected("F64", 1), "variance_centre": tensors.Expected("F64", 1),
}  # fmt: skip


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Array64]]:
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise Sen2ProError(f"there is no classifier in {folder}: {name} is missing")
    try:
        config = documents.read(folder / CONFIG, mapping(lambda *_: None))
        _check_format(config, folder)
        numbers = tensors.read(folder / TENSORS, _NUMBERS)
        if config.pop("hash", None) != _hash(config, numbers):
            raise _changed(folder, "its contents do not have")
        config = _migrated(config)
        _CONFIG(config, str(folder / CONFIG))
        _check_content(config, numbers)
    except _Refused:
        raise
    except Sen2ProError as error:
        raise Sen2ProError(f"the classifier in {folder} cannot be read: {error}; train it again") from None
    if config["encoder"]:
        _check_files(folder, config["encoder"])
    return config, numbers


class _Refused(Sen2ProError):
    """A classifier that is whole, but not to be read."""


def _check_format(config: Mapping[str, Any], folder: Path) -> None:
    found = config.get("format")
    if found not in (2, FORMAT):
        raise _Refused(
            f"the classifier in {folder} is of format {shown(found)}, but sen2pro {__version__} reads format {FORMAT}; "
            f"train it again, or install sen2pro {config.get('version', 'of its time')}"
        )


def _migrated(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of format 2 as format 3 has it: a temperature divides, and samples go by their source."""
    if config["format"] != 2:
        return config
    try:
        choice, recipe = dict(config["choice"]), config["model"]
        choice["temperature"] = 1 / choice["temperature"]
        if isinstance(recipe, dict):
            pair = recipe.get("samples")
            recipe = {**recipe, "samples": None if pair is None else dict(zip(SOURCES, pair, strict=True))}
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Sen2ProError(f"it is not of format 2, as it says ({type(error).__name__} {error})") from None
    return {**config, "format": FORMAT, "choice": choice, "model": recipe}


def _check_content(config: Mapping[str, Any], numbers: Mapping[str, Array64]) -> None:
    """Refuse classes that are none, and numbers that cannot belong together."""
    classes = config["classes"]
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise Sen2ProError("its 'classes' must be at least two, each once")
    check_labels(classes, len(classes))
    dim = len(numbers["mean_centre"])
    width = dim if config["scaling"]["features"] == "mean" else 2 * dim
    wanted = {"variance_centre": (dim,), "matrix": (len(classes), width), "bias": (len(classes),)}
    for name, shape in wanted.items():
        if numbers[name].shape != shape:
            raise Sen2ProError(f"{name!r} must have shape {list(shape)}, not {list(numbers[name].shape)}")
    if (
        not min(config["scaling"]["mean_scale"], config["scaling"]["variance_scale"], config["choice"]["temperature"])
        > 0
    ):
        raise Sen2ProError("its scales and its temperature must be above 0")


def _check_files(folder: Path, expected: Mapping[str, str]) -> None:
    if not (folder / ENCODER).is_dir():
        raise Sen2ProError(f"the classifier in {folder} is incomplete: its folder {ENCODER} is missing; train it again")
    found = _digests(folder / ENCODER)
    other = next((name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)), None)
    if other is not None:
        raise _changed(folder, f"{ENCODER}/{other} does not have")


def _changed(folder: Path, what: str) -> Sen2ProError:
    return _Refused(
        f"the classifier in {folder} was changed since it was saved: {what} the hash that {CONFIG} says; train it again"
    )


def _digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _digest(path) for path in paths}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _tensors(classifier: Sen2ProClassifier) -> dict[str, Array64]:
    scaling, weights = classifier.scaling_, classifier.weights_
    arrays = {
        "matrix": weights.matrix, "bias": weights.bias,
        "mean_centre": scaling.mean_centre, "variance_centre": scaling.variance_centre,
    }  # fmt: skip
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _hash(config: Mapping[str, Any], tensors: Mapping[str, Array64]) -> str:
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
