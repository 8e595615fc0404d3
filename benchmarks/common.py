"""What the benchmarks share: real data, statistics, samples that are drawn once, results on disk."""

from __future__ import annotations

import gzip
import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from sen2pro import Sen2Pro, __version__
from sen2pro.progress import progress

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
CACHE = RESULTS / "cache"
_CHUNK = 256


def data_file(name: str, origin: str) -> Path:
    """Return a file of the evaluation data, or stop and say where it comes from."""
    folder = Path(os.environ.get("SEN2PRO_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.is_file():
        raise SystemExit(f"{path} is not there. Set SEN2PRO_DATA to a folder with {name}: {origin}")
    return path


def read_pairs(name: str) -> tuple[list[str], list[str], np.ndarray]:
    """Read the columns sentence1, sentence2 and score of an STS file."""
    path = data_file(
        f"sts/{name}.tsv.gz",
        "a task of SemEval STS (https://ixa2.si.ehu.eus/stswiki) as gzipped TSV with a header and the columns score, "
        "sentence1, sentence2",
    )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split("\t")
        rows = [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]
    scores = np.array([float(row["score"]) for row in rows])
    return [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], scores


def read_lines(name: str, origin: str) -> list[dict[str, Any]]:
    """Read a gzipped JSONL file of the evaluation data."""
    with gzip.open(data_file(name, origin), "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def bootstrap(ours: np.ndarray, plain: np.ndarray, gold: np.ndarray, times: int = 2000) -> tuple[float, float, float]:
    """Paired bootstrap of the gain: its 95 % interval, and the share of resamples without a gain."""
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(gold), len(gold)) for _ in range(times))
    gains = np.array([spearman(ours[d], gold[d]) - spearman(plain[d], gold[d]) for d in draws])
    low, high = np.percentile(gains, [2.5, 97.5])
    return float(low), float(high), float((gains <= 0).mean())


def cached_samples(model: Sen2Pro, texts: list[str], name: str) -> np.ndarray:
    """Return all samples (n, N, k) of all texts; a stopped run goes on where it was.

    The file goes by name alone: delete `benchmarks/results/cache` when the method itself changes.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{name}.npy"
    shape = (len(texts), sum(model.samples[source] for source in model.sources), model.dim)
    cache = np.lib.format.open_memmap(path, "r+" if path.exists() else "w+", np.float32, shape)
    if cache.shape != shape:
        raise SystemExit(f"{path} holds {cache.shape}, not {shape}: delete it")
    step = max(1, _CHUNK * 30 // shape[1])
    todo = [start for start in range(0, len(texts), step) if not cache[min(start + step, len(texts)) - 1].any()]
    with progress(len(todo) * step, None, unit="sentences") as advance:
        for start in todo:
            part = texts[start : start + step]
            cache[start : start + len(part)] = model.sample(part, show_progress_bar=False)
            advance(len(part))
    return cache


def save(name: str, results: dict[str, Any]) -> None:
    """Write results as JSON, with what they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "sen2pro": __version__,
        "threads": torch.get_num_threads(),
        "processor": platform.machine(),
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, **results}, indent=2) + "\n", encoding="utf-8")
    print(f"-> {path.relative_to(ROOT)}")
