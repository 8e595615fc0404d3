"""Collections for the benchmarks of search: documents and queries encoded in one pass, and kept in SEN2PRO_CACHE."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sen2pro import Gaussian, Sen2Pro
from sen2pro.confidence import encode
from sen2pro.search.encoding import Encoded
from sen2pro_lab.contests.retrieval import read_collection
from sen2pro_lab.paper.catalogue import need
from sen2pro_lab.paper.data import read_classification, read_evalrank
from sen2pro_lab.paper.files import objects, table

CACHE = Path(os.environ.get("SEN2PRO_CACHE", Path.home() / ".cache" / "sen2pro")) / "search"


class Collection(NamedTuple):
    """Documents, queries, and which document is right for which query (pairs of numbers, query first)."""

    documents: Encoded
    queries: Encoded
    right: np.ndarray

    def table(self) -> np.ndarray:
        """Return which documents are right (queries, documents)."""
        found = np.zeros((len(self.queries), len(self.documents)), bool)
        found[tuple(self.right.T)] = True
        return found


def encoded(model: Sen2Pro, texts: Sequence[str]) -> Encoded:
    """Encode texts, or take them from the cache."""
    key = hashlib.sha256("\0".join([str(model.signature()), *texts]).encode()).hexdigest()[:32]
    path = CACHE / f"{key}.npz"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = encode(model, list(texts))
        totals = [part.total_variance for part in found.parts.values()]
        about = np.stack([*totals, found.words], axis=1).astype(np.float32)
        np.savez(path, plain=found.vectors, mean=found.joined.mean, variance=found.joined.variance, about=about)
    with np.load(path) as kept:
        return Encoded(kept["plain"], Gaussian(kept["mean"], kept["variance"]), kept["about"])


def take(part: Encoded, rows: np.ndarray) -> Encoded:
    gaussian = None if part.gaussian is None else part.gaussian[rows]
    return Encoded(part.plain[rows], gaussian, part.about[rows])


def join(first: Encoded, second: Encoded) -> Encoded:
    gaussian = Gaussian.concatenate([first.gaussian, second.gaussian])
    return Encoded(np.r_[first.plain, second.plain], gaussian, np.r_[first.about, second.about])


def retrieval(model: Sen2Pro, name: str) -> Collection:
    """Return one of the collections xquad, cranfield and cisi."""
    found = read_collection(name)
    return Collection(
        encoded(model, found.documents), encoded(model, found.queries), np.argwhere(found.relevant)
    )  # fmt: skip


def evalrank(model: Sen2Pro) -> tuple[Encoded, np.ndarray]:
    """Return the background sentences of EvalRank, and where the two of each pair stand in it (n, 2)."""
    found = read_evalrank()
    where = {text: number for number, text in enumerate(found.background)}
    return encoded(model, found.background), np.array([[where[a], where[b]] for a, b in found.pairs])


def articles(model: Sen2Pro) -> Encoded:
    """Return 11,217 short articles (DBpedia): documents that answer no question."""
    texts = [text for split in ("train", "test") for text in read_classification("dbpedia14", split).texts]
    return encoded(model, texts)


def pairs(model: Sen2Pro, name: str) -> tuple[list[str], list[str], Encoded, Encoded, np.ndarray]:
    """Return labelled pairs: both texts, both encoded, and 1 for a match."""
    rows = list(table(need(f"confidence/{name}.tsv"), "sentence1", "sentence2", "label"))
    first, second = ([row.text(column) for row in rows] for column in ("sentence1", "sentence2"))
    return first, second, encoded(model, first), encoded(model, second), np.array([row.number("label") for row in rows])


def intents(model: Sen2Pro, split: str) -> tuple[Encoded, np.ndarray]:
    """Return the texts of CLINC150, encoded, and their intents."""
    rows = list(objects(need(f"confidence/clinc150_{split}.jsonl")))
    return encoded(model, intent_texts(split)), np.array([row.text("label") for row in rows])


def intent_texts(split: str) -> list[str]:
    """Return the texts of CLINC150."""
    return [row.text("text") for row in objects(need(f"confidence/clinc150_{split}.jsonl"))]
