"""sentence-transformers: plain vectors in its own class, for code that expects one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule

from sen2pro.errors import Sen2ProError
from sen2pro.integrations.frameworks import load
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL


def sentence_transformer(model: str | Path | Sen2Pro = DEFAULT_MODEL, **options: Any) -> SentenceTransformer:
    """Return a `SentenceTransformer` whose plain vectors come from sen2pro, for code that expects one.

    `encode` takes the usual arguments and gives the vectors of sentence-transformers, with two exceptions. A blank text
    is an error. Vectors of a model that is compared by cosine have length 1, even if the model does not normalise them;
    `Sen2Pro(..., normalize=False)` leaves their length as it is.

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
    return SentenceTransformer(modules=[module], device="cpu", **given)  # the Sen2Pro has its own device


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
