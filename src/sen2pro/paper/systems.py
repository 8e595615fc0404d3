"""Evaluation of generated text: how well a metric's scores of systems go with those of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sen2pro.metrics.statistics import CORRELATIONS, Undefined
from sen2pro.types import Array64


def by_system(systems: Sequence[str], values: ArrayLike) -> dict[str, float]:
    """Return the mean value of each system, in order of appearance.

    >>> by_system(["x", "y", "x"], [1, 5, 3])
    {'x': 2.0, 'y': 5.0}
    """
    names, numbers = np.array(systems), np.asarray(values, np.float64)
    return {name: float(numbers[names == name].mean()) for name in dict.fromkeys(systems)}


def system_correlation(scores: Mapping[str, float], human: Mapping[str, float], kind: str) -> float:
    """Return the correlation of systems' scores with human ones; the sign stays.

    >>> system_correlation({"x": 1, "y": 2, "z": 3}, {"x": 3, "y": 2, "z": 1}, "spearman")
    -1.0
    """
    return CORRELATIONS[kind](*aligned(scores, human))


def aligned(scores: Mapping[str, float], human: Mapping[str, float]) -> tuple[Array64, Array64]:
    """Return the two scores of the systems that have both, which must be at least 3."""
    names = [name for name in scores if name in human]
    if len(names) < 3:
        raise Undefined(f"no correlation over {len(names)} systems ({', '.join(names)}); it takes at least 3")
    return np.array([scores[n] for n in names], float), np.array([human[n] for n in names], float)
