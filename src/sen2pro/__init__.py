"""Probabilistic sentence embeddings from any pre-trained language model.

>>> from sen2pro import Sen2Pro
>>> model = Sen2Pro("all-MiniLM-L6-v2")
>>> g = model.encode(["A man is playing a guitar.", "Someone plays an instrument."])
>>> g.mean.shape, g.variance.shape
((2, 384), (2, 384))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.12.0"

if TYPE_CHECKING:
    from sen2pro.calibration import MatchConfidence, SearchConfidence
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.distances import distance, distance_pairwise
    from sen2pro.errors import Sen2ProError, Sen2ProWarning
    from sen2pro.estimation.head import Head
    from sen2pro.estimation.moments import estimate
    from sen2pro.estimation.whitening import Whitening
    from sen2pro.gaussian import Gaussian
    from sen2pro.model import Sen2Pro
    from sen2pro.search import Index
    from sen2pro.signature import Signature


def importer(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its public names on first use.

    `homes` holds the module of each name, inside the package.
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted([*vars(import_module(package)), *homes])


# Public name -> the module that holds it. Imported on first use: torch takes seconds, `import sen2pro` must not.
_HOME = {
    "Gaussian": "gaussian", "Head": "estimation.head", "Index": "search", "MatchConfidence": "calibration",
    "SearchConfidence": "calibration", "Sen2Pro": "model", "Sen2ProClassifier": "classification",
    "Sen2ProError": "errors", "Sen2ProWarning": "errors", "Signature": "signature",
    "Whitening": "estimation.whitening", "distance": "distances", "distance_pairwise": "distances",
    "estimate": "estimation.moments",
}  # fmt: skip

__all__ = [
    "Gaussian", "Head", "Index", "MatchConfidence", "SearchConfidence", "Sen2Pro", "Sen2ProClassifier", "Sen2ProError",
    "Sen2ProWarning", "Signature", "Whitening", "distance", "distance_pairwise", "estimate",
]  # fmt: skip

__getattr__, __dir__ = importer(__name__, _HOME)
