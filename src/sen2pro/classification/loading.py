"""The encoder of a classifier: loaded by its name, and written down such that it can be made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sen2pro.checks import SOURCES, check_samples
from sen2pro.errors import HeadMissing, Sen2ProError, one_of
from sen2pro.model import Sen2Pro
from sen2pro.settings import METHODS, UNCERTAINTIES


def check_encoder(model: Any, method: str, samples: Any, uncertainty: str) -> None:
    """Refuse settings with which no encoder can be loaded."""
    if model is None:
        raise Sen2ProError(
            "this classifier came from a folder, which may not choose where weights come from; to fit it again, name "
            "the model to start from: set_params(model=...)"
        )
    if not isinstance(model, (str, Path, Sen2Pro)):
        raise Sen2ProError(f"model is a name, a folder or a Sen2Pro, not {type(model).__name__}")
    one_of("method", method, ("auto", *METHODS))
    one_of("uncertainty", uncertainty, UNCERTAINTIES)
    if samples is not None:
        check_samples(samples, SOURCES if uncertainty == "both" else (uncertainty,))


def load_encoder(
    model: str | Path | Sen2Pro, method: str, samples: int | tuple[int, int] | None, uncertainty: str, seed: int
) -> Sen2Pro:
    """Load a model; the method `auto` is one pass where there is a head for it, else sampling."""
    check_encoder(model, method, samples, uncertainty)
    if not isinstance(model, Sen2Pro):
        settings: dict[str, Any] = {"uncertainty": uncertainty, "seed": seed}
        if method in ("auto", "one-pass"):
            try:
                return Sen2Pro(str(model), method="one-pass", **settings)
            except HeadMissing:
                if method == "one-pass":
                    raise
        model = Sen2Pro(str(model), method="sampling" if method == "auto" else method, samples=samples, **settings)
    if model.depends_on_batch:
        raise HeadMissing(
            f"there is no head for {model.encoder.name} to shrink towards, and without one a sentence's class would "
            "depend on the others that are classified with it; fit one with model.distill, or use method='sampling'"
        )
    return model


def recipe(model: Sen2Pro) -> dict[str, Any]:
    """Return the settings that make the same model again; refuse a model of which something is only in memory."""
    encoder, lost = model.encoder, ""
    if encoder.folder is None:
        lost = "its network is in memory, not in a folder or on the hub"
    elif not encoder.is_as_loaded:
        lost = "its weights have changed since they were loaded"
    elif model.whitening and not model.finds_its_whitening():
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
