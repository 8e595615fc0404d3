"""How good are the variances? Each method against many samples, on text that no head was fitted on.

    python -m sen2pro_lab.benchmarks.variance_quality              # 3 x 100 sentences against 500 samples of each kind
    python -m sen2pro_lab.benchmarks.variance_quality --kinds      # the head on 16 kinds of text, 1 to 250 words

Samples are drawn the first time and kept in SEN2PRO_CACHE. Three kinds of sentences: STS-B test, news (AG News test)
and very short turns of dialogue (GRADE). R2 of the logarithm of the variance: per dimension (1 - squared errors /
squared deviations from the dimension's own mean, summed over all) and of the total of a sentence. The reference is
noisy too: `ceiling` is the R2 of the true variances. `ratio` is the geometric mean of predicted over reference total:
1 is unbiased; `factor` is the median. Sampled variances are scaled to N - 1, which is better for them; the contestants
use another seed than the reference.
"""

from __future__ import annotations

import argparse
import random
import re
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from sen2pro import Sen2Pro
from sen2pro.calibration.report import panels
from sen2pro.validation import Array64
from sen2pro_lab.benchmarks.common import RESULTS, save
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.data import read_classification, read_dialogue, read_sts
from sen2pro_lab.paper.files import objects, table
from sen2pro_lab.paper.store import Store

MODEL = "all-MiniLM-L6-v2"
METHODS: dict[str, dict[str, Any]] = {
    "4 samples": {"samples": 4}, "15 samples": {"samples": 15}, "55 samples": {"samples": 55},
    "one-pass": {"method": "one-pass"},
}  # fmt: skip
SHORT, LONG = (60, 150), (60, 60)  # samples of a reference: model, data
KINDS = {
    "STS": (SHORT, 24), "news": (SHORT, 24), "encyclopedia": (SHORT, 24), "requests": (SHORT, 24),
    "tweets": (SHORT, 24), "dialogue": (SHORT, 24), "1 to 3 words": (SHORT, 24),
    "reviews, 75 to 110 words": (LONG, 16), "reviews, 150 to 250 words": (LONG, 16), "paragraphs": (LONG, 16),
    "abstracts": (LONG, 16),
}  # fmt: skip
# Sets on which nothing was chosen.
CONFIRM = {
    "MRPC": (SHORT, 24), "STS-12": (SHORT, 24), "sentences of reviews": (SHORT, 24), "questions (XQuAD)": (SHORT, 24),
    "aerodynamics (Cranfield)": (LONG, 16),
}  # fmt: skip


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


def kinds_of_text() -> dict[str, list[str]]:
    """Return all texts of each kind."""

    def column(file: str, *names: str) -> list[str]:
        path = catalogue.need(file)
        rows = table(path, *names) if file.endswith("tsv") else objects(path)
        return [row.text(name) for row in rows for name in names]

    pairs = read_sts("stsb_test")
    reviews = [re.sub(r"<br ?/?>|\s+", " ", text) for text in read_classification("imdb", "test").texts]
    news = read_classification("ag_news", "test").texts
    requests = column("confidence/qqp_test.tsv", "sentence1") + column("confidence/clinc150_test.jsonl", "text")
    turns = column("specificity/twitter.tsv", "sentence")
    tweets = column("specificity/tweets_test.tsv", "sentence")
    return {
        "STS": [*pairs.left, *pairs.right],
        "news": [text for text in news if not re.search(r"[\\#;&<>]", text)],
        "encyclopedia": list(read_classification("dbpedia14", "test").texts),
        "requests": requests,
        "tweets": tweets,
        "dialogue": turns,
        "1 to 3 words": [text for text in short_turns() if len(text.split()) <= 3],
        "reviews, 75 to 110 words": [text for text in reviews if 75 <= len(text.split()) <= 110],
        "reviews, 150 to 250 words": [text for text in reviews if 150 <= len(text.split()) <= 250],
        "paragraphs": column("confidence/xquad_docs.jsonl", "text"),
        "abstracts": column("confidence/cisi_docs.jsonl", "text"),
        "MRPC": column("confidence/mrpc_test.tsv", "sentence1"),
        "STS-12": list(read_sts("sts12").left),
        "sentences of reviews": column("specificity/movie.tsv", "sentence"),
        "questions (XQuAD)": column("confidence/xquad_queries.jsonl", "text"),
        "aerodynamics (Cranfield)": column("confidence/cranfield_docs.jsonl", "text"),
    }


def short_turns() -> list[str]:
    """Return sentences of film reviews and turns of dialogue, many of them very short."""
    responses = [response for name in ("convai2", "dailydialog") for response in read_dialogue(f"grade_{name}")]
    turns = [turn for response in responses for turn in (response.reference, response.response)]
    names = [text.split(" ", 2) for text in read_classification("dbpedia14", "test").texts]
    return [*turns, *(" ".join(words[:2]) for words in names)]


def quality(predicted: Array64, reference: Array64) -> dict[str, float]:
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


