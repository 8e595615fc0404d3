"""What helps a classifier of many texts, the uncertainty or the layers that one pass reads it from.

    python benchmarks/variance_features.py  # 7000 texts of IMDB, one pass each: ten minutes on two cores

The variances of one pass are a map of the plain vector and of three layers of the network. So what they add, as
features, to a classifier with thousands of examples is compared with what these layers add themselves: logistic
regression on standardised columns, its penalty by accuracy on the validation set, paired bootstrap over the test texts.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from typing import Any

import numpy as np
from common import save
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sen2pro import Sen2Pro
from sen2pro.errors import TruncationWarning
from sen2pro.metrics.statistics import mean_statistic, paired_bootstrap
from sen2pro.paper.data import read_classification
from sen2pro.paper.store import Store
from sen2pro.progress import progress

TRAIN, TEST, CHUNK = 4000, 2000, 256
BLOCKS = ("vector", "mean", "variance", "layers")
SYSTEMS = (("vector",), ("variance",), ("layers",), ("vector", "variance"), ("mean", "variance"), ("vector", "layers"))
COMPARED = ((0, 3), (0, 5), (5, 3))


def texts() -> dict[str, tuple[list[str], np.ndarray]]:
    """Return the texts and labels of each part; no text is in two of them."""
    whole, validation, test = (read_classification("imdb", split) for split in ("train_full", "val", "test"))
    others = {*validation.texts, *test.texts}
    order = np.random.default_rng(0).permutation(len(whole.texts))
    rows = np.array([i for i in order if whole.texts[i] not in others][:TRAIN])
    every_second = slice(0, 2 * TEST, 2)
    return {
        "train": ([whole.texts[i] for i in rows], whole.labels[rows]),
        "validation": (list(validation.texts), validation.labels),
        "test": (list(test.texts[every_second]), test.labels[every_second]),
    }


def blocks(model: Sen2Pro, sentences: list[str]) -> np.ndarray:
    """Return plain vectors, mean and variance of both uncertainties, and the layers that the head reads, in columns."""
    assert model.head is not None
    found: dict[str, list[np.ndarray]] = {name: [] for name in BLOCKS}
    with progress(len(sentences), None, unit="sentences") as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        for start in range(0, len(sentences), CHUNK):
            states = model.sampler.plain(sentences[start : start + CHUNK], "", layers=model.head.layers)
            vectors = model.sampler.finish(states.vectors)
            predicted = [model.head.predict(states, source) for source in model.sources]
            found["vector"].append(vectors)
            found["mean"].append(np.mean([vectors + shift for shift, _ in predicted], axis=0))
            found["variance"].append(np.mean([variance for _, variance in predicted], axis=0))
            found["layers"].append(np.concatenate([states.layers[i] for i in sorted(states.layers)], axis=1))
            advance(len(vectors))
    return np.concatenate([np.concatenate(parts).astype(np.float32) for parts in found.values()], axis=1)


def encoded(model: Sen2Pro, parts: dict[str, tuple[list[str], np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Return the blocks of each part, kept in SEN2PRO_CACHE."""
    result = {}
    for part, (sentences, _) in parts.items():
        about = json.dumps(["variance features", str(model.signature()), sentences])
        every = Store().array(about, partial(blocks, model, sentences))
        edges = np.arange(1, len(BLOCKS)) * model.dim  # all blocks but the last have one column for each dimension
        result[part] = dict(zip(BLOCKS, np.split(every, edges, axis=1), strict=True))
    return result


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    model, parts = Sen2Pro(method="one-pass"), texts()
    found, labels = encoded(model, parts), {part: answers for part, (_, answers) in parts.items()}
    right = []
    results: dict[str, Any] = {"signature": str(model.signature()), "train": TRAIN, "test": TEST, "accuracy": {}}
    for names in SYSTEMS:
        columns = {part: np.concatenate([values[name] for name in names], axis=1) for part, values in found.items()}
        scaler = StandardScaler().fit(columns["train"])
        x = {part: scaler.transform(values) for part, values in columns.items()}
        models = [
            LogisticRegression(C=C, max_iter=5000).fit(x["train"], labels["train"]) for C in 10.0 ** np.arange(-5, 1)
        ]
        best = max(models, key=lambda one: one.score(x["validation"], labels["validation"]))
        right.append(best.predict(x["test"]) == labels["test"])
        title = " + ".join(names)
        results["accuracy"][title] = 100 * float(right[-1].mean())
        print(f"{title:20s} {results['accuracy'][title]:.2f}", flush=True)
    results["gains"] = {}
    for first, second in COMPARED:
        statistics = [mean_statistic(right[i]) for i in (second, first)]
        gain = paired_bootstrap(statistics[:1], statistics[1], TEST).scaled(100)
        title = f"{' + '.join(SYSTEMS[first])} -> {' + '.join(SYSTEMS[second])}"
        results["gains"][title] = [gain.value - gain.baseline, gain.low, gain.high]
        print(f"{title}: {gain.value - gain.baseline:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]")
    save("variance_features", results)


if __name__ == "__main__":
    main()
