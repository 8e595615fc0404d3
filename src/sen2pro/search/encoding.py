"""Texts as an index needs them: plain vectors, distributions where the model has them, and lengths, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, check_sentences

# What sentence-transformers looks for, first to last, when a model is to encode one side of a search.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts encoded.

    `plain` are their plain vectors (n, k) and `gaussian` their distributions; one of both may be missing. `about`
    (n, 3) is what a confidence needs: the total variances of model and data, and the number of words; 0 is unknown.
    """

    plain: Array | None
    gaussian: Gaussian | None
    about: Array

    def __len__(self) -> int:
        return len(self.about)


class TextEncoder:
    """A model as an index uses it: in one pass if there is a head, by sampling if samples were asked for.

    A model with neither gives plain vectors alone.
    """

    def __init__(self, model: Sen2Pro) -> None:
        if not isinstance(model, Sen2Pro):
            raise Sen2ProError(f"model must be a Sen2Pro, not {type(model).__name__}")
        wanted = model.method != "sampling" or model.settings.samples is not None
        one_pass = None if wanted else model.in_one_pass()
        self.model = one_pass or model
        self.has_gaussians = wanted or one_pass is not None

    @property
    def passes(self) -> int:
        """How many forward passes a text takes."""
        return self.model.passes if self.has_gaussians else 1

    @property
    def signature(self) -> Signature:
        """How texts are encoded."""
        return self.model.signature()

    def __call__(self, texts: Sequence[str], side: str) -> Encoded:
        """Encode texts with the model's prompt for one side of a search, `query` or `document`."""
        checked, prompt = check_sentences(texts), prompt_name(self.model, side)
        if not self.has_gaussians:
            return Encoded(self.model.encode_plain(checked, prompt_name=prompt), None, about(checked, {}))
        found = self.model.estimate(checked, prompt_name=prompt)
        return Encoded(found.plain, found.gaussian, about(checked, found.parts))


def prompt_name(model: Sen2Pro, side: str) -> str | None:
    """Return the name of the model's prompt for one side of a search, `query` or `document`, if it has one."""
    return next((name for name in _PROMPT_NAMES[side] if name in model.encoder.prompts), None)


def prompt_of_documents(model: Sen2Pro) -> str:
    """Return what the model puts before a document; nothing if it has no prompt for documents."""
    name = prompt_name(model, "document")
    return model.encoder.prompt(None, name) if name else ""


def about(texts: Sequence[str], parts: Any) -> Array:
    """Return the total variances of each source and the number of words (n, 3), 0 where unknown."""
    columns = [parts[source].total_variance if source in parts else np.zeros(len(texts)) for source in SOURCES]
    return np.stack([*columns, [len(text.split()) for text in texts]], axis=1).astype(np.float32)
