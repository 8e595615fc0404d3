"""What does uncertainty cost? Times as multiples of `a`, one `SentenceTransformer.encode` in the same run.

    python benchmarks/speed.py                # 500 STS sentences of 8 to 25 words, one thread, median of 5
    python benchmarks/speed.py --sentences 100 --repeats 3 --parts contest
    python benchmarks/speed.py --model FOLDER # another encoder; without a head, one-pass is left out
    python benchmarks/speed.py --parts products --sentences 100   # only the share of the matrix products: quick
    python benchmarks/speed.py --parts threads                    # wants a quiet machine

The contestants take turns, so that a noisy machine treats them alike; absolute times mean nothing here. On one thread
the clock is CPU time. Also measured: what share of the time the matrix products of a pass take on their own; what two
threads gain over one; how cost grows with the number of sentences, the number of samples and the length; all-pairs
distances against scipy.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import nn
from torch.nn import functional

from sen2pro import Gaussian, Sen2Pro, Sen2ProError, distance
from sen2pro.sampling.edits import edit
from sen2pro_lab.benchmarks.common import RESULTS, save
from sen2pro_lab.paper.data import read_sts

SAMPLES = 15
PARTS = ["contest", "products", "threads", "growth", "pairs"]
PRODUCTS, PLAIN, EXACT = "matrix products of one pass", "one plain pass (sen2vec)", f"exact, {SAMPLES} + {SAMPLES}"
ONE_PASS = "one-pass"
ANALYTIC = "analytic"


def naive(model: Sen2Pro, sentences: list[str]) -> None:
    """Do 15 + 15 as a careful user would: train-mode passes in sorted batches of 32, `encode` of edited copies."""
    source = model.encoder.source
    sentences = sorted(sentences, key=len)
    for _ in range(SAMPLES):
        for start in range(0, len(sentences), 32):
            features = source.preprocess(sentences[start : start + 32])
            source.train()
            with torch.inference_mode():
                source(features)
    source.eval()
    for sample in range(SAMPLES):
        source.encode([edit(s, model.vocabulary, 0, sample) for s in sentences])


def seconds(work: Callable[[], object]) -> float:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def peak_memory(work: Callable[[], object]) -> float | None:
    """Return by how many MB a piece of work raises the memory of this process (Linux only)."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    gc.collect()
    reset.write_text("5")  # forget the peak so far

    def kilobytes(name: str) -> int:
        return int(next(line for line in status.read_text().splitlines() if line.startswith(name)).split()[1])

    before = kilobytes("VmRSS")
    work()
    return (kilobytes("VmHWM") - before) / 1024


def shares(model: Sen2Pro, sentences: list[str], times: dict[str, list[float]]) -> dict[str, float]:
    """Return the speed of what was timed as a share of that of the matrix products of the tokens that it ran.

    Edited copies that are equal run once, so that 15 + 15 is a little less than 30 passes.
    """
    encoder, words = model.encoder, model.sampler.words()
    plain = sum(map(len, encoder.tokens(sentences)))
    copies = [edit(text, words, model.sampler.seed, i) for text in sentences for i in range(SAMPLES)]
    passes = SAMPLES + sum(map(len, set(map(tuple, encoder.tokens(copies))))) / plain
    products = statistics.median(times[PRODUCTS])
    counts = {name: passes if name.startswith(EXACT) else 1 for name in times if name != PRODUCTS}
    found = {name: count * products / statistics.median(times[name]) for name, count in counts.items()}
    for name, share in found.items():
        print(f"  {name}: {share:.1%} of the speed of matrix products")
    return {"passes of 15 + 15": passes, **found}


def share_of_products(options: argparse.Namespace) -> dict[str, Any]:
    """Measure that share alone, and what a head adds to a pass; what is short takes more turns."""
    sentences, model = material()[1][: options.sentences], Sen2Pro(options.model, samples=SAMPLES)
    short: dict[str, Callable[[], object]] = {
        PRODUCTS: matrix_products(Sen2Pro(options.model), sum(map(len, model.encoder.tokens(sentences)))),
        PLAIN: lambda: model.sen2vec(sentences),
    }
    try:
        one = Sen2Pro(options.model, method="one-pass")
        short[ONE_PASS] = lambda: one.encode(sentences, show_progress_bar=False)
        both = Sen2Pro(options.model, method=ANALYTIC)
        short[ANALYTIC] = lambda: both.encode(sentences, show_progress_bar=False)
    except Sen2ProError as error:
        print(f"without one-pass: {error}")
    times: dict[str, list[float]] = {name: [] for name in (*short, EXACT)}
    take_turns(short, 1)  # warm up
    for _ in range(options.repeats):
        for name, found in take_turns(short, 5).items():
            times[name] += found
        times[EXACT].append(seconds(lambda: model.encode(sentences, show_progress_bar=False)))
    result = {"signature": str(model.signature()), "sentences": len(sentences), **shares(model, sentences, times)}
    for name in (name for name in (ONE_PASS, ANALYTIC) if name in times):
        ratios = [a / b for a, b in zip(times[name], times[PLAIN], strict=True)]
        result[f"{name} over one plain pass"] = statistics.median(ratios)
        low, high = np.quantile(ratios, [0.25, 0.75])
        print(f"  {name} takes {statistics.median(ratios):.3f} times a plain pass (quartiles {low:.3f}, {high:.3f})")
    return result


