"""LangChain: its own standard suites on all three stores, and relevance scores that are probabilities."""

import json
import logging
import pickle

import numpy as np
import pytest

langchain = pytest.importorskip("langchain_core", reason="LangChain is not installed: pip install 'sen2pro[langchain]'")
suites = pytest.importorskip("langchain_tests", reason="its suites are not installed: pip install langchain-tests")

from labelled_texts import HELP, KNOWN, UNKNOWN
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from search_stores import STORES, Place, fitted_confidence, shared_server

from sen2pro import Sen2ProError
from sen2pro.integrations.langchain import Sen2ProEmbeddings, Sen2ProVectorStore
from sen2pro.search import Index


@pytest.fixture
def store(model):
    index = Index.build(model, HELP, metadata=[{"number": n, "even": n % 2 == 0} for n in range(len(HELP))])
    return Sen2ProVectorStore(index)


class TestEmbeddingsUnit(EmbeddingsUnitTests):
    embeddings_class = Sen2ProEmbeddings
    embedding_model_params = {"model": "all-MiniLM-L6-v2"}  # noqa: RUF012  # the suite has it so


@pytest.mark.anyio
class TestEmbeddings(EmbeddingsIntegrationTests):
    embeddings_class = Sen2ProEmbeddings
    embedding_model_params = {"model": "all-MiniLM-L6-v2"}  # noqa: RUF012


class Standard(VectorStoreIntegrationTests):
    """LangChain's suite, on an empty store of one kind."""

    kind = ""

    @pytest.fixture
    def vectorstore(self, model, tmp_path):
        store = Sen2ProVectorStore(Place(self.kind, shared_server(), tmp_path).build(model))
        yield store
        store.index.close()


for kind in STORES:
    name = "Test" + "".join(part.title() for part in kind.split("-"))
    globals()[name] = pytest.mark.anyio(type(name, (Standard,), {"kind": kind, "__module__": __name__}))
del Standard, VectorStoreIntegrationTests, EmbeddingsIntegrationTests, EmbeddingsUnitTests  # pytest would collect them


def test_embeddings_are_the_plain_vectors(model):
    embeddings = Sen2ProEmbeddings(model)
    np.testing.assert_array_equal(np.float32(embeddings.embed_documents(HELP)), model.encode_plain(HELP))
    np.testing.assert_array_equal(np.float32(embeddings.embed_query(KNOWN)), model.encode_plain(KNOWN))
    assert embeddings.embed_documents([]) == []


def test_queries_and_documents_get_the_prompts_of_the_model(prompted):
    embeddings = Sen2ProEmbeddings(prompted)
    vectors = {prompt: prompted.encode_plain("the dog runs", prompt=prompt) for prompt in ("one ", "two ")}
    np.testing.assert_array_equal(np.float32(embeddings.embed_query("the dog runs")), vectors["one "])
    np.testing.assert_array_equal(np.float32(embeddings.embed_documents(["the dog runs"])[0]), vectors["two "])


def test_the_relevance_score_is_the_probability_and_the_score_the_similarity(store):
    hits = store.index.search(KNOWN, k=3)
    relevant = store.similarity_search_with_relevance_scores(KNOWN, k=3)
    assert [(document.id, score) for document, score in relevant] == [(hit.id, hit.probability) for hit in hits]
    scored = store.similarity_search_with_score(KNOWN, k=3)
    assert [(document.id, score) for document, score in scored] == [(hit.id, hit.similarity) for hit in hits]
    assert [document.page_content for document in store.similarity_search(KNOWN, k=3)] == [hit.text for hit in hits]
    probability = store._select_relevance_score_fn()  # a score carries its probability, a bare number has none
    assert [probability(score) for _, score in scored] == [hit.probability for hit in hits]
    assert [probability(pickle.loads(pickle.dumps(score))) for _, score in scored] == [hit.probability for hit in hits]
    assert json.loads(json.dumps(scored[0][1])) == hits[0].similarity
    with pytest.raises(Sen2ProError, match="0.83 alone has no probability, since that depends on the other hits"):
        probability(0.83)


