"""Texts as the numbers of an index: which model encodes them, with which prompt, and what is kept of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Gaussian
from sen2pro.io.gaussians import GaussianLike
from sen2pro.model import Sen2Pro
from sen2pro.search.stores.protocol import KEPT, MOST_DIMENSIONS, IndexInfo, Ranking
from sen2pro.signature import MATTERS, Signature
from sen2pro.validation import SOURCES, Array, Array64, check_whole

_MUST_AGREE = (*MATTERS, "samples", "max_length", "prompt")  # between building and searching
Side = Literal["query", "document"]  # of a search
# The names of prompts that sentence-transformers looks for, first to last, for each side of a search.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


def search_model(model: Sen2Pro) -> Sen2Pro:
    """Return a model as an index uses it: in one pass if there is a head, by sampling if samples were asked for."""
    if not isinstance(model, Sen2Pro):
        raise Sen2ProError(f"model must be a Sen2Pro, not {type(model).__name__}")
    return model if has_gaussians(model) else model.in_one_pass() or model


def describe(
    model: Sen2Pro, store: str | None, kind: str | None, rerank: str | None,
    ranking: Ranking = "cosine",
) -> IndexInfo:  # fmt: skip
    """Return the description of a new index, with its defaults; raise if it cannot be made.

    >>> describe(Sen2Pro("all-MiniLM-L6-v2"), None, None, None).kind
    'flat'
    """
    model = search_model(model)
    if rerank is not None and not has_gaussians(model):
        raise Sen2ProError(
            "this model has no head, so one pass gives no Gaussians to rerank by; leave rerank out, fit a head "
            "(Sen2Pro.distill), or ask for samples: Sen2Pro(..., samples=15)"
        )
    kind = one_of("kind", kind or ("flat" if store is None else "hnsw"), ("flat", "hnsw"))
    check_whole("the number of dimensions", model.dim, 1, MOST_DIMENSIONS)
    return IndexInfo(
        signature=model.signature(),
        ranking=ranking,
        rerank=rerank,
        dimensions=model.dim,
        kind="flat" if kind == "flat" else "hnsw",
    )


def has_gaussians(model: Sen2Pro) -> bool:
    """Tell whether an index takes Gaussians of this model; otherwise it takes plain vectors alone."""
    return not model.settings.draws or model.settings.samples is not None


def prompt_name(model: Sen2Pro, side: Side) -> str | None:
    """Return the name of the model's prompt for one side of a search, `query` or `document`, if it has one."""
    return next((name for name in _PROMPT_NAMES[side] if name in model.encoder.prompts), None)


def prompt_of_documents(model: Sen2Pro) -> str:
    """Return the text that the model puts before a document; empty if it has no prompt for documents."""
    name = prompt_name(model, "document")
    return model.encoder.prompt(None, name) if name else ""


def unit(vectors: Array) -> Array:
    """Return vectors of length 1; a vector of zeros stays as it is."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return np.asarray(vectors / np.maximum(lengths, 1e-30), np.float32)


def details_of(texts: Sequence[str], totals: Mapping[str, Array64 | None], gaussian: GaussianLike | None) -> Array:
    """Return the details (n, d) of texts: total variances, words, and mean and variance if there is a Gaussian."""
    columns = [totals.get(source) for source in SOURCES]
    known = [np.zeros(len(texts)) if column is None else column for column in columns]
    kept = np.stack([*known, [len(text.split()) for text in texts]], axis=1).astype(np.float32)
    return kept if gaussian is None else np.concatenate([kept, gaussian.mean, gaussian.variance], axis=1)


def gaussian_of(details: Array) -> Gaussian:
    """Return the Gaussians in details."""
    mean, variance = np.split(details[:, KEPT:], 2, axis=1)
    return Gaussian(mean, variance)


def check_signature(kept: Signature | None, given: Signature, what: str) -> None:
    """Raise if an index or a file was made with another model or other settings."""
    if kept is None:
        raise Sen2ProError(f"{what} does not say how it was made, so it cannot be compared with a query")
    differing = [
        f"{name} {getattr(kept, name)!r} in {what}, but {getattr(given, name)!r} now"
        for name in _MUST_AGREE
        if getattr(kept, name) != getattr(given, name)
    ]
    if differing:
        versions = f" ({what} was made with sen2pro {kept.version}, this is {given.version})"
        raise Sen2ProError(
            f"{what} was made with another model or other settings: {'; '.join(differing)}"
            f"{versions if kept.version != given.version else ''}. Pass model=... as it was, or build the index again"
        )
