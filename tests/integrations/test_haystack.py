"""Haystack: embedders and a filter in real pipelines, which are written to YAML and read back."""

import os

import numpy as np
import pytest

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
pytest.importorskip("haystack", reason="Haystack is not installed: pip install 'sen2pro[haystack]'")

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from labelled_texts import HELP, KNOWN, UNKNOWN

from sen2pro import Sen2ProError
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.integrations.haystack import Sen2ProAbstainer, Sen2ProDocumentEmbedder, Sen2ProTextEmbedder

OURS = ["sen2pro.integrations.haystack"]  # Haystack reads no component of a module that the caller has not allowed


def search_pipeline(store):
    pipeline = Pipeline()
    pipeline.add_component("embedder", Sen2ProTextEmbedder())
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=10))
    pipeline.add_component("abstainer", Sen2ProAbstainer(top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "abstainer.documents")
    return pipeline


def ask(pipeline, query):
    return pipeline.run({"embedder": {"text": query}, "abstainer": {"query": query}})["abstainer"]["documents"]


def test_embeddings_are_the_plain_vectors(model):
    np.testing.assert_array_equal(
        np.float32(Sen2ProTextEmbedder(model).run(KNOWN)["embedding"]), model.encode_plain(KNOWN)
    )
    documents = [Document(content=text, meta={"number": n}) for n, text in enumerate(HELP)]
    embedded = Sen2ProDocumentEmbedder(model).run(documents)["documents"]
    np.testing.assert_array_equal(np.float32([each.embedding for each in embedded]), model.encode_plain(HELP))
    assert [(each.id, each.meta) for each in embedded] == [(each.id, each.meta) for each in documents]
    assert documents[0].embedding is None  # the given documents are left alone
    assert Sen2ProDocumentEmbedder(model).run([]) == {"documents": []}


def test_texts_and_documents_get_the_prompts_of_the_model(prompted):
    text = "the dog runs"
    assert Sen2ProTextEmbedder(prompted).run(text)["embedding"] == prompted.encode_plain(text, prompt="one ").tolist()
    (document,) = Sen2ProDocumentEmbedder(prompted).run([Document(content=text)])["documents"]
    assert document.embedding == prompted.encode_plain(text, prompt="two ").tolist()


def test_a_pipeline_indexes_finds_and_abstains_also_after_yaml():
    store = InMemoryDocumentStore()
    indexing = Pipeline()
    indexing.add_component("embedder", Sen2ProDocumentEmbedder())
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("embedder", "writer")
    indexing.run({"embedder": {"documents": [Document(content=text) for text in HELP]}})

    pipeline = search_pipeline(store)
    written = Pipeline.loads(pipeline.dumps(), allowed_modules=OURS)
    store_again = written.get_component("retriever").document_store
    if not store_again.count_documents():  # YAML holds no documents
        store_again.write_documents(store.filter_documents())
    for each in (pipeline, written):
        kept = ask(each, KNOWN)
        assert kept[0].content == HELP[0]
        assert len(kept) == 2
        assert kept[0].score > 0.5 > kept[1].score
        assert ask(each, UNKNOWN) == []


def test_settings_are_written_and_read_back(tmp_path):
    made = Sen2ProAbstainer(model=tmp_path, confidence=tmp_path / "c", precision=0.9, top_k=3).to_dict()
    assert made["init_parameters"] == {
        "model": str(tmp_path), "confidence": str(tmp_path / "c"), "precision": 0.9, "top_k": 3,
    }  # fmt: skip
    pipeline = Pipeline()
    for number, kind in enumerate((Sen2ProTextEmbedder, Sen2ProDocumentEmbedder)):
        pipeline.add_component(str(number), kind("my/model"))
    again = Pipeline.from_dict(pipeline.to_dict(), allowed_modules=OURS)
    assert [again.get_component(name).model for name in "01"] == ["my/model"] * 2


def test_what_is_not_on_disk_cannot_be_written(model):
    with pytest.raises(Sen2ProError, match="name or folder of a model"):
        Sen2ProTextEmbedder(model).to_dict()
    with pytest.raises(Sen2ProError, match="name or folder of a confidence"):
        Sen2ProAbstainer(confidence=SearchConfidence()).to_dict()


def test_a_confidence_takes_the_scores_of_the_retriever(confidence):
    abstainer = Sen2ProAbstainer("no such model", confidence=confidence)
    abstainer.warm_up()

    def run(*given):
        return abstainer.run("any", [Document(content=str(score), score=score) for score in given])["documents"]

    assert [document.content for document in run(0.2, 0.99)] == ["0.99", "0.2"]
    assert run(0.2, 0.3) == []
    assert abstainer.run("any", [])["documents"] == []


def test_a_document_without_text_is_an_error(model):
    with pytest.raises(Sen2ProError, match="blank|empty"):
        Sen2ProDocumentEmbedder(model).run([Document(content="It rains."), Document(meta={"a": 1})])
