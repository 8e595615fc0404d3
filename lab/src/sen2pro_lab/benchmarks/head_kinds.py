"""Measure the head on kinds of text that no head was fitted on, from 1 to 250 words.

    python benchmarks/head_kinds.py                     # the head that ships; draws the references the first time
    python benchmarks/head_kinds.py --head old=folder   # beside others: `folder` holds `raw` and `unit`

Each kind is judged against many samples of each of its texts, which are kept in SEN2PRO_CACHE. R2 is of the logarithm
of the variance: per dimension and of the total of a text. `factor` is the median of predicted over reference total.
`flagged` is the share of texts whose coverage is below 0.01. The reference is noisy too: `--ceiling` draws a second
one and says which R2 a head without any error would have. `--error` asks whether coverage follows error: the
area under the curve (AUROC) for "a total is off by more than half", over foreign, made-up and ordinary text.
"""

from __future__ import annotations

import argparse
import inspect
import random
import re
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata, spearmanr

from sen2pro import Sen2Pro
from sen2pro.estimation.head import SHIPPED, Head
from sen2pro.files.encoding import FAR
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.benchmarks.variance_quality import ceiling, quality
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.data import read_classification, read_sts
from sen2pro_lab.paper.files import objects, table
from sen2pro_lab.paper.store import Store

MODEL = "all-MiniLM-L6-v2"
SHORT, LONG = (60, 150), (60, 60)  # samples of a reference: model, data
KINDS = {
    "STS": (SHORT, 24), "news": (SHORT, 24), "encyclopedia": (SHORT, 24), "requests": (SHORT, 24),
    "tweets": (SHORT, 24), "dialogue": (SHORT, 24), "1 to 3 words": (SHORT, 24),
    "reviews, 75 to 110 words": (LONG, 16), "reviews, 150 to 250 words": (LONG, 16), "paragraphs": (LONG, 16),
    "abstracts": (LONG, 16),
}  # fmt: skip
# Sets on which nothing was chosen: neither what a head reads, nor what is followed by the method analytic.
CONFIRM = {
    "MRPC": (SHORT, 24), "STS-12": (SHORT, 24), "sentences of reviews": (SHORT, 24), "questions (XQuAD)": (SHORT, 24),
    "aerodynamics (Cranfield)": (LONG, 16),
}  # fmt: skip
ODD = ("German", "Turkish", "Chinese", "code", "random letters", "random words")  # 20 of each, with SHORT samples
LANGUAGES = {"German": "de-DE", "Turkish": "tr-TR", "Chinese": "zh-CN"}


def ordinary() -> dict[str, list[str]]:
    """Return all English texts of each kind."""

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
        "STS-12": read_sts("sts12").left,
        "sentences of reviews": column("specificity/movie.tsv", "sentence"),
        "questions (XQuAD)": column("confidence/xquad_queries.jsonl", "text"),
        "aerodynamics (Cranfield)": column("confidence/cranfield_docs.jsonl", "text"),
    }


def short_turns() -> list[str]:
    """Return sentences of film reviews and turns of dialogue, many of them very short."""
    from sen2pro_lab.paper.data import read_dialogue

    responses = [response for name in ("convai2", "dailydialog") for response in read_dialogue(f"grade_{name}")]
    turns = [turn for response in responses for turn in (response.reference, response.response)]
    names = [text.split(" ", 2) for text in read_classification("dbpedia14", "test").texts]
    return [*turns, *(" ".join(words[:2]) for words in names)]


def odd(handbook: Path) -> dict[str, list[str]]:
    """Return text that the head was not made for."""
    rng = random.Random(0)
    words = sorted({w for text in read_sts("stsb_test").left for w in re.findall(r"[a-z]+", text.lower())})
    lengths = [3, 6, 12, 20, 35]
    found: dict[str, list[str]] = {}
    for name, language in LANGUAGES.items():
        markup = "".join(path.read_text(encoding="utf-8") for path in sorted((handbook / language).glob("*.html")))
        blocks = re.findall(r"<div class=\"para\">(.*?)</div>", markup, re.DOTALL)
        blocks = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", block)).strip() for block in blocks]
        texts = [re.split(r"(?<=[.。]) ?", block)[0] for block in blocks]
        foreign = r"^[^A-Za-z]{8}" if name == "Chinese" else r"^(?!.*\b(?:the|is|and|a|of|to|for)\b).{20}"
        found[name] = [text for text in texts if re.search(foreign, text)]
    found["code"] = [
        re.sub(r"\s+", " ", line) for line in re.split(r"\n\n+", inspect.getsource(argparse)) if 20 < len(line) < 300
    ]
    found["random letters"] = [
        " ".join("".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(n))
        for n in lengths * 20
    ]
    found["random words"] = [" ".join(rng.choices(words, k=n)) for n in lengths * 20]
    return found


