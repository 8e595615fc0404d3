"""Sampling done right: all dropout of the network and nothing else, per model family."""

import numpy as np
import pytest
import torch
from conftest import FAMILIES, build_network
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from sen2pro import Sen2Pro, Sen2ProError, Sen2ProWarning
from sen2pro.encoder.dropout import KeyedDropout, mode

SENTENCE = "the big dog runs in the park with a red ball"


def train_mode_loop(network, tokenizer, passes: int) -> np.ndarray:
    """The reference: Hugging Face's own forward in train mode, again and again, mean-pooled."""
    encoder = network.get_encoder() if network.config.is_encoder_decoder else network
    if hasattr(encoder, "layerdrop"):
        encoder.layerdrop = 0.0  # LayerDrop is not dropout
    inputs = tokenizer(SENTENCE, return_tensors="pt", return_token_type_ids=False)
    torch.manual_seed(1)
    encoder.train()
    with torch.inference_mode():
        vectors = [encoder(**inputs).last_hidden_state.mean(dim=1)[0] for _ in range(passes)]
    encoder.eval()
    return torch.stack(vectors).double().numpy()


def assert_same_distribution(ours: np.ndarray, reference: np.ndarray) -> None:
    """Means and variances agree within the statistical error of both."""
    variances = ours.var(axis=0), reference.var(axis=0)
    assert variances[0].sum() > 0
    z = (ours.mean(axis=0) - reference.mean(axis=0)) / np.sqrt(
        sum(v / len(x) for v, x in zip(variances, (ours, reference), strict=True))
    )
    assert np.abs(z).max() < 5, "a mean is off"
    totals, errors = [], []
    for x in (ours, reference):
        squares = ((x - x.mean(axis=0)) ** 2).sum(axis=1)
        totals.append(squares.mean())
        errors.append(squares.std() / np.sqrt(len(x)))
    assert abs(totals[0] - totals[1]) < 4 * np.hypot(*errors), f"total variance {totals[0]} against {totals[1]}"
    ratio = np.log(variances[0] / variances[1])
    # A variance of N samples has a relative error of sqrt((kurtosis - 1) / N), about sqrt(2 / N).
    assert np.abs(ratio).max() < 6 * np.sqrt(2 / len(ours) + 2 / len(reference)), "a variance is off"


@pytest.mark.parametrize("family", FAMILIES)
def test_statistics_are_those_of_torch_dropout(family, tokenizer):
    network = build_network(family)
    model = Sen2Pro(network, tokenizer=tokenizer, samples=300, uncertainty="model")
    assert_same_distribution(model.sample(SENTENCE, batch_size=150), train_mode_loop(network, tokenizer, 300))


@pytest.mark.parametrize("family", [name for name, (*_, only) in FAMILIES.items() if only is not None])
def test_attention_dropout_alone_is_sampled(family, tokenizer):
    network = build_network(family, **FAMILIES[family][3])
    model = Sen2Pro(network, tokenizer=tokenizer, samples=300, uncertainty="model")
    assert {site.kind for site in model.encoder.sites if site.rate} >= {"attention"}
    assert_same_distribution(model.sample(SENTENCE, batch_size=150), train_mode_loop(network, tokenizer, 300))


def snapshot(network) -> list:
    names = ("training", "layerdrop", "gradient_checkpointing")
    state = [(name, n, getattr(m, n)) for name, m in network.named_modules() for n in names if hasattr(m, n)]
    return [*state, network.config._attn_implementation]


@pytest.mark.parametrize("family", ["bert", "bart", "t5", "modernbert"])
@pytest.mark.parametrize("training", [True, False])
def test_the_models_own_flags_are_untouched(family, training, tokenizer):
    network = build_network(family).train(training)
    before = snapshot(network)
    model = Sen2Pro(network, tokenizer=tokenizer, samples=2, dropout=0.2)
    model.encode(SENTENCE)
    plain = model.encode_plain(SENTENCE)
    assert snapshot(network) == before
    network.train(not training)
    np.testing.assert_array_equal(model.encode_plain(SENTENCE), plain)


def test_flags_are_restored_when_a_forward_pass_fails(tokenizer):
    network = build_network("bert").train()
    model = Sen2Pro(network, tokenizer=tokenizer, samples=2)
    before = snapshot(network)

    def fail(*_):
        raise KeyboardInterrupt

    handle = network.encoder.layer[1].register_forward_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        model.encode(SENTENCE)
    handle.remove()
    assert snapshot(network) == before


