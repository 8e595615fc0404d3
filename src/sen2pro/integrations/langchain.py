"""LangChain: plain vectors, and a vector store whose relevance score is the probability that a document is right."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.integrations.frameworks import load, missing, vectors
from sen2pro.model import Sen2Pro
from sen2pro.search import Hit, Index
from sen2pro.settings import DEFAULT_MODEL

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
except ImportError:
    raise missing("langchain-core", "langchain") from None


class Sen2ProEmbeddings(Embeddings):  # type: ignore[misc]
    """Plain vectors, as `Sen2Pro.encode_plain` gives them; queries and documents get the model's prompt, if it has one.

    `model` is a hub id, a folder or a `Sen2Pro`.

    >>> embeddings = Sen2ProEmbeddings("all-MiniLM-L6-v2")
    >>> len(embeddings.embed_query("Who plays the guitar?"))
    384
    """

    def __init__(self, model: str | Path | Sen2Pro = DEFAULT_MODEL) -> None:
        self.model = load(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        found: list[list[float]] = vectors(self.model, texts, "document").tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        found: list[float] = vectors(self.model, [text], "query")[0].tolist()
        return found


class Sen2ProVectorStore(VectorStore):  # type: ignore[misc]
    """An `Index` as a vector store of LangChain.

    Relevance scores are the probabilities of the hits. So `as_retriever(search_type="similarity_score_threshold",
    search_kwargs={"score_threshold": 0.5})` returns nothing where no document is more likely right than not. A
    probability that is not known counts as 0: of hits beyond those the calibration looks at (the first 10 with the
    shipped numbers). A similarity alone does not know the other hits, on which its probability depends; therefore the
    similarities of this store carry it, and `_select_relevance_score_fn` reads it from them.

    `similarity_search_with_score` returns what documents are ranked by. `filter` is a dictionary like
    `{"lang": "en", "year": [1999, 2000]}`. A document whose id is there is replaced. Search takes a text: there is
    no search by a vector, and no `mmr`.

    Examples
    --------
    >>> texts = ["To reset your password, open Settings.", "We ship to all of Europe."]
    >>> store = Sen2ProVectorStore.from_texts(texts, Sen2ProEmbeddings(), ids=["password", "shipping"])
    >>> [(document, probability)] = store.similarity_search_with_relevance_scores("how to reset my password?", k=1)
    >>> document.id, probability > 0.5
    ('password', True)
    """

    def __init__(self, index: Index) -> None:
        if not isinstance(index, Index):
            raise Sen2ProError(f"a vector store is made of an Index, not of {short_repr(index)}")
        self.index = index

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None, *,
        ids: Sequence[str | None] | None = None, **options: Any,
    ) -> Sen2ProVectorStore:  # fmt: skip
        """Build an index of texts; `options` are those of `Index.build`, for instance `store=` and `confidence=`."""
        if not isinstance(embedding, Sen2ProEmbeddings):
            raise Sen2ProError(f"this store takes Sen2ProEmbeddings, not {type(embedding).__name__}")
        options = {"duplicates": "replace", **options}
        return cls(
            Index.build(embedding.model, texts, ids=_named(ids, len(texts)), metadata=metadatas or None, **options)
        )

    @property
    def embeddings(self) -> Sen2ProEmbeddings:
        """What encodes the texts."""
        return Sen2ProEmbeddings(self.index.model)

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, *,
        ids: Sequence[str | None] | None = None, **options: Any,
    ) -> list[str]:  # fmt: skip
        """Add texts, or replace those whose ids are there; return the ids. Texts without an id get a random one."""
        rows = list(texts)
        names = _named(ids, len(rows))
        self.index.add(rows, ids=names, metadata=metadatas or None, duplicates="replace")
        return names

    def delete(self, ids: list[str] | None = None, **options: Any) -> bool:
        """Delete documents by their ids; those that are not there are no error."""
        if ids is None:
            raise Sen2ProError("say which documents to delete: ids=[...]; to start again, build another index")
        self.index.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by their ids; those that are not there are left out."""
        return [Document(row.text, id=row.id, metadata=dict(row.metadata)) for row in self.index.get(list(ids))]

    def _hits(self, query: str, k: int, filter: Mapping[str, Any] | None) -> list[tuple[Document, Hit]]:
        found = self.index.search(query, k, where=filter)
        return [(Document(hit.text, id=hit.id, metadata=dict(hit.metadata)), hit) for hit in found]

    def similarity_search(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Document]:
        """Return the k nearest documents, the nearest first."""
        return [document for document, _ in self._hits(query, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the k nearest documents, each with its similarity: greater is closer."""
        return [(document, Similarity.of(hit)) for document, hit in self._hits(query, k, filter)]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return what turns a similarity that this store returned into the probability that the hit is right.

        LangChain calls it for relevance scores and thresholds. A probability depends on all hits of a query, so it
        comes with the similarity (see `Similarity`). Any other number is refused.
        """
        if not self.index.calibrated:
            raise Sen2ProError(
                "there are no probabilities for this model, so there are no relevance scores; fit a SearchConfidence "
                "on labelled queries, and set store.index.confidence"
            )
        return _relevance


class Similarity(float):
    """A similarity that knows how likely its hit is right; `probability` is None where nothing is calibrated.

    >>> near = Similarity.of(Hit("7", "Paris is the capital of France.", 0.83, 0.97))
    >>> near, near.probability
    (0.83, 0.97)
    """

    probability: float | None

    @classmethod
    def of(cls, hit: Hit) -> Similarity:
        """Return the similarity of a hit."""
        found = cls(hit.similarity)
        found.probability = hit.probability
        return found


def _relevance(score: float) -> float:
    """Return the probability that comes with a similarity; one that is not known counts as 0."""
    if not isinstance(score, Similarity):
        raise Sen2ProError(
            f"{short_repr(score)} alone has no probability, since that depends on the other hits; pass a score that "
            "similarity_search_with_score returned"
        )
    return score.probability or 0.0


def _named(ids: Sequence[str | None] | None, rows: int) -> list[str]:
    """Return an id for each text: its own, or a random one."""
    given = ids if ids is not None else [None] * rows
    return [uuid.uuid4().hex if id is None else id for id in given]
