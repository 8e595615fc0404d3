"""Does the distribution help? STS-B test: Spearman of sen2pro's default similarity against the plain cosine.

    python benchmarks/sts_quick.py            # 15 + 15 samples, a few minutes on two cores
    python benchmarks/sts_quick.py --limit 200

The gain comes with a paired bootstrap interval over the sentence pairs.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import bootstrap, read_pairs, spearman

from sen2pro import Sen2Pro


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
