"""Fixtures of the tests of search."""

import pytest
from search_stores import Place, shared_server, some_texts

from sen2pro import Sen2Pro
from sen2pro.search import Index


@pytest.fixture
def server():
    return shared_server()


@pytest.fixture(scope="module")
def plain(bert, tokenizer):
    """A tiny random BERT without a head: plain vectors of 32 numbers."""
    return Sen2Pro(bert, tokenizer=tokenizer)


@pytest.fixture
def texts():
    return some_texts()


@pytest.fixture
def index(plain, texts):
    """An index in memory."""
    return Index.build(plain, texts)


@pytest.fixture
def place(request, server, tmp_path):
    """A place for an index in FAISS, or in the store that a test names."""
    return Place(getattr(request, "param", "faiss"), server, tmp_path)