def matrix_products(model: Sen2Pro, tokens: int) -> Callable[[], None]:
    """Return the work of the linear layers alone, for one pass over so many tokens in equal batches of at most 512."""
    named = model.encoder.network.named_modules()
    layers = [layer for name, layer in named if isinstance(layer, nn.Linear) and not name.startswith("pooler")]
    sizes = [len(part) for part in np.array_split(np.arange(tokens), -(-tokens // 512))]  # a short rest would be slow
    rows = {width: torch.randn(512, width) for width in {layer.in_features for layer in layers}}

    def work() -> None:
        with torch.inference_mode():
            for size in sizes:
                for layer in layers:
                    functional.linear(rows[layer.in_features][:size], layer.weight, layer.bias)

    return work


def take_turns(contestants: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Time every contestant once a round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, work in contestants.items():
            times[name].append(seconds(work))
    return times


def material() -> tuple[list[str], list[str]]:
    """Return the sentences of STS-B test, and those of 8 to 25 words."""
    pairs = read_sts("stsb_test")
    pool = list(dict.fromkeys(pairs.left + pairs.right))
    return pool, [s for s in pool if 8 <= len(s.split()) <= 25]


def contest(options: argparse.Namespace) -> dict[str, Any]:
    """Compare the methods."""
    sentences = material()[1][: options.sentences]
    exact = Sen2Pro(options.model, samples=SAMPLES)
    # Another object: one whose libraries are loaded looks at each pass whether a weight has changed.
    source = Sen2Pro(options.model).encoder.source
    few, libraries = Sen2Pro(options.model, samples=4), Sen2Pro(source, samples=SAMPLES)
    tokens = sum(map(len, exact.encoder.tokens(sentences)))
    contestants: dict[str, Callable[[], object]] = {
        "a: SentenceTransformer.encode": lambda: source.encode(sentences),
        PRODUCTS: matrix_products(libraries, tokens),
        PLAIN: lambda: exact.sen2vec(sentences),
        "the same, by transformers": lambda: libraries.sen2vec(sentences),
        f"naive loop, {SAMPLES} + {SAMPLES}": lambda: naive(libraries, sentences),
        EXACT: lambda: exact.encode(sentences, show_progress_bar=False),
        f"{EXACT}, transformers": lambda: libraries.encode(sentences, show_progress_bar=False),
        "exact, 4 + 4": lambda: few.encode(sentences, show_progress_bar=False),
    }
    try:
        shrinking = Sen2Pro(options.model, samples=4, method="shrinkage")
        one = Sen2Pro(options.model, method="one-pass")
        contestants["shrinkage, 4 + 4"] = lambda: shrinking.encode(sentences, show_progress_bar=False)
        contestants[ONE_PASS] = lambda: one.encode(sentences, show_progress_bar=False)
    except Sen2ProError as error:
        print(f"without one-pass: {error}")
    source.encode(sentences[:64])  # warm up
    for work in list(contestants.values())[-1:]:
        work()
    times = take_turns(contestants, options.repeats)
    a = statistics.median(next(iter(times.values())))

    plain, fast = exact.sen2vec(sentences), source.encode(sentences, normalize_embeddings=exact.normalize)
    rows: dict[str, Any] = {}
    how = f"{options.threads} thread(s), median of {options.repeats}, packed: {exact.encoder.packs}"
    print(f"{len(sentences)} sentences, {how}")
    for name, found in times.items():
        median = statistics.median(found)
        rows[name] = row = {
            "cost": median / a,
            "low": min(found) / a,
            "high": max(found) / a,
            "sentences per second": len(sentences) / median,
            "peak MB": peak_memory(contestants[name]) if "naive" not in name else None,
        }
        memory = "" if row["peak MB"] is None else f"   {row['peak MB']:6.0f} MB"
        spread = f"({row['low']:.2f} to {row['high']:.2f})"
        print(
            f"  {name:32s} {row['cost']:6.2f} a   {spread:18s} {row['sentences per second']:8.1f} sentences/s{memory}"
        )
    results: dict[str, Any] = {"contest": rows, "signature": str(exact.signature()), "sentences": len(sentences)}
    results["largest difference from encode"] = float(np.abs(plain - fast).max())
    print(f"  plain pass against encode: largest difference {results['largest difference from encode']:.1e}")
    compared = (PRODUCTS, PLAIN, "the same, by transformers", EXACT, f"{EXACT}, transformers")
    found = shares(exact, sentences, {name: times[name] for name in compared})
    limit = rows[PRODUCTS]["cost"] * found["passes of 15 + 15"]
    return results | {"matrix products": {"one pass": rows[PRODUCTS]["cost"], "limit of 15 + 15": limit, **found}}


def two_threads(options: argparse.Namespace) -> dict[str, float]:
    """Measure the throughput on two threads as a multiple of that on one, by the clock on the wall."""
    sentences, model = material()[1][: options.sentences], Sen2Pro(options.model, samples=4)
    works: dict[str, Callable[[], object]] = {
        "one plain pass": lambda: model.sen2vec(sentences),
        "exact, 4 + 4": lambda: model.encode(sentences, show_progress_bar=False),
    }
    gains = {}
    for name, work in works.items():
        times: dict[int, list[float]] = {1: [], 2: []}
        for threads in (1, 2) * options.repeats:
            torch.set_num_threads(threads)
            start = time.perf_counter()
            work()
            times[threads].append(time.perf_counter() - start)
        gains[name] = statistics.median(times[1]) / statistics.median(times[2])
        print(f"  {name}: two threads have {gains[name]:.2f} times the throughput of one")
    torch.set_num_threads(options.threads)
    return gains


def growth(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure how the cost of exact sampling grows; in units of `a` for the same number of sentences."""
    pool, middle = material()
    source = Sen2Pro(options.model).encoder.source
    yardstick = middle[:125]
    source.encode(yardstick)

    def cost(sentences: list[str], samples: int) -> float:
        model = Sen2Pro(options.model, samples=samples)
        turns = take_turns(
            {
                "a": lambda: source.encode(yardstick),
                "exact": lambda: model.encode(sentences, show_progress_bar=False),
            },
            options.repeats,
        )
        a = statistics.median(turns["a"]) / len(yardstick)
        return statistics.median(turns["exact"]) / (len(sentences) * a)

    found = {
        "sentences, 4 + 4": {str(n): cost(middle[:n], 4) for n in (30, 125, 500)},
        "samples of each, 125 sentences": {str(n): cost(middle[:125], n) for n in (2, 4, 8, 16)},
        "words, 4 + 4, 100 sentences": {
            f"{low} to {high}": cost([s for s in pool if low <= len(s.split()) <= high][:100], 4)
            for low, high in ((4, 6), (10, 12), (20, 25))
        },
    }
    for name, row in found.items():
        print(f"  cost by {name}: " + ", ".join(f"{key}: {value:.1f} a" for key, value in row.items()))
    return found


def all_pairs() -> dict[str, float]:
    """Time the paper's distance of all pairs against the L1 distance of scipy, which is half of it."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2000, 384)).astype(np.float32) for _ in range(2))
    gaussians = [Gaussian(m, np.abs(m)) for m in (x, y)]
    times = take_turns(
        {"scipy": lambda: cdist(x, y, metric="cityblock"), "ours": lambda: distance(*gaussians)}, repeats=5
    )
    scipy, ours = (statistics.median(found) for found in times.values())
    memory = peak_memory(lambda: distance(*gaussians))
    threads = torch.get_num_threads()
    print(f"all pairs 2,000 x 2,000 x 384, {threads} thread(s): Eq. 6, two L1 distances, takes {ours / scipy:.2f}")
    fold = 2 * scipy / ours
    print(f"  of scipy's one cityblock: a distance is {fold:.1f} times as fast, with {memory or 0:.0f} MB at most")
    return {
        "Eq. 6 against one cityblock": ours / scipy,
        "times as fast a distance": fold,
        "MB": memory or 0,
    }


def plot(results: dict[str, Any]) -> None:
    """Draw the cost of each method, with the range over the rounds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = results["contest"]
    fig, ax = plt.subplots(figsize=(8, 0.5 * len(rows) + 1.2), layout="constrained")
    names = list(rows)[::-1]
    costs = [rows[name]["cost"] for name in names]
    errors = [[c - rows[n]["low"] for n, c in zip(names, costs, strict=True)],
              [rows[n]["high"] - c for n, c in zip(names, costs, strict=True)]]  # fmt: skip
    colors = ["#2a6f97" if "naive" not in name and "encode" not in name else "#adb5bd" for name in names]
    ax.barh(names, costs, xerr=errors, color=colors, ecolor="#495057")
    for i, name in enumerate(names):
        ax.text(rows[name]["high"] * 1.06, i, f"{rows[name]['cost']:.2f}", va="center")
    ax.set_xscale("log")
    ax.set_xlim(0.4, max(costs) * 2)
    ax.set_xlabel("cost in units of one SentenceTransformer.encode (log scale)")
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(RESULTS / f"{results['name']}.png", dpi=130)
    print(f"-> benchmarks/results/{results['name']}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; the rest of the file stays"
    )
    parser.add_argument("--name", default="speed", help="of the files in benchmarks/results")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    file = RESULTS / f"{options.name}.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results |= {"name": options.name, "threads": options.threads}
    if "contest" in options.parts:
        results |= contest(options)
    if "products" in options.parts:
        results["matrix products alone"] = share_of_products(options)
    if "threads" in options.parts:
        results["two threads"] = two_threads(options)
    if "growth" in options.parts:
        results["growth"] = growth(options)
    if "pairs" in options.parts:
        for threads in dict.fromkeys((1, os.cpu_count() or 1)):
            torch.set_num_threads(threads)
            results.setdefault("all pairs", {})[f"{threads} thread(s)"] = all_pairs()
    save(options.name, results)
    if "contest" in results:
        plot(results)


if __name__ == "__main__":
    main()
