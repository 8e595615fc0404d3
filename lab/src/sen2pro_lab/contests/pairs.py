"""C2, the contest of pairs: how good is the probability that two sentences match, with and without the distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from sen2pro.calibration.defaults import default_slope
from sen2pro.calibration.pairs import TITLES, WITH, WITHOUT, choose_among, pair_features
from sen2pro.calibration.report import calibration_error, measured
from sen2pro.calibration.selection import Table, losses
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64
from sen2pro_lab.metrics.abstention import share_answered
from sen2pro_lab.metrics.bootstrap import mean_statistic, value_of
from sen2pro_lab.metrics.comparisons import Board, Points
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.files import Row, table
from sen2pro_lab.paper.lab import Lab

_FOLDER, _GRADED, _SAME = "confidence", "stsb", 4.0
_FEWEST = 20  # pairs to fit on
_PRECISION = 0.95
_RESAMPLES = 500


@dataclass(frozen=True, eq=False)
class Labelled:
    """The features of pairs (n, f), whether each is a match (n,), and the number of each (n,): equal ones share it."""

    features: Table
    labels: Array64
    groups: Any


def c2(lab: Lab) -> Result:
    """Contest of pairs: candidates are chosen and fitted on the training part, and measured on the test part."""
    slope = default_slope(lab.encoder().signature())
    rows: list[list[str]] = []
    numbers: list[dict[str, Any]] = []
    board = Board(["set", "against"])
    for name in found_sets():
        try:
            train, test = (read_pairs(lab, name, part) for part in ("train", "test"))
            _check(name, train)
        except Sen2ProError as error:
            rows.append([name, str(error), *[""] * 5])
            continue
        chosen = {each: choose_among([each], train.features, train.labels, train.groups, slope) for each in TITLES}
        best = choose_among(WITHOUT, train.features, train.labels, train.groups, slope).fitted.name
        logits = {each: found.fitted.logits(test.features) for each, found in chosen.items()}
        for each, found in logits.items():
            line = {"set": name, "way": each, "chosen": each in (best, *WITH), **_measures(found, test.labels)}
            numbers.append(line)
            rows.append(_row(line))
        for each in WITHOUT:
            label = TITLES[each] + (" (best on the training part)" if each == best else "")
            board.add([name, label], _points(logits, each, test.labels), unit=1, smaller_is_better=True)
    header = ["set", "way", "log-loss", "AUROC", "calibration error [95 %]", "risk-coverage", "answered at 95 %"]
    grids = [Grid(header, rows, f"{lab.title}, measured on the test part", labels=2)]
    if board.lines:
        grid = board.grid("", "Log-loss without the distribution and with it, paired bootstrap", digits=4)
        grids.append(
            Grid([*grid.header[:2], *grid.header[3:]], [row[:2] + row[3:] for row in grid.rows], grid.title, 2)
        )
    best_lines = [line for line in board.lines if line.labels[1].endswith(")")]
    verdict = "; ".join(f"{line.labels[0]}: {line.ours.verdict}" for line in best_lines if line.ours)
    return Result(
        "C2", "Contest of pairs: do the two mean the same?", grids,
        f"with the distribution against the best without: {verdict or 'nothing to compare'}", lab.signature(),
        [
            "All rows are fitted on the training part, and what they leave open is chosen there by cross-validation; * "
            "is what the one-standard-error rule takes. *Answered at 95 %* is the largest share of the test pairs that "
            "can be called a match with a precision of 95 %, with hindsight. *Risk-coverage* is the error rate of the "
            "surest pairs, averaged over all shares of them.",
            f"A match in STS-B is a grade of at least {_SAME:g}.",
        ],
        [*numbers, *board.numbers()],
    )  # fmt: skip


def found_sets() -> list[str]:
    """Return the names of the sets in the data folder: NAME_train.tsv and NAME_test.tsv, compressed or not."""
    base = catalogue.folder()
    paths = sorted((base / _FOLDER).glob("*_train.tsv*")) if base else []
    names = dict.fromkeys(path.name.split("_train.tsv")[0] for path in paths)
    return [*(name for name in names if catalogue.locate(f"{_FOLDER}/{name}_test.tsv")), _GRADED]


def read_pairs(lab: Lab, name: str, part: str) -> Labelled:
    """Read the training or the test part of a set, and encode it."""
    graded = name == _GRADED
    file = f"{'sts' if graded else _FOLDER}/{name}_{part}.tsv"
    path = catalogue.need(file)
    rows = list(table(path, "sentence1", "sentence2", "score" if graded else "label"))[: lab.limit]
    labels = np.array([row.number("score") >= _SAME if graded else row.whole("label", 1) for row in rows], np.float64)
    return _encoded(lab, rows, labels)


def _encoded(lab: Lab, rows: list[Row], labels: Array64) -> Labelled:
    """Encode the sentences of some rows, each once; what was encoded is kept in the lab's store."""
    pairs = [(row.text("sentence1"), row.text("sentence2")) for row in rows]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
    every = lab.estimate(list(numbers))
    left, right = (every[[numbers[pair[side]] for pair in pairs]] for side in (0, 1))
    known: dict[tuple[str, ...], int] = {}
    groups = np.array([known.setdefault(tuple(sorted(pair)), len(known)) for pair in pairs])
    return Labelled(pair_features(left, right), labels, groups)


