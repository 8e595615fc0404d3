"""The folder of a saved classifier: its settings, its numbers, and how its encoder is found again. No pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sen2pro import __version__
from sen2pro.classification.finetune import FineTuning
from sen2pro.classification.heads import FEATURES, HEADS, Choice
from sen2pro.classification.labels import check_labels
from sen2pro.encoder.find import OWN_NAMES
from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.estimation.head import CONFIG, Head, shipped
from sen2pro.estimation.whitening import find_whitening
from sen2pro.io import bundle
from sen2pro.io.bundle import Count, Expected, Positive
from sen2pro.io.rows import file_digest
from sen2pro.model import Sen2Pro
from sen2pro.settings import FileSettings
from sen2pro.signature import Signature
from sen2pro.validation import Array64

FORMAT = 4
NAME, ENCODER = "sen2pro_classifier", "encoder"
NUMBERS = {name: Expected("F64", dimensions) for name, dimensions in
           (("matrix", 2), ("bias", 1), ("mean_centre", 1), ("variance_centre", 1))}  # fmt: skip


class Recipe(FileSettings, frozen=True, kw_only=True):
    """The settings that make the same model again."""

    model: str
    whitening: bool | None


class FitSettings(bundle.Config, frozen=True):
    """The settings of a fit, except the model."""

    method: str
    samples: int | tuple[int, int] | None
    uncertainty: str
    features: str
    head: str
    C: float | None
    seed: int
    finetune: bool | FineTuning


class SavedClassifier(bundle.Config, frozen=True):
    """The JSON file of a classifier. `encoder` has the digests of its files, if it was fine-tuned."""

    format: Count
    version: str
    model: str | Recipe | None
    settings: FitSettings
    classes: list[str | int | bool]
    choice: Choice
    features: str
    mean_scale: Positive
    variance_scale: Positive
    signature: Signature | None
    encoder: dict[str, str] | None


def recipe(model: Sen2Pro) -> Recipe:
    """Return the settings that make the same model again; refuse a model of which a part is only in memory."""
    encoder, lost = model.encoder, ""
    if encoder.folder is None:
        lost = "its network is in memory, not in a folder or on the hub"
    elif not encoder.is_as_loaded:
        lost = "its weights have changed since they were loaded"
    elif model.whitening and not _finds_whitening(model):
        lost = "its whitening is not in its folder"
    elif not model.settings.draws and not _finds_head(model, encoder.folder):
        lost = "its head is neither in its folder nor one that comes with the package"
    if encoder.folder is None or lost:
        raise Sen2ProError(
            f"this model cannot be found again: {lost}. Save it, model.save(folder), and give the classifier "
            "Sen2Pro.load(folder) as its model"
        )
    own_folder = encoder.folder.resolve().name == encoder.name or (encoder.folder / "sen2pro.json").is_file()
    name = str(encoder.folder.resolve()) if own_folder else encoder.name
    return Recipe(model=name, whitening=None if model.whitening else False, **model.settings.to_json())


def _finds_head(model: Sen2Pro, folder: Path) -> bool:
    found = Head.load(folder) if (folder / CONFIG).is_file() else shipped(model.signature())
    return found is not None and str(found) == str(model.head)


def _finds_whitening(model: Sen2Pro) -> bool:
    found = find_whitening(None, model.encoder.folder, None, None)
    return found is not None and model.whitening is not None and found.hash == model.whitening.hash


def model_of(saved: SavedClassifier, folder: Path, given: str | Path | Sen2Pro | None) -> Any:
    """Return the model that a classifier was fitted with.

    A folder may not choose where weights come from. So its model is used only if that comes with sen2pro; the caller
    must name any other.
    """
    kept = saved.model
    name = kept.model if isinstance(kept, Recipe) else kept
    known = name in OWN_NAMES
    if saved.encoder:
        if given is not None:
            raise Sen2ProError(f"the classifier in {folder} contains its fine-tuned encoder; leave the model out")
        return name if known else None
    if given is None and not known:
        raise Sen2ProError(
            f"the classifier in {folder} was trained with the model {name!r}, which is not in its folder. A folder may "
            f"not choose where weights come from: if you trust that model, pass model={name!r}, or say where it is now"
        )
    if isinstance(given, Sen2Pro):
        return given
    name = str(given or name)
    return Sen2Pro(name, whitening=kept.whitening, **kept.arguments()) if isinstance(kept, Recipe) else name


def read(folder: Path) -> tuple[SavedClassifier, dict[str, Array64]]:
    """Return the settings and the numbers of a folder, all of them checked."""
    content = bundle.read_json(folder / f"{NAME}.json")
    if content.get("format") != FORMAT:
        version = short_repr(content.get("version"))
        raise Sen2ProError(f"sen2pro {version} saved it in another format than version {__version__} reads")
    saved, arrays = bundle.load(folder, NAME, SavedClassifier, NUMBERS)
    if len(saved.classes) < 2 or len(set(saved.classes)) < len(saved.classes):
        raise Sen2ProError("its 'classes' must be at least two, each once")
    check_labels(saved.classes, len(saved.classes))
    one_of("features", saved.features, FEATURES)
    one_of("features", saved.choice.features, FEATURES)
    one_of("head", saved.choice.head, HEADS)
    dim, classes = len(arrays["mean_centre"]), len(saved.classes)
    width = dim if saved.features == "mean" else 2 * dim
    for name, shape in {"variance_centre": (dim,), "matrix": (classes, width), "bias": (classes,)}.items():
        if arrays[name].shape != shape:
            raise Sen2ProError(f"{name!r} must have shape {list(shape)}, not {list(arrays[name].shape)}")
    if saved.encoder:
        if not (folder / ENCODER).is_dir():
            raise Sen2ProError(f"its folder {ENCODER} is missing")
        differing = saved.encoder.items() ^ digests_of(folder / ENCODER).items()
        if differing:
            raise Sen2ProError(f"its file {ENCODER}/{min(differing)[0]} was changed since it was saved")
    return saved, arrays


def digests_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in paths}
