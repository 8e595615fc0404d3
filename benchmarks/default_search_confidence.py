"""Fit the numbers that `sen2pro.search` ships for the default model, and measure them on sets that chose nothing.

    SEN2PRO_DATA=FOLDER python benchmarks/default_search_confidence.py

Development: questions and the paragraphs that answer them (XQuAD), alone and among 11,217 articles that answer none,
and sentences and their paraphrases (EvalRank). In each, half of the queries lose their answer. Every hit of the first
ten is an example; a first hit counts as much as the nine others together.
"""

from __future__ import annotations

import json

import numpy as np
import search_data
from common import save
from sklearn.linear_model import LogisticRegression

from sen2pro import Sen2Pro
from sen2pro.confidence.default import MATTERS
from sen2pro.files import documents
from sen2pro.metrics.abstention import auroc, calibration, share_answered
from sen2pro.search.calibration import DEPTH, FILE, Shipped, features
from sen2pro.search.encoding import Encoded
from sen2pro.search.ranking import ranking

SEEDS, QUERIES, PER_INTENT = 3, 1500, 10
RANKINGS = ("cosine", "mean-cosine")
Lists = tuple[np.ndarray, np.ndarray]  # scores and which hits are right, of the first ten (n, 10)


def nearest(by: str, queries: Encoded, docs: Encoded, right: np.ndarray, removed: np.ndarray) -> Lists:
    """Rank documents, some of which are removed for a query (pairs); `right` are the pairs that answer."""
    way = ranking(by)
    stored, scores, good = way.document(docs), [], []
    taken, wanted = _by_query(removed), _by_query(right)
    for start in range(0, len(queries), 256):
        rows = np.arange(start, min(start + 256, len(queries)))
        table = way.query(search_data.take(queries, rows)) @ stored.T
        for row, each in zip(rows, table, strict=True):
            each[list(taken.get(row, ()))] = -np.inf
        order = np.argsort(-table, axis=1, kind="stable")[:, :DEPTH]
        scores.append(np.take_along_axis(table, order, axis=1))
        good += [[hit in wanted.get(row, ()) for hit in hits] for row, hits in zip(rows, order, strict=True)]
    return np.concatenate(scores).astype(np.float64), np.array(good)


def _by_query(pairs: np.ndarray) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for query, document in pairs.tolist():
        found.setdefault(query, set()).add(document)
    return found


def halved(
    by: str, queries: Encoded, docs: Encoded, right: np.ndarray, seed: int, own: np.ndarray | None = None
) -> Lists:
    """Take the answers of a random half of the queries away; `own` (pairs) is never a hit."""
    loses = np.random.default_rng(seed).permutation(len(queries)) < len(queries) // 2
    gone = right[loses[right[:, 0]]]
    return nearest(by, queries, docs, right, gone if own is None else np.concatenate([gone, own]))


def development(model: Sen2Pro, by: str, seed: int) -> list[Lists]:
    questions, articles = search_data.retrieval(model, "xquad"), search_data.articles(model)
    background, pairs = search_data.evalrank(model)
    pairs = pairs[np.random.default_rng(seed).permutation(len(pairs))[:QUERIES]]
    rows = np.arange(len(pairs))
    many = search_data.join(questions.documents, articles)
    return [
        halved(by, questions.queries, questions.documents, questions.right, seed),
        halved(by, questions.queries, many, questions.right, seed),
        halved(
            by, search_data.take(background, pairs[:, 0]), background, np.stack([rows, pairs[:, 1]], axis=1), seed,
            np.stack([rows, pairs[:, 0]], axis=1),
        ),
    ]  # fmt: skip