def _check(name: str, train: Labelled) -> None:
    matches = int(train.labels.sum())
    if len(train.labels) < _FEWEST or min(matches, len(train.labels) - matches) < 5:
        raise Sen2ProError(f"{len(train.labels)} pairs to fit on, {matches} of them a match, are too few")


def _measures(logits: Array64, labels: Array64) -> dict[str, float]:
    line = measured(logits, labels)
    p = expit(logits)
    low, high = _calibration_interval(p, labels)
    return {
        "log_loss": line.log_loss,
        "auroc": line.auroc,
        "calibration_error": line.calibration_error,
        "calibration_low": low,
        "calibration_high": high,
        "risk_coverage": risk_coverage(p, labels),
        "answered": value_of(share_answered(p, labels, _PRECISION), len(p)),
    }


def _calibration_interval(p: Array64, labels: Array64) -> tuple[float, float]:
    """Return the middle 95 % of the calibration error over resampled pairs; resampling makes it larger, never less."""
    rng, confidence, right = np.random.default_rng(0), np.maximum(p, 1 - p), (p > 0.5) == (labels == 1)
    found = []
    for _ in range(_RESAMPLES):
        drawn = rng.integers(len(p), size=len(p))
        found.append(calibration_error(confidence[drawn], right[drawn]))
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def risk_coverage(p: Array64, labels: Array64) -> float:
    """Return the area under the risk-coverage curve: the error rate of the k surest, averaged over all k.

    >>> risk_coverage(np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0])).__round__(4)  # (0 + 0 + 1/3) / 3
    0.1111
    """
    wrong = (p >= 0.5) != (labels == 1)
    order = np.argsort(-np.abs(p - 0.5), kind="stable")
    return float((np.cumsum(wrong[order]) / np.arange(1, len(p) + 1)).mean())


def _points(logits: Mapping[str, Array64], baseline: str, labels: Array64) -> Any:
    ours, theirs = (mean_statistic(losses(logits[each], labels)) for each in (*WITH, baseline))
    return lambda: Points([ours], [theirs], len(labels))


def _row(line: Mapping[str, Any]) -> list[str]:
    error = f"{line['calibration_error']:.3f} [{line['calibration_low']:.3f}, {line['calibration_high']:.3f}]"
    title = TITLES[line["way"]] + (" *" if line["chosen"] else "")
    return [
        line["set"], title, f"{line['log_loss']:.4f}", f"{line['auroc']:.4f}", error, f"{line['risk_coverage']:.4f}",
        f"{100 * line['answered']:.1f} %",
    ]  # fmt: skip
