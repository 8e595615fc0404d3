"""Gaussians for tools that pass arrays around: a sentence is one row, its mean and its variance side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch

from sen2pro.distances import METRICS
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.search.index import prompt_name
from sen2pro.validation import Array


@dataclass(eq=False)
class GaussianArrays:
    """The parent of `MTEBModel` and `EvaluationModel`: rows (n, 2k), and the similarity of rows.

    >>> arrays = GaussianArrays(Sen2Pro("all-MiniLM-L6-v2", method="one-pass"))
    >>> rows = arrays.rows(["A man is playing a guitar.", "Someone plays an instrument.", "The market fell."])
    >>> rows.shape
    (3, 768)
    >>> arrays.similarity(rows, rows).argsort(descending=True)[0]
    tensor([0, 1, 2])
    """

    model: Sen2Pro
    _: KW_ONLY
    metric: str = "sen2pro"
    alpha: float | str = "ratio"
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, Sen2Pro):
            raise Sen2ProError(f"give a Sen2Pro, not {type(self.model).__name__}; to make one: Sen2Pro(...)")
        one_of("metric", self.metric, METRICS)

    def rows(self, sentences: str | Sequence[str], **options: Any) -> Array:
        """Return `Sen2Pro.encode`, mean and variance side by side: (n, 2k) float32, or (2k,) of a single string."""
        g = self.model.encode(sentences, batch_size=self.batch_size, **options)
        return np.concatenate([g.mean, g.variance], axis=-1)

    def gaussians(self, rows: Any) -> Gaussian:
        """Return the Gaussians that `rows` holds (an array or a tensor), with the signature of the model."""
        array, dim = np.asarray(rows), self.model.dim
        if array.shape[-1:] != (2 * dim,):
            raise Sen2ProError(f"rows of this model hold {dim} means and {dim} variances, not shape {array.shape}")
        return Gaussian(array[..., :dim], array[..., dim:], self.model.signature())

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Return the similarity of every row with every one of the other array: (n, m), greater is closer."""
        return self._compare(self.model.similarity, embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Return the similarity of each row with its partner: (n,), greater is closer."""
        return self._compare(self.model.similarity_pairwise, embeddings1, embeddings2)

    def _compare(self, similarity: Callable[..., Array], embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        a, b = self.gaussians(embeddings1), self.gaussians(embeddings2)
        return torch.from_numpy(similarity(a, b, metric=self.metric, alpha=self.alpha))

    def prompt_name(self, side: str) -> str | None:
        """Return the name of the model's prompt for one side of a search, `query` or `document`, if it has one."""
        return prompt_name(self.model, side)
