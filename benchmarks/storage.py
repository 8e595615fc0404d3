"""What the digest of a Gaussian file costs: reading with it as a ratio to reading without it, in the same run."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common import save

from sen2pro import Gaussian
from sen2pro.files.gaussians import read

ROWS, DIMENSIONS, ROUNDS = 100_000, 384, 15


def seconds(path: Path, verify: bool) -> float:
    """Return the CPU time of reading, which other work on the machine disturbs least."""
    start = time.process_time()
    read(path, verify=verify)
    return time.process_time() - start


def main() -> None:
    """Print a line for each format."""
    rng = np.random.default_rng(0)
    gaussian = Gaussian(
        rng.standard_normal((ROWS, DIMENSIONS), dtype=np.float32),
        rng.random((ROWS, DIMENSIONS), dtype=np.float32),
        copy=False,
    )
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("parquet", "safetensors"):
            path = Path(folder) / f"g.{suffix}"
            gaussian.save(path)
            seconds(path, True)
            rounds = [(seconds(path, True), seconds(path, False)) for _ in range(ROUNDS)]
            ratio = statistics.median(w / o for w, o in rounds)
            results[suffix] = {"ratio": ratio, "seconds without": statistics.median(o for _, o in rounds)}
            print(f"{suffix:12s} with digest / without: {ratio:.3f}")
    save("storage", {"rows": ROWS, "dimensions": DIMENSIONS, "rounds": ROUNDS, "reading": results})


if __name__ == "__main__":
    main()
