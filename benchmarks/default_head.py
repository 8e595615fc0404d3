"""Fit the one-pass heads that ship for the default model, on text whose results may be shipped.

    python benchmarks/default_head.py sources           # carries the heads on to passages, and fits their coverage
    python benchmarks/default_head.py sources --refit --output folder    # heads of all texts, sentences and passages

`head_corpus.py` says where the sources come from. Samples are kept in SEN2PRO_CACHE; a stopped run goes on.
The maps of the shipped heads were fitted with 0.2.0 on the 5,120 sentences of `sentences` (definitions and examples of
WordNet 3.0, State of the Union addresses since 1945, fortunes, a technical manual, short queries; 1 to 60 words), with
16 + 16 samples. They are kept. Their level beyond 60 words is fitted on PASSAGES passages of other kinds, and their
coverage on all sentences and passages, with whole kinds held out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import all_samples
from head_corpus import corpus

from sen2pro import Sen2Pro
from sen2pro.estimation.distill import Teacher, carry_on, fit_for
from sen2pro.estimation.head import SHIPPED, Head

SAMPLES, CHUNK, PASSAGES, SENTENCE = 16, 256, 256, 60  # SENTENCE: its longest, in words


def taught(model: Sen2Pro, samples: np.ndarray) -> dict[str, Teacher]:
    """Return what raw samples (n, 2 N, k) say in the geometry of a model."""
    teachers = {source: Teacher.empty(len(samples), model.dim, SAMPLES) for source in model.sources}
    for start in range(0, len(samples), CHUNK):
        rows = slice(start, start + CHUNK)
        for i, source in enumerate(model.sources):
            teachers[source].put(rows, model.sampler.finish(samples[rows, i * SAMPLES : (i + 1) * SAMPLES]))
    return teachers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--refit", action="store_true", help="fit new maps on all texts")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    options = parser.parse_args()

    kinds, texts = map(list, zip(*corpus(options.sources), strict=True))
    raw, unit = (Sen2Pro("all-MiniLM-L6-v2", samples=SAMPLES, normalize=normalize) for normalize in (False, True))
    states = raw.sampler.plain(texts, "", layers=range(raw.encoder.depth - 1), warn=False)
    long = np.flatnonzero(states.words > SENTENCE)[:PASSAGES]
    samples = all_samples(raw, texts if options.refit else [texts[i] for i in long])
    for model, name in ((raw, "raw"), (unit, "unit")):
        teachers = taught(model, samples)
        if options.refit:
            head = fit_for(model, texts, states, teachers, held_out=0.2, kinds=kinds)
        else:
            shipped = Head.load(SHIPPED / f"all-MiniLM-L6-v2-{name}")
            head = carry_on(shipped, states, kinds, states.rows(long), teachers)
        head.save(options.output / f"all-MiniLM-L6-v2-{name}")
        print(name, head.report(), head.passages, sep="\n")


if __name__ == "__main__":
    main()
