"""Does it matter downstream? Spearman on STS of sen2pro's default similarity, by method, against the plain cosine.

    python -m sen2pro_lab.benchmarks.downstream                   # STS-B test and STS-12 to 15, an hour on two cores
    python -m sen2pro_lab.benchmarks.downstream --sets stsb_test  # a few minutes, and 100 + 100 samples with --hundred

All sentences are sampled once (15 + 15, seed 0) and kept in SEN2PRO_CACHE; fewer samples are the first of these.
Gains over the cosine, and over exact 15 + 15, come with paired bootstrap intervals over the sentence pairs.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from sen2pro import Gaussian, Sen2Pro, estimate
from sen2pro.confidence.measures import paired_bootstrap, value_of
from sen2pro.types import Array
from sen2pro_lab.benchmarks.common import RESULTS, all_samples, save
from sen2pro_lab.metrics.sts import Pairs, statistic
from sen2pro_lab.paper.data import read_sts

MODEL = "all-MiniLM-L6-v2"
SETS = ("stsb_test", "sts12", "sts13", "sts14", "sts15")
METHODS: dict[str, dict[str, Any]] = {
    "exact 4 + 4": {"samples": 4}, "exact 15 + 15": {"samples": 15}, "one-pass": {"method": "one-pass"}
}  # fmt: skip


def gaussians(model: Sen2Pro, texts: list[str], samples: Array) -> Gaussian:
    """Return what `model.encode` would, from samples that are there already (n, those of the model + edits, k)."""
    if not model.settings.draws:
        return model.encode(texts)
    parts = []
    for start in range(0, len(texts), 512):
        found = {}
        for i, source in enumerate(model.sources):
            first = i * samples.shape[1] // 2
            drawn = samples[start : start + 512, first : first + model.samples[source]]
            found[source] = Gaussian(*estimate(model.sampler.finish(drawn)), model.signature("", source))
        parts.append(model.join(found))
    return Gaussian.concatenate(parts)


def measured(pairs: Pairs, models: dict[str, Sen2Pro]) -> dict[str, Any]:
    """Return Spearman x 100 of each method, and its gains."""
    texts = list(dict.fromkeys(pairs.left + pairs.right))
    place = {text: i for i, text in enumerate(texts)}
    a, b = (np.array([place[text] for text in side]) for side in (pairs.left, pairs.right))
    vectors = models["one-pass"].sen2vec(texts)
    scores = {"cosine": (vectors[a] * vectors[b]).sum(axis=1)}
    for method, model in models.items():
        most = max(15, *(model.samples[source] for source in model.sources)) if model.settings.draws else 0
        samples = all_samples(Sen2Pro(MODEL, samples=most, normalize=False), texts) if most else np.empty(0, np.float32)
        found = gaussians(model, texts, samples)
        scores[method] = model.similarity_pairwise(found[a], found[b])
    statistics = {method: statistic(score, pairs) for method, score in scores.items()}
    rows: dict[str, Any] = {}
    for method, ours in statistics.items():
        row: dict[str, Any] = {"spearman": 100 * value_of(ours, len(pairs))}
        line = f"  {method:18s} {row['spearman']:6.2f}"
        for reference in ("cosine", "exact 15 + 15"):
            if method not in ("cosine", reference):
                c = paired_bootstrap([ours], statistics[reference], len(pairs)).scaled(100)
                row[f"over {reference}"] = {"gain": c.gain, "low": c.low, "high": c.high, "p": c.p}
                line += f"   {c.gain:+.2f} [{c.low:+.2f}, {c.high:+.2f}] over {reference}"
        print(line)
        rows[method] = row
    return rows


def main() -> None:
    """Measure the sets that are asked for; what the file has of others stays."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--hundred", action="store_true", help="100 + 100 samples as well, on STS-B test only")
    options = parser.parse_args()
    models = {name: Sen2Pro(MODEL, **settings) for name, settings in METHODS.items()}
    file = RESULTS / "downstream.json"
    kept = json.loads(file.read_text())["sets"] if file.exists() else {}
    for name in options.sets:
        pairs = read_sts(name)
        print(f"\n{name}: {len(pairs)} pairs, Spearman x 100 (95 % interval of the gain)")
        more = {"exact 100 + 100": Sen2Pro(MODEL, samples=100)} if options.hundred and name == "stsb_test" else {}
        kept[name] = measured(pairs, models | more)
    save("downstream", {"signature": str(models["exact 15 + 15"].signature()), "sets": kept})


if __name__ == "__main__":
    main()
