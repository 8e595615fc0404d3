"""Fit the numbers that `sen2pro.search` ships for the default model, and measure them on sets that chose nothing.

    SEN2PRO_DATA=FOLDER python -m sen2pro_lab.training.default_search_confidence

Development: questions and the paragraphs that answer them (XQuAD), alone and among 11,217 articles that answer none;
sentences and their paraphrases (EvalRank); in these, half of the queries lose their answer. And questions that were
labelled as duplicates or not (the training part of QQP). First hits are the examples. The lead of a hit over the mean
of the other nine is what ships: compared by leaving out one set at a time, neither the score nor the gap to the second
hit adds anything to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from sen2pro import Sen2Pro
from sen2pro.calibration.defaults import DEPTH, DefaultCalibration, lead
from sen2pro.search.documents import unit
from sen2pro.validation import Array64, Labels
from sen2pro_lab.benchmarks import search_data
from sen2pro_lab.benchmarks.common import save
from sen2pro_lab.benchmarks.search_data import Kept
from sen2pro_lab.metrics.abstention import auroc, calibration, share_answered
from sen2pro_lab.training.default_confidence import save_defaults

SEEDS, QUERIES, PER_INTENT = 3, 1500, 10
RANKINGS = ("cosine", "mean-cosine")
Lists = tuple[Array64, NDArray[np.bool_]]  # scores and which hits are right, of the first ten (n, 10)


def nearest(by: str, queries: Kept, docs: Kept, right: Labels, removed: Labels) -> Lists:
    """Rank documents, some of which are removed for a query (pairs); `right` are the pairs that answer."""
    asked, stored = (unit(each.plain if by == "cosine" else each.gaussian.mean) for each in (queries, docs))
    scores, good = [], []
    taken, wanted = _by_query(removed), _by_query(right)
    for start in range(0, len(queries), 256):
        rows = np.arange(start, min(start + 256, len(queries)))
        table = asked[rows] @ stored.T
        for row, each in zip(rows.tolist(), table, strict=True):
            each[list(taken.get(row, ()))] = -np.inf
        order = np.argsort(-table, axis=1, kind="stable")[:, :DEPTH]
        scores.append(np.take_along_axis(table, order, axis=1))
        good += [[hit in wanted.get(row, ()) for hit in hits] for row, hits in zip(rows.tolist(), order, strict=True)]
    return np.concatenate(scores).astype(np.float64), np.array(good)


def _by_query(pairs: Labels) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for query, document in pairs.tolist():
        found.setdefault(query, set()).add(document)
    return found


def halved(by: str, queries: Kept, docs: Kept, right: Labels, seed: int, own: Labels | None = None) -> Lists:
    """Take the answers of a random half of the queries away; `own` (pairs) is never a hit."""
    loses = np.random.default_rng(seed).permutation(len(queries)) < len(queries) // 2
    gone = right[loses[right[:, 0]]]
    return nearest(by, queries, docs, right, gone if own is None else np.concatenate([gone, own]))


def development(model: Sen2Pro, by: str, seed: int) -> list[Lists]:
    questions, articles = search_data.retrieval(model, "xquad"), search_data.articles(model)
    many = search_data.join([questions.documents, articles])
    background, pairs = search_data.evalrank(model)
    pairs = pairs[np.random.default_rng(seed).permutation(len(pairs))[:QUERIES]]
    asked, rows = background[pairs[:, 0]], np.arange(len(pairs))
    right, own = (np.stack([rows, pairs[:, side]], axis=1) for side in (1, 0))
    _, _, first, second, y = search_data.pairs(model, "qqp_train")
    return [
        *(halved(by, questions.queries, each, questions.right, seed) for each in (questions.documents, many)),
        halved(by, asked, background, right, seed, own),
        nearest(by, first, second, np.argwhere(np.diag(y)), np.empty((0, 2), int)),
    ]


def confirmation(model: Sen2Pro, by: str, seed: int) -> dict[str, Lists]:
    """Return the sets that choose nothing."""
    found = {}
    for name in ("cranfield", "cisi"):
        each = search_data.retrieval(model, name)
        found[name] = halved(by, each.queries, each.documents, each.right, seed)
    _, _, first, second, y = search_data.pairs(model, "qqp_test")
    found["QQP test"] = nearest(by, first, second, np.argwhere(np.diag(y)), np.empty((0, 2), int))
    examples, labels = search_data.intents(model, "train")
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(np.flatnonzero(labels == name))[:PER_INTENT] for name in np.unique(labels) if name != "oos"]
    rows = np.concatenate(kept)
    asked, wanted = search_data.intents(model, "test")
    right = np.argwhere(wanted[:, None] == labels[rows][None])
    found["CLINC150"] = nearest(by, asked, examples[rows], right, np.empty((0, 2), int))
    return found


def fit(lists: list[Lists]) -> DefaultCalibration:
    """Fit a curve over the lead of first hits; each list of queries counts as much as any other."""
    floor = round(float(np.mean([scores[:, -1].mean() for scores, _ in lists])), 3)
    x = np.concatenate([[[lead(row, floor)[0]] for row in scores.tolist()] for scores, _ in lists])
    y = np.concatenate([right[:, 0] for _, right in lists])
    weight = np.concatenate([np.full(len(scores), 1 / len(scores)) for scores, _ in lists])
    fitted = LogisticRegression(C=1e4, max_iter=10_000).fit(x, y, sample_weight=weight / weight.mean())
    constant, slope = round(float(fitted.intercept_[0]), 3), round(float(fitted.coef_[0, 0]), 3)
    return DefaultCalibration(constant=constant, slope=slope, floor=floor)


def judged(shipped: DefaultCalibration, lists: Lists) -> dict[str, float]:
    scores, right = lists
    p, y = np.array(shipped.probabilities(scores.tolist())), right.astype(float)
    first, ones = y[:, 0], np.ones((1, len(y)))
    said = p[:, 0] >= 0.5
    sure = p[:, 0] >= 0.9
    return {
        "queries": len(y), "first hit right": first.mean(), "mean probability": p[:, 0].mean(),
        "log-loss": float(-np.log(np.clip(np.where(first == 1, p[:, 0], 1 - p[:, 0]), 1e-9, 1)).mean()),
        "calibration error": calibration(p[:, 0], first)(ones)[0],
        "AUROC": auroc(p[:, 0], first)(ones)[0],
        "answered": said.mean(), "of these right": first[said].mean() if said.any() else float("nan"),
        "answered from 0.9 on": sure.mean(), "right of them": first[sure].mean() if sure.any() else float("nan"),
        "could answer at 95 %": share_answered(p[:, 0], first)(ones)[0],
        "later hits, mean probability": p[:, 1:].mean(), "later hits, right": y[:, 1:].mean(),
    }  # fmt: skip


def main() -> None:
    model = Sen2Pro(method="one-pass")
    numbers, results = {}, {}
    for by in RANKINGS:
        lists = [each for seed in range(SEEDS) for each in development(model, by, seed)]
        shipped = fit(lists)
        numbers[by] = shipped
        runs = [confirmation(model, by, seed) for seed in range(SEEDS)]
        each = {name: [judged(shipped, run[name]) for run in runs] for name in runs[0]}
        means = {
            name: {key: float(np.mean([one[key] for one in found])) for key in found[0]} for name, found in each.items()
        }
        results[by] = {"not seen": means}
        print(by, shipped)
        for name, one in means.items():
            print(f"  {name}: " + ", ".join(f"{key} {value:.3f}" for key, value in one.items()), flush=True)
    save_defaults(model, hits=numbers)
    save("default_search_confidence", results)


if __name__ == "__main__":
    main()
