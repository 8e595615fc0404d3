"""Does it matter downstream? Spearman on STS of sen2pro's default similarity, by method, against the plain cosine.

    python benchmarks/downstream.py                   # STS-B test and STS-12 to 15, an hour on two cores
    python benchmarks/downstream.py --sets stsb_test  # a few minutes, and 100 + 100 samples with --hundred
    python benchmarks/downstream.py --before FOLDER   # the shipped head beside another, `FOLDER/MODEL-unit`: 15 minutes
    python benchmarks/downstream.py --analytic        # the method analytic beside one-pass, on the same tasks

All sentences are sampled once (15 + 15, seed 0) and kept in SEN2PRO_CACHE; fewer samples are the first of these.
Gains over the cosine, and over exact 15 + 15, come with paired bootstrap intervals over the sentence pairs.

With `--before`, both heads read the same pass. Compared are Spearman on STS, the log-loss of a match (MRPC and QQP, as
in the contest C2), and accuracy and log-loss of the classifier with ten examples of each class.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro import Gaussian, Sen2Pro, estimate
from sen2pro.classification import Sen2ProClassifier
from sen2pro.confidence.candidates import WITH, losses
from sen2pro.confidence.choosing import choose
from sen2pro.confidence.default import shipped_slope
from sen2pro.confidence.features import Encoded, features
from sen2pro.confidence.measures import Comparison, mean_of, mean_statistic, paired_bootstrap
from sen2pro.estimation.head import on_sphere
from sen2pro_lab.benchmarks.common import RESULTS, all_samples, save
from sen2pro_lab.metrics.statistics import correlation_statistic
from sen2pro_lab.paper.catalogue import need
from sen2pro_lab.paper.data import read_classification, read_sts
from sen2pro_lab.paper.files import table

MODEL = "all-MiniLM-L6-v2"
SETS = ("stsb_test", "sts12", "sts13", "sts14", "sts15")
SHOTS, SEEDS, TEST = 10, 5, 1000  # of the classifier: examples of a class, draws of them, test texts
METHODS: dict[str, dict[str, Any]] = {
    "exact 4 + 4": {"method": "sampling", "samples": 4},
    "exact 15 + 15": {"method": "sampling", "samples": 15},
    "shrinkage 4 + 4": {"method": "shrinkage", "samples": 4},
    "shrinkage 15 + 15": {"method": "shrinkage", "samples": 15},
    "one-pass": {"method": "one-pass"},
    "analytic": {"method": "analytic"},
}


def gaussians(model: Sen2Pro, texts: list[str], samples: np.ndarray) -> Gaussian:
    """Return what `model.encode` would, from samples that are there already (n, 15 of the model + 15 of edits, k)."""
    if not model.settings.draws:
        return model.encode(texts)
    parts = []
    for start in range(0, len(texts), 512):
        rows = slice(start, start + 512)
        found = {}
        for i, source in enumerate(model.sources):
            first = i * samples.shape[1] // 2
            found[source] = estimate(model.sampler.finish(samples[rows, first : first + model.samples[source]]))
        if model.method == "shrinkage":
            _, found, _ = model._predicted(texts[rows], "", found, None, False)
        parts.append(model.join({name: Gaussian(*found[name], model.signature("", name)) for name in model.sources}))
    return Gaussian.concatenate(parts)


def encode_both(models: list[Sen2Pro], texts: list[str]) -> list[Encoded]:
    """Return the texts as each model encodes them; one pass serves both, since only their heads differ."""
    heads = [model.head for model in models if model.head is not None]
    sampler, layers = models[0].sampler, sorted({layer for head in heads for layer in head.layers})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spread = any(model.method == "analytic" for model in models)
        states = sampler.plain(texts, "", layers=layers, show=None, spread=spread)
    plain, found = sampler.finish(states.vectors), []
    for model, head in zip(models, heads, strict=True):
        parts = {}
        for source in model.sources:
            shift, variance = head.predict(states, source)
            if model.method == "analytic" and source == "model":
                variance = head.correct(states, sampler.spread(states))
            parts[source] = Gaussian(on_sphere(plain + shift, variance), variance, model.signature("", source))
        found.append(Encoded(plain, parts, model.join(parts), states.words.astype(float)))
    return found


def pairs_of(
    models: list[Sen2Pro], left: list[str], right: list[str]
) -> tuple[list[tuple[Encoded, Encoded]], np.ndarray]:
    """Return both sides of the pairs for each model, each text encoded once, and the number of each pair."""
    place = {text: i for i, text in enumerate(dict.fromkeys([*left, *right]))}
    a, b = (np.array([place[text] for text in side]) for side in (left, right))
    known: dict[tuple[int, ...], int] = {}
    groups = np.array([known.setdefault(tuple(sorted(pair)), len(known)) for pair in zip(a, b, strict=True)])
    return [(every[a], every[b]) for every in encode_both(models, list(place))], groups


def similarity(models: list[Sen2Pro], name: str) -> Iterator[tuple[str, Comparison]]:
    """Compare Spearman x 100 of the default similarity."""
    pairs = read_sts(name)
    sides, _ = pairs_of(models, list(pairs.left), list(pairs.right))
    scores = (m.similarity_pairwise(a.joined, b.joined) for m, (a, b) in zip(models, sides, strict=True))
    before, after = (correlation_statistic("spearman", score, pairs.gold) for score in scores)
    yield "Spearman x 100", paired_bootstrap([after], before, len(pairs)).scaled(100)


def matching(models: list[Sen2Pro], name: str) -> Iterator[tuple[str, Comparison]]:
    """Compare the log-loss of a match, fitted on the training part."""
    read = {}
    for part in ("train", "test"):
        rows = list(table(need(f"confidence/{name}_{part}.tsv"), "sentence1", "sentence2", "label"))
        left, right = ([row.text(column) for row in rows] for column in ("sentence1", "sentence2"))
        sides, groups = pairs_of(models, left, right)
        read[part] = [features(a, b) for a, b in sides], np.array([row.number("label") for row in rows]), groups
    (train, y, groups), (test, truth, _) = read["train"], read["test"]
    costs = []
    for model, x, x_test in zip(models, train, test, strict=True):
        fitted = choose(WITH, x, y, groups, shipped_slope(model.signature())).fitted
        costs.append(losses(fitted.logits(x_test), truth))
    before, after = map(mean_statistic, costs)
    yield "log-loss", paired_bootstrap([after], before, len(truth), smaller_is_better=True)


def classifying(models: list[Sen2Pro], name: str) -> Iterator[tuple[str, Comparison]]:
    """Compare the classifier on ten examples of each class, on average over SEEDS draws of them."""
    train, test = (read_classification(name, part) for part in ("train", "test"))
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(test.texts))[:TEST]
    asked, truth = encode_both(models, [test.texts[i] for i in rows]), test.labels[rows]
    right: list[list[np.ndarray]] = [[], []]
    cost: list[list[np.ndarray]] = [[], []]
    for seed in range(SEEDS):
        chosen = [rng.permutation(np.flatnonzero(train.labels == label))[:SHOTS] for label in np.unique(train.labels)]
        some = np.concatenate(chosen)
        shown = encode_both(models, [train.texts[i] for i in some])
        for i in range(len(models)):
            p = Sen2ProClassifier(seed=seed).fit(shown[i].joined, train.labels[some]).predict_proba(asked[i].joined)
            right[i].append(p.argmax(axis=1) == truth)
            cost[i].append(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-12)))
    for title, (before, after), scale in (("accuracy, %", right, 100), ("log-loss", cost, 1)):
        baseline = mean_of([mean_statistic(each) for each in before])
        ours = [mean_statistic(each) for each in after]
        yield title, paired_bootstrap(ours, baseline, TEST, smaller_is_better=scale == 1).scaled(scale)


def compare_heads(before: Path | None) -> dict[str, Any]:
    """Compare the head that ships with another one on each task; without another one, analytic with it."""
    models = [Sen2Pro(MODEL, method="one-pass", head=before and before / f"{MODEL}-unit")]
    models.append(Sen2Pro(MODEL, method="one-pass" if before else "analytic"))
    tasks: dict[Callable[..., Iterator[tuple[str, Comparison]]], tuple[str, ...]] = {
        similarity: SETS, matching: ("mrpc", "qqp"), classifying: ("ag_news", "dbpedia14", "imdb"),
    }  # fmt: skip
    found: dict[str, Any] = {"before": str(models[0].head), "after": str(models[1].head)}
    for task, names in tasks.items():
        for name in names:
            for measure, c in task(models, name):
                found[f"{name}, {measure}"] = c.to_dict()
                line = f"{c.baseline:.4f} -> {c.value:.4f}: {c.gain:+.4f} [{c.low:+.4f}, {c.high:+.4f}] {c.verdict}"
                print(f"{name}, {measure}: {line}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--hundred", action="store_true", help="100 + 100 samples as well, on STS-B test only")
    parser.add_argument("--before", type=Path, help="folder with another head: compare the shipped head with it alone")
    parser.add_argument("--analytic", action="store_true", help="compare the method analytic with one-pass alone")
    options = parser.parse_args()
    if options.before or options.analytic:
        save("downstream_heads" if options.before else "downstream_analytic", compare_heads(options.before))
        return

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
