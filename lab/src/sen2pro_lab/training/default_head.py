"""Fit the one-pass heads that ship for the default model, on text whose results may be shipped.

    python -m sen2pro_lab.training.default_head sources           # an hour the first time, on one core
    python -m sen2pro_lab.training.default_head sources --output folder

`head_corpus.py` says where the sources come from: 6,405 texts of 21 kinds, 1 to 280 words. Samples are kept in
SEN2PRO_CACHE; a stopped run resumes. The layers it reads are chosen on kinds of text that are held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sen2pro import Sen2Pro
from sen2pro.estimation.distill import Fold, SampledMoments, fit_for
from sen2pro.estimation.specificity import SHIPPED
from sen2pro.validation import Array
from sen2pro_lab.benchmarks.common import all_samples
from sen2pro_lab.training.head_corpus import corpus

SAMPLES, CHUNK = 16, 256


def taught(model: Sen2Pro, samples: Array) -> dict[str, SampledMoments]:
    """Return what raw samples (n, 2 N, k) say in the geometry of a model."""
    teachers = {source: SampledMoments.empty(len(samples), model.dim, SAMPLES) for source in model.sources}
    for start in range(0, len(samples), CHUNK):
        rows = slice(start, start + CHUNK)
        for i, source in enumerate(model.sources):
            teachers[source].put(rows, model.sampler.finish(samples[rows, i * SAMPLES : (i + 1) * SAMPLES]))
    return teachers


def split_kinds(kinds: Sequence[str], count: int = 4) -> list[Fold]:
    """Return folds of about the same size, each of whole kinds, and the rest of each."""
    names, sizes = np.unique(np.asarray(kinds), return_counts=True)
    folds: list[list[str]] = [[] for _ in range(min(count, len(names)))]
    filled = np.zeros(len(folds), np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        folds[int(filled.argmin())].append(names[i])
        filled[filled.argmin()] += sizes[i]
    out = [np.isin(kinds, fold) for fold in folds]
    return [(np.flatnonzero(held), np.flatnonzero(~held)) for held in out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    options = parser.parse_args()

    kinds, texts = map(list, zip(*corpus(options.sources), strict=True))
    raw, unit = (Sen2Pro("all-MiniLM-L6-v2", samples=SAMPLES, normalize=normalize) for normalize in (False, True))
    states = raw.sampler.run_plain(raw.tokenize(texts), range(raw.encoder.depth - 1), show=None)
    samples = all_samples(raw, texts)
    for model, name in ((raw, "raw"), (unit, "unit")):
        head = fit_for(
            model.sampler, model.signature(), texts, states, taught(model, samples), split_kinds(kinds), kinds
        )
        head.save(options.output / f"all-MiniLM-L6-v2-{name}")
        print(name, head.report(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
