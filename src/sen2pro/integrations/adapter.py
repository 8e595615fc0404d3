"""Gaussians for tools that pass arrays around: one row a sentence, the mean and the variance side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro.distances import METRICS
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.types import Array

if TYPE_CHECKING:
    import torch

# What sentence-transformers looks for, first to last, when a model is to encode one side of a search.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


class GaussianArrays:
    """What MTEB's models and sentence-transformers' have in common: rows (n, 2k), and the similarity of rows.

    Parameters
    ----------
    model
        The model that encodes.
    metric, alpha
        Which distance the similarity is the negative of, as for `Sen2Pro.similarity`.
    batch_size
        As for `Sen2Pro.encode`, forward passes at once. The batch sizes that evaluators send count sentences and are
        not used; no result depends on them.

    Examples
    --------
    >>> arrays = GaussianArrays(Sen2Pro("all-MiniLM-L6-v2", method="one-pass"))
    >>> rows = arrays.rows(["A man is playing a guitar.", "Someone plays an instrument.", "The market fell."])
    >>> rows.shape
    (3, 768)
    >>> arrays.similarity(rows, rows).argsort(descending=True)[0]
    tensor([0, 1, 2])
    """

    def __init__(
        self,
        model: Sen2Pro,
        *,
        metric: str = "sen2pro",
        alpha: float | str = "ratio",
        batch_size: int | None = None,
    ) -> None:
        if not isinstance(model, Sen2Pro):
            raise Sen2ProError(f"give a Sen2Pro, not {type(model).__name__}; to make one: Sen2Pro(...)")
        self.model, self.alpha, self.batch_size = model, alpha, batch_size
        self.metric = one_of("metric", metric, METRICS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, metric={self.metric!r}, alpha={self.alpha!r})"

    def rows(
        self,
        sentences: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        show_progress_bar: Show = None,
    ) -> Array:
        """Return mean and variance of each sentence side by side: (n, 2k) float32, or (2k,) of a single string."""
        g = self.model.encode(
            sentences,
            batch_size=self.batch_size,
            show_progress_bar=show_progress_bar,
            prompt_name=prompt_name,
            prompt=prompt,
        )
        return np.concatenate([g.mean, g.variance], axis=-1)

    def gaussians(self, rows: Any) -> Gaussian:
        """Return the Gaussians that `rows` holds (an array or a tensor), with the signature of the model."""
        array, dim = np.asarray(rows), self.model.dim
        if array.shape[-1:] != (2 * dim,):
            raise Sen2ProError(
                f"rows of this model hold {dim} means and {dim} variances, but the array has shape {array.shape}"
            )
        return Gaussian(array[..., :dim], array[..., dim:], self.model.signature())

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Return the similarity of every row with every one of the other array: (n, m), greater is closer."""
        import torch

        a, b = self.gaussians(embeddings1), self.gaussians(embeddings2)
        return torch.from_numpy(self.model.similarity(a, b, metric=self.metric, alpha=self.alpha))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Return the similarity of each row with its partner: (n,), greater is closer."""
        import torch

        a, b = self.gaussians(embeddings1), self.gaussians(embeddings2)
        return torch.from_numpy(self.model.similarity_pairwise(a, b, metric=self.metric, alpha=self.alpha))

    def prompt_name(self, side: str) -> str | None:
        """Return the name of the model's prompt for one side of a search, `query` or `document`, if it has one."""
        return next((name for name in _PROMPT_NAMES[side] if name in self.model.encoder.prompts), None)
