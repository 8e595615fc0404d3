"""LlamaIndex: plain vectors, and a node postprocessor that returns nothing when it is unsure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import Sen2ProError
from sen2pro.integrations.frameworks import Judge, load, missing, vectors
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError:
    raise missing("llama-index-core", "llamaindex") from None


class Sen2ProEmbedding(BaseEmbedding):  # type: ignore[misc]
    """Plain vectors, as `Sen2Pro.encode_plain` gives them; queries and texts get the model's prompt, if it has one.

    `model_name` is a hub id, a folder or a `Sen2Pro`. Other arguments are those of LlamaIndex's `BaseEmbedding`.

    >>> embedding = Sen2ProEmbedding("all-MiniLM-L6-v2")
    >>> len(embedding.get_query_embedding("Who plays the guitar?"))
    384
    """

    _model: Sen2Pro = PrivateAttr()

    def __init__(self, model_name: str | Path | Sen2Pro = DEFAULT_MODEL, **options: Any) -> None:
        model = load(model_name)
        name = model.encoder.name if isinstance(model_name, Sen2Pro) else str(model_name)
        super().__init__(model_name=name, **options)
        self._model = model

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex writes into files."""
        return "Sen2ProEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        found: list[float] = vectors(self._model, [query], "query")[0].tolist()
        return found

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = vectors(self._model, texts, "document").tolist()
        return found

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class Sen2ProPostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Drop all nodes if the first is not likely right; else return them with probabilities as scores.

    It looks at 10 nodes by default, so let the retriever find as many (`similarity_top_k=10`) and say with `top_k` how
    many to keep. Later nodes have a probability of their own, if it is known: LlamaIndex's `SimilarityPostprocessor`
    can drop those that are unlikely.

    `top_k` says how many nodes to keep, by default all; the other parameters are those of
    `sen2pro.integrations.frameworks.Judge`.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [NodeWithScore(node=TextNode(text="To reset your password, open Settings."))]
    >>> abstainer = Sen2ProPostprocessor()
    >>> len(abstainer.postprocess_nodes(nodes, query_str="how do I reset my password?"))
    1
    >>> abstainer.postprocess_nodes(nodes, query_str="who won the cup in 1998?")
    []
    """

    model: Any = DEFAULT_MODEL
    confidence: Any = None
    precision: float | None = None
    top_k: int | None = None
    _judge: Judge = PrivateAttr()

    def __init__(
        self, model: str | Path | Sen2Pro = DEFAULT_MODEL, *, confidence: SearchConfidence | str | Path | None = None,
        precision: float | None = None, top_k: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(model=model, confidence=confidence, precision=precision, top_k=top_k, **options)
        self._judge = Judge(model, confidence, precision)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex writes into files."""
        return "Sen2ProPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise Sen2ProError("whether nodes are likely right depends on the query; pass query_str=...")
        texts = [node.node.get_content(MetadataMode.EMBED) for node in nodes]
        kept = self._judge.kept(query_bundle.query_str, texts, [node.score for node in nodes], self.top_k)
        return [NodeWithScore(node=nodes[place].node, score=likely) for place, likely in kept]
