"""How good are the variances? Against 500 samples of each kind, on sentences that no head was fitted on.

    python benchmarks/variance_quality.py                  # 3 x 100 sentences; draws 300,000 samples the first time
    python benchmarks/variance_quality.py --sentences 20 --reference 100
    python benchmarks/variance_quality.py --kinds STS --methods one-pass analytic --name variance_quality_sts

Three kinds of sentences: STS-B test, news (AG News test) and very short turns of dialogue (GRADE). R2 of the logarithm
of the variance: per dimension (1 - squared errors / squared deviations from the dimension's own mean, summed over all)
and of the total of a sentence. The reference is noisy too: `ceiling` is the R2 of the true variances. `ratio` is the
geometric mean of predicted over reference total: 1 is unbiased. Sampled variances are scaled to N - 1, which is better
for them; the contestants use another seed than the reference.
"""

from __future__ import annotations

import argparse
import random
import re
from typing import Any

import numpy as np

from sen2pro import Sen2Pro, estimate
from sen2pro_lab.benchmarks.common import RESULTS, all_samples, save
from sen2pro_lab.paper.data import read_classification, read_dialogue, read_sts

MODEL = "all-MiniLM-L6-v2"
METHODS: dict[str, dict[str, Any]] = {
    "4 samples": {"method": "sampling", "samples": 4},
    "15 samples": {"method": "sampling", "samples": 15},
    "55 samples": {"method": "sampling", "samples": 55},
    "shrinkage, 4 samples": {"method": "shrinkage", "samples": 4},
    "shrinkage, 15 samples": {"method": "shrinkage", "samples": 15},
    "one-pass": {"method": "one-pass"},
    "analytic": {"method": "analytic"},
}


def sentences(count: int) -> dict[str, list[str]]:
    """Choose sentences of three kinds."""
    pairs, news = read_sts("stsb_test"), read_classification("ag_news", "test").texts
    responses = [response for name in ("convai2", "dailydialog") for response in read_dialogue(f"grade_{name}")]
    turns = [turn for response in responses for turn in (response.reference, response.response)]
    kinds = {
        "STS": pairs.left + pairs.right,
        "news": [t for t in news if 8 <= len(t.split()) <= 60 and not re.search(r"[\\#;&<>]", t)],
        "very short": [t for t in turns if 1 <= len(re.findall(r"\w+", t)) <= 4],
    }
    return {kind: random.Random(0).sample(sorted(set(texts)), count) for kind, texts in kinds.items()}