def choose(texts: Iterable[str], count: int) -> list[str]:
    """Choose some texts, the same ones every time."""
    return random.Random(0).sample(sorted(set(texts)), count)


class Judged(NamedTuple):
    """Texts of one kind, the references of their variances by source, and how many samples these have."""

    texts: list[str]
    references: dict[str, np.ndarray]


def judged(texts: list[str], samples: tuple[int, int], unit: bool, seed: int = 0) -> Judged:
    """Return texts with the variances of many samples, divided by N - 1."""
    model = Sen2Pro(MODEL, samples=samples, normalize=False, seed=seed)
    parts = Store().moments(model, texts, unit=unit)
    scaled = zip(parts.items(), samples, strict=True)
    return Judged(texts, {source: part.variance.astype(float) * n / (n - 1) for (source, part), n in scaled})


def predict(heads: dict[str, Head], texts: list[str], geometry: str) -> dict[str, Any]:
    """Return the variances by source, and the coverage, that each head says, and the method analytic with it."""
    model = Sen2Pro(MODEL, samples=2, normalize=geometry == "unit")
    states = model.sampler.plain(texts, "", layers=range(model.encoder.depth), warn=False, spread=True)
    said: dict[str, Any] = {
        name: ({source: head.predict(states, source)[1] for source in head.sources}, head.coverage(states))
        for name, head in heads.items()
    }
    for name, head in heads.items():
        if head.correction:
            corrected = head.correct(states, model.sampler.spread(states))
            said[f"{name}, analytic"] = {"model": corrected}, said[name][1]
    return said


