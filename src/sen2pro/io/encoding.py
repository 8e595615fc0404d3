"""What all that encodes files agrees on: how many sentences at once, and which are unlike all that a head knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sen2pro.io.gaussians import GaussianLike

CHUNK = 256  # sentences in memory at once
FAR = 0.01  # a coverage below which a prediction is not to be trusted


def far_from_head(gaussian: GaussianLike) -> int:
    """Return how many sentences are unlike all that the head was fitted on."""
    return int(is_far(gaussian).sum())


def is_far(gaussian: GaussianLike) -> NDArray[np.bool_]:
    """Tell which sentences (n,) are unlike all that the head was fitted on; without a head, none."""
    coverage = np.ones(gaussian.mean.shape[:-1]) if gaussian.coverage is None else gaussian.coverage
    return np.asarray(coverage < FAR)
