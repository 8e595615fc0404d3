"""LlamaIndex: its vector index on our vectors, and a postprocessor that returns nothing when unsure."""

import pickle

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed: pip install 'sen2pro[llamaindex]'")

from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.integrations.llama_index import Sen2ProAbstainer, Sen2ProEmbedding

HELP = [
    "To reset your password, open Settings and choose Security.", "We ship to all of Europe within five days.",
    "Our office is in Lyon, near the station.", "Refunds take two weeks.", "The app runs on Android and iOS.",
]  # fmt: skip
KNOWN, UNKNOWN = "how do I reset my password?", "who won the world cup in 1998?"


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def model():
    return Sen2Pro("all-MiniLM-L6-v2", method="one-pass")


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


def test_queries_and_texts_get_the_prompts_of_the_model(bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
    model.encoder.backend.prompts = {"query": "one ", "passage": "two "}
    embedding, text = Sen2ProEmbedding(model), "the dog runs"
    assert embedding.get_query_embedding(text) == model.encode_plain(text, prompt="one ").tolist()
    assert embedding.get_text_embedding(text) == model.encode_plain(text, prompt="two ").tolist()


def test_an_embedding_is_written_by_its_name(shared_folder):
    written = Sen2ProEmbedding(str(shared_folder), embed_batch_size=7).to_dict()
    again = Sen2ProEmbedding.from_dict(written)
    assert (again.model_name, again.embed_batch_size) == (str(shared_folder), 7)
    assert again.get_query_embedding("the dog") == Sen2Pro(str(shared_folder)).encode_plain("the dog").tolist()


def test_an_embedding_can_be_sent_to_another_process(model):
    again = pickle.loads(pickle.dumps(Sen2ProEmbedding(model)))
    assert again.get_query_embedding(KNOWN) == model.encode_plain(KNOWN).tolist()


def test_a_vector_index_ranks_by_the_cosine_of_our_vectors(model, retriever):
    nodes = retriever.retrieve(KNOWN)
    cosine = model.encode_plain(HELP) @ model.encode_plain(KNOWN)
    assert [node.node_id for node in nodes] == [str(place) for place in np.argsort(-cosine)]
    np.testing.assert_allclose([node.score for node in nodes], np.sort(cosine)[::-1], atol=1e-6)


def test_all_nodes_are_dropped_when_unsure_and_else_have_probabilities(model, retriever):
    abstainer = Sen2ProAbstainer(model)
    kept = abstainer.postprocess_nodes(retriever.retrieve(KNOWN), query_str=KNOWN)
    assert kept[0].text == HELP[0]
    assert len(kept) == len(HELP)
    assert kept[0].score > 0.5 > kept[1].score
    assert abstainer.postprocess_nodes(retriever.retrieve(UNKNOWN), query_str=UNKNOWN) == []
    assert abstainer.postprocess_nodes([], query_str=KNOWN) == []


def test_top_k_keeps_the_likeliest(model):
    nodes = [found(text) for text in reversed(HELP)]
    assert [node.text for node in Sen2ProAbstainer(model, top_k=1).postprocess_nodes(nodes, query_str=KNOWN)] == HELP[
        :1
    ]


def test_a_query_engine_has_nothing_to_say_when_unsure(model, retriever):
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=[Sen2ProAbstainer(model, top_k=1)]
    )
    assert HELP[0] in str(engine.query(KNOWN))  # the mock repeats its prompt, with the nodes
    unsure = engine.query(UNKNOWN)
    assert str(unsure) == "Empty Response"
    assert unsure.source_nodes == []


@pytest.mark.anyio
async def test_an_abstainer_works_in_asynchronous_code(model):
    kept = await Sen2ProAbstainer(model).apostprocess_nodes([found(HELP[0])], QueryBundle(KNOWN))
    assert [node.text for node in kept] == HELP[:1]


def test_a_confidence_takes_the_scores_of_the_retriever(tmp_path):
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.uniform(size=(200, 2)), axis=1)
    SearchConfidence().fit(scores, rng.uniform(size=200) < scores[:, 0] ** 4).save(tmp_path / "confidence")
    written = Sen2ProAbstainer("no such model", confidence=str(tmp_path / "confidence")).to_dict()
    abstainer = Sen2ProAbstainer.from_dict(written)
    assert len(abstainer.postprocess_nodes([found("a", 0.99), found("b", 0.2)], query_str="any")) == 2
    assert abstainer.postprocess_nodes([found("a", 0.3), found("b", 0.2)], query_str="any") == []


def test_without_a_query_it_cannot_tell(model):
    with pytest.raises(Sen2ProError, match="depends on the query"):
        Sen2ProAbstainer(model).postprocess_nodes([found("a")])
