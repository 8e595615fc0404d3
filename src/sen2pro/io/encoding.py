"""What all that encodes files agrees on: how many sentences at once, and which are unlike all that a head knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian

CHUNK = 256  # sentences in memory at once
FAR = 0.01  # a coverage below which a prediction is not to be trusted


def far_from_head(gaussian: Gaussian) -> int:
    """Return how many sentences are unlike all that the head was fitted on."""
    return int(is_far(gaussian).sum())


def is_far(gaussian: Gaussian) -> NDArray[np.bool_]:
    """Tell which sentences (n,) are unlike all that the head was fitted on; without a head, none."""
    coverage = np.ones(len(gaussian)) if gaussian.coverage is None else gaussian.coverage
    return np.asarray(coverage < FAR)
