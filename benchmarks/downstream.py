"""Does it matter downstream? Spearman on STS of sen2pro's default similarity, by method, against the plain cosine.

    python benchmarks/downstream.py                   # STS-B test and STS-12 to 15, an hour on two cores
    python benchmarks/downstream.py --sets stsb_test  # a few minutes, and 100 + 100 samples with --hundred

All sentences are sampled once (15 + 15, seed 0) and kept in SEN2PRO_CACHE; fewer samples are the first of these.
Gains over the cosine, and over exact 15 + 15, come with paired bootstrap intervals over the sentence pairs.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from common import RESULTS, all_samples, save

from sen2pro import Gaussian, Sen2Pro, estimate
from sen2pro.metrics.statistics import correlation_statistic, paired_bootstrap
from sen2pro.paper.data import read_sts

MODEL = "all-MiniLM-L6-v2"
SETS = ("stsb_test", "sts12", "sts13", "sts14", "sts15")
METHODS: dict[str, dict[str, Any]] = {
    "exact 4 + 4": {"method": "sampling", "samples": 4},
    "exact 15 + 15": {"method": "sampling", "samples": 15},
    "shrinkage 4 + 4": {"method": "shrinkage", "samples": 4},
    "shrinkage 15 + 15": {"method": "shrinkage", "samples": 15},
    "one-pass": {"method": "one-pass"},
}


def gaussians(model: Sen2Pro, texts: list[str], samples: np.ndarray) -> Gaussian:
    """Return what `model.encode` would, from samples that are there already (n, 15 of the model + 15 of edits, k)."""
    if model.method == "one-pass":
        return model.encode(texts)
    parts = []
    for start in range(0, len(texts), 512):
        rows = slice(start, start + 512)
        found = {}
        for i, source in enumerate(model.sources):
            first = i * samples.shape[1] // 2
            found[source] = estimate(model.sampler.finish(samples[rows, first : first + model.samples[source]]))
        if model.method == "shrinkage":
            found, _ = model._with_head(texts[rows], "", found, None, False)
        parts.append(model.join({name: Gaussian(*found[name], model.signature("", name)) for name in model.sources}))
    return Gaussian.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--hundred", action="store_true", help="100 + 100 samples as well, on STS-B test only")
    options = parser.parse_args()

    raw = Sen2Pro(MODEL, samples=15, normalize=False)
    models = {name: Sen2Pro(MODEL, **settings) for name, settings in METHODS.items()}
    file = RESULTS / "downstream.json"
    kept = json.loads(file.read_text())["sets"] if file.exists() else {}  # sets that are not run now stay
    results: dict[str, Any] = {"signature": str(models["exact 15 + 15"].signature()), "sets": kept}
    for name in options.sets:
        pairs = read_sts(name)
        texts = list(dict.fromkeys(pairs.left + pairs.right))
        place = {text: i for i, text in enumerate(texts)}
        a, b = (np.array([place[text] for text in side]) for side in (pairs.left, pairs.right))
        samples = all_samples(raw, texts)
        vectors = models["one-pass"].sen2vec(texts)
        scores = {"cosine": (vectors[a] * vectors[b]).sum(axis=1)}
        for method, model in models.items():
            g = gaussians(model, texts, samples)
            scores[method] = model.similarity_pairwise(g[a], g[b])
        if options.hundred and name == "stsb_test":
            many = Sen2Pro(MODEL, samples=100)
            samples = all_samples(Sen2Pro(MODEL, samples=100, normalize=False), texts)
            g = gaussians(many, texts, samples)
            scores["exact 100 + 100"] = many.similarity_pairwise(g[a], g[b])
        results["sets"][name] = rows = {}
        print(f"\n{name}: {len(pairs)} pairs, Spearman x100 (95 % interval of the gain)")
        statistics = {method: correlation_statistic("spearman", score, pairs.gold) for method, score in scores.items()}
        for method, ours in statistics.items():
            rows[method] = row = {"spearman": 100 * float(ours(np.ones((1, len(pairs))))[0])}
            line = f"  {method:18s} {row['spearman']:6.2f}"
            for reference in ("cosine", "exact 15 + 15"):
                if method not in ("cosine", reference):
                    c = paired_bootstrap([ours], statistics[reference], len(pairs)).scaled(100)
                    row[f"over {reference}"] = {"gain": c.gain, "low": c.low, "high": c.high, "p": c.p}
                    line += f"   {c.gain:+.2f} [{c.low:+.2f}, {c.high:+.2f}] over {reference}"
            print(line)
    save("downstream", results)


if __name__ == "__main__":
    main()
