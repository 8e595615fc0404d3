"""Measure search: what an index costs beside the same engine alone, and what its answers are worth.

    SEN2PRO_DATA=FOLDER python -m sen2pro_lab.benchmarks.search [engines] [answers]

Rows of `engines` are real vectors (EvalRank, CLINC150, DBpedia: 51,000) and noisy copies of them: to encode 100,000
texts takes long, and an engine sees vectors only. Both sides are asked in turns, query by query. The time of a query is
the least CPU time of some rounds, which is what other work on the machine disturbs least; the median over queries is
reported.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro import Gaussian, Sen2Pro, Sen2ProWarning
from sen2pro.calibration import promise
from sen2pro.calibration.defaults import calibration
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.calibration.report import GREY, panels
from sen2pro.search import Index
from sen2pro.search.documents import unit
from sen2pro.search.stores.protocol import Document, Rows
from sen2pro.validation import Array, Array64, Labels
from sen2pro_lab.benchmarks import search_data
from sen2pro_lab.benchmarks.common import ROOT, save
from sen2pro_lab.benchmarks.search_data import Kept
from sen2pro_lab.metrics.abstention import share_answered
from sen2pro_lab.training.default_search_confidence import confirmation, development

K, ASKED, ROUNDS = 10, 200, 5
PICTURE = ROOT / "docs" / "search.png"


def fill(index: Index, docs: Kept, texts: list[str], batch: int = 2048) -> None:
    """Put encoded documents into an index, numbered."""
    for start in range(0, len(docs), batch):
        rows = np.arange(start, min(start + batch, len(docs)))
        part, documents = docs[rows], [Document(str(row), texts[row], {}) for row in rows]
        index.store.write(Rows(documents, unit(part.plain), part.about), replace=False)
    index.store.finish()


def asked(index: Index, queries: Kept, k: int) -> list[Any]:
    """Search with queries that are encoded: all that an index does but the pass of the network."""
    return index._answers([""] * len(queries), unit(queries.plain), queries.about, k, {}, 0.5)


def recall_of(results: list[Any], exact: Labels) -> float:
    """Return the share of the true first hits (n, K) that were found."""
    pairs = zip(results, exact.tolist(), strict=True)
    return float(np.mean([len({int(hit.id) for hit in found} & set(row)) / K for found, row in pairs]))


def latencies(ways: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """Return the CPU time of a query in milliseconds, of several ways that are asked in turns."""
    times = {name: np.empty((ROUNDS, ASKED)) for name in ways}
    for turn in range(-1, ROUNDS):  # the first round warms up
        for number in range(ASKED if turn >= 0 else 10):
            for name, way in ways.items():
                start = time.process_time()
                way(number)
                times[name][turn, number] = time.process_time() - start
    return {name: 1000 * float(np.median(each.min(axis=0))) for name, each in times.items()}


def vectors(model: Sen2Pro, rows: int) -> tuple[Kept, Kept]:
    """Return documents, real ones first and then noisy copies, and real queries that are not among them."""
    parts = search_data.evalrank(model)[0], search_data.articles(model), search_data.intents(model, "train")[0]
    real = search_data.join(parts)
    rng = np.random.default_rng(0)
    more = rng.integers(0, len(real), max(0, rows - len(real)))
    copies = real[more]
    noise = rng.normal(0, 0.02, copies.plain.shape).astype(np.float32)
    plain = copies.plain + noise
    scale = np.exp(rng.normal(0, 0.1, (len(more), 1))).astype(np.float32)  # of the variances
    gaussian = Gaussian(copies.gaussian.mean + noise, copies.gaussian.variance * scale)
    noisy = Kept(plain / np.linalg.norm(plain, axis=1, keepdims=True), gaussian, copies.about)
    every = search_data.join([real, noisy]) if len(more) else real
    return every[np.arange(rows)], search_data.intents(model, "test")[0]


def engines(model: Sen2Pro, rows: int) -> dict[str, Any]:
    """Measure recall, time and space of both kinds of index, beside FAISS with plain vectors alone."""
    docs, queries = vectors(model, rows)
    some = queries[np.arange(ASKED)]
    exact = np.argsort(-(some.plain @ docs.plain.T), axis=1, kind="stable")[:, :K]
    results = {}
    for kind in ("flat", "hnsw"):
        with tempfile.TemporaryDirectory() as folder:
            results[f"faiss {kind}"] = found = engine(model, kind, docs, some, exact, Path(folder))
        print(kind, {key: round(value, 4) for key, value in found.items()}, flush=True)
    return results


def engine(model: Sen2Pro, kind: str, docs: Kept, queries: Kept, exact: Labels, folder: Path) -> dict[str, float]:
    """Measure one kind of index, without and with the pass of the network."""
    import faiss

    index = Index.build(model, [], kind=kind)
    stored = [f"text number {row}" for row in range(len(docs))]
    fill(index, docs, stored)
    dim = docs.plain.shape[1]
    plain: Any = faiss.IndexFlatIP(dim) if kind == "flat" else faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
    if kind == "hnsw":
        plain.hnsw.efConstruction, plain.hnsw.efSearch = 128, 128
    for start in range(0, len(docs), 2048):  # as the index does: a graph depends on it
        plain.add(docs.plain[start : start + 2048])

    def alone(vector: Array) -> Any:
        scores, rows = plain.search(vector[None], K)
        return [(str(row), stored[row], score) for row, score in zip(rows[0], scores[0], strict=True)]

    one = [queries[np.array([number])] for number in range(ASKED)]
    texts = search_data.intent_texts("test")
    found = latencies(
        {
            "ms": lambda number: asked(index, one[number], K),
            "ms alone": lambda number: alone(queries.plain[number]),
            "ms with the pass": lambda number: index.search(texts[number], K),
            "ms alone with the pass": lambda number: alone(model.encode_plain(texts[number])),
        }
    )
    index.save(folder / "index")
    faiss.write_index(plain, str(folder / "plain"))
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    bare = (folder / "plain").stat().st_size + next((folder / "index").glob("texts-*")).stat().st_size
    return found | {
        "rows": len(docs), "recall": recall_of(asked(index, queries, K), exact), "bytes": size, "bytes alone": bare,
        "time": found["ms"] / found["ms alone"], "space": size / bare,
        "time with the pass": found["ms with the pass"] / found["ms alone with the pass"],
    }  # fmt: skip


def answers(model: Sen2Pro) -> dict[str, Any]:
    """Measure the share of queries that are answered at a promised precision of 95 %, and draw risk and coverage."""
    sets = {"XQuAD": development(model, "cosine", 0)[0], "CLINC150": confirmation(model, "cosine", 0)["CLINC150"]}
    results: dict[str, dict[str, Any]] = {}
    curves = {}
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


def likely(model: Sen2Pro, scores: Array64) -> Array64:
    """Return the probability of each first hit by the numbers that ship."""
    found = calibration(None, model.signature(), "cosine")
    assert found is not None
    return np.array(found.probabilities(scores.tolist()))[:, 0]


def _draw(curves: dict[str, Any]) -> None:
    figure, axes = panels(len(curves), 4.5, 3.4)
    for axis, (name, (ways, y)) in zip(axes, curves.items(), strict=True):
        for way, sure in ways.items():
            order = np.argsort(-sure, kind="stable")
            counts = np.arange(1, len(y) + 1)
            axis.plot(100 * counts / len(y), 100 * np.cumsum(1 - y[order]) / counts, label=way)
        axis.axhline(5, color=GREY, linewidth=0.8, linestyle=":")
        axis.set(title=name, xlabel="queries answered, the surest first (%)", ylabel="wrong answers (%)")
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    print(f"-> {PICTURE.relative_to(ROOT)}")


def main() -> None:
    """Run the parts that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ways: dict[str, Callable[[Sen2Pro], dict[str, Any]]] = {
        "engines": lambda model: engines(model, options.rows), "answers": answers,
    }  # fmt: skip
    parser.add_argument("parts", nargs="*", default=[*ways], choices=[*ways, []])
    parser.add_argument("--rows", type=int, default=100_000, help="of all engines")
    options = parser.parse_args()
    model = Sen2Pro(method="one-pass")
    for part in options.parts:
        print(f"== {part}", flush=True)
        save(f"search_{part}", {part: ways[part](model)})


if __name__ == "__main__":
    main()
