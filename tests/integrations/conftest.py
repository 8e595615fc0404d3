"""Models and confidences for the tests of frameworks."""

import numpy as np
import pytest

from sen2pro import Sen2Pro
from sen2pro.calibration import SearchConfidence


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def model():
    return Sen2Pro("all-MiniLM-L6-v2", method="one-pass")


@pytest.fixture
def prompted(bert, tokenizer):
    """A tiny model that puts a prompt before queries and another one before documents."""
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
    model.encoder.backend.prompts = {"query": "one ", "document": "two "}
    return model


@pytest.fixture
def confidence(tmp_path):
    """The folder of a confidence that takes a first score of 0.99 for right, and one of 0.3 for wrong."""
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.uniform(size=(200, 2)), axis=1)
    SearchConfidence().fit(scores, rng.uniform(size=200) < scores[:, 0] ** 4).save(tmp_path / "confidence")
    return tmp_path / "confidence"
