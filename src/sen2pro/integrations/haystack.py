"""Haystack: plain vectors of texts and documents, and a filter that returns nothing when it is unsure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import Sen2ProError
from sen2pro.integrations.frameworks import Judge, load, missing, vectors
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL

try:
    from haystack import Document, component, default_to_dict
except ImportError:
    raise missing("haystack-ai", "haystack") from None


def _place(value: Any, what: str) -> str | None:
    """Return a name or folder for a pipeline that is written to a file."""
    if value is None or isinstance(value, (str, Path)):
        return None if value is None else str(value)
    raise Sen2ProError(f"a pipeline can be written only with the name or folder of a {what}; save it, and pass that")


class _Embedder:
    def __init__(self, model: str | Path | Sen2Pro = DEFAULT_MODEL) -> None:
        self.model = model
        self._loaded: Sen2Pro | None = None

    def warm_up(self) -> None:
        """Load the model."""
        self._ready()

    def _ready(self) -> Sen2Pro:
        if self._loaded is None:
            self._loaded = load(self.model)
        return self._loaded

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline writes to a file."""
        found: dict[str, Any] = default_to_dict(self, model=_place(self.model, "model"))
        return found


@component
class Sen2ProTextEmbedder(_Embedder):
    """Plain vector of a text, as `Sen2Pro.encode_plain` gives it, with the model's prompt for queries if it has one.

    `model` is a hub id, a folder or a `Sen2Pro`.

    >>> len(Sen2ProTextEmbedder("all-MiniLM-L6-v2").run("Who plays the guitar?")["embedding"])
    384
    """

    @component.output_types(embedding=list[float])  # type: ignore[untyped-decorator]
    def run(self, text: str) -> dict[str, Any]:
        """Return the vector of a text as `embedding`."""
        return {"embedding": vectors(self._ready(), [text], "query")[0].tolist()}


@component
class Sen2ProDocumentEmbedder(_Embedder):
    """Plain vectors of documents, as `Sen2Pro.encode_plain` gives them, with the model's prompt for documents if any.

    `model` is a hub id, a folder or a `Sen2Pro`. A document without text is an error.

    Examples
    --------
    >>> found = Sen2ProDocumentEmbedder("all-MiniLM-L6-v2").run([Document(content="A man plays.")])
    >>> len(found["documents"][0].embedding)
    384
    """

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return copies of the documents with their vectors as `documents`."""
        rows = vectors(self._ready(), [document.content or "" for document in documents], "document")
        pairs = zip(documents, rows.tolist(), strict=True)
        return {"documents": [replace(document, embedding=row) for document, row in pairs]}


@component
class Sen2ProAbstainer:
    """Drop all documents if the first is not likely right; else return them with probabilities as scores.

    It looks at 10 documents by default, so let the retriever find as many (`top_k=10`) and say with `top_k` here how
    many to keep.

    `top_k` says how many documents to keep, by default all; the other parameters are those of
    `sen2pro.integrations.frameworks.Judge`.

    Examples
    --------
    >>> documents, abstainer = [Document(content="To reset your password, open Settings.")], Sen2ProAbstainer()
    >>> len(abstainer.run("how do I reset my password?", documents)["documents"])
    1
    >>> abstainer.run("who won the cup in 1998?", documents)["documents"]
    []
    """

    def __init__(
        self, model: str | Path | Sen2Pro = DEFAULT_MODEL, confidence: SearchConfidence | str | Path | None = None,
        precision: float | None = None, top_k: int | None = None,
    ) -> None:  # fmt: skip
        self.model, self.confidence, self.precision, self.top_k = model, confidence, precision, top_k
        self._judge: Judge | None = None

    def warm_up(self) -> None:
        """Load model and confidence."""
        self._ready()

    def _ready(self) -> Judge:
        if self._judge is None:
            self._judge = Judge(self.model, self.confidence, self.precision)
        return self._judge

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline writes to a file."""
        places = {"model": _place(self.model, "model"), "confidence": _place(self.confidence, "confidence")}
        found: dict[str, Any] = default_to_dict(self, **places, precision=self.precision, top_k=self.top_k)
        return found

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Return the documents, the likeliest first, or none, as `documents`."""
        texts = [document.content or "" for document in documents]
        kept = self._ready().kept(query, texts, [document.score for document in documents], self.top_k)
        return {"documents": [replace(documents[place], score=likely) for place, likely in kept]}
