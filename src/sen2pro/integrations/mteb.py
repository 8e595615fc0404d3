"""MTEB: a model that `mteb.evaluate` takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from sen2pro.distances import METRICS
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.search.documents import prompt_name
from sen2pro.validation import Array


@dataclass(eq=False)
class MTEBModel:
    """A `Sen2Pro` for MTEB 2.x, in the form of its `EncoderProtocol`.

    A sentence is one row: its mean and its variance side by side. Tasks that compare sentences use the model's own
    similarity of the Gaussians. Tasks that learn from features (classification, clustering) learn from the rows. In an
    STS task, `spearman` and `pearson` are scores of the model; those that begin with `cosine`, `manhattan` and
    `euclidean` are MTEB's own, of the rows as plain vectors.

    `metric` and `alpha` are those of `Sen2Pro.similarity`, `batch_size` that of `Sen2Pro.encode`: the one that MTEB
    sends counts sentences and is not used.
    """

    model: Sen2Pro
    _: KW_ONLY
    metric: str = "sen2pro"
    alpha: float | str = "ratio"
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if find_spec("mteb") is None:  # rather here than in the middle of an evaluation
            raise Sen2ProError("this needs mteb; install it with: pip install 'sen2pro[mteb]'")
        if not isinstance(self.model, Sen2Pro):
            raise Sen2ProError(f"give a Sen2Pro, not {type(self.model).__name__}; to make one: Sen2Pro(...)")
        one_of("metric", self.metric, METRICS)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        show_progress_bar: bool | None = None,
        batch_size: int | None = None,
        precision: str | None = None,
    ) -> Array:
        """Return mean and variance of each text side by side: (n, 2k) float32.

        If the model has prompts, the one for the task's name or type is used, else the one for queries or documents.
        """
        if precision not in (None, "float32"):
            raise Sen2ProError(f"precision={precision!r} would round variances away; leave it out of encode_kwargs")
        texts = [text for batch in inputs for text in batch["text"]]
        encoders: Any = import_module("mteb.models.abs_encoder")
        name = encoders.get_prompt_name(self.model.encoder.prompts, task_metadata, prompt_type)
        if name is None and prompt_type is not None:
            name = prompt_name(self.model, prompt_type.value)
        g = self.model.encode(texts, batch_size=self.batch_size, prompt_name=name, show_progress_bar=show_progress_bar)
        return np.concatenate([g.mean, g.variance], axis=-1)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> torch.Tensor:
        """Return the similarity of every row with every row of the other array: (n, m), greater is closer."""
        return self._compare(self.model.similarity, embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> torch.Tensor:
        """Return the similarity of each row with its partner: (n,), greater is closer."""
        return self._compare(self.model.similarity_pairwise, embeddings1, embeddings2)

    def _compare(
        self, similarity: Callable[..., Array], embeddings1: ArrayLike, embeddings2: ArrayLike
    ) -> torch.Tensor:
        a, b = self._gaussians(embeddings1), self._gaussians(embeddings2)
        return torch.from_numpy(similarity(a, b, metric=self.metric, alpha=self.alpha))

    def _gaussians(self, rows: ArrayLike) -> Gaussian:
        """Return the Gaussians that rows hold (an array or a tensor), with the signature of the model."""
        array, dim = np.asarray(rows), self.model.dim
        if array.shape[-1:] != (2 * dim,):
            raise Sen2ProError(f"rows of this model hold {dim} means and {dim} variances, not shape {array.shape}")
        return Gaussian(array[..., :dim], array[..., dim:], self.model.signature())

    @property
    def mteb_model_meta(self) -> Any:
        """How MTEB names the model in its results: a `ModelMeta` whose `loader_kwargs` hold the signature."""
        encoder = self.model.encoder
        # MTEB takes results of the same name and revision from its cache: these are all that results depend on.
        settings = {"signature": str(self.model.signature()), "metric": self.metric, "alpha": str(self.alpha)}
        how = self.model.signature().samples if self.model.settings.draws else self.model.method
        parts = [re.split(r"[/\\]", encoder.name)[-1], how]
        about = {
            "loader_kwargs": settings,
            "name": "sen2pro/" + re.sub(r"[^\w.+-]+", "-", "-".join(parts)),  # letters that a folder can be named with
            "revision": hashlib.sha256(repr(settings).encode()).hexdigest()[:12],
            "n_parameters": encoder.parameters,
            "max_tokens": float(encoder.max_length),
            "embed_dim": 2 * self.model.dim,
            "framework": ["PyTorch"],
            "use_instructions": any(encoder.prompts.values()),
            "adapted_from": encoder.name,
        }
        return import_module("mteb.models.model_meta").ModelMeta.create_empty(about)
