"""Which similarity of two Gaussians wins? Chosen on STS-B dev and SICK trial; then, and only then, the test sets.

    python benchmarks/similarity_search.py            # the choice
    python benchmarks/similarity_search.py --test     # and what the frozen choice does on every test set

Candidates: Eq. 6, Euclidean distance, dot products divided by powers of the lengths of the means, cosines divided by
powers of the resultant lengths R = |mean| / sqrt(|mean|^2 + total variance), energy distance, maximum mean discrepancy
with a Gaussian kernel, concentrations of von Mises-Fisher distributions. The winner is the one with the greatest mean
gain over the plain cosine on the two sets. Samples are kept in SEN2PRO_CACHE, as for `sen2pro reproduce`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from common import save

from sen2pro.gaussian import Gaussian
from sen2pro.metrics import sts
from sen2pro.metrics.comparisons import Points
from sen2pro.metrics.statistics import Comparison, mean_of, paired_bootstrap
from sen2pro.paper.lab import Lab
from sen2pro.paper.tables.pairs import CORRECTED, COSINE, SPHERE, Row
from sen2pro.paper.tables.similarity import Sets

DEV = ("stsb_dev", "sick_trial")
TEST = ("stsb_test", "sts12", "sts13", "sts14", "sts15")
Candidate = Callable[[Gaussian, Gaussian], np.ndarray]


def dot(a: Gaussian, b: Gaussian) -> np.ndarray:
    return (a.mean.astype(np.float64) * b.mean).sum(axis=1)


def length(g: Gaussian) -> np.ndarray:
    return np.linalg.norm(g.mean.astype(np.float64), axis=1)


def resultant(g: Gaussian) -> np.ndarray:
    return length(g) / np.sqrt(length(g) ** 2 + g.total_variance)


def squared(a: Gaussian, b: Gaussian) -> np.ndarray:
    return ((a.mean.astype(np.float64) - b.mean) ** 2).sum(axis=1)


def by_lengths(power: float) -> Candidate:
    return lambda a, b: dot(a, b) / (length(a) * length(b)) ** power


def by_resultants(power: float) -> Candidate:
    return lambda a, b: dot(a, b) / (length(a) * length(b)) / (resultant(a) * resultant(b)) ** power


def energy(a: Gaussian, b: Gaussian) -> np.ndarray:
    """2 E|x - y| - E|x - x'| - E|y - y'|, each expected length by its root mean square."""
    va, vb = a.total_variance, b.total_variance
    return np.sqrt(2 * va) + np.sqrt(2 * vb) - 2 * np.sqrt(squared(a, b) + va + vb)


def kernel_mean(scale: float, *, normalised: bool) -> Candidate:
    """Minus the squared maximum mean discrepancy, or the cosine of the mean embeddings, with a Gaussian kernel."""

    def log_kernel(a: Gaussian, b: Gaussian) -> np.ndarray:
        total = a.variance.astype(np.float64) + b.variance
        difference = (a.mean.astype(np.float64) - b.mean) ** 2
        return (-0.5 * np.log1p(total / scale) - 0.5 * difference / (scale + total)).sum(axis=1)

    def score(a: Gaussian, b: Gaussian) -> np.ndarray:
        if normalised:
            return log_kernel(a, b) - 0.5 * (log_kernel(a, a) + log_kernel(b, b))
        return 2 * np.exp(log_kernel(a, b)) - np.exp(log_kernel(a, a)) - np.exp(log_kernel(b, b))

    return score


def concentration(a: Gaussian, b: Gaussian) -> np.ndarray:
    """Minus the symmetric divergence of two von Mises-Fisher distributions, up to what depends on one side only."""

    def kappa(g: Gaussian) -> np.ndarray:
        r = length(g)
        return r * (g.dim - r**2) / (1 - r**2)

    return (kappa(a) + kappa(b)) * dot(a, b) / (length(a) * length(b))


CANDIDATES: dict[str, Candidate] = {
    "Eq. 6": SPHERE.pairwise,
    "Euclidean": lambda a, b: -squared(a, b),
    **{f"dot / lengths^{p:g}": by_lengths(p) for p in (0, 0.5, 1, 1.25, 1.5, 1.75, 2, 2.5, 3)},
    **{f"cosine / resultants^{p:g}": by_resultants(p) for p in (0.25, 0.5, 0.75, 1, 1.25, 1.5)},
    "energy distance": energy,
    **{f"MMD, scale {s:g}": kernel_mean(s, normalised=False) for s in (0.3, 1, 3)},
    **{f"kernel cosine, scale {s:g}": kernel_mean(s, normalised=True) for s in (0.1, 1)},
    "von Mises-Fisher": concentration,
}


def gains(sets: Sets, name: str, kind: str) -> dict[str, float]:
    """Return the gain over the plain cosine of every candidate, in Spearman x 100."""
    pairs, gold = sets.pairs[name], sets.gold[name]
    left, right = pairs.sides(sets.lab.join(pairs.parts(), kind))
    plain = sts.correlation(COSINE.runs(pairs)[0], gold)
    return {title: 100 * (sts.correlation(score(left, right), gold) - plain) for title, score in CANDIDATES.items()}


def compare(points: Points) -> Comparison:
    """Compare with the baseline by a paired bootstrap, in Spearman x 100."""
    found = paired_bootstrap(points.ours, mean_of(points.baseline), points.n, groups=points.groups)
    return found.scaled(100)


def search(sets: Sets) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for kind in ("m+d", "m", "d"):
        found = {name: gains(sets, name, kind) for name in DEV}
        for title in CANDIDATES:
            values = [found[name][title] for name in DEV]
            rows[f"{kind}: {title}"] = {**dict(zip(DEV, values, strict=True)), "mean": float(np.mean(values))}
    print(f"{'gain over the plain cosine':40s} {DEV[0]:>10s} {DEV[1]:>10s} {'mean':>7s}")
    for title, row in sorted(rows.items(), key=lambda item: -item[1]["mean"]):
        print(f"{title:40s} {row[DEV[0]]:+10.2f} {row[DEV[1]]:+10.2f} {row['mean']:+7.2f}")
    for name in DEV:
        c = compare(sets.points(name, Row("the choice", CORRECTED)))
        rows[f"the choice on {name}"] = c.to_dict()
        print(f"the choice on {name}: {c.gain:+.2f} [{c.low:+.2f}, {c.high:+.2f}] over the plain cosine")
    return rows


def report(sets: Sets) -> dict[str, Any]:
    """Compare the frozen choice with the plain cosine and with Eq. 6, and show the whole family, on the test sets."""
    rows: dict[str, Any] = {}
    for name in TEST:
        against = {"cosine": COSINE, "Eq. 6": SPHERE}
        rows[name] = {
            title: compare(sets.points(name, Row(title, CORRECTED, reading))).to_dict()
            for title, reading in against.items()
        }
        rows[name]["family"] = {t: g for t, g in gains(sets, name, "m+d").items() if "resultants" in t or "Eq." in t}
        for title in against:
            c = rows[name][title]
            print(
                f"{name:10s} corrected cosine against {title:7s} {c['gain']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}]"
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test", action="store_true", help="also report the frozen choice on the test sets")
    options = parser.parse_args()
    sets = Sets(Lab(), [*DEV, *(TEST if options.test else ())])
    results = {"signature": sets.lab.signature(), "dev": search(sets)}
    if options.test:
        results["test"] = report(sets)
    save("similarity_search", results)


if __name__ == "__main__":
    main()