def confirmation(model: Sen2Pro, by: str, seed: int) -> dict[str, Lists]:
    """Return the sets that choose nothing."""
    found = {}
    for name in ("cranfield", "cisi"):
        each = search_data.retrieval(model, name)
        found[name] = halved(by, each.queries, each.documents, each.right, seed)
    _, _, first, second, y = search_data.pairs(model, "qqp_test")
    found["QQP"] = nearest(by, first, second, np.argwhere(np.diag(y)), np.empty((0, 2), int))
    examples, labels = search_data.intents(model, "train")
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(np.flatnonzero(labels == name))[:PER_INTENT] for name in np.unique(labels) if name != "oos"]
    rows = np.concatenate(kept)
    asked, wanted = search_data.intents(model, "test")
    right = np.argwhere(wanted[:, None] == labels[rows][None])
    found["CLINC150"] = nearest(by, asked, search_data.take(examples, rows), right, np.empty((0, 2), int))
    return found


def fit(lists: list[Lists]) -> Shipped:
    floor = float(np.mean([scores[:, -1].mean() for scores, _ in lists]))
    x = np.concatenate([features(scores, floor)[..., 1:].reshape(-1, 4) for scores, _ in lists])
    y = np.concatenate([right.reshape(-1) for _, right in lists])
    one = np.r_[1.0, np.full(DEPTH - 1, 1 / (DEPTH - 1))]
    weight = np.concatenate([np.tile(one, len(scores)) / len(scores) for scores, _ in lists])
    fitted = LogisticRegression(C=1e4, max_iter=10_000).fit(x, y, sample_weight=weight / weight.mean())
    return Shipped(np.r_[fitted.intercept_, fitted.coef_[0]].round(4), round(floor, 4))


def judged(shipped: Shipped, lists: Lists) -> dict[str, float]:
    scores, right = lists
    p, y = shipped.probabilities(scores, None, None), right.astype(float)
    first, ones = y[:, 0], np.ones((1, len(y)))
    said = p[:, 0] >= 0.5
    sure = p[:, 0] >= 0.9
    return {
        "queries": len(y), "first hit right": first.mean(), "mean probability": p[:, 0].mean(),
        "calibration error": calibration(p[:, 0], first)(ones)[0],
        "AUROC": auroc(p[:, 0], first)(ones)[0], "AUROC of the first score": auroc(scores[:, 0], first)(ones)[0],
        "answered": said.mean(), "of these right": first[said].mean() if said.any() else float("nan"),
        "answered from 0.9 on": sure.mean(), "right of them": first[sure].mean() if sure.any() else float("nan"),
        "could answer at 95 %": share_answered(p[:, 0], first)(ones)[0],
        "later hits, mean probability": p[:, 1:].mean(), "later hits, right": y[:, 1:].mean(),
    }  # fmt: skip


def main() -> None:
    model = Sen2Pro(method="one-pass")
    signature = model.signature()
    numbers, results = {}, {}
    for by in RANKINGS:
        lists = [each for seed in range(SEEDS) for each in development(model, by, seed)]
        shipped = fit(lists)
        numbers[by] = {"weights": shipped.weights.tolist(), "floor": shipped.floor}
        left_out = {}
        for number, name in enumerate(("XQuAD", "XQuAD among articles", "EvalRank")):
            others = [each for i, each in enumerate(lists) if i % 3 != number]
            left_out[name] = judged(fit(others), lists[number])
        runs = [confirmation(model, by, seed) for seed in range(SEEDS)]
        each = {name: [judged(shipped, run[name]) for run in runs] for name in runs[0]}
        means = {
            name: {key: float(np.mean([one[key] for one in found])) for key in found[0]} for name, found in each.items()
        }
        results[by] = {"left out": left_out, "confirmed": means}
        print(by, json.dumps(numbers[by]))
        for kind, found in results[by].items():
            for name, each in found.items():
                print(f"  {kind} {name}: " + ", ".join(f"{key} {value:.3f}" for key, value in each.items()), flush=True)
    documents.write(FILE, {"signature": {name: getattr(signature, name) for name in MATTERS}, "rankings": numbers})
    save("default_search_confidence", results)


if __name__ == "__main__":
    main()
