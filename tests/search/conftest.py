"""Fixtures for the tests of search."""

import numpy as np
import pytest
from search_stores import STORES, WORDS, Place, Server

from sen2pro import Sen2Pro


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=STORES)
def place(request, server, tmp_path):
    return Place(request.param, server, tmp_path)


@pytest.fixture(scope="session")
def plain(bert, tokenizer):
    """A tiny random BERT without a head: plain vectors of 32 numbers."""
    return Sen2Pro(bert, tokenizer=tokenizer)


@pytest.fixture(scope="session")
def texts():
    rng = np.random.default_rng(0)
    return list(dict.fromkeys(" ".join(rng.choice(WORDS, 6)) for _ in range(160)))
