"""A sentence's distribution is the same whatever batch it is in, alone, packed or padded."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import FAMILIES, SIZE, WORDS, build_network
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaModel

from sen2pro import Sen2Pro
from sen2pro.encoder.packing import Layout

PACKED = {"bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "nomic-bert"}
TEXTS = [" ".join(WORDS[i : i + n]) for i, n in enumerate([3, 9, 1, 3, 14, 5, 9, 3, 2, 20])]


@pytest.mark.parametrize(
    ("family", "pooling"), [*((family, None) for family in FAMILIES), ("bert", "cls"), ("bert", "first-last-avg")]
)
def test_packed_and_padded_samples_are_the_same(family, pooling, tokenizer):
    model = Sen2Pro(build_network(family), tokenizer=tokenizer, samples=3, pooling=pooling)
    assert model.encoder.packs == (family in PACKED)
    packed, plain = model.sample(TEXTS, batch_size=7), model.encode_plain(TEXTS)
    for row in (1, 2):
        np.testing.assert_allclose(packed[row], model.sample(TEXTS[row]), atol=2e-6)
    model.encoder.transformers.packs = False  # from here on it is padded
    np.testing.assert_allclose(packed, model.sample(TEXTS), atol=2e-6)
    np.testing.assert_allclose(plain, model.encode_plain(TEXTS), atol=2e-6)


def test_a_causal_network_is_padded(tokenizer):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=SIZE["vocab_size"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, attention_dropout=0.1, initializer_range=0.2,
    )  # fmt: skip
    model = Sen2Pro(LlamaModel(config), tokenizer=tokenizer, samples=2)
    assert not model.encoder.packs
    np.testing.assert_allclose(model.sample(TEXTS)[3], model.sample(TEXTS[3]), atol=2e-6)


@pytest.mark.parametrize("said", ["CUDA out of memory.", "can't allocate memory: you tried to allocate 8 bytes."])
def test_running_out_of_memory_does_not_mean_that_a_network_cannot_be_packed(bert, tokenizer, monkeypatch, said):
    def fail(*_):
        raise RuntimeError(said)

    monkeypatch.setattr(Layout, "unpack", fail)
    with pytest.raises(RuntimeError, match=said):
        Sen2Pro(bert, tokenizer=tokenizer)
    said = "the sizes of these tensors do not match"
    assert not Sen2Pro(bert, tokenizer=tokenizer).encoder.packs


def test_lower_precision_stays_below_the_noise_it_measures(minilm):
    texts = ["A man is playing a guitar.", "Rates went up sharply in the third quarter."]
    lower = Sen2Pro("all-MiniLM-L6-v2", samples=5, precision="bfloat16")
    exact, rounded = minilm.sample(texts), lower.sample(texts)
    error, spread = np.sqrt(np.mean((exact - rounded) ** 2)), exact.std(axis=1).mean()
    assert 0 < error < spread / 20
    assert lower.signature().precision == "bfloat16"


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
