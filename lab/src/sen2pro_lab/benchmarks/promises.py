"""Are promised precisions kept? A thousand random splits of labelled pairs, each with a rule and the rest to check it.

    SEN2PRO_DATA=FOLDER python -m sen2pro_lab.benchmarks.promises

Of all pairs of a set, 1,000 are drawn: half of them fit the probability, the other half, which chose nothing, tests
thresholds (`sen2pro.calibration.guarantee`). A rule is broken if it fails on all other pairs together. These are a
sample too, so that a rule which just keeps its promise is seen to break it half of the time.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from sen2pro.calibration.guarantee import Rule, promise
from sen2pro.calibration.pairs import candidate
from sen2pro.calibration.selection import Table, fit, out_of_fold
from sen2pro.settings import CERTAINTY
from sen2pro.validation import Array64
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.contests.pairs import found_sets, read_pairs
from sen2pro_lab.paper.lab import Lab

SPLITS, LABELS = 1000, 1000
ASKED: tuple[dict[str, Any], ...] = (
    {"precision": 0.8}, {"precision": 0.9}, {"recall": 0.9}, {"recall": 0.95}, {"false_matches": 20},
    {"false_matches": 50},
)  # fmt: skip


def broken(rule: Rule, scores: Array64, labels: Array64) -> bool:
    """Tell whether a rule breaks its promise on other pairs."""
    yes = rule.accepts(scores)
    if rule.promised == "precision":
        return bool(labels[yes].mean() < rule.target) if yes.any() else False
    if rule.promised == "recall":
        return bool(yes[labels == 1].mean() < rule.target)
    return bool(1000 * (yes & (labels == 0)).mean() > rule.target)


def measured(x: Table, y: Array64, splits: int) -> list[dict[str, float]]:
    """Return, of each promise, how often it was made, how often broken, and the share of pairs with a yes."""
    rng = np.random.default_rng(0)
    rules: list[list[tuple[Rule, bool]]] = [[] for _ in ASKED]
    for _ in range(splits):
        order = rng.permutation(len(y))
        first, second, rest = np.split(order, [LABELS // 2, LABELS])
        numbers = np.arange(len(first)) % 5
        folds = [numbers == fold for fold in range(5)]
        known = x[first]
        parts = [(held, known) for held in folds]
        tried = candidate("distribution", x.names, len(first), 0.0)
        planning = expit(out_of_fold(tried, parts, y[first], 1.0))
        fitted = fit(tried, known, y[first], 1.0)
        tested, others = (expit(fitted.logits(x[part])) for part in (second, rest))
        for asked, found in zip(ASKED, rules, strict=True):
            rule = promise(tested, y[second], planned_by=(planning, y[first]), **asked).rule
            if rule is not None:
                found.append((rule, broken(rule, others, y[rest])))
    return [
        {
            **asked,
            "made": len(found),
            "broken": sum(wrong for _, wrong in found),
            "allowed": float(binom.ppf(0.975, splits, 0.05)),
            "share": float(np.mean([rule.share for rule, _ in found])) if found else 0.0,
        }
        for asked, found in zip(ASKED, rules, strict=True)
    ]


def main() -> None:
    """Measure all sets in the data folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=SPLITS)
    splits = parser.parse_args().splits
    lab, results = Lab(method="one-pass"), {}
    for name in found_sets():
        parts = [read_pairs(lab, name, part) for part in ("train", "test")]
        x = Table(parts[0].features.names, np.concatenate([part.features.values for part in parts]))
        y = np.concatenate([part.labels for part in parts])
        results[name] = measured(x, y, splits)
        for line in results[name]:
            print(name, line, flush=True)
    save("promises", {"splits": splits, "labels": LABELS, "certainty": CERTAINTY, "sets": results})


if __name__ == "__main__":
    main()
