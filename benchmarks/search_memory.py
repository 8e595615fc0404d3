"""Measure the memory of building an index from a file: python benchmarks/search_memory.py FOLDER ROWS.

The file has the form of `sen2pro encode` and the signature of the default model, but random vectors: to encode a
million texts takes more than an hour. It is written in batches by a process of its own, so that the peak is that of
reading, building and saving.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro import Gaussian, Sen2Pro
from sen2pro.files.gaussians import GaussianWriter
from sen2pro.search import Index

BATCH = 8192
MODEL = {"method": "one-pass"}


def resident() -> int:
    """Return the bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write(path: Path, rows: int) -> None:
    """Write a file of random Gaussians on the unit sphere, with ids and texts."""
    model, rng = Sen2Pro(**MODEL), np.random.default_rng(0)
    signature = model.encode(["a text"]).signature
    with GaussianWriter(path) as file:
        for start in range(0, rows, BATCH):
            mean = rng.standard_normal((min(BATCH, rows - start), model.dim), np.float32)
            mean /= np.linalg.norm(mean, axis=1, keepdims=True)
            variance = np.full(mean.shape, 1e-3, np.float32)
            numbers = range(start, start + len(mean))
            gaussian = Gaussian(mean, variance, signature=signature)
            file.write(gaussian, ids=[str(n) for n in numbers], texts=[f"text number {n}" for n in numbers])


def build(path: Path, folder: Path) -> dict[str, Any]:
    """Build an index of the file and save it; return how much memory that took."""
    model = Sen2Pro(**MODEL)
    Index.build(model, ["a text"])  # what is loaded once
    before, start = resident(), time.process_time()
    index = Index.from_file(model, path, show_progress_bar=False)
    built, highest = resident(), peak()
    index.save(folder)
    size = sum(each.stat().st_size for each in folder.iterdir())
    return {
        "rows": len(index), "file": path.stat().st_size, "saved": size, "before": before,
        "vectors": len(index) * index.store.about.dimensions * 4, "index": built - before,
        "peak of building": highest - before, "peak of building and saving": peak() - before,
        "CPU seconds": time.process_time() - start,
    }  # fmt: skip


def main() -> None:
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    path = folder / "gaussians.parquet"
    child = os.fork()
    if not child:
        write(path, rows)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the file could not be written")
    print(json.dumps(build(path, folder / "index")))


if __name__ == "__main__":
    main()
