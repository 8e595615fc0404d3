"""A classifier as a small folder: numbers as safetensors, and what they are as JSON next to them. No pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.classification.choosing import Choice
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Weights
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Array64
from sen2pro.model import Sen2Pro
from sen2pro.signature import Signature

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FORMAT = 1
CONFIG, TENSORS, ENCODER = "sen2pro_classifier.json", "sen2pro_classifier.safetensors", "encoder"


def save(classifier: Sen2ProClassifier, folder: Path) -> None:
    """Write a fitted classifier to a folder that must be new or empty."""
    from safetensors.numpy import save_file

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Sen2ProError(f"{folder} is not an empty folder; save to a new one")
    folder.mkdir(parents=True, exist_ok=True)
    settings = classifier.get_params(deep=False)
    if isinstance(classifier.model, Sen2Pro):
        settings |= reference(classifier.model)
    if classifier.finetune:
        classifier.encoder.save(folder / ENCODER)
        settings |= {"model": None, "finetune": True}
    scaling, tensors = classifier.scaling_, _tensors(classifier)
    config = {
        "format": FORMAT,
        "version": __version__,
        "settings": {**settings, "model": None if settings["model"] is None else str(settings["model"])},
        "classes": classifier.classes_.tolist(),
        "choice": asdict(classifier.choice_),
        "scaling": {name: getattr(scaling, name) for name in ("features", "mean_scale", "variance_scale")},
        "signature": None if classifier.signature_ is None else asdict(classifier.signature_),
    }
    config["hash"] = _hash(config, tensors)
    save_file(tensors, folder / TENSORS)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(kind: type[Sen2ProClassifier], folder: Path, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
    """Read a classifier; one of another format, or whose numbers were changed, is refused."""
    config, tensors = _read(folder)
    settings = dict(config["settings"])
    if isinstance(settings["samples"], list):
        settings["samples"] = tuple(settings["samples"])
    if settings["finetune"]:
        settings["model"] = str(folder / ENCODER)
    elif model is not None:
        settings["model"] = model
    classifier = kind(**settings)
    classifier.classes_ = np.array(config["classes"])
    classifier.choice_ = Choice(**config["choice"])
    classifier.scaling_ = Scaling(
        **config["scaling"], mean_centre=tensors["mean_centre"], variance_centre=tensors["variance_centre"]
    )
    classifier.weights_ = Weights(tensors["matrix"], tensors["bias"])
    classifier.n_features_in_ = len(tensors["mean_centre"])
    classifier.signature_ = Signature(**config["signature"]) if config["signature"] else None
    if settings["finetune"]:
        classifier._loaded = Sen2Pro.load(folder / ENCODER)
    return classifier


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Array64]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        config = dict(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        if config.get("format") != FORMAT:
            raise Sen2ProError(
                f"the classifier in {folder} is of format {config.get('format')!r}, but this version of sen2pro "
                f"({__version__}) reads format {FORMAT}; train it again, or install sen2pro "
                f"{config.get('version', 'of its time')}"
            )
        tensors = load_file(folder / TENSORS)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Sen2ProError(f"there is no classifier in {folder}: {Path(error.filename).name} is missing") from None
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Sen2ProError(f"the classifier in {folder} cannot be read: {type(error).__name__} {error}") from None
    if config.pop("hash", None) != _hash(config, tensors):
        raise Sen2ProError(
            f"the classifier in {folder} was changed since it was saved: its contents do not have the hash that "
            f"{CONFIG} says; train it again"
        )
    return config, tensors


def reference(model: Sen2Pro) -> dict[str, Any]:
    """Return the settings by which a ready-made model can be found again."""
    samples = tuple(model.samples.values())
    return {
        "model": str(model.encoder.folder or model.encoder.name),
        "method": model.method,
        "samples": 15 if model.method == "one-pass" else samples if samples[0] != samples[1] else samples[0],
        "uncertainty": model.uncertainty,
    }


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