def figures(predicted: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Compare variances (n, k) with those of the reference."""
    found = quality(predicted, reference)
    totals, truth = predicted.sum(axis=1), reference.sum(axis=1)
    return {
        "dimension": found["dimension"],
        "total": found["total"],
        "spearman": float(spearmanr(totals, truth).statistic),
        "factor": float(np.median(totals / truth)),
        "error": float(np.abs(np.log(totals / truth)).mean()),
    }


def gain(new: np.ndarray, old: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """Return how much smaller the squared error of the log total is, as R2, with its 95 % bootstrap interval."""
    truth = np.log(reference.sum(axis=1))
    saved = (np.log(old.sum(axis=1)) - truth) ** 2 - (np.log(new.sum(axis=1)) - truth) ** 2
    rows = np.random.default_rng(0).integers(len(truth), size=(2000, len(truth)))
    low, high = np.quantile(saved[rows].mean(axis=1) / truth.var(), [0.025, 0.975])
    return float(saved.mean() / truth.var()), float(low), float(high)


def auroc(score: np.ndarray, wrong: np.ndarray) -> float:
    """Return the probability that a wrong one scores higher than a right one."""
    ranks, count = rankdata(score), wrong.sum()
    pairs = count * (~wrong).sum()
    return float((ranks[wrong].sum() - count * (count + 1) / 2) / pairs) if pairs else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--head", action="append", default=[], help="NAME=FOLDER of another head: raw and unit in it")
    parser.add_argument("--handbook", type=Path, help="usr/share/doc/debian-handbook/html, for coverage")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=[*KINDS, *CONFIRM], help="kinds to judge")
    parser.add_argument("--confirm", action="store_true", help="judge on sets on which nothing was chosen")
    parser.add_argument("--error", action="store_true", help="also ask whether coverage follows error")
    parser.add_argument("--ceiling", action="store_true", help="also draw a second reference, for the best possible R2")
    parser.add_argument("--name", default="head_kinds", help="of the file in benchmarks/results")
    options = parser.parse_args()
    folders = {"shipped": SHIPPED, **{name: Path(folder) for name, folder in (h.split("=", 1) for h in options.head)}}
    judging = CONFIRM if options.confirm else {kind: (KINDS | CONFIRM)[kind] for kind in options.kinds}
    results: dict[str, Any] = {"kinds": {kind: {"texts": n, "samples": s} for kind, (s, n) in judging.items()}}
    kinds = ordinary()
    for geometry in ("unit", "raw"):
        heads = {name: Head.load(folder / f"{MODEL}-{geometry}") for name, folder in folders.items()}
        table_ = results[geometry] = {}
        for kind, (samples, count) in judging.items():
            every = judged(choose(kinds[kind], count), samples, geometry == "unit")
            said = predict(heads, every.texts, geometry)
            second = judged(every.texts, samples, geometry == "unit", seed=1) if options.ceiling else every
            for source, reference in every.references.items():
                if options.ceiling:
                    results.setdefault("ceiling", {}).setdefault(f"{source}, {geometry}", {})[kind] = ceiling(
                        reference, second.references[source]
                    )
                for name in (name for name, each in said.items() if source in each[0]):
                    found = figures(said[name][0][source], reference)
                    if name != "shipped":
                        found["gain"] = gain(said[name][0][source], said["shipped"][0][source], reference)
                    table_.setdefault(source, {}).setdefault(kind, {})[name] = found
        for source, lines in table_.items():
            print(f"\n{source}, {geometry}: R2 per dimension, of the total, Spearman, median factor [gain in R2]")
            for kind, found in lines.items():
                print(f"  {kind:27s}", *(_cells(figures_) for figures_ in found.values()), sep="   ")
            for kind, best in results.get("ceiling", {}).get(f"{source}, {geometry}", {}).items():
                print(f"  at most, {kind:18s}   {best['dimension']:+5.2f} {best['total']:+5.2f}")
    results["coverage"] = coverage(kinds, heads_of(folders, "unit"), options.handbook, options.error)
    results["heads"] = {name: str(head) for name, head in heads_of(folders, "unit").items()}
    save(options.name, results)


def heads_of(folders: dict[str, Path], geometry: str) -> dict[str, Head]:
    """Load the heads of one geometry."""
    return {name: Head.load(folder / f"{MODEL}-{geometry}") for name, folder in folders.items()}


def _cells(found: dict[str, Any]) -> str:
    line = f"{found['dimension']:+5.2f} {found['total']:+5.2f} {found['spearman']:.2f} {found['factor']:.2f}"
    return line + (" [{:+.2f}, {:+.2f}]".format(*found["gain"][1:]) if "gain" in found else "")


def coverage(kinds: dict[str, list[str]], heads: dict[str, Head], handbook: Path | None, error: bool) -> dict[str, Any]:
    """Print the share of texts that each head flags, by kind, and whether flagged text is where the error is."""
    groups = {
        kind: choose(texts, min(120 if KINDS[kind][0] == SHORT else 50, len(set(texts))))
        for kind, texts in kinds.items()
        if kind in KINDS
    }
    strange = odd(handbook) if handbook else {}
    groups |= {kind: choose(texts, min(100, len(set(texts)))) for kind, texts in strange.items()}
    result: dict[str, Any] = {"flagged": {}}
    print("\nflagged: " + ", ".join(heads))
    for kind, texts in groups.items():
        said = predict(heads, texts, "unit")
        result["flagged"][kind] = {name: float((said[name][1] < FAR).mean()) for name in heads}
        print(f"  {kind:27s}", *(f"{share:6.1%}" for share in result["flagged"][kind].values()))
    if not error:
        return result
    sets = [judged(choose(kinds[kind], n), samples, True) for kind, (samples, n) in KINDS.items()]
    sets += [judged(choose(texts, 20), SHORT, True) for texts in strange.values()]
    said_all = [predict(heads, each.texts, "unit") for each in sets]
    for name in heads:
        pairs = [(said[name][0], each.references) for said, each in zip(said_all, sets, strict=True)]
        off = {
            s: np.concatenate([np.abs(np.log(found[s].sum(axis=1) / truth[s].sum(axis=1))) for found, truth in pairs])
            for s in ("model", "data")
        }
        unknown = -np.concatenate([said[name][1] for said in said_all])
        result[name] = {
            s: {
                "off by more than half": int((e > np.log(1.5)).sum()),
                "auroc": auroc(unknown, e > np.log(1.5)),
                "spearman of error": float(spearmanr(unknown, e).statistic),
            }
            for s, e in off.items()
        }
        result[name]["texts"] = len(unknown)
        print(f"{name}: {result[name]}")
    return result


if __name__ == "__main__":
    main()
