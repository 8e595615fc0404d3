"""A classifier as a small folder: numbers as safetensors, and what they are as JSON next to them. No pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.classification.choosing import Choice
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Weights
from sen2pro.classification.loading import place, rebuilt, recipe
from sen2pro.classification.training import FineTuning
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Array64
from sen2pro.model import Sen2Pro
from sen2pro.signature import Signature

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FORMAT = 2
CONFIG, TENSORS, ENCODER = "sen2pro_classifier.json", "sen2pro_classifier.safetensors", "encoder"


def save(classifier: Sen2ProClassifier, folder: Path) -> None:
    """Write a fitted classifier to a folder that must be new or empty."""
    from safetensors.numpy import save_file

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Sen2ProError(f"{folder} is not an empty folder; save to a new one")
    config, tensors = _config(classifier), _tensors(classifier)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".saving-", dir=folder) as name:  # what fails half-way leaves an empty folder
        temporary = Path(name)
        if classifier.settings_["finetune"]:
            classifier.encoder.save(temporary / ENCODER)
            config["encoder"] = _digests(temporary / ENCODER)
        config["hash"] = _hash(config, tensors)
        save_file(tensors, temporary / TENSORS)
        (temporary / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        mode = (temporary / CONFIG).stat().st_mode
        for path in temporary.rglob("*.safetensors"):  # written for their owner alone
            path.chmod(mode)
        for path in temporary.iterdir():
            path.rename(folder / path.name)


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
    config, tensors = _read(folder)
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
        **config["scaling"], mean_centre=tensors["mean_centre"], variance_centre=tensors["variance_centre"]
    )
    classifier.weights_ = Weights(tensors["matrix"], tensors["bias"])
    classifier.n_features_in_ = len(tensors["mean_centre"])
    classifier.signature_ = Signature(**config["signature"]) if config["signature"] else None
    classifier._encoder = Sen2Pro.load(folder / ENCODER) if config["encoder"] else None
    return classifier


def _model(config: Mapping[str, Any], folder: Path, given: str | Path | Sen2Pro | None) -> str | Path | Sen2Pro:
    """Return the model that a classifier was fitted with: its own, named in its folder, or where it is now."""
    kept = config["model"]
    if config["encoder"]:
        if given is not None:
            raise Sen2ProError(f"the classifier in {folder} has an encoder of its own, fine-tuned; leave the model out")
        return kept or str((folder / ENCODER).resolve())
    if isinstance(given, Sen2Pro) or isinstance(kept, str):
        return kept if given is None else given
    return rebuilt(kept if given is None else {**kept, "model": str(given)})


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Array64]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise Sen2ProError(f"there is no classifier in {folder}: {name} is missing")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise TypeError(f"{CONFIG} holds no object")
        if config.get("format") != FORMAT:
            raise Sen2ProError(
                f"the classifier in {folder} is of format {config.get('format')!r}, but this version of sen2pro "
                f"({__version__}) reads format {FORMAT}; train it again, or install sen2pro "
                f"{config.get('version', 'of its time')}"
            )
        tensors = load_file(folder / TENSORS)
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError, TypeError) as error:
        raise Sen2ProError(
            f"the classifier in {folder} cannot be read: {type(error).__name__} {error}; train it again"
        ) from None
    if config.pop("hash", None) != _hash(config, tensors):
        raise _changed(folder, "its contents do not have")
    if config["encoder"]:
        _check_files(folder, config["encoder"])
    return config, tensors


def _check_files(folder: Path, expected: Mapping[str, str]) -> None:
    if not (folder / ENCODER).is_dir():
        raise Sen2ProError(f"the classifier in {folder} is incomplete: its folder {ENCODER} is missing; train it again")
    found = _digests(folder / ENCODER)
    other = next((name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)), None)
    if other is not None:
        raise _changed(folder, f"{ENCODER}/{other} does not have")


def _changed(folder: Path, what: str) -> Sen2ProError:
    return Sen2ProError(
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
