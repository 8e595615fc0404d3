"""Measure search: what ranks best, what an index costs beside the same engine alone, and what its answers are worth.

SEN2PRO_DATA=FOLDER python benchmarks/search.py [ranking] [engines] [distances] [memory] [answers] [duplicates]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from sen2pro import Sen2Pro, Sen2ProWarning
from sen2pro.confidence import MatchConfidence, promise
from sen2pro.confidence.search import SearchConfidence
from sen2pro.search.calibration import shipped
from sen2pro.search.ranking import NAMES
from sen2pro_lab.benchmarks import search_data
from sen2pro_lab.benchmarks.common import ROOT, save
from sen2pro_lab.benchmarks.search_engines import ENGINES, K, distances, engines, memory, similarity
from sen2pro_lab.metrics.abstention import share_answered

PARTS = ("ranking", "engines", "distances", "memory", "answers", "duplicates")
PICTURE = ROOT / "docs" / "search.png"


def interval(values: np.ndarray) -> list[float]:
    draws = np.random.default_rng(0).integers(0, len(values), (2000, len(values)))
    return [float(values.mean()), *np.percentile(values[draws].mean(axis=1), (2.5, 97.5)).tolist()]


def rank(model: Sen2Pro) -> dict[str, Any]:
    """Compare all rankings: nDCG@10 of collections, MRR of EvalRank; the difference to the plain cosine."""
    found: dict[str, Any] = {}
    for name in ("xquad", "cranfield", "cisi"):
        each = search_data.retrieval(model, name)
        right = each.table()
        found[name] = {by: ndcg(similarity(by, each.queries, each.documents), right) for by in NAMES}
    found |= {} if model.settings.samples else {"evalrank": rank_evalrank(model)}  # 25,000 sentences: not by sampling
    results: dict[str, Any] = {}
    for name, by_ranking in found.items():
        plain = by_ranking["cosine"]
        results[name] = {by: {"mean": float(v.mean()), "gain": interval(v - plain)} for by, v in by_ranking.items()}
        for by, each in results[name].items():
            gain = " ".join(f"{100 * x:+.2f}" for x in each["gain"])
            print(f"{name:10} {by:18} {100 * each['mean']:.2f}  over cosine {gain}", flush=True)
    return results


def rank_evalrank(model: Sen2Pro) -> dict[str, np.ndarray]:
    """Return the reciprocal ranks of 1,500 pairs of EvalRank, for all rankings."""
    background, pairs = search_data.evalrank(model)
    pairs = pairs[np.random.default_rng(0).permutation(len(pairs))[:1500]]
    found = {}
    for by in NAMES:
        if by in ("symmetric-kl", "bhattacharyya"):  # minutes, and far behind on the others
            continue
        places = []
        for start in range(0, len(pairs), 250):
            some = pairs[start : start + 250]
            table, rows = similarity(by, search_data.take(background, some[:, 0]), background), np.arange(len(some))
            table[rows, some[:, 0]] = -np.inf
            places.append(1 + (table > table[rows, some[:, 1]][:, None]).sum(axis=1))
        found[by] = 1 / np.concatenate(places)
    return found


def ndcg(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    gains = 1 / np.log2(np.arange(2, K + 2))
    best = np.cumsum(gains)[np.minimum(right.sum(axis=1), K) - 1]
    return np.asarray(np.take_along_axis(right, order, axis=1) @ gains / best)


def answers(model: Sen2Pro) -> dict[str, Any]:
    """Measure the share of queries that are answered at a promised precision of 95 %, and draw risk and coverage."""
    from default_search_confidence import confirmation, development

    sets = {"XQuAD": development(model, "cosine", 0)[0], "CLINC150": confirmation(model, "cosine", 0)["CLINC150"]}
    results, curves = {}, {}
    for name, (scores, right) in sets.items():
        half = np.random.default_rng(99).permutation(len(scores)) < len(scores) // 2  # 0 has taken answers away
        fitted = SearchConfidence().fit(scores[half], right[half])
        y = right[~half, 0].astype(float)
        sure = {
            "fitted on labels": fitted.probability(scores[~half]),
            "shipped": likely(model, scores[~half]),
            "cosine alone": scores[~half, 0],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Sen2ProWarning)
            rules = {"fitted on labels": fitted.abstain(0.95)}
            for other in ("cosine alone", "shipped"):
                known = scores[half, 0]
                if other == "shipped":
                    known = likely(model, scores[half])
                rules[other] = promise(known, right[half, 0], precision=0.95).rule
        results[name] = {"right": float(y.mean()), "queries": len(y)}
        for way, rule in rules.items():
            said = np.zeros(len(y), bool) if rule is None else rule.accepts(sure[way])
            results[name][way] = {
                "answered": float(said.mean()), "right": float(y[said].mean()) if said.any() else None,
                "could answer at 95 %": float(share_answered(sure[way], y)(np.ones((1, len(y))))[0]),
            }  # fmt: skip
            print(name, way, results[name][way], flush=True)
        curves[name] = sure, y
    _draw(curves)
    return results


def likely(model: Sen2Pro, scores: np.ndarray) -> np.ndarray:
    """Return the probability of each first hit by the numbers that ship."""
    return np.array(shipped(model.signature(), "cosine").probabilities(scores.tolist()))[:, 0]


def _draw(curves: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(9, 3.4), sharey=True)
    for axis, (name, (ways, y)) in zip(axes, curves.items(), strict=True):
        for way, sure in ways.items():
            order = np.argsort(-sure, kind="stable")
            counts = np.arange(1, len(y) + 1)
            axis.plot(100 * counts / len(y), 100 * np.cumsum(1 - y[order]) / counts, label=way)
        axis.axhline(5, color="grey", linewidth=0.8, linestyle=":")
        axis.set(title=name, xlabel="queries answered, the surest first (%)")
    axes[0].set_ylabel("wrong answers (%)")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    print(f"-> {PICTURE.relative_to(ROOT)}")


def duplicates(model: Sen2Pro) -> dict[str, Any]:
    """Compare ways to tell duplicates on QQP: found at equal precision; and the false hits of a cache."""
    first, second, _, _, y = search_data.pairs(model, "qqp_train")
    asked_first, asked_second, a, b, wanted = search_data.pairs(model, "qqp_test")
    cosine = (a.plain.astype(float) * b.plain).sum(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Sen2ProWarning)
        confidence = MatchConfidence().fit(model, first, second, y.tolist())
        probability = np.asarray(confidence.probability(asked_first, asked_second))
        rules = {target: confidence.threshold(precision=target) for target in (0.7, 0.75, 0.8, 0.9)}
    results: dict[str, Any] = {"at equal precision": {}, "cache": {}}
    for target in (0.75, 0.8, 0.85, 0.9):
        found = {name: found_at(sure, wanted, target) for name, sure in (("fitted", probability), ("cosine", cosine))}
        results["at equal precision"][target] = found
        print("duplicates found at a precision of", target, found, flush=True)
    known = dict(zip([*asked_first, *asked_second], np.concatenate([a.plain, b.plain]), strict=True))
    results["semhash"] = semhash(asked_first, asked_second, wanted, known)
    for limit in (0.8, 0.9, 0.95):
        hit = cosine >= limit
        results["cache"][f"cosine {limit}"] = [float(hit.mean()), float(1 - wanted[hit].mean())]
    for target, rule in rules.items():
        hit = np.zeros(len(wanted), bool) if rule is None else rule.accepts(probability)
        results["cache"][f"promised {target}"] = [
            float(hit.mean()),
            float(1 - wanted[hit].mean()) if hit.any() else None,
        ]
    print("cache: share of hits, false hits among them", results["cache"], flush=True)
    return results


def found_at(sure: np.ndarray, wanted: np.ndarray, precision: float) -> float:
    """Return the largest share of the duplicates that are found at a precision, known afterwards."""
    order = np.argsort(-sure, kind="stable")
    right = np.cumsum(wanted[order])
    enough = right >= precision * np.arange(1, len(right) + 1)
    return float(right[enough].max(initial=0) / wanted.sum())


def semhash(first: list[str], second: list[str], wanted: np.ndarray, known: dict[str, np.ndarray]) -> Any:
    """Let semhash, with the same encoder, find duplicates among all questions; judge it by the labelled pairs."""
    try:
        from semhash import SemHash
    except ImportError:
        return "semhash is not installed"

    class Encoder:
        def encode(self, inputs: Any, **_: Any) -> np.ndarray:
            return np.stack([known[text] for text in inputs])

    texts = list(dict.fromkeys([*first, *second]))
    engine = SemHash.from_records(texts, model=Encoder())
    results = {}
    for limit in (0.8, 0.9, 0.95, 0.97):
        pairs = {
            frozenset((record.record, other)) for record in engine.self_deduplicate(threshold=limit).filtered
            for other, _ in record.duplicates
        }  # fmt: skip
        hit = np.array([frozenset(pair) in pairs for pair in zip(first, second, strict=True)])
        results[str(limit)] = {"found": float(wanted[hit].sum() / wanted.sum()), "precision": float(wanted[hit].mean())}
        print("semhash", limit, results[str(limit)], flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=PARTS, choices=[*PARTS, []])
    parser.add_argument("--rows", type=int, default=100_000, help="of all engines")
    parser.add_argument("--engines", nargs="*", default=[*ENGINES], choices=[*ENGINES])
    parser.add_argument("--model", help="for ranking: folder or hub id of another encoder, which is sampled (4 + 4)")
    options = parser.parse_args()
    model, ending = Sen2Pro(method="one-pass"), ""
    if options.model:
        model, ending = Sen2Pro(options.model, samples=4), f"_{options.model.rstrip('/').split('/')[-1]}"
    ways: dict[str, Callable[[], Any]] = {
        "ranking": lambda: rank(model),
        "engines": lambda: engines(model, options.rows, options.engines),
        "distances": lambda: distances(model, options.rows), "memory": lambda: memory(model),
        "answers": lambda: answers(model), "duplicates": lambda: duplicates(model),
    }  # fmt: skip
    for part in options.parts:
        print(f"== {part}", flush=True)
        save(f"search_{part}{ending}", {part: ways[part]()})


if __name__ == "__main__":
    main()
