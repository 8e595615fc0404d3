"""Fit the one-pass heads that ship for the default model, on text whose results may be shipped.

    python benchmarks/default_head.py sources       # `head_corpus.py` says where the sources come from

Samples are kept in SEN2PRO_CACHE; a stopped run goes on where it was. The corpus holds definitions and example
sentences of WordNet 3.0, State of the Union addresses since 1945, aphorisms and dialogue (fortunes), a technical
manual, short queries, and further kinds (news feeds, mail, questions, medical and legal text, histories of countries
and peoples, fiction, ...), 1 to 280 words. What a head reads is chosen on kinds held out. Two heads are fitted on the
same samples, for raw vectors and for the unit sphere. Only they are kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from common import all_samples
from head_corpus import corpus

from sen2pro import Sen2Pro
from sen2pro.estimation.distill import Teacher, fit_for

SAMPLES, CHUNK = 16, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "src" / "sen2pro" / "heads")
    options = parser.parse_args()

    kinds, texts = map(list, zip(*corpus(options.sources), strict=True))
    raw, unit = (Sen2Pro("all-MiniLM-L6-v2", samples=SAMPLES, normalize=normalize) for normalize in (False, True))
    samples = all_samples(raw, texts)
    states = raw.sampler.plain(texts, "", layers=range(raw.encoder.depth - 1), warn=False)
    for model, name in ((raw, "raw"), (unit, "unit")):
        teachers = {source: Teacher.empty(len(texts), model.dim, SAMPLES) for source in model.sources}
        for start in range(0, len(texts), CHUNK):
            rows = slice(start, start + CHUNK)
            for i, source in enumerate(model.sources):
                teachers[source].put(rows, model.sampler.finish(samples[rows, i * SAMPLES : (i + 1) * SAMPLES]))
        head = fit_for(model, texts, states, teachers, held_out=0.2, kinds=kinds)
        head.save(options.output / f"all-MiniLM-L6-v2-{name}")
        print(name, head.report(), sep="\n")


if __name__ == "__main__":
    main()
