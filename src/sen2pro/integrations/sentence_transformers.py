"""sentence-transformers: plain vectors in its own class, a model for its evaluators, and one evaluator of our own."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from sen2pro.errors import Sen2ProError
from sen2pro.integrations.adapter import GaussianArrays
from sen2pro.integrations.plain import load
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL
from sen2pro.validation import Array


def sentence_transformer(model: str | Path | Sen2Pro = DEFAULT_MODEL, **options: Any) -> Any:
    """Return a `SentenceTransformer` whose plain vectors come from sen2pro, for code that expects one.

    `encode` takes the usual arguments and gives what the model gives in sentence-transformers, but for two things. A
    blank text is an error. Vectors of a model that is compared by cosine have length 1, also if the model does not
    normalise them; `Sen2Pro(..., normalize=False)` leaves their length as it is.

    Parameters
    ----------
    model
        Hub id, folder or `Sen2Pro`.
    **options
        More arguments of `SentenceTransformer`, for instance `similarity_fn_name` or `truncate_dim`.

    Examples
    --------
    >>> model = sentence_transformer("all-MiniLM-L6-v2")
    >>> model.encode(["A man plays.", "It rains."], truncate_dim=64).shape
    (2, 64)
    """
    module = PlainModule(load(model))
    encoder = module.model.encoder
    given = {"prompts": dict(encoder.prompts), "default_prompt_name": encoder.default_prompt_name, **options}
    return SentenceTransformer(modules=[module], device="cpu", **given)  # the Sen2Pro has a device of its own


class PlainModule(InputModule):  # type: ignore[misc, unused-ignore]  # no types without it
    """The one module of the `SentenceTransformer` that `sentence_transformer` makes."""

    def __init__(self, model: Sen2Pro) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.model = model

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Keep the texts as they are: the encoder makes tokens of them."""
        return {"texts": list(inputs), "prompt": prompt or ""}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the plain vectors (n, k)."""
        rows = self.model.encode_plain(features["texts"], prompt=features["prompt"])
        return {**features, "sentence_embedding": torch.from_numpy(rows)}

    @property
    def max_seq_length(self) -> int:
        """How many tokens of a text count."""
        return self.model.encoder.max_length

    def get_embedding_dimension(self) -> int:
        """Return the number of dimensions of a vector."""
        return self.model.dim

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Refuse: the `Sen2Pro` writes a folder that sentence-transformers can read."""
        raise Sen2ProError("save the Sen2Pro itself: Sen2Pro.save(folder); sentence-transformers reads that folder")


class EvaluationModel(GaussianArrays):
    """A `Sen2Pro` in the place where an evaluator of sentence-transformers expects a `SentenceTransformer`.

    A sentence is one row: its mean and its variance side by side. `InformationRetrievalEvaluator` asks the model for
    the similarity of rows, which is that of the Gaussians. `EmbeddingSimilarityEvaluator` knows only four functions of
    vectors (of which `manhattan` is twice Eq. 6 with alpha=0.5): use `SimilarityEvaluator`, which asks the model.

    `metric` and `alpha` are those of `Sen2Pro.similarity`, `batch_size` that of `Sen2Pro.encode`: the one that an
    evaluator sends counts sentences and is not used.
    """

    @property
    def similarity_fn_name(self) -> str:
        """The name that results have: the metric."""
        return self.metric

    @property
    def model_card_data(self) -> EvaluationModel:
        """Where evaluators put their results for a model card; none of them is kept."""
        return self

    def set_evaluation_metrics(self, evaluator: Any, metrics: Mapping[str, float], *_: int, **__: int) -> None:
        """Raise if there is no result: `EmbeddingSimilarityEvaluator` skips a similarity that it does not know."""
        if not metrics:
            said = f"{type(evaluator).__name__} does not know the similarity {self.metric!r}"
            raise Sen2ProError(f"{said}; use sen2pro.integrations.sentence_transformers.SimilarityEvaluator")

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        *,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        precision: str | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> Array | torch.Tensor:
        """Return mean and variance of each sentence side by side: (n, 2k), or (2k,) of a single string."""
        quantised = None if precision == "float32" else precision
        refused = {"truncate_dim": truncate_dim, "normalize_embeddings": normalize_embeddings, "precision": quantised}
        for name, value in refused.items():
            if value:
                raise Sen2ProError(f"{name}={value!r} is for vectors; a mean and a variance side by side are not one")
        rows = self.rows(sentences, prompt_name=prompt_name, prompt=prompt, show_progress_bar=show_progress_bar)
        return torch.from_numpy(rows) if convert_to_tensor else rows

    def encode_query(
        self, sentences: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any
    ) -> Array | torch.Tensor:
        """Encode with the model's prompt for queries, if it has one and none is given; arguments as for `encode`."""
        name = prompt_name or (self.prompt_name("query") if prompt is None else None)
        return self.encode(sentences, name, prompt, **options)

    def encode_document(
        self, sentences: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any
    ) -> Array | torch.Tensor:
        """Encode with the model's prompt for documents, if it has one and none is given; arguments as for `encode`."""
        name = prompt_name or (self.prompt_name("document") if prompt is None else None)
        return self.encode(sentences, name, prompt, **options)


class SimilarityEvaluator(EmbeddingSimilarityEvaluator):  # type: ignore[misc, unused-ignore]  # no types without it
    """sentence-transformers' `EmbeddingSimilarityEvaluator`, with the model's own similarity instead of its four.

    Arguments are the same; results are called `spearman_sen2pro` and `pearson_sen2pro` (or by the model's metric).

    >>> from sen2pro import Sen2Pro
    >>> model = EvaluationModel(Sen2Pro("all-MiniLM-L6-v2", method="one-pass"))
    >>> evaluate = SimilarityEvaluator(
    ...     ["A man plays.", "A man plays.", "A man plays."],
    ...     ["A man is playing.", "A woman sings.", "The market fell."],
    ...     scores=[5.0, 2.0, 0.0],
    ... )
    >>> round(evaluate(model)["spearman_sen2pro"], 4)
    1.0
    """

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the Spearman and Pearson correlations of similarities with the scores, and append them to the CSV."""
        rows = self.embed_inputs(model, self.sentences1), self.embed_inputs(model, self.sentences2)
        scores, name = model.similarity_pairwise(*rows).numpy(), model.similarity_fn_name
        kinds = {"pearson": pearsonr, "spearman": spearmanr}
        metrics = {f"{kind}_{name}": float(measure(scores, self.scores).statistic) for kind, measure in kinds.items()}
        self.primary_metric = f"spearman_{name}"
        if output_path is not None and self.write_csv:
            Path(output_path).mkdir(parents=True, exist_ok=True)
            row = {"epoch": epoch, "steps": steps, **metrics}
            with (Path(output_path) / self.csv_file).open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([row.values()] if file.tell() else [row, row.values()])
        metrics = dict(self.prefix_name_to_metrics(metrics, self.name))
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics
