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


@pytest.mark.parametrize(
    ("family", "pooling"), [*((family, None) for family in FAMILIES), ("bert", "cls"), ("bert", "first-last-avg")]
)
def test_packed_and_padded_samples_are_the_same(family, pooling, tokenizer):
    model = Sen2Pro(build_network(family), tokenizer=tokenizer, samples=3, pooling=pooling)
    assert model.encoder.packs == (family in PACKED)
    packed, plain = model.sample(TEXTS), model.encode_plain(TEXTS)
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
