"""The ways to read the paper's similarity that are compared, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from sen2pro.distances import distance, distance_pairwise
from sen2pro.gaussian import Array, Gaussian


@dataclass(frozen=True)
class Reading:
    """A geometry and a metric; greater scores are closer."""

    title: str
    normalize: bool
    metric: str

    def pairwise(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of each pair (n,)."""
        return -distance_pairwise(a, b, self.metric)

    def all_pairs(self, a: Gaussian, b: Gaussian) -> Array:
        """Return the similarity of all pairs (n, m)."""
        return -distance(a, b, self.metric)


LITERAL = Reading("Eq. 6, raw vectors", normalize=False, metric="sen2pro")
SPHERE = Reading("Eq. 6, unit sphere", normalize=True, metric="sen2pro")
CORRECTED = Reading("corrected cosine", normalize=True, metric="corrected-cosine")
OURS = SPHERE  # the default of `Sen2Pro.similarity`
READINGS = (LITERAL, SPHERE, CORRECTED)
