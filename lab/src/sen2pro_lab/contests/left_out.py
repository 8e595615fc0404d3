"""Contest C5: whether the numbers of `compare` hold on sources of pairs that had no part in the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from sen2pro.calibration.comparison import PairCurves
from sen2pro.calibration.selection import folds, logistic, losses
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.training.default_confidence import TRAIN, Pairs, fit, read

BINS, _FLOOR_DRAWS = 10, 200
_CONFIRM = "sick_train"  # its licence lets it fit nothing
_FEWEST = 100  # pairs of a source that is judged
_HEADER = [
    "left out", "pairs", "same", "calibration error", "noise", "cosine alone", "its own labels", "log-loss",
    "of the cosine", "interval holds",
]  # fmt: skip


def calibration_error(p: Array64, y: Array64, bins: int = BINS) -> float:
    """Return how far probabilities and shares are apart, over bins of equal size.

    >>> calibration_error(np.array([0.2] * 5 + [0.9] * 5), np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 0.0]), bins=2)
    0.05
    """
    parts = np.array_split(np.argsort(p, kind="stable"), bins)
    return round(
        float(sum(abs(p[part].mean() - y[part].mean()) * len(part) for part in parts if len(part)) / len(p)), 9
    )


def c5(lab: Lab) -> Result:
    """Fit the curves of `compare` without a year, or a family of sources, and judge them there."""
    if lab.method != "one-pass":
        raise Sen2ProError("C5 judges what `compare` says, which takes one pass: --method one-pass")
    limit = lab.limit and max(lab.limit, _FEWEST)
    train, confirm = read(lab.estimate, *TRAIN, limit=limit), read(lab.estimate, _CONFIRM, limit=limit)
    grids, numbers, verdicts = [], [], []
    for kind, labels in (("year", train.year), ("family", train.family)):
        lines = []
        for name in np.unique(labels):
            held = labels == name
            if held.sum() >= _FEWEST:
                lines.append({"by": kind, "source": str(name), **_judged(train[~held], train[held])})
        if kind == "year":
            lines.append({"by": kind, "source": "SICK", **_judged(train, confirm)})
        mean = {key: float(np.mean([line[key] for line in lines])) for key in lines[0] if key not in ("by", "source")}
        numbers += [*lines, {"by": kind, "source": "mean", **mean}]
        rows = [_row(line) for line in (*lines, {"source": "**mean**", **mean})]
        grids.append(Grid(_HEADER, rows, f"{lab.title}, one {kind} left out at a time"))
        worst = max(lines, key=lambda line: line["calibration_error"])
        verdicts.append(
            f"by {kind}: calibration error {mean['calibration_error']:.3f} (cosine alone {mean['cosine_error']:.3f}), "
            f"worst {worst['calibration_error']:.3f} ({worst['source']}); the 90 % interval holds "
            f"{100 * mean['holds']:.1f} %, at least {100 * min(line['holds'] for line in lines):.1f} %"
        )
    return Result(
        "C5", "Contest of sources: does `compare` hold where it was not fitted?", grids, "; ".join(verdicts),
        lab.signature(),
        [
            "Pairs of STS-12 to 15 and of STS-B train, each once, without those of STS-B dev and test. SICK fits "
            "nothing, and its grades from 1 to 5 are stretched to 0 to 5. *Same* is a grade of at least 4.",
            f"The calibration error is over {BINS} bins of equal size. *Noise* is the error that perfect probabilities "
            "would show on so few pairs. *Cosine alone* is a logistic regression on the cosine, fitted on the same "
            "pairs as ours. *Its own labels* is ours after a logistic regression on the source itself, by folds.",
            f"Sources with fewer than {_FEWEST} pairs are not judged alone.",
        ],
        numbers,
    )  # fmt: skip


def _judged(train: Pairs, test: Pairs) -> dict[str, Any]:
    curves = fit(train)
    terms, y = test.terms(curves), test.same
    logits = terms @ np.array(curves.same_meaning)
    of_cosine = _of_cosine(curves, train, test)
    _, low, high = curves.grade(terms)
    p = expit(logits)
    return {
        "pairs": len(test),
        "same": float(y.mean()),
        "calibration_error": calibration_error(p, y),
        "noise": _noise(p),
        "cosine_error": calibration_error(expit(of_cosine), y),
        "own_error": calibration_error(expit(_recalibrated(logits, y)), y),
        "log_loss": float(losses(logits, y).mean()),
        "cosine_log_loss": float(losses(of_cosine, y).mean()),
        "holds": float(((test.gold >= low) & (test.gold <= high)).mean()),
    }


def _of_cosine(curves: PairCurves, train: Pairs, test: Pairs) -> Array64:
    """Return the logits of a logistic regression on the cosine alone."""
    fitting, judging = (part.terms(curves)[:, 1:2] for part in (train, test))
    constant, slope = logistic(fitting, train.same, np.zeros(1), 1e-3)
    return np.asarray(constant + slope * judging[:, 0])


def _recalibrated(logits: Array64, y: Array64) -> Array64:
    """Return logits after a logistic regression on them and the source's own labels, each fold by the other four."""
    found = np.empty(len(y))
    for held in folds(y):
        constant, slope = logistic(logits[~held, None], y[~held], np.ones(1), 1.0)
        found[held] = constant + slope * logits[held]
    return found


def _noise(p: Array64) -> float:
    rng = np.random.default_rng(0)
    drawn = (rng.random((_FLOOR_DRAWS, len(p))) < p).astype(float)
    return float(np.mean([calibration_error(p, y) for y in drawn]))


def _row(line: dict[str, Any]) -> list[str]:
    shares = ("calibration_error", "noise", "cosine_error", "own_error", "log_loss", "cosine_log_loss")
    return [
        line["source"], f"{line['pairs']:.0f}", f"{100 * line['same']:.0f} %", *(f"{line[key]:.3f}" for key in shares),
        f"{100 * line['holds']:.1f} %",
    ]  # fmt: skip
