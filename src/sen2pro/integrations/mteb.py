"""MTEB: a model that `mteb.evaluate` takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sen2pro.errors import Sen2ProError
from sen2pro.integrations.adapter import GaussianArrays
from sen2pro.validation import Array


class MTEBModel(GaussianArrays):
    """A `Sen2Pro` for MTEB 2.x, in the form of its `EncoderProtocol`.

    A sentence is one row: its mean and its variance side by side. Tasks that compare sentences use the model's own
    similarity of the Gaussians. Tasks that learn from features (classification, clustering) learn from the rows. In an
    STS task, `spearman` and `pearson` are scores of the model; those that begin with `cosine`, `manhattan` and
    `euclidean` are MTEB's own, of the rows as plain vectors.

    `metric` and `alpha` are those of `Sen2Pro.similarity`, `batch_size` that of `Sen2Pro.encode`: the one that MTEB
    sends counts sentences and is not used.
    """

    def __post_init__(self) -> None:
        if find_spec("mteb") is None:  # rather here than in the middle of an evaluation
            raise Sen2ProError("this needs mteb; install it with: pip install 'sen2pro[mteb]'")
        super().__post_init__()

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
            name = self.prompt_name(prompt_type.value)
        return self.rows(texts, prompt_name=name, show_progress_bar=show_progress_bar)

    @property
    def mteb_model_meta(self) -> Any:
        """How MTEB names the model in its results: a `ModelMeta` whose `loader_kwargs` hold the signature."""
        encoder = self.model.encoder
        # MTEB takes results of the same name and revision from its cache: these are all that results depend on.
        settings = {"signature": str(self.model.signature()), "metric": self.metric, "alpha": str(self.alpha)}
        parts, method = [re.split(r"[/\\]", encoder.name)[-1]], self.model.method
        parts += [method] if method != "sampling" else []
        parts += [self.model.signature().samples] if self.model.settings.draws else []
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