def ceiling(first: Array64, second: Array64, parts: int = 1) -> dict[str, float]:
    """Return the R2 of the true variances against a reference, from two halves with independent samples.

    The reference has `parts` 1: the samples of the first alone, or 2: those of both.
    """

    def share(a: Array64, b: Array64) -> float:
        return float(1 - ((a - b) ** 2).sum() / 2 / parts / ((a - a.mean(axis=0)) ** 2).sum())

    live = first.max(axis=0) > 1e-8 * first.mean()
    dimensions = [np.log(np.maximum(each[:, live], 1e-12)) for each in (first, second)]
    return {"dimension": share(*dimensions), "total": share(*(np.log(each.sum(axis=1)) for each in (first, second)))}


def reference_of(texts: list[str], samples: int | tuple[int, int], *, unit: bool, seed: int = 0) -> dict[str, Array64]:
    """Return the variances of many samples by source, divided by N - 1: (n, k)."""
    model = Sen2Pro(MODEL, samples=samples, normalize=False, seed=seed)
    parts = Store().moments(model, texts, unit=unit)
    return {s: part.variance.astype(float) * (n := model.samples[s]) / (n - 1) for s, part in parts.items()}


def by_method(count: int, samples: int) -> dict[str, Any]:
    """Compare all methods on three kinds of sentences, against two halves of the reference drawn with two seeds."""
    kinds = sentences(count)
    texts = [text for chosen in kinds.values() for text in chosen]
    results: dict[str, Any] = {"sentences": count, "reference": samples, "figures": {}, "ceiling": {}}
    for unit in (False, True):
        models = {name: Sen2Pro(MODEL, **how, normalize=unit, seed=1) for name, how in METHODS.items()}
        parts = {name: model.encode_sources(texts) for name, model in models.items()}
        halves = [reference_of(texts, samples // 2, unit=unit, seed=seed) for seed in (0, 2)]
        for source, k in ((source, k) for source in halves[0] for k in range(len(kinds))):
            rows, kind = slice(k * count, (k + 1) * count), list(kinds)[k]
            about = f"{source}, {'unit' if unit else 'raw'}"
            first, second = (half[source][rows] for half in halves)
            results["ceiling"].setdefault(about, {})[kind] = best = ceiling(first, second, parts=2)
            print(f"{about}, {kind}: R2 per dimension (total; ratio); at most {best}")
            for name, model in models.items():
                scale = (n := model.samples[source]) / (n - 1) if model.settings.draws else 1.0
                found = quality(parts[name][source].variance[rows].astype(float) * scale, (first + second) / 2)
                results["figures"].setdefault(about, {}).setdefault(name, {})[kind] = found
                print(f"  {name:12s} {found['dimension']:+6.2f} ({found['total']:+5.2f}; {found['ratio']:.2f})")
    return results


def by_kind() -> dict[str, Any]:
    """Judge the head that ships on many kinds of text, each against its own samples."""
    every = kinds_of_text()
    results: dict[str, Any] = {}
    for unit in (True, False):
        model = Sen2Pro(MODEL, method="one-pass", normalize=unit)
        for kind, (samples, count) in (KINDS | CONFIRM).items():
            texts = random.Random(0).sample(sorted(set(every[kind])), count)
            parts = model.encode_sources(texts)
            for source, truth in reference_of(texts, samples, unit=unit).items():
                said = parts[source].variance.astype(float)
                totals, wanted = said.sum(axis=1), truth.sum(axis=1)
                found = quality(said, truth) | {
                    "spearman": float(spearmanr(totals, wanted).statistic), "factor": float(np.median(totals / wanted)),
                }  # fmt: skip
                results.setdefault(f"{source}, {'unit' if unit else 'raw'}", {})[kind] = found
                print(f"{kind:27s} {source:6s}", {name: round(value, 2) for name, value in found.items()}, flush=True)
    return {"head": str(model.head), "figures": results}


def plot(figures: dict[str, Any]) -> None:
    """Draw R2 per dimension and of the total, by method, kind of sentence and kind of uncertainty."""
    figure, axes = panels(2 * len(figures), 3.5, 4)
    for (title, what), ax in zip(((t, w) for w in ("dimension", "total") for t in figures), axes, strict=True):
        for i, (name, found) in enumerate(figures[title].items()):
            places = np.arange(len(found)) + (i - len(METHODS) / 2) * 0.2
            ax.bar(places, np.clip([each[what] for each in found.values()], -0.5, 1), 0.18, label=name)
            ax.set_xticks(range(len(found)), list(found))
        ax.set(ylim=(-0.5, 1.02), title=f"{title}\nR² of {'the total' if what == 'total' else 'a dimension'}")
    axes[0].legend(frameon=False)
    figure.savefig(RESULTS / "variance_quality.png", dpi=130)


def main() -> None:
    """Compare the methods, or judge the head by kind of text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=100, help="of each kind")
    parser.add_argument("--reference", type=int, default=500, help="samples of the reference")
    parser.add_argument("--kinds", action="store_true", help="judge the head on 16 kinds of text instead")
    options = parser.parse_args()
    if options.kinds:
        save("head_kinds", by_kind())
        return
    results = by_method(options.sentences, options.reference)
    save("variance_quality", results)
    plot(results["figures"])


if __name__ == "__main__":
    main()
