"""What does uncertainty cost? Times as multiples of `a`, one `SentenceTransformer.encode` in the same run.

    python benchmarks/speed.py                # 500 STS sentences of 8 to 25 words, one thread, median of 5
    python benchmarks/speed.py --sentences 100 --repeats 3

The contestants take turns, so that a noisy machine treats them alike; absolute times mean nothing here.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from sts_quick import read_pairs

from sen2pro import Sen2Pro
from sen2pro.sampling.edits import edit

SAMPLES = 15


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
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    left, right, _ = read_pairs("stsb_test")
    sentences = [s for s in dict.fromkeys(left + right) if 8 <= len(s.split()) <= 25][: options.sentences]
    model = Sen2Pro(options.model, samples=SAMPLES)
    source = model.encoder.source
    contestants: dict[str, Callable[[], object]] = {
        "a: SentenceTransformer.encode": lambda: source.encode(sentences),
        "sen2vec: one plain pass": lambda: model.sen2vec(sentences),
        f"naive loop, {SAMPLES} + {SAMPLES}": lambda: naive(model, sentences),
        f"Sen2Pro.encode, {SAMPLES} + {SAMPLES}": lambda: model.encode(sentences, show_progress_bar=False),
    }
    source.encode(sentences[:64])  # warm up
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.repeats):
        for name, work in contestants.items():
            times[name].append(seconds(work))

    reference = statistics.median(next(iter(times.values())))
    print(f"{len(sentences)} sentences, {options.threads} thread(s), median of {options.repeats}")
    for name, found in times.items():
        median = statistics.median(found)
        spread = f"{min(found) / reference:.2f} to {max(found) / reference:.2f}"
        print(f"  {name:32s} {median / reference:6.2f} a   ({spread})   {len(sentences) / median:8.1f} sentences/s")
    print(f"signature: {model.signature()}")


if __name__ == "__main__":
    main()
