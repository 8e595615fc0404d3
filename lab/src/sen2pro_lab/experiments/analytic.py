"""Variances computed instead of learned: follow dropout through the network beside one plain pass.

    python -m sen2pro_lab.experiments.analytic            # three kinds of sentences against 500 samples

It was a method of version 0.11. It takes 1.4 to 2.8 times a plain pass, and its variances of single dimensions are
better than those of a head: R2 of .67 to .70 after a correction by ridge regression. It left the library because
nothing downstream gained from it. The columns are those of `benchmarks.variance_quality`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from sen2pro import Sen2Pro
from sen2pro.encoder.backend import States
from sen2pro.validation import Array64
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.benchmarks.variance_quality import MODEL, quality, reference_of, sentences
from sen2pro_lab.experiments.propagation import propagate

_BATCH = 32


def propagated(model: Sen2Pro, texts: list[str]) -> tuple[States, Array64]:
    """Return the states of one pass with all layers, and the propagated variances, (n, k)."""
    tokens = model.encoder.tokenize(texts)
    order = np.argsort(tokens.lengths, kind="stable")
    parts = [propagate(model, tokens.rows(rows), range(model.encoder.depth - 1)) for rows in _batches(order)]
    states, variance = States.join([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    back = np.argsort(order)
    return states.rows(back), variance[back].astype(np.float64)


def _batches(order: Any) -> list[list[int]]:
    return [order[start : start + _BATCH].tolist() for start in range(0, len(order), _BATCH)]


def corrected(states: States, variance: Array64, truth: Array64, folds: Any) -> Array64:
    """Return the variances times what a linear map of the states predicts, fitted on the other folds."""
    features = np.concatenate([states.features(sorted(states.layers)), states.scalars], axis=1)
    missing = np.log(np.maximum(truth, 1e-12) / np.maximum(variance, 1e-12))
    result = np.empty_like(variance)
    for fold in np.unique(folds):
        rest, mean, scale = folds != fold, features[folds != fold].mean(axis=0), features[folds != fold].std(axis=0)
        scaled = (features - mean) / np.maximum(scale, 1e-6)
        ridge = RidgeCV(np.geomspace(10, 1e5, 9)).fit(scaled[rest], missing[rest])
        result[~rest] = variance[~rest] * np.exp(ridge.predict(scaled[~rest]))
    return result


def compare(kinds: dict[str, list[str]], samples: int) -> dict[str, Any]:
    """Judge the propagated variances, with and without correction, and those of the head, kind by kind."""
    texts = [text for chosen in kinds.values() for text in chosen]
    truth = reference_of(texts, samples, unit=False)["model"]
    settings: dict[str, Any] = {"uncertainty": "model", "normalize": False}
    states, variance = propagated(Sen2Pro(MODEL, **settings), texts)
    found = {
        "one-pass": Sen2Pro(MODEL, method="one-pass", **settings).encode(texts).variance.astype(np.float64),
        "propagated": variance,
        "corrected": corrected(states, variance, truth, np.arange(len(texts)) % 5),
    }
    figures: dict[str, Any] = {}
    start = 0
    for kind, chosen in kinds.items():
        rows = slice(start, start := start + len(chosen))
        figures[kind] = {name: quality(each[rows], truth[rows]) for name, each in found.items()}
        for name, said in figures[kind].items():
            print(f"{kind:12s} {name:11s}", {key: round(value, 2) for key, value in said.items()}, flush=True)
    return figures


def main() -> None:
    """Print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=100, help="of each kind")
    parser.add_argument("--reference", type=int, default=500, help="samples of the reference")
    options = parser.parse_args()
    figures = compare(sentences(options.sentences), options.reference)
    save("analytic", {"sentences": options.sentences, "reference": options.reference, "figures": figures})


if __name__ == "__main__":
    main()
