"""Collections for the benchmarks of search: documents and queries encoded in one pass, and kept in SEN2PRO_CACHE."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro import Gaussian, Sen2Pro
from sen2pro.validation import Array, Labels
from sen2pro_lab.contests.retrieval import read_collection
from sen2pro_lab.paper.catalogue import need
from sen2pro_lab.paper.data import read_classification, read_evalrank
from sen2pro_lab.paper.files import objects, table

CACHE = Path(os.environ.get("SEN2PRO_CACHE", Path.home() / ".cache" / "sen2pro")) / "search"


@dataclass(frozen=True, eq=False)
class Kept:
    """Encoded texts: plain vectors (n, k), Gaussians, and two variances and the number of words of each (n, 3)."""

    plain: Array
    gaussian: Gaussian
    about: Array

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, rows: Labels) -> Kept:
        return Kept(self.plain[rows], self.gaussian[rows], self.about[rows])


class Collection(NamedTuple):
    """Documents, queries, and which document is right for which query (pairs of numbers, query first)."""

    documents: Kept
    queries: Kept
    right: Labels


def encoded(model: Sen2Pro, texts: Sequence[str]) -> Kept:
    """Encode texts, or take them from the cache."""
    key = hashlib.sha256("\0".join([str(model.signature()), *texts]).encode()).hexdigest()[:32]
    path = CACHE / f"{key}.npz"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.estimate(list(texts))
        totals = [part.total_variance for part in found.parts.values()]
        about = np.stack([*totals, found.words], axis=1).astype(np.float32)
        gaussian = found.gaussian
        np.savez(path, plain=found.plain, mean=gaussian.mean, variance=gaussian.variance, about=about)
    with np.load(path) as kept:
        return Kept(kept["plain"], Gaussian(kept["mean"], kept["variance"]), kept["about"])


def join(parts: Sequence[Kept]) -> Kept:
    """Return the rows of several as one."""
    plain, about = (np.concatenate([getattr(part, name) for part in parts]) for name in ("plain", "about"))
    return Kept(plain, Gaussian.concatenate([part.gaussian for part in parts]), about)


def retrieval(model: Sen2Pro, name: str) -> Collection:
    """Return one of the collections xquad, cranfield and cisi."""
    found = read_collection(name)
    return Collection(
        encoded(model, found.documents), encoded(model, found.queries), np.argwhere(found.relevant)
    )  # fmt: skip


def evalrank(model: Sen2Pro) -> tuple[Kept, Labels]:
    """Return the background sentences of EvalRank, and where the two of each pair stand in it (n, 2)."""
    found = read_evalrank()
    where = {text: number for number, text in enumerate(found.background)}
    return encoded(model, found.background), np.array([[where[a], where[b]] for a, b in found.pairs])


def articles(model: Sen2Pro) -> Kept:
    """Return 11,217 short articles (DBpedia): documents that answer no question."""
    texts = [text for split in ("train", "test") for text in read_classification("dbpedia14", split).texts]
    return encoded(model, texts)


def pairs(model: Sen2Pro, name: str) -> tuple[list[str], list[str], Kept, Kept, Labels]:
    """Return labelled pairs: both texts, both encoded, and 1 for a match."""
    rows = list(table(need(f"confidence/{name}.tsv"), "sentence1", "sentence2", "label"))
    first, second = ([row.text(column) for row in rows] for column in ("sentence1", "sentence2"))
    labels = np.array([row.whole("label", 1) for row in rows])
    return first, second, encoded(model, first), encoded(model, second), labels


def intents(model: Sen2Pro, split: str) -> tuple[Kept, NDArray[np.str_]]:
    """Return the texts of CLINC150, encoded, and their intents."""
    rows = list(objects(need(f"confidence/clinc150_{split}.jsonl")))
    return encoded(model, intent_texts(split)), np.array([row.text("label") for row in rows])


def intent_texts(split: str) -> list[str]:
    """Return the texts of CLINC150."""
    return [row.text("text") for row in objects(need(f"confidence/clinc150_{split}.jsonl"))]
