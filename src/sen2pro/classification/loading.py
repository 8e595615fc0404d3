"""The encoder of a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sen2pro.errors import HeadMissing, Sen2ProError, one_of
from sen2pro.model import METHODS, Sen2Pro


def load_encoder(
    model: str | Path | Sen2Pro, method: str, samples: int | tuple[int, int], uncertainty: str, seed: int
) -> Sen2Pro:
    """Load a model; the method `auto` is one pass where there is a head for it, else sampling."""
    one_of("method", method, ("auto", *METHODS))
    if isinstance(model, Sen2Pro):
        return model
    if not isinstance(model, (str, Path)):
        raise Sen2ProError(f"model is a name, a folder or a Sen2Pro, not {type(model).__name__}")
    settings: dict[str, Any] = {"uncertainty": uncertainty, "seed": seed}
    if method in ("auto", "one-pass"):
        try:
            return Sen2Pro(str(model), method="one-pass", **settings)
        except HeadMissing:
            if method == "one-pass":
                raise
    return Sen2Pro(str(model), method="sampling" if method == "auto" else method, samples=samples, **settings)
