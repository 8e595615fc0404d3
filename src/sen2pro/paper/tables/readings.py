"""The ways to read the paper's similarity that are compared, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sen2pro.distances import distance, distance_pairwise
from sen2pro.gaussian import Gaussian
from sen2pro.types import Array


@dataclass(frozen=True)
class Reading:
    """A geometry and a metric; greater scores are closer."""

    title: str
    normalize: bool
    metric: str
    certain: bool = False  # whether variances are taken for 0

    def pairwise(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of each pair (n,)."""
        return -distance_pairwise(self._seen(a), self._seen(b), self.metric)

    def all_pairs(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of all pairs (n, m)."""
        return -distance(self._seen(a), self._seen(b), self.metric)

    def _seen(self, g: Gaussian) -> Gaussian:
        return Gaussian(g.mean, np.zeros_like(g.variance)) if self.certain else g


LITERAL = Reading("Eq. 6, raw vectors", normalize=False, metric="sen2pro")
SPHERE = Reading("Eq. 6, unit sphere", normalize=True, metric="sen2pro")
MEANS = Reading("cosine of the means", normalize=True, metric="corrected-cosine", certain=True)  # averaging alone
CORRECTED = Reading("corrected cosine", normalize=True, metric="corrected-cosine")
OURS = SPHERE  # the default of `Sen2Pro.similarity`
READINGS = (LITERAL, SPHERE, MEANS, CORRECTED)
