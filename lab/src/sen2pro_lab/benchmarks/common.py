"""What the benchmarks share: samples that are drawn once, and results on disk."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sen2pro import Sen2Pro, __version__
from sen2pro.validation import Array
from sen2pro_lab.paper.store import Store

ROOT = Path(__file__).resolve().parents[4]  # of the repository: what is measured is kept there
RESULTS = ROOT / "lab" / "results" / "benchmarks"


def all_samples(model: Sen2Pro, texts: list[str]) -> Array:
    """Return all samples (n, N, k) of all texts, those of the model first; they are kept in SEN2PRO_CACHE."""
    return np.concatenate(list(Store().samples(model, texts).values()), axis=1)


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
