"""The promise: a sentence's distribution is the same whatever batch it is in."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import WORDS
from hypothesis import given, settings
from hypothesis import strategies as st

from sen2pro import Sen2Pro

sentences = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join), min_size=1, max_size=8)


def assert_equal(a, b):
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-5)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(texts=sentences, batch_size=st.integers(1, 40), data=st.data())
def test_order_neighbours_and_batch_size_do_not_matter(tiny, texts, batch_size, data):
    texts = [*texts, texts[0]]
    together = tiny.encode(texts, batch_size=batch_size)
    order = data.draw(st.permutations(range(len(texts))))
    shuffled = tiny.encode([texts[i] for i in order])
    assert_equal(shuffled, together[list(order)])
    chosen = data.draw(st.integers(0, len(texts) - 1))
    assert_equal(tiny.encode(texts[chosen]), together[chosen])


@pytest.mark.parametrize("uncertainty", ["model", "data"])
def test_another_seed_gives_another_result(bert, tokenizer, uncertainty):
    a, b = (Sen2Pro(bert, tokenizer=tokenizer, samples=4, uncertainty=uncertainty, seed=s) for s in (0, 1))
    text = "the big dog runs in the park"
    assert np.abs(a.encode(text).mean - b.encode(text).mean).max() > 1e-3


def test_more_samples_begin_with_the_fewer(bert, tokenizer):
    few, many = (Sen2Pro(bert, tokenizer=tokenizer, samples=n, uncertainty="model") for n in (3, 6))
    np.testing.assert_allclose(many.sample("the dog runs")[:3], few.sample("the dog runs"), atol=1e-5)


def test_what_the_network_cannot_tell_apart_is_the_same(tiny):
    assert_equal(tiny.encode("the dog runs"), tiny.encode("  the dog\truns "))


def test_threads_may_share_a_model_and_models_a_network(bert, tokenizer):
    texts = ["the dog runs", "a cat", "rain today", "music and song in the park"] * 3
    models = [Sen2Pro(bert, tokenizer=tokenizer, samples=4, uncertainty=u) for u in ("model", "data", "both")]
    expected = [model.encode(texts) for model in models]
    with ThreadPoolExecutor(4) as pool:
        for i, result in enumerate(pool.map(lambda i: models[i % 3].encode(texts), range(24))):
            assert_equal(result, expected[i % 3])
