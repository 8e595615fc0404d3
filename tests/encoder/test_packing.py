"""Packed batches give the numbers of padded ones, for every family that can be packed; the others are padded."""

import numpy as np
import pytest
import torch
from conftest import FAMILIES, SIZE, WORDS, build_network
from transformers import LlamaConfig, LlamaModel

from sen2pro import Sen2Pro
from sen2pro.encoder.packing import Layout

PACKED = {"bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "nomic-bert"}
TEXTS = [" ".join(WORDS[i : i + n]) for i, n in enumerate([3, 9, 1, 3, 14, 5, 9, 3, 2, 20])]


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_and_padded_samples_are_the_same(family, tokenizer):
    model = Sen2Pro(build_network(family), tokenizer=tokenizer, samples=3)
    assert model.encoder.packs == (family in PACKED)
    packed, plain = model.sample(TEXTS), model.encode_plain(TEXTS)
    model.encoder.transformers._first = None  # from here on it is padded
    np.testing.assert_allclose(packed, model.sample(TEXTS), atol=2e-6)
    np.testing.assert_allclose(plain, model.encode_plain(TEXTS), atol=2e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "first-last-avg"])
def test_every_pooling_can_be_packed(bert, tokenizer, pooling):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=3, pooling=pooling)
    packed = model.sample(TEXTS)
    model.encoder.transformers._first = None  # from here on it is padded
    np.testing.assert_allclose(packed, model.sample(TEXTS), atol=2e-6)


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


def test_the_real_model_is_packed_and_gives_what_sentence_transformers_gives(minilm):
    assert minilm.encoder.packs
    texts = ["A man is playing a guitar.", "Rates.", "The committee met for the third time this year, in Geneva."]
    theirs = minilm.encoder.source.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(minilm.encode_plain(texts), theirs, atol=1e-5)


def test_unpacking_pads_with_zeros():
    states = torch.arange(12.0).reshape(1, 6, 2)
    found = Layout([2, 1, 3]).unpack(states)
    assert found.shape == (3, 3, 2)
    assert found[0].tolist() == [[0, 1], [2, 3], [0, 0]]
    assert found[2].tolist() == [[6, 7], [8, 9], [10, 11]]


def test_the_network_gets_its_own_attention_back(bert, tokenizer):
    before = bert.config._attn_implementation
    Sen2Pro(bert, tokenizer=tokenizer, samples=2).encode(TEXTS)
    assert bert.config._attn_implementation == before
    assert not bert.training


def test_lower_precision_stays_below_the_noise_it_measures(minilm):
    texts = ["A man is playing a guitar.", "Rates went up sharply in the third quarter."]
    lower = Sen2Pro("all-MiniLM-L6-v2", samples=5, precision="bfloat16")
    exact, rounded = minilm.sample(texts), lower.sample(texts)
    error, spread = np.sqrt(np.mean((exact - rounded) ** 2)), exact.std(axis=1).mean()
    assert 0 < error < spread / 20
    assert lower.signature().precision == "bfloat16"