def test_running_statistics_are_not_updated():
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    with mode(network, sampling=True):
        assert [m.training for m in network] == [True, False, True]
        network(torch.randn(8, 3))
    assert network[1].num_batches_tracked == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rate_can_be_overridden_where_the_configuration_says_zero(family, tokenizer):
    options = FAMILIES[family][2]
    off = {name: 0.0 for name in options if "dropout" in name}
    silent = build_network(family, **off)
    with pytest.raises(Sen2ProError, match=r"pass dropout=0\.1"):
        Sen2Pro(silent, tokenizer=tokenizer, samples=2)
    with pytest.warns(Sen2ProWarning, match="not trained with dropout"):
        model = Sen2Pro(silent, tokenizer=tokenizer, samples=300, dropout=0.1, uncertainty="model")
    reference = build_network(family, **dict.fromkeys(off, 0.1))  # the same weights, built with dropout
    assert_same_distribution(model.sample(SENTENCE, batch_size=150), train_mode_loop(reference, tokenizer, 300))


def test_a_network_without_dropout_still_has_data_uncertainty(tokenizer):
    network = build_network("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = Sen2Pro(network, tokenizer=tokenizer, uncertainty="data", samples=5)
    assert model.encode(SENTENCE).total_variance > 0


def test_dropout_hidden_in_a_fused_kernel_is_refused_not_sampled_unkeyed(tokenizer):
    class Fused(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)

    with pytest.raises(Sen2ProError, match="fused kernel"), KeyedDropout(0, [[5, 6, 7]], [0]):
        Fused()(torch.randn(1, 2, 3, 4))


def test_masks_have_the_rate_and_scale_of_dropout():
    with KeyedDropout(0, [[5] * 200, [5] * 100], [0, 0]):
        out = nn.functional.dropout(torch.ones(2, 200, 500), p=0.3)
    kept = out[0] > 0
    assert kept.float().mean().item() == pytest.approx(0.7, abs=5 * np.sqrt(0.3 * 0.7 / 100_000))
    assert out[0][kept].unique().item() == pytest.approx(1 / 0.7, rel=1e-4)
    assert not torch.equal(kept[:100], out[1, :100] > 0), "each sentence has its own masks"


class Flattening(nn.Module):
    """A network that applies dropout to all tokens of a batch as one table, as OPT does."""

    def __init__(self):
        super().__init__()
        self.config = build_network("bert").config
        self.embedding = nn.Embedding(self.config.vocab_size, 32)

    def forward(self, input_ids, attention_mask=None, **_):
        states = self.embedding(input_ids)
        flat = nn.functional.dropout(states.flatten(0, 1), p=0.1, training=self.training)
        return BaseModelOutput(last_hidden_state=flat.view(states.shape))


class Unkeyed(Flattening):
    """A network with randomness that is no dropout."""

    def forward(self, input_ids, attention_mask=None, **_):
        states = self.embedding(input_ids)
        return BaseModelOutput(last_hidden_state=states + (torch.randn_like(states) if self.training else 0))


class Leaking(Flattening):
    """A network that looks at padding: each token sees the average of the whole row."""

    def forward(self, input_ids, attention_mask=None, **_):
        states = self.embedding(input_ids)
        states = nn.functional.dropout(states + states.mean(dim=1, keepdim=True), p=0.1, training=self.training)
        return BaseModelOutput(last_hidden_state=states)


@pytest.mark.parametrize("network", [Flattening, Unkeyed])
def test_a_network_that_cannot_be_keyed_is_refused(network, tokenizer):
    with pytest.raises(Sen2ProError, match="depends on its neighbours"):
        Sen2Pro(network(), tokenizer=tokenizer)


def test_a_network_that_looks_at_padding_gets_none(tokenizer):
    model = Sen2Pro(Leaking(), tokenizer=tokenizer, samples=3)
    sentences = [SENTENCE, "the cat", "one two three", "a dog"]
    together = model.encode(sentences)
    for i, sentence in enumerate(sentences):
        np.testing.assert_allclose(model.encode(sentence).mean, together[i].mean, atol=1e-5)
