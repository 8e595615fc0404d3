"""Fit the default model's head without some kinds of its corpus, and judge it on these: medical and legal text.

    python benchmarks/head_held_out.py sources          # as for default_head.py, with its samples
    python benchmarks/head_held_out.py sources --kinds manual

The reference of a text has 16 samples: enough for its total, not for single dimensions. On the unit sphere. `factor` is
the median of predicted over reference total, also of texts of more than 60 words.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import all_samples, save
from default_head import SAMPLES, taught
from head_corpus import corpus
from scipy.stats import spearmanr

from sen2pro import Sen2Pro
from sen2pro.estimation.distill import _bounds, _Lesson
from sen2pro.estimation.ridge import Ridge

LAYERS = (0, 3, 5)  # what the head that ships reads
LONG = 60  # words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path, help="folder with the unpacked sources")
    parser.add_argument("--kinds", nargs="+", default=["medical", "legal"], help="to leave out, and to judge on")
    options = parser.parse_args()
    names, texts = map(list, zip(*corpus(options.sources), strict=True))
    kinds = np.array(names)
    raw, unit = (Sen2Pro("all-MiniLM-L6-v2", samples=SAMPLES, normalize=normalize) for normalize in (False, True))
    states = unit.sampler.plain(texts, "", layers=LAYERS, warn=False, spread=True)
    spread, scalars = unit.sampler.spread(states), states.scalars()
    out = np.isin(kinds, options.kinds)
    held, rest = np.flatnonzero(out), np.flatnonzero(~out)
    tried = states.rows(held), np.clip(scalars[held], *_bounds(scalars[rest]))
    ridge, results = Ridge(states, LAYERS, rest), {}
    for source, teacher in taught(unit, all_samples(raw, texts)).items():
        lesson = _Lesson(teacher, unit.sampler.finish(states.vectors), scalars)
        starts: dict[str, Any] = {"one-pass": np.zeros_like(lesson.variance)}
        if source == "model":
            starts["analytic"] = np.log(np.maximum(spread[:, lesson.live], 1e-12))
        for method, start in starts.items():
            linear, left_out = ridge.fit(lesson.targets("log")[rest] - start[rest], "log")
            linear = lesson.levelled(linear, lesson.level(np.exp(left_out + start[rest]), "log", rest))
            totals, truth = np.exp(linear(*tried) + start[held]).sum(axis=1), lesson.variance[held].sum(axis=1)
            for kind in options.kinds:
                rows = kinds[held] == kind
                ratio, long = (totals / truth)[rows], states.words[held][rows] > LONG
                found = {
                    "texts": int(rows.sum()), "spearman": float(spearmanr(totals[rows], truth[rows]).statistic),
                    "factor": float(np.median(ratio)), "long texts": int(long.sum()),
                    "factor of long texts": float(np.median(ratio[long])) if long.any() else None,
                }  # fmt: skip
                results.setdefault(source, {}).setdefault(method, {})[kind] = found
                print(source, method, kind, found, flush=True)
    save("head_held_out", results)


if __name__ == "__main__":
    main()
