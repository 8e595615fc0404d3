"""MTEB: a model that `mteb.evaluate` takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from sen2pro.errors import Sen2ProError
from sen2pro.integrations.adapter import GaussianArrays
from sen2pro.model import Sen2Pro
from sen2pro.types import Array


class MTEBModel(GaussianArrays):
    """A `Sen2Pro` for MTEB 2.x, in the form of its `EncoderProtocol`.

    MTEB passes arrays around, so a sentence is one row: its mean and its variance side by side. Tasks that compare
    sentences use the model's own similarity of the Gaussians in these rows; tasks that learn from features
    (classification, clustering) learn from the rows. Of an STS task, the scores that begin with `cosine`, `manhattan`
    and `euclidean` are MTEB's own, of the rows as plain vectors; `spearman` and `pearson` are those of the model.

    Parameters
    ----------
    model
        The model to evaluate.
    metric, alpha
        Which distance the similarity is the negative of, as for `Sen2Pro.similarity`.
    batch_size
        As for `Sen2Pro.encode`; the one that MTEB sends counts sentences and is not used.
    """

    def __init__(
        self,
        model: Sen2Pro,
        *,
        metric: str = "sen2pro",
        alpha: float | str = "ratio",
        batch_size: int | None = None,
    ) -> None:
        _mteb("mteb")  # rather here than in the middle of an evaluation
        super().__init__(model, metric=metric, alpha=alpha, batch_size=batch_size)

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
        name = _mteb("mteb.models.abs_encoder").get_prompt_name(self.model.encoder.prompts, task_metadata, prompt_type)
        if name is None and prompt_type is not None:
            name = self.prompt_name(prompt_type.value)
        return self.rows(texts, prompt_name=name, show_progress_bar=show_progress_bar)

    @property
    def mteb_model_meta(self) -> Any:
        """How MTEB names the model in its results: a `ModelMeta` whose `loader_kwargs` hold the signature."""
        encoder, settings = self.model.encoder, self._settings()
        return _mteb("mteb.models.model_meta").ModelMeta(
            loader=None,
            loader_kwargs=settings,
            name=self._name(),
            revision=hashlib.sha256(repr(settings).encode()).hexdigest()[:12],
            release_date=None,
            languages=None,
            n_parameters=sum(parameter.numel() for parameter in encoder.network.parameters()),
            memory_usage_mb=None,
            max_tokens=encoder.max_length,
            embed_dim=2 * self.model.dim,
            license=None,
            open_weights=None,
            public_training_code=None,
            public_training_data=None,
            framework=["PyTorch"],
            similarity_fn_name=None,  # its own; MTEB writes "custom" to a file of results but does not read it again
            use_instructions=any(encoder.prompts.values()),
            training_datasets=None,
            adapted_from=encoder.name,
        )

    def _settings(self) -> dict[str, str]:
        """Return all that results depend on: MTEB takes results of the same name and revision from its cache."""
        return {"signature": str(self.model.signature()), "metric": self.metric, "alpha": str(self.alpha)}

    def _name(self) -> str:
        """Return organisation/model, as MTEB wants it, in letters that a folder can be named with."""
        parts = [re.split(r"[/\\]", self.model.encoder.name)[-1]]
        if self.model.method != "sampling":
            parts.append(self.model.method)
        if self.model.method != "one-pass":
            parts.append(self.model.signature().samples)
        return "sen2pro/" + re.sub(r"[^\w.+-]+", "-", "-".join(parts))


def _mteb(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise Sen2ProError(f"MTEB is not installed ({error}); pip install 'sen2pro[mteb]'") from error
