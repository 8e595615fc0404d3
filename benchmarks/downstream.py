"""Does it matter downstream? Spearman on STS of sen2pro's default similarity, by method, against the plain cosine.

    python benchmarks/downstream.py                   # STS-B test and STS-12 to 15, an hour on two cores
    python benchmarks/downstream.py --sets stsb_test  # a few minutes, and 100 + 100 samples with --hundred

All sentences are sampled once (15 + 15, seed 0) and kept in `results/cache`; fewer samples are the first of these.
Gains over the cosine, and over exact 15 + 15, come with paired bootstrap intervals over the sentence pairs.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from common import RESULTS, bootstrap, cached_samples, read_pairs, save, spearman

from sen2pro import Gaussian, Sen2Pro, estimate

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
        left, right, gold = read_pairs(name)
        texts = list(dict.fromkeys(left + right))
        place = {text: i for i, text in enumerate(texts)}
        a, b = (np.array([place[text] for text in side]) for side in (left, right))
        samples = cached_samples(raw, texts, f"{name}-15+15")
        vectors = models["one-pass"].sen2vec(texts)
        scores = {"cosine": (vectors[a] * vectors[b]).sum(axis=1)}
        for method, model in models.items():
            g = gaussians(model, texts, samples)
            scores[method] = model.similarity_pairwise(g[a], g[b])
        if options.hundred and name == "stsb_test":
            many = Sen2Pro(MODEL, samples=100)
            samples = cached_samples(Sen2Pro(MODEL, samples=100, normalize=False), texts, f"{name}-100+100")
            g = gaussians(many, texts, samples)
            scores["exact 100 + 100"] = many.similarity_pairwise(g[a], g[b])
        results["sets"][name] = rows = {}
        print(f"\n{name}: {len(gold)} pairs, Spearman x100 (95 % interval of the gain)")
        for method, score in scores.items():
            rows[method] = row = {"spearman": 100 * spearman(score, gold)}
            line = f"  {method:18s} {row['spearman']:6.2f}"
            for reference in ("cosine", "exact 15 + 15"):
                if method not in ("cosine", reference):
                    low, high, p = bootstrap(score, scores[reference], gold)
                    gain = row["spearman"] - 100 * spearman(scores[reference], gold)
                    row[f"over {reference}"] = {"gain": gain, "low": 100 * low, "high": 100 * high, "p": p}
                    line += f"   {gain:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}] over {reference}"
            print(line)
    save("downstream", results)


if __name__ == "__main__":
    main()