@pytest.mark.anyio
async def test_relevance_scores_are_the_same_in_asynchronous_code(store):
    assert await store.asimilarity_search_with_relevance_scores(
        KNOWN, k=3, filter={"even": True}
    ) == store.similarity_search_with_relevance_scores(KNOWN, k=3, filter={"even": True})


def test_a_retriever_with_a_threshold_returns_nothing_when_unsure(store, caplog):
    retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})
    assert [document.page_content for document in retriever.invoke(KNOWN)] == [HELP[0]]
    with caplog.at_level(logging.ERROR):
        assert retriever.invoke(UNKNOWN) == []


def test_a_filter_leaves_only_what_has_this_metadata(store):
    found = store.similarity_search(KNOWN, k=5, filter={"number": [1, 3], "even": False})
    assert {document.metadata["number"] for document in found} == {1, 3}
    retriever = store.as_retriever(search_kwargs={"k": 5, "filter": {"even": True}})
    assert {document.metadata["number"] for document in retriever.invoke(KNOWN)} == {0, 2, 4}


def test_hits_without_a_known_probability_count_as_unlikely(model):
    store = Sen2ProVectorStore(Index.build(model, HELP, confidence=fitted_confidence(later=False)))
    first, *others = (score for _, score in store.similarity_search_with_relevance_scores(KNOWN, k=3))
    assert first == store.index.search(KNOWN, k=1)[0].probability > 0
    assert others == [0.0, 0.0]


def test_without_a_calibration_there_is_no_relevance_score_but_a_ranking(tiny):
    store = Sen2ProVectorStore.from_texts(["the dog runs", "a cat sees"], Sen2ProEmbeddings(tiny))
    assert store.similarity_search("the dog runs", k=1)[0].page_content == "the dog runs"
    with pytest.raises(Sen2ProError, match="there are no probabilities"):
        store.similarity_search_with_relevance_scores("the dog runs")


def test_documents_are_made_with_ids_metadata_and_options_of_the_index(model):
    documents = [Document("It rains.", id="a", metadata={"year": 1999}), Document("It snows.")]
    store = Sen2ProVectorStore.from_documents(documents, Sen2ProEmbeddings(model), kind="hnsw")
    assert "hnsw" in repr(store.index)
    assert store.get_by_ids(["a", "none"]) == documents[:1]
    other = store.similarity_search("snow", k=1)[0]
    assert len(other.id) == 32  # a random one
    assert store.embeddings.model is store.index.model


def test_langchains_indexing_adds_skips_and_deletes(model):
    store = Sen2ProVectorStore(Index.build(model))
    records = InMemoryRecordManager(namespace="test")
    records.create_schema()
    documents = [Document(text, metadata={"source": "help"}) for text in HELP]

    def run(given):
        done = index(given, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
        return {name: count for name, count in done.items() if count}

    assert run(documents) == {"num_added": 5}
    assert run(documents) == {"num_skipped": 5}
    assert run(documents[:2]) == {"num_skipped": 2, "num_deleted": 3}
    assert len(store.index) == 2


def test_what_cannot_be_done_is_said(store, model):
    with pytest.raises(Sen2ProError, match="takes Sen2ProEmbeddings, not DeterministicFakeEmbedding"):
        Sen2ProVectorStore.from_texts(HELP, DeterministicFakeEmbedding(size=3))
    with pytest.raises(Sen2ProError, match="say which documents"):
        store.delete()
    with pytest.raises(Sen2ProError, match="made of an Index"):
        Sen2ProVectorStore(model)
    with pytest.raises(Sen2ProError, match="model is a hub id, a folder or a Sen2Pro, not int"):
        Sen2ProEmbeddings(3)
    with pytest.raises(Sen2ProError, match="metadata 'tags' must be a text"):
        store.add_documents([Document("It rains.", metadata={"tags": ["a"]})])
