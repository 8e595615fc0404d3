"""Theorems 1 and 2, simulated."""

from __future__ import annotations

from sen2pro.paper import numbers as paper
from sen2pro.paper import theory
from sen2pro.paper.lab import Lab
from sen2pro.paper.report import Grid, Result
from sen2pro.paper.tables import plots


def th1(lab: Lab) -> Result:
    """Theorem 1: the error of the diagonal estimator."""
    trials = _trials(lab, 100)
    rates = theory.theorem_1(trials)
    grids = [
        Grid(["samples n", *map(str, rates.by_n)], [["error", *(f"{e:.3f}" for e in rates.by_n.values())]], "k = 384"),
        Grid(
            ["dimensions k", *map(str, rates.by_k)], [["error", *(f"{e:.3f}" for e in rates.by_k.values())]], "n = 1000"
        ),
    ]
    verdict = (
        f"the error falls like n^{rates.exponent_n:.2f} (theorem: -0.50) and grows like (log k)^{rates.exponent_k:.2f} "
        "(theorem: at most 0.50 in the limit)"
    )
    notes = [
        *paper.NOTES["Th1"],
        f"Median over {trials} trials of the largest error of a variance. At finite n and k the maximum of k such "
        "errors grows a little faster than (log k)^0.5, the rate of its limit; it stays far below log k.",
    ]
    numbers = [{"by n": rates.by_n, "by k": rates.by_k, "exponent n": rates.exponent_n, "exponent k": rates.exponent_k}]
    figure = plots.rates(rates.by_n, rates.by_k, (rates.exponent_n, rates.exponent_k))
    signature = f"simulation|trials:{trials}|seed:0"
    return Result(
        "Th1", "Error of the diagonal estimator", grids, verdict, signature, notes, numbers, {"rates": figure}
    )


def th2(lab: Lab) -> Result:
    """Theorem 2: Sen2Pro is closer to the truth than Sen2Vec."""
    trials = _trials(lab, 500)
    found = {n: theory.theorem_2(trials, n=n) for n in theory.COUNTS}
    header = ["samples", *(f"{factor:g}" for factor in theory.FACTORS)]
    rows = [[str(n), *(f"{share:.2f}" for share in curve.values())] for n, curve in found.items()]
    below = {n: min(share for factor, share in curve.items() if factor < 1) for n, curve in found.items()}
    above = {n: min(share for factor, share in curve.items() if factor > 1) for n, curve in found.items()}
    verdict = "smallest share below the bound and above it: " + "; ".join(
        f"{n} samples {below[n]:.2f} and {above[n]:.2f}" for n in found
    )
    failing = [str(n) for n in found if below[n] < 1]
    notes = list(paper.NOTES["Th2"])
    if failing:
        notes.append(
            f"With {', '.join(failing)} samples the inequality fails even below the bound: the theorem leaves out how "
            "poor an estimate of the variances can be."
        )
    beyond = [str(n) for n in found if above[n] == 1]
    if beyond:
        notes.append(f"With {', '.join(beyond)} samples it holds far beyond the bound: the condition is not needed.")
    grid = Grid(header, rows, f"Share of {trials} trials in which it holds, by eps as a multiple of the bound; k = 384")
    numbers = [{"samples": n, "share": {str(f): s for f, s in curve.items()}} for n, curve in found.items()]
    signature = f"simulation|trials:{trials}|seed:0"
    return Result("Th2", "KL(truth, Sen2Pro) < KL(truth, Sen2Vec)", [grid], verdict, signature, notes, numbers,
                  {"shares": plots.shares(found)})  # fmt: skip


def _trials(lab: Lab, usual: int) -> int:
    return min(usual, lab.limit) if lab.limit else usual
