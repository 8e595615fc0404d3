"""Plain vectors for the embedding classes of frameworks: a model by its name, and its prompt for each side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError
from sen2pro.model import Sen2Pro
from sen2pro.search.index import prompt_name
from sen2pro.validation import Array


def load(model: Any) -> Sen2Pro:
    """Return a model from a hub id or folder; a `Sen2Pro` is returned as it is."""
    if isinstance(model, Sen2Pro):
        return model
    if not isinstance(model, (str, Path)):
        raise Sen2ProError(f"model is a hub id, a folder or a Sen2Pro, not {type(model).__name__}")
    return Sen2Pro(str(model))


def vectors(model: Sen2Pro, texts: Sequence[str], side: str) -> Array:
    """Return `Sen2Pro.encode_plain` (n, k), with the model's prompt for the side, `query` or `document`.

    >>> vectors(Sen2Pro("all-MiniLM-L6-v2"), ["It rains."], "query").shape
    (1, 384)
    """
    return model.encode_plain(texts, prompt_name=prompt_name(model, side))


def missing(package: str, extra: str) -> ImportError:
    """Return the error for a framework that is not installed."""
    return ImportError(f"this needs {package}; install it with: pip install 'sen2pro[{extra}]'")
