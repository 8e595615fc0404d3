"""Does the distribution help? STS-B test: Spearman of sen2pro's default similarity against the plain cosine.

    python benchmarks/sts_quick.py            # 15 + 15 samples, a few minutes on two cores
    python benchmarks/sts_quick.py --limit 200

The gain comes with a paired bootstrap interval over the sentence pairs.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from sen2pro import Sen2Pro

ROOT = Path(__file__).resolve().parents[1]


def read_pairs(name: str) -> tuple[list[str], list[str], np.ndarray]:
    """Read the columns sentence1, sentence2 and score of an STS file."""
    folder = Path(os.environ.get("SEN2PRO_DATA", ROOT.parent / "shared" / "data"))
    path = folder / "sts" / f"{name}.tsv.gz"
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there. Set SEN2PRO_DATA to a folder with sts/{name}.tsv.gz: the STS benchmark "
            "(https://ixa2.si.ehu.eus/stswiki) as gzipped TSV with a header and the columns score, sentence1, sentence2"
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split("\t")
        rows = [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]
    scores = np.array([float(row["score"]) for row in rows])
    return [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], scores


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def bootstrap(ours: np.ndarray, plain: np.ndarray, gold: np.ndarray, times: int = 2000) -> tuple[float, float, float]:
    """Paired bootstrap of the gain: its 95 % interval, and the share of resamples without a gain."""
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(gold), len(gold)) for _ in range(times))
    gains = np.array([spearman(ours[d], gold[d]) - spearman(plain[d], gold[d]) for d in draws])
    low, high = np.percentile(gains, [2.5, 97.5])
    return float(low), float(high), float((gains <= 0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--set", default="stsb_test", help="file name in sts/, without .tsv.gz")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="only the first pairs, for a quick look")
    options = parser.parse_args()

    left, right, gold = read_pairs(options.set)
    left, right, gold = left[: options.limit], right[: options.limit], gold[: options.limit]
    model = Sen2Pro(options.model, samples=options.samples, seed=options.seed)
    g = model.encode(left + right, show_progress_bar=True)
    n = len(gold)
    ours = model.similarity_pairwise(g[:n], g[n:])
    vectors = model.sen2vec(left + right)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    plain = (vectors[:n] * vectors[n:]).sum(axis=1)

    low, high, p = bootstrap(ours, plain, gold)
    before, after = 100 * spearman(plain, gold), 100 * spearman(ours, gold)
    print(f"{options.set}, {n} pairs, Spearman x100")
    print(f"  plain vector, cosine   {before:6.2f}")
    print(f"  sen2pro, Eq. 6         {after:6.2f}")
    interval = f"95 % [{100 * low:+.2f}, {100 * high:+.2f}], one-sided p = {p:.4f}"
    print(f"  gain                   {after - before:+6.2f}  {interval}")
    print(f"signature: {g.signature}")


if __name__ == "__main__":
    main()