def quality(predicted: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Compare variances (n, k) with those of the reference."""
    live = reference.max(axis=0) > 1e-8 * reference.mean()  # three dimensions of MiniLM never vary
    found, truth = (np.log(np.maximum(v[:, live], 1e-12)) for v in (predicted, reference))
    totals, true_totals = (np.log(v.sum(axis=1)) for v in (predicted, reference))
    return {
        "dimension": float(1 - ((found - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum()),
        "total": float(1 - ((totals - true_totals) ** 2).sum() / ((true_totals - true_totals.mean()) ** 2).sum()),
        "ratio": float(np.exp((totals - true_totals).mean())),
        "spread": float(np.exp((totals - true_totals).std())),
    }


def ceiling(first: np.ndarray, second: np.ndarray, parts: int = 1) -> dict[str, float]:
    """Return the R2 of the true variances against a reference, from two halves with independent samples.

    The reference has `parts` 1: the samples of the first alone, or 2: those of both.
    """

    def share(a: np.ndarray, b: np.ndarray) -> float:
        return float(1 - ((a - b) ** 2).sum() / 2 / parts / ((a - a.mean(axis=0)) ** 2).sum())

    live = first.max(axis=0) > 1e-8 * first.mean()
    dimensions = [np.log(np.maximum(each[:, live], 1e-12)) for each in (first, second)]
    return {"dimension": share(*dimensions), "total": share(*(np.log(each.sum(axis=1)) for each in (first, second)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=100, help="of each kind")
    parser.add_argument("--reference", type=int, default=500, help="samples of the reference")
    parser.add_argument("--kinds", nargs="+", default=["STS", "news", "very short"], help="of sentences")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), help="beside one-pass")
    parser.add_argument("--name", default="variance_quality", help="of the files in benchmarks/results")
    options = parser.parse_args()
    options.methods = [name for name in METHODS if name in {*options.methods, "one-pass"}]

    kinds = {kind: found for kind, found in sentences(options.sentences).items() if kind in options.kinds}
    texts = [text for chosen in kinds.values() for text in chosen]
    raw = Sen2Pro(MODEL, samples=options.reference, normalize=False)
    samples = all_samples(raw, texts)
    results: dict[str, Any] = {"sentences": options.sentences, "reference": options.reference, "figures": {}}
    for geometry in ("raw", "unit"):
        settings = {"normalize": geometry == "unit", "seed": 1}
        models = {name: Sen2Pro(MODEL, **METHODS[name], **settings) for name in options.methods}
        parts = {name: model.encode_sources(texts) for name, model in models.items()}
        for i, source in enumerate(("model", "data")):
            rows = slice(i * options.reference, (i + 1) * options.reference)
            drawn = [models["one-pass"].sampler.finish(samples[n, rows]) for n in range(len(texts))]
            reference = np.stack([estimate(each)[1] for each in drawn])
            halves = [np.stack([estimate(each[start::2])[1] for each in drawn]) for start in (0, 1)]
            print(f"\n{source} uncertainty, {geometry}: R2 per dimension (total; ratio of totals x/ its spread)")
            print("  " + " " * 22 + "".join(f"{kind:>32s}" for kind in kinds))
            for name, model in models.items():
                line = ""
                for k, kind in enumerate(kinds):
                    rows = slice(k * options.sentences, (k + 1) * options.sentences)
                    n = model.samples[source]
                    scale = n / (n - 1) if model.method == "sampling" else 1.0
                    found = quality(parts[name][source].variance[rows].astype(float) * scale, reference[rows])
                    results["figures"].setdefault(f"{source}, {geometry}", {}).setdefault(name, {})[kind] = found
                    ratio = f"{found['ratio']:.2f} x/ {found['spread']:.2f}"
                    line += f"   {found['dimension']:+6.2f} ({found['total']:+5.2f}; {ratio})"
                print(f"  {name:22s}{line}")
            line, best = "", results.setdefault("ceiling", {}).setdefault(f"{source}, {geometry}", {})
            for k, kind in enumerate(kinds):
                rows = slice(k * options.sentences, (k + 1) * options.sentences)
                best[kind] = ceiling(*(half[rows] for half in halves), parts=2)
                line += f"   {best[kind]['dimension']:+6.2f} ({best[kind]['total']:+5.2f})".ljust(32)
            print(f"  {'without any error':22s}{line}")
    results["coverage"] = coverage = {}
    for k, kind in enumerate(kinds):
        found = parts["one-pass"]["model"].coverage[k * options.sentences : (k + 1) * options.sentences]
        coverage[kind] = {"median": float(np.median(found)), "below 0.01": float((found < 0.01).mean())}
        print(f"coverage, {kind}: median {np.median(found):.2f}, below 0.01 for {(found < 0.01).mean():.0%}")
    results["head"] = str(models["one-pass"].head)
    save(options.name, results)
    if list(METHODS) == options.methods:
        plot(results)


def plot(results: dict[str, Any]) -> None:
    """Draw R2 per dimension and of the total, by method, kind of sentence and kind of uncertainty."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figures = results["figures"]
    shown = ["15 samples", "55 samples", "shrinkage, 4 samples", "shrinkage, 15 samples", "one-pass", "analytic"]
    fig, axes = plt.subplots(2, len(figures), figsize=(14, 6), sharey=True, sharex=True, layout="constrained")
    for column, (title, methods) in enumerate(figures.items()):
        for row, what in enumerate(("dimension", "total")):
            ax = axes[row, column]
            kinds = list(methods["one-pass"])
            for i, name in enumerate(shown):
                values = [methods[name][kind][what] for kind in kinds]
                places = np.arange(len(kinds)) + (i - 2.5) * 0.14
                ax.bar(places, np.clip(values, -0.5, 1), 0.13, label=name, color=plt.cm.viridis(i / 5.5))
            ax.axhline(0, color="black", linewidth=0.8)
            ax.set_xticks(range(len(kinds)), kinds)
            ax.set_ylim(-0.5, 1.02)
            ax.spines[["top", "right"]].set_visible(False)
            if row == 0:
                ax.set_title(title)
        axes[0, 0].set_ylabel("R² per dimension")
        axes[1, 0].set_ylabel("R² of the total")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    fig.suptitle(f"Log-variance against {results['reference']} samples (bars below -0.5 are cut)")
    fig.savefig(RESULTS / "variance_quality.png", dpi=130)
    print("-> benchmarks/results/variance_quality.png")


if __name__ == "__main__":
    main()
