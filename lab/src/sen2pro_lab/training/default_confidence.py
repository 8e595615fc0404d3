"""Fit the numbers of `sen2pro compare` on the training part of STS-B, and measure them on sets that chose nothing.

    SEN2PRO_DATA=FOLDER python -m sen2pro_lab.training.default_confidence

A default must serve text from sources that it has not seen. So the width of the interval is set by leaving out one of
the six sources of the training part at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from scipy.optimize import curve_fit
from scipy.special import expit

from sen2pro import Sen2Pro
from sen2pro.calibration.comparison import HIGHEST_GRADE, PairCurves, terms
from sen2pro.calibration.defaults import FOLDER, NAME, SIGNATURE_FIELDS, defaults
from sen2pro.calibration.pairs import names, pair_features
from sen2pro.calibration.selection import logistic, losses
from sen2pro.io import bundle
from sen2pro.validation import Array64
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.metrics.statistics import spearman
from sen2pro_lab.paper.catalogue import need
from sen2pro_lab.paper.files import table

SAME, LEVEL = 4.0, 0.9  # of 5: the same meaning; of the intervals
EVALUATED = ("stsb_dev", "stsb_test", "sts12", "sts13", "sts14", "sts15")


class Pairs(NamedTuple):
    """Features (n, f), the grades that people gave, and where each pair comes from."""

    features: Array64
    gold: Array64
    source: Array64


def read(model: Sen2Pro, name: str) -> Pairs:
    """Encode a set of pairs, each sentence once."""
    rows = list(table(need(f"sts/{name}.tsv"), "sentence1", "sentence2", "score"))
    sides = [[row.text(column) for row in rows] for column in ("sentence1", "sentence2")]
    numbers = {text: i for i, text in enumerate(dict.fromkeys([*sides[0], *sides[1]]))}
    every = model.estimate(list(numbers))
    a, b = (every[[numbers[text] for text in side]] for side in sides)
    source = np.array([row.fields.get("file", name) for row in rows])
    return Pairs(pair_features(a, b).values, np.array([row.number("score") for row in rows]), source)


def curve(cosine: Array64, *numbers: float) -> Array64:
    return np.asarray(HIGHEST_GRADE * expit(terms(cosine) @ np.array(numbers)))


def grade(cosine: Array64, gold: Array64) -> Array64:
    return np.asarray(curve_fit(curve, cosine, gold, p0=(-2.0, 4.0, 0.1))[0])


def same_meaning(cosine: Array64, y: Array64) -> Array64:
    return logistic(terms(cosine)[:, 1:], y, np.zeros(2), 1e-3)


def errors_by_source(cosine: Array64, gold: Array64, source: Array64) -> Array64:
    """Return how far the grade is off (n,), by a curve that has not seen the pair's source."""
    found = np.empty(len(gold))
    for each in np.unique(source):
        held = source == each
        found[held] = np.abs(gold[held] - curve(cosine[held], *grade(cosine[~held], gold[~held])))
    return found


def fitted(model: Sen2Pro, train: Pairs) -> PairCurves:
    """Return the numbers that ship."""
    cosine = train.features[:, 0]
    y = (train.gold >= SAME).astype(float)
    errors = errors_by_source(cosine, train.gold, train.source)
    rank = int(np.ceil(LEVEL * (len(errors) + 1))) - 1  # the conformal quantile
    ratios = train.features[train.gold == HIGHEST_GRADE, names(model.sources).index("data ratio")]
    return PairCurves(
        same_meaning=tuple(same_meaning(cosine, y).round(4).tolist()),
        similarity=tuple(grade(cosine, train.gold).round(4).tolist()),
        half_width=round(float(np.sort(errors)[rank]), 3),
        equally_vague=round(float(np.quantile(ratios, LEVEL)), 3),
    )


def measured(default: PairCurves, pairs: Pairs) -> dict[str, float]:
    """Return how good the shipped numbers are on a set."""
    middle, low, high = default.grade(pairs.features[:, 0])
    cost = losses(terms(pairs.features[:, 0]) @ np.array(default.same_meaning), (pairs.gold >= SAME).astype(float))
    return {
        "pairs": len(pairs.gold),
        "coverage": float(((pairs.gold >= low) & (pairs.gold <= high)).mean()),
        "mean_width": float((high - low).mean()),
        "error": float(np.abs(pairs.gold - middle).mean()),
        "spearman": spearman(middle, pairs.gold),
        "log_loss": float(cost.mean()),
        "base_rate_log_loss": _entropy(float((pairs.gold >= SAME).mean())),
    }


def _entropy(rate: float) -> float:
    return float(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)))


def save_defaults(model: Sen2Pro, **changes: Any) -> None:
    """Replace `pairs` or `hits` of the numbers that ship, which are for one model."""
    signature = {name: getattr(model.signature(), name) for name in SIGNATURE_FIELDS}
    bundle.save(FOLDER, NAME, structs.replace(defaults(), signature=signature, **changes))


def main() -> None:
    """Fit, write, measure."""
    model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    train = read(model, "stsb_train")
    default = fitted(model, train)
    save_defaults(model, pairs=default)
    print(default)
    results = {}
    for name in EVALUATED:
        results[name] = measured(default, read(model, name))
        print(name, {key: round(value, 3) for key, value in results[name].items()}, flush=True)
    save("default_confidence", {"sets": results})


if __name__ == "__main__":
    main()
