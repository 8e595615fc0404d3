"""Arrays by the type of their numbers, as signatures name them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Array64 = NDArray[np.float64]
Labels = NDArray[np.int64]
