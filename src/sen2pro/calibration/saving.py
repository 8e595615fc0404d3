"""A confidence as a folder with one JSON file: numbers and plain settings, nothing that could choose a model."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.calibration.base import Confidence, Examples
from sen2pro.calibration.candidates import DESIGNS, Fitted, Scale
from sen2pro.calibration.choosing import Chosen
from sen2pro.calibration.report import Line, Report
from sen2pro.calibration.search_features import EXTRAS, PARTS
from sen2pro.calibration.search_fitting import Fitted as SearchFitted
from sen2pro.calibration.search_fitting import Later, Logistic
from sen2pro.calibration.search_report import SearchReport
from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io import documents
from sen2pro.io.atomic import new_folder
from sen2pro.io.documents import COUNT, NULL, NUMBER, TEXT, WHOLE, Check, either, list_of, one_of_texts, record
from sen2pro.signature import Signature

if TYPE_CHECKING:
    from sen2pro.calibration.hits import SearchConfidence
    from sen2pro.calibration.pairs import MatchConfidence

FILE, SEARCH_FILE, FORMAT = "sen2pro_confidence.json", "sen2pro_search_confidence.json", 1
_LARGEST = 1e30  # of a number that was fitted: products of a few of them stay finite
_MOST_HITS = 1_000_000
_NUMBERS = list_of(NUMBER)
_EXAMPLES = record({"scores": _NUMBERS, "labels": _NUMBERS})
_ROWS = list_of(COUNT)
_COMMON = {"format": WHOLE, "version": TEXT, "planning": _EXAMPLES, "testing": _EXAMPLES}
_LINE = record({field.name: NUMBER for field in fields(Line)})
_GAIN = ("gain", "low", "high")
_PAIRS = record(
    {
        **_COMMON, "signature": record({f.name: TEXT for f in fields(Signature)}),
        "settings": record({"match_from": either(NULL, NUMBER), "held_out": NUMBER, "seed": WHOLE}),
        "candidate": record({"name": one_of_texts(*DESIGNS), "strength": NUMBER, "centre": _NUMBERS,
                             "spread": _NUMBERS, "numbers": _NUMBERS}),
        "level": list_of(NUMBER, 2), "judged": _EXAMPLES,
        "report": record({**dict.fromkeys(("pairs", "matches", "repeated"), COUNT), "chosen": TEXT, "verdict": TEXT,
                          "without": _LINE, "with_distribution": _LINE, **dict.fromkeys(_GAIN, NUMBER)}),
    },
    {  # not in 0.6: digests of the pairs, and the rows of `planning` and `testing` that the head does not know
        "pairs": either(NULL, list_of(TEXT)), "uncovered": record(dict.fromkeys(("planning", "testing"), _ROWS)),
    },
)  # fmt: skip
_LOGISTIC = record(dict.fromkeys(("centre", "spread", "weights"), _NUMBERS))
_SEARCH = record(
    {
        **_COMMON, "settings": record({"held_out": NUMBER, "seed": WHOLE}), "hits": COUNT,
        "design": list_of(one_of_texts(*PARTS, *EXTRAS)), "penalty": NUMBER, "temperature": NUMBER,
        "logistic": _LOGISTIC, "later": either(NULL, record({"logistic": _LOGISTIC, "unit": NUMBER})),
        "depths": _NUMBERS,
        "report": record({"queries": COUNT, "right": COUNT, "chosen": TEXT, "verdict": TEXT, "without": _LINE,
                          "with_distribution": either(NULL, _LINE), **dict.fromkeys(_GAIN, either(NULL, NUMBER))}),
    }
)  # fmt: skip


def save_pairs(confidence: MatchConfidence, folder: Path) -> None:
    """Write a confidence of pairs to a folder that must be new or empty."""
    fitted = confidence.chosen_.fitted
    candidate = {"name": fitted.name, "strength": fitted.strength, "numbers": fitted.numbers.tolist()}
    content = {
        "signature": asdict(confidence.signature_),
        "candidate": candidate | _scale(fitted.scale),
        "level": list(confidence.level_),
        "judged": _examples(confidence.judged_),
        "report": asdict(confidence.report_),
        "pairs": None if confidence.pairs_ is None else sorted(confidence.pairs_),
        "uncovered": {
            name: np.flatnonzero(far).tolist()
            for name, far in zip(("planning", "testing"), confidence.uncovered_, strict=True)
        },
    }
    _write_folder(folder / FILE, _common(confidence) | content)


def load_pairs(kind: type[MatchConfidence], folder: Path) -> MatchConfidence:
    """Read a confidence of pairs without its model; one that was changed, or is of another format, is refused."""
    path, found = folder / FILE, _read(folder / FILE, _PAIRS, "confidence")
    confidence = kind(**found["settings"])
    confidence.signature_ = Signature(**found["signature"])
    confidence.level_ = tuple(found["level"])
    if max(map(abs, confidence.level_)) > _LARGEST or not confidence.level_[1] > 0:
        raise Sen2ProError(f"{path}: 'level' must be a shift and a slope above 0; fit again")
    for name in ("planning", "testing", "judged"):
        setattr(confidence, f"{name}_", _arrays(found[name], f"{path}: {name!r}", logits=name == "judged"))
    confidence.chosen_ = Chosen(_candidate(found["candidate"], str(path)), confidence.planning_[0])
    confidence.report_ = Report(**_with_lines(found["report"]))
    confidence.repeated_ = confidence.report_.repeated
    pairs, far = found.get("pairs"), found.get("uncovered", {"planning": [], "testing": []})
    confidence.pairs_ = None if pairs is None else frozenset(pairs)
    planning, testing = len(confidence.planning_[1]), len(confidence.testing_[1])
    confidence.uncovered_ = (
        _mask(far["planning"], planning, f"{path}: 'uncovered.planning'"),
        _mask(far["testing"], testing, f"{path}: 'uncovered.testing'"),
    )
    return confidence


def save_search(confidence: SearchConfidence, folder: Path) -> None:
    """Write a confidence of search to a folder that must be new or empty."""
    _write_folder(folder / SEARCH_FILE, search_content(confidence))


def search_content(confidence: SearchConfidence) -> dict[str, Any]:
    """Return a confidence of search as JSON has it."""
    fitted, later = confidence.fitted_, confidence.later_
    content = {
        "hits": confidence.hits_,
        "design": list(fitted.design),
        "penalty": fitted.penalty,
        "temperature": fitted.temperature,
        "logistic": _written(fitted.logistic),
        "later": None if later is None else {"logistic": _written(later.logistic), "unit": later.unit},
        "depths": confidence.depths_.tolist(),
        "report": asdict(confidence.report()),
    }
    return _common(confidence) | content


def load_search(kind: type[SearchConfidence], folder: Path) -> SearchConfidence:
    """Read a confidence of search; one that was changed, or is of another format, is refused."""
    path = folder / SEARCH_FILE
    return search_of(kind, _read(path, _SEARCH, "search confidence"), str(path))


def search_of(kind: type[SearchConfidence], found: dict[str, Any], path: str) -> SearchConfidence:
    """Return the confidence of what `search_content` gave; what is wrong with it is an error that names its place."""
    _SEARCH(found, path)
    _check_format(found, path)
    later = found["later"]
    units = [found["temperature"], *([later["unit"]] if later else [])]
    if not 2 <= found["hits"] <= _MOST_HITS or not all(1 / _LARGEST < unit < _LARGEST for unit in units):
        raise Sen2ProError(f"{path}: there must be 2 hits at least, and the temperature and unit must be above 0")
    if not found["design"]:
        raise Sen2ProError(f"{path}: 'design' must name what the confidence looks at; fit again")
    if len({found["report"][name] is None for name in ("with_distribution", *_GAIN)}) > 1:
        raise Sen2ProError(f"{path}: 'report' must have a gain if it has a line with the distribution; fit again")
    if later and len(later["logistic"]["centre"]) != 3:
        raise Sen2ProError(f"{path}: 'later' must have 3 features")
    confidence = kind(**found["settings"])
    logistic = _logistic(found["logistic"], path)
    confidence.fitted_ = SearchFitted(tuple(found["design"]), found["penalty"], found["temperature"], logistic)
    confidence.later_ = later and Later(_logistic(later["logistic"], path), later["unit"])
    confidence.hits_, confidence.depths_ = found["hits"], np.array(found["depths"], np.float64)
    for name in ("planning", "testing"):
        setattr(confidence, f"{name}_", _arrays(found[name], f"{path}: {name!r}"))
    confidence.report_, confidence.examples_ = SearchReport(**_with_lines(found["report"])), None
    return confidence


def _common(confidence: Confidence) -> dict[str, Any]:
    return {
        "format": FORMAT, "version": __version__, "settings": confidence.get_params(),
        "planning": _examples(confidence.planning_), "testing": _examples(confidence.testing_),
    }  # fmt: skip


def _write_folder(path: Path, content: dict[str, Any]) -> None:
    with new_folder(path.parent) as temporary:
        documents.write(temporary / path.name, content)


def _read(path: Path, check: Check, what: str) -> dict[str, Any]:
    if not path.is_file():
        raise Sen2ProError(f"there is no {what} in {path.parent}: {path.name} is missing")
    found = documents.read(path, check)
    _check_format(found, str(path))
    return found


def _check_format(found: dict[str, Any], place: str) -> None:
    if found["format"] != FORMAT:
        raise Sen2ProError(f"{place} is of format {found['format']}, but this version reads format {FORMAT}; fit again")


def _examples(examples: Examples) -> dict[str, Any]:
    return {"scores": examples[0].tolist(), "labels": examples[1].astype(int).tolist()}


def _arrays(found: dict[str, Any], place: str, *, logits: bool = False) -> Examples:
    scores, labels = (np.array(found[name], np.float64) for name in ("scores", "labels"))
    if len(scores) != len(labels) or not np.isin(labels, (0, 1)).all():
        raise Sen2ProError(f"{place} must hold one label, 0 or 1, for each score; fit again")
    if not logits and ((scores < 0) | (scores > 1)).any():
        raise Sen2ProError(f"{place} must hold probabilities, from 0 to 1; fit again")
    return scores, labels


def _mask(rows: list[int], n: int, place: str) -> NDArray[np.bool_]:
    """Return a mask (n,) of some rows."""
    mask = np.zeros(n, bool)
    if any(row >= n for row in rows):
        raise Sen2ProError(f"{place} must hold numbers of rows below {n}, not {short_repr(max(rows))}; fit again")
    mask[rows] = True
    return mask


def _with_lines(report: dict[str, Any]) -> dict[str, Any]:
    lines = {name: report[name] and Line(**report[name]) for name in ("without", "with_distribution")}
    return report | lines


def _scale(scale: Scale) -> dict[str, list[float]]:
    return {"centre": scale.centre.tolist(), "spread": scale.spread.tolist()}


def _candidate(found: dict[str, Any], place: str) -> Fitted:
    """Return the candidate, if its numbers can belong together."""
    scale = _read_scale(found, place)
    fitted = Fitted(found["name"], float(found["strength"]), scale, np.array(found["numbers"], np.float64))
    try:
        whole = bool(np.isfinite(fitted.logits(np.zeros((1, len(scale.centre))))).all())
        if fitted.name == "isotonic":
            places, heights = fitted.numbers.reshape(2, -1)
            whole = bool(whole and (np.diff(places) >= 0).all() and ((heights > 0) & (heights < 1)).all())
    except (ValueError, IndexError):
        whole = False
    if not whole or (np.abs(fitted.numbers) > _LARGEST).any():
        raise Sen2ProError(f"{place}: the numbers of the candidate {found['name']!r} do not belong together; fit again")
    return fitted


def _written(logistic: Logistic) -> dict[str, list[float]]:
    return _scale(logistic.scale) | {"weights": logistic.weights.tolist()}


def _logistic(found: dict[str, Any], place: str) -> Logistic:
    scale, weights = _read_scale(found, place), np.array(found["weights"], np.float64)
    if len(scale.centre) != len(weights) - 1 or (np.abs(weights) > _LARGEST).any():
        raise Sen2ProError(f"{place}: 'logistic' must have a weight more than it has centres; fit again")
    return Logistic(scale, weights)


def _read_scale(found: dict[str, Any], place: str) -> Scale:
    centre, spread = (np.array(found[name], np.float64) for name in ("centre", "spread"))
    if len(centre) != len(spread) or (np.abs(centre) > _LARGEST).any() or not (spread > 1 / _LARGEST).all():
        raise Sen2ProError(f"{place}: there must be as many spreads, all above 0, as centres; fit again")
    return Scale(centre, spread)
