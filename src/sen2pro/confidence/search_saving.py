"""A search confidence as a folder with one JSON file: numbers and plain settings, nothing that could choose a model."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.confidence.report import Line
from sen2pro.confidence.search_features import DESIGNS, EXTRAS
from sen2pro.confidence.search_fitting import Fitted, Logistic
from sen2pro.confidence.search_report import SearchReport
from sen2pro.errors import Sen2ProError
from sen2pro.files import documents
from sen2pro.files.atomic import new_folder
from sen2pro.files.documents import COUNT, NULL, NUMBER, TEXT, WHOLE, either, list_of, one_of_texts, record

if TYPE_CHECKING:
    from sen2pro.confidence.search import SearchConfidence

FILE, FORMAT = "sen2pro_search_confidence.json", 1
_NUMBERS = list_of(NUMBER)
_LOGISTIC = record(dict.fromkeys(("centre", "spread", "weights"), _NUMBERS))
_EXAMPLES = record({"scores": _NUMBERS, "labels": list_of(COUNT)})
_LINE = record({field.name: NUMBER for field in fields(Line)})
_PARTS = one_of_texts(*dict.fromkeys(part for design in DESIGNS.values() for part in design), *EXTRAS)
_GAIN = dict.fromkeys(("gain", "low", "high"), either(NULL, NUMBER))
_REPORT = record({
    "queries": COUNT, "right": COUNT, "chosen": TEXT, "verdict": TEXT, "without": _LINE,
    "with_distribution": either(NULL, _LINE), **_GAIN,
})  # fmt: skip
_DOCUMENT = record({
    "format": WHOLE, "version": TEXT, "settings": record({"held_out": NUMBER, "seed": WHOLE}), "hits": COUNT,
    "design": list_of(_PARTS), "penalty": NUMBER, "temperature": NUMBER, "logistic": _LOGISTIC,
    "later": either(NULL, record({"logistic": _LOGISTIC, "unit": NUMBER})), "planning": _EXAMPLES,
    "testing": _EXAMPLES, "depths": _NUMBERS, "report": _REPORT,
})  # fmt: skip


def save(confidence: SearchConfidence, folder: Path) -> None:
    """Write a fitted confidence to a folder that must be new or empty."""
    fitted, later = confidence.fitted_, confidence.later_
    content = {
        "format": FORMAT, "version": __version__, "settings": confidence.get_params(), "hits": confidence.hits_,
        "design": list(fitted.design), "penalty": fitted.penalty, "temperature": fitted.temperature,
        "logistic": _written(fitted.logistic),
        "later": None if later is None else {"logistic": _written(later.logistic), "unit": later.unit},
        "planning": _examples(*confidence.planning_), "testing": _examples(*confidence.testing_),
        "depths": confidence.depths_.tolist(), "report": asdict(confidence.report()),
    }  # fmt: skip
    with new_folder(folder) as temporary:
        documents.write(temporary / FILE, content)


def read(folder: Path) -> dict[str, Any]:
    """Return what `save` wrote as attributes; a file that was changed, or is of another format, is refused."""
    path = folder / FILE
    if not path.is_file():
        raise Sen2ProError(f"there is no search confidence in {folder}: {FILE} is missing")
    found = documents.read(path, _DOCUMENT)
    if found["format"] != FORMAT:
        raise Sen2ProError(f"{path} is of format {found['format']}, but this version reads format {FORMAT}; fit again")
    later, report = found["later"], found["report"]
    logistic = _logistic(found["logistic"], str(path))
    lines = {
        name: value and Line(**value) for name, value in report.items() if name in ("without", "with_distribution")
    }
    if found["hits"] < 2 or not found["temperature"] > 0 or (later and not later["unit"] > 0):
        raise Sen2ProError(f"{path}: there must be 2 hits at least, and the temperature and unit must be above 0")
    if later and len(later["logistic"]["centre"]) != 3:
        raise Sen2ProError(f"{path}: 'later' must have 3 features")
    return {
        "settings": found["settings"], "hits_": found["hits"],
        "fitted_": Fitted(tuple(found["design"]), found["penalty"], found["temperature"], logistic),
        "later_": later and (_logistic(later["logistic"], str(path)), later["unit"]),
        "planning_": _arrays(found["planning"], str(path)), "testing_": _arrays(found["testing"], str(path)),
        "depths_": np.array(found["depths"]), "report_": SearchReport(**{**report, **lines}),
    }  # fmt: skip


def _written(logistic: Logistic) -> dict[str, list[float]]:
    return {name: value.tolist() for name, value in vars(logistic).items()}


def _logistic(found: dict[str, list[float]], place: str) -> Logistic:
    centre, spread, weights = (np.array(found[name]) for name in ("centre", "spread", "weights"))
    if not len(centre) == len(spread) == len(weights) - 1 or not (spread > 0).all():
        raise Sen2ProError(f"{place}: 'logistic' must have as many spreads, all above 0, as centres, and a weight more")
    return Logistic(centre, spread, weights)


def _examples(scores: Any, labels: Any) -> dict[str, list[float]]:
    return {"scores": scores.tolist(), "labels": labels.astype(int).tolist()}


def _arrays(found: dict[str, list[float]], place: str) -> tuple[Any, Any]:
    scores, labels = np.array(found["scores"]), np.array(found["labels"], np.float64)
    if len(scores) != len(labels) or not np.isin(labels, (0, 1)).all():
        raise Sen2ProError(f"{place}: examples must have a label, 0 or 1, for each score")
    return scores, labels
