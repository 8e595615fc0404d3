"""What does uncertainty cost? Times as multiples of `a`, one `SentenceTransformer.encode` in the same run.

    python -m sen2pro_lab.benchmarks.speed                # 500 STS sentences of 8 to 25 words, one thread, median of 5
    python -m sen2pro_lab.benchmarks.speed --sentences 100 --repeats 3
    python -m sen2pro_lab.benchmarks.speed --model FOLDER # another encoder; without a head, one-pass is left out

The contestants take turns, so that a noisy machine treats them alike; absolute times mean nothing here. On one thread
the clock is CPU time. Also measured: what share of the time the matrix products of a pass take on their own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.calibration.report import BLUE, GREY, panels
from sen2pro.sampling.edits import edit
from sen2pro_lab.benchmarks.common import RESULTS, save
from sen2pro_lab.paper.data import read_sts

SAMPLES = 15
PRODUCTS, PLAIN, EXACT = "matrix products of one pass", "one plain pass (sen2vec)", f"exact, {SAMPLES} + {SAMPLES}"
ONE_PASS = "one-pass"


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


def shares(model: Sen2Pro, sentences: list[str], times: dict[str, list[float]]) -> dict[str, float]:
    """Return the speed of what was timed as a share of that of the matrix products of the tokens that it ran.

    Edited copies that are equal run once, so that 15 + 15 is a little less than 30 passes.
    """
    encoder, words = model.encoder, model.vocabulary
    plain = sum(map(len, encoder.tokenize(sentences).ids))
    copies = [edit(text, words, model.seed, i) for text in sentences for i in range(SAMPLES)]
    passes = SAMPLES + sum(map(len, set(map(tuple, encoder.tokenize(copies).ids)))) / plain
    products = statistics.median(times[PRODUCTS])
    counts = {name: passes if name.startswith(EXACT) else 1 for name in times if name != PRODUCTS}
    found = {name: count * products / statistics.median(times[name]) for name, count in counts.items()}
    for name, share in found.items():
        print(f"  {name}: {share:.1%} of the speed of matrix products")
    return {"passes of 15 + 15": passes, **found}


def matrix_products(model: Sen2Pro, tokens: int) -> Callable[[], None]:
    """Return the work of the linear layers alone, for one pass over these tokens in equal batches of at most 512."""
    named = model.encoder.transformers.network.named_modules()
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


def material(count: int) -> list[str]:
    """Return the first sentences of 8 to 25 words of STS-B test."""
    pairs = read_sts("stsb_test")
    return [s for s in dict.fromkeys(pairs.left + pairs.right) if 8 <= len(s.split()) <= 25][:count]


def contest(options: argparse.Namespace) -> dict[str, Any]:
    """Compare the methods."""
    sentences = material(options.sentences)
    exact = Sen2Pro(options.model, samples=SAMPLES)
    # Another object: one whose libraries are loaded looks at each pass whether a weight has changed.
    source = Sen2Pro(options.model).encoder.source
    few, libraries = Sen2Pro(options.model, samples=4), Sen2Pro(source, samples=SAMPLES)
    tokens = sum(map(len, exact.encoder.tokenize(sentences).ids))
    contestants: dict[str, Callable[[], object]] = {
        "a: SentenceTransformer.encode": lambda: source.encode(sentences),
        PRODUCTS: matrix_products(libraries, tokens),
        PLAIN: lambda: exact.encode_plain(sentences),
        "the same, by transformers": lambda: libraries.encode_plain(sentences),
        f"naive loop, {SAMPLES} + {SAMPLES}": lambda: naive(libraries, sentences),
        EXACT: lambda: exact.encode(sentences, show_progress_bar=False),
        f"{EXACT}, transformers": lambda: libraries.encode(sentences, show_progress_bar=False),
        "exact, 4 + 4": lambda: few.encode(sentences, show_progress_bar=False),
    }
    try:
        one = Sen2Pro(options.model, method="one-pass")
        contestants[ONE_PASS] = lambda: one.encode(sentences, show_progress_bar=False)
    except Sen2ProError as error:
        print(f"without one-pass: {error}")
    source.encode(sentences[:64])  # warm up
    for work in list(contestants.values())[-1:]:
        work()
    times = take_turns(contestants, options.repeats)
    a = statistics.median(next(iter(times.values())))

    plain, fast = exact.encode_plain(sentences), source.encode(sentences, normalize_embeddings=exact.normalize)
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
        }
        spread = f"({row['low']:.2f} to {row['high']:.2f})"
        print(f"  {name:32s} {row['cost']:6.2f} a   {spread:18s} {row['sentences per second']:8.1f} sentences/s")
    results: dict[str, Any] = {"contest": rows, "signature": str(exact.signature()), "sentences": len(sentences)}
    results["largest difference from encode"] = float(np.abs(plain - fast).max())
    print(f"  plain pass against encode: largest difference {results['largest difference from encode']:.1e}")
    compared = (PRODUCTS, PLAIN, "the same, by transformers", EXACT, f"{EXACT}, transformers")
    share = shares(exact, sentences, {name: times[name] for name in compared})
    limit = rows[PRODUCTS]["cost"] * share["passes of 15 + 15"]
    return results | {"matrix products": {"one pass": rows[PRODUCTS]["cost"], "limit of 15 + 15": limit, **share}}


def plot(rows: dict[str, Any], name: str) -> None:
    """Draw the cost of each method, with the range over the rounds."""
    figure, (ax,) = panels(1, 8, 0.5 * len(rows) + 1.2)
    names = list(rows)[::-1]
    costs = [rows[each]["cost"] for each in names]
    ends = [[rows[each][end] for each in names] for end in ("low", "high")]
    errors = np.abs(np.array(ends) - costs)
    colours = [GREY if "naive" in each or "encode" in each else BLUE for each in names]
    ax.barh(names, costs, xerr=errors, color=colours, ecolor="#495057")
    for i, cost in enumerate(costs):
        ax.text(ends[1][i] * 1.06, i, f"{cost:.2f}", va="center")
    ax.set(
        xscale="log", xlim=(0.4, max(costs) * 2), xlabel="cost in units of one SentenceTransformer.encode (log scale)"
    )
    figure.savefig(RESULTS / f"{name}.png", dpi=130)


def main() -> None:
    """Measure, write JSON and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--name", default="speed", help="of the files in results/benchmarks")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = contest(options)
    save(options.name, {"threads": options.threads, **results})
    plot(results["contest"], options.name)


if __name__ == "__main__":
    main()
