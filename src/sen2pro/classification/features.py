"""From Gaussians to what a linear head reads: centred and scaled means, variances, and their noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sen2pro.classification.heads import Design
from sen2pro.gaussian import Gaussian
from sen2pro.types import Array64

FEATURES = ("mean", "mean+variance")
# The variances of a sentence say far less of its topic than its mean does, and ten examples cannot teach a head to
# overlook hundreds of columns: so they start out small. Chosen on AG News' validation set.
_VARIANCE_WEIGHT = 0.3


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centres of the columns, and one scale for the means and one for the variances.

    One scale a block and not a column: from a few dozen examples, the spread of a single column is mostly chance.
    """

    features: str
    mean_centre: Array64  # (k,)
    mean_scale: float
    variance_centre: Array64  # (k,)
    variance_scale: float

    @classmethod
    def fit(cls, gaussian: Gaussian, features: str) -> Scaling:
        """Learn centres and scales from the training part."""
        blocks = [array.astype(np.float64) for array in (gaussian.mean, gaussian.variance)]
        centres = [x.mean(axis=0) for x in blocks]
        scales = [float(np.sqrt(np.square(x - x.mean(axis=0)).mean())) or 1.0 for x in blocks]
        return cls(features, centres[0], scales[0], centres[1], scales[1] / _VARIANCE_WEIGHT)

    def __call__(self, gaussian: Gaussian) -> Design:
        """Return the features of n Gaussians: (n, k) or (n, 2 k), noise on the first k."""
        mean = (gaussian.mean.astype(np.float64) - self.mean_centre) / self.mean_scale
        noise = gaussian.variance.astype(np.float64) / self.mean_scale**2
        if self.features == "mean":
            return Design(mean, noise)
        variance = (gaussian.variance.astype(np.float64) - self.variance_centre) / self.variance_scale
        return Design(np.concatenate([mean, variance], axis=1), noise)
