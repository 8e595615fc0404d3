"""LlamaIndex: its vector index on our vectors, and a postprocessor that returns nothing when unsure."""

import pickle

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed: pip install 'sen2pro[llamaindex]'")

from labelled_texts import HELP, KNOWN, UNKNOWN
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.integrations.llama_index import Sen2ProEmbedding, Sen2ProPostprocessor


@pytest.fixture(scope="module")
def retriever(model):
    nodes = [TextNode(text=text, id_=str(number)) for number, text in enumerate(HELP)]
    return VectorStoreIndex(nodes, embed_model=Sen2ProEmbedding(model)).as_retriever(similarity_top_k=10)


def found(text, score=None):
    return NodeWithScore(node=TextNode(text=text), score=score)


def test_embeddings_are_the_plain_vectors(model):
    embedding = Sen2ProEmbedding(model, embed_batch_size=2)
    np.testing.assert_array_equal(np.float32(embedding.get_text_embedding_batch(HELP)), model.encode_plain(HELP))
    np.testing.assert_array_equal(np.float32(embedding.get_text_embedding(HELP[0])), model.encode_plain(HELP[0]))
    np.testing.assert_array_equal(np.float32(embedding.get_query_embedding(KNOWN)), model.encode_plain(KNOWN))


@pytest.mark.anyio
async def test_asynchronous_embeddings_are_the_same(model):
    embedding = Sen2ProEmbedding(model)
    assert await embedding.aget_query_embedding(KNOWN) == embedding.get_query_embedding(KNOWN)
    assert await embedding.aget_text_embedding(KNOWN) == embedding.get_text_embedding(KNOWN)
    assert await embedding.aget_text_embedding_batch(HELP) == embedding.get_text_embedding_batch(HELP)


def test_queries_and_texts_get_the_prompts_of_the_model(prompted):
    embedding, text = Sen2ProEmbedding(prompted), "the dog runs"
    assert embedding.get_query_embedding(text) == prompted.encode_plain(text, prompt="one ").tolist()
    assert embedding.get_text_embedding(text) == prompted.encode_plain(text, prompt="two ").tolist()


def test_an_embedding_is_written_by_its_name_and_can_be_pickled(shared_folder):
    written = Sen2ProEmbedding(str(shared_folder), embed_batch_size=7).to_dict()
    again = Sen2ProEmbedding.from_dict(written)
    assert (again.model_name, again.embed_batch_size) == (str(shared_folder), 7)
    for each in (again, pickle.loads(pickle.dumps(again))):
        assert each.get_query_embedding("the dog") == Sen2Pro(str(shared_folder)).encode_plain("the dog").tolist()


def test_a_vector_index_ranks_by_the_cosine_of_our_vectors(model, retriever):
    nodes = retriever.retrieve(KNOWN)
    cosine = model.encode_plain(HELP) @ model.encode_plain(KNOWN)
    assert [node.node_id for node in nodes] == [str(place) for place in np.argsort(-cosine)]
    np.testing.assert_allclose([node.score for node in nodes], np.sort(cosine)[::-1], atol=1e-6)


def test_all_nodes_are_dropped_when_unsure_and_else_have_probabilities(model, retriever):
    abstainer = Sen2ProPostprocessor(model)
    kept = abstainer.postprocess_nodes(retriever.retrieve(KNOWN), query_str=KNOWN)
    assert kept[0].text == HELP[0]
    assert len(kept) == len(HELP)
    assert kept[0].score > 0.5 > kept[1].score
    assert abstainer.postprocess_nodes(retriever.retrieve(UNKNOWN), query_str=UNKNOWN) == []
    assert abstainer.postprocess_nodes([], query_str=KNOWN) == []


def test_a_query_engine_has_nothing_to_say_when_unsure(model, retriever):
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=[Sen2ProPostprocessor(model, top_k=1)]
    )
    assert HELP[0] in str(engine.query(KNOWN))  # the mock repeats its prompt, with the nodes
    unsure = engine.query(UNKNOWN)
    assert str(unsure) == "Empty Response"
    assert unsure.source_nodes == []


@pytest.mark.anyio
async def test_top_k_keeps_the_likeliest_also_in_asynchronous_code(model):
    nodes = [found(text) for text in reversed(HELP)]
    kept = await Sen2ProPostprocessor(model, top_k=1).apostprocess_nodes(nodes, QueryBundle(KNOWN))
    assert [node.text for node in kept] == HELP[:1]


def test_a_confidence_takes_the_scores_of_the_retriever(confidence):
    written = Sen2ProPostprocessor("no such model", confidence=str(confidence)).to_dict()
    abstainer = Sen2ProPostprocessor.from_dict(written)
    assert len(abstainer.postprocess_nodes([found("a", 0.99), found("b", 0.2)], query_str="any")) == 2
    assert abstainer.postprocess_nodes([found("a", 0.3), found("b", 0.2)], query_str="any") == []


def test_without_a_query_it_cannot_tell(model):
    with pytest.raises(Sen2ProError, match="depends on the query"):
        Sen2ProPostprocessor(model).postprocess_nodes([found("a")])
