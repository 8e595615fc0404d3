"""A confidence as a folder with one JSON file: numbers and plain settings, nothing that could choose a model."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro import __version__
from sen2pro.confidence.candidates import DESIGNS, Fitted, Scale
from sen2pro.confidence.choosing import Chosen
from sen2pro.confidence.report import Line, Report
from sen2pro.errors import Sen2ProError
from sen2pro.files import documents
from sen2pro.files.atomic import new_folder
from sen2pro.files.documents import COUNT, NULL, NUMBER, TEXT, WHOLE, either, list_of, one_of_texts, record
from sen2pro.signature import Signature
from sen2pro.types import Array64

if TYPE_CHECKING:
    from sen2pro.confidence.match import MatchConfidence

FILE, FORMAT = "sen2pro_confidence.json", 1
_NUMBERS = list_of(NUMBER)
_EXAMPLES = record({"scores": _NUMBERS, "labels": list_of(COUNT)})
_LINE = record({field.name: NUMBER for field in fields(Line)})
_REPORT = record(
    {
        **dict.fromkeys(("pairs", "matches", "repeated"), COUNT), **dict.fromkeys(("chosen", "verdict"), TEXT),
        **dict.fromkeys(("without", "with_distribution"), _LINE), **dict.fromkeys(("gain", "low", "high"), NUMBER),
    }
)  # fmt: skip
_DOCUMENT = record(
    {
        "format": WHOLE, "version": TEXT, "signature": record({f.name: TEXT for f in fields(Signature)}),
        "settings": record({"match_from": either(NULL, NUMBER), "held_out": NUMBER, "seed": WHOLE}),
        "candidate": record({"name": one_of_texts(*DESIGNS), "strength": NUMBER, "centre": _NUMBERS,
                             "spread": _NUMBERS, "numbers": _NUMBERS}),
        "level": list_of(NUMBER, 2), "planning": _EXAMPLES, "testing": _EXAMPLES, "judged": _EXAMPLES,
        "report": _REPORT,
    }
)  # fmt: skip


def save(confidence: MatchConfidence, folder: Path) -> None:
    """Write a fitted confidence to a folder that must be new or empty."""
    fitted = confidence.chosen_.fitted
    content = {
        "format": FORMAT,
        "version": __version__,
        "signature": asdict(confidence.signature_),
        "settings": confidence.get_params(),
        "candidate": {
            "name": fitted.name,
            "strength": fitted.strength,
            "centre": fitted.scale.centre.tolist(),
            "spread": fitted.scale.spread.tolist(),
            "numbers": fitted.numbers.tolist(),
        },
        "level": list(confidence.level_),
        "planning": _written(*confidence.planning_),
        "testing": _written(*confidence.testing_),
        "judged": _written(*confidence.judged_),
        "report": asdict(confidence.report_),
    }
    with new_folder(folder) as temporary:
        documents.write(temporary / FILE, content)


def load(kind: type[MatchConfidence], folder: Path) -> MatchConfidence:
    """Read a confidence without its model; one that was changed, or is of another format, is refused."""
    path = folder / FILE
    if not path.is_file():
        raise Sen2ProError(f"there is no confidence in {folder}: {FILE} is missing")
    found = documents.read(path, _DOCUMENT)
    if found["format"] != FORMAT:
        raise Sen2ProError(f"{path} is of format {found['format']}, but this version reads format {FORMAT}; fit again")
    confidence = kind(**found["settings"])
    confidence.signature_ = Signature(**found["signature"])
    confidence.level_ = tuple(found["level"])
    for name in ("planning", "testing", "judged"):
        setattr(confidence, f"{name}_", _read(found[name], f"{path}: {name!r}"))
    confidence.chosen_ = Chosen(_candidate(found["candidate"], str(path)), confidence.planning_[0])
    lines = {name: Line(**found["report"][name]) for name in ("without", "with_distribution")}
    confidence.report_ = Report(**{**found["report"], **lines})
    confidence.repeated_ = confidence.report_.repeated
    return confidence


def _written(scores: Array64, labels: Array64) -> dict[str, Any]:
    return {"scores": scores.tolist(), "labels": labels.astype(int).tolist()}


def _read(found: dict[str, Any], place: str) -> tuple[Array64, Array64]:
    scores, labels = np.array(found["scores"], np.float64), np.array(found["labels"], np.float64)
    if len(scores) != len(labels) or not np.isin(labels, (0, 1)).all():
        raise Sen2ProError(f"{place} must hold one label, 0 or 1, for each score; fit again")
    return scores, labels


def _candidate(found: dict[str, Any], place: str) -> Fitted:
    """Return the candidate, if its numbers can belong together."""
    scale = Scale(np.array(found["centre"], np.float64), np.array(found["spread"], np.float64))
    fitted = Fitted(found["name"], float(found["strength"]), scale, np.array(found["numbers"], np.float64))
    try:
        whole = bool(np.isfinite(fitted.logits(np.zeros((1, len(scale.centre))))).all() and (scale.spread > 0).all())
    except (ValueError, IndexError):
        whole = False
    if not whole:
        raise Sen2ProError(f"{place}: the numbers of the candidate {found['name']!r} do not belong together; fit again")
    return fitted
