"""Propagated variances: what they must agree with, and what they refuse."""

import numpy as np
import pytest
from conftest import WORDS, build_network, build_tokenizer
from scipy.stats import spearmanr

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro_lab.experiments.analytic import corrected, propagated
from sen2pro_lab.experiments.propagation import propagate

NATIVE = ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert")
TEXTS = sorted((" ".join((WORDS * 2)[i : i + n]) for i, n in enumerate([3, 9, 1, 3, 14, 5, 9, 3, 2, 20])), key=len)
ENGLISH = [
    "no", "A man is playing a guitar.", "They did it again.",
    "Stocks fell sharply on Monday after the bank raised rates.",
    "The committee will meet next week to discuss the new rules for parking in the old town.",
    "I really liked this film, although the second half was a bit long and the ending made little sense to me.",
]  # fmt: skip


def model_of(folder, family="bert", changes=None, **settings):
    build_network(family, **(changes or {})).save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return Sen2Pro(str(folder), normalize=False, **settings)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("family", NATIVE)
def test_the_pass_is_the_plain_one_and_small_variances_are_near_those_of_samples(family, pooling, tmp_path):
    """Random weights mix dimensions and turn attention far more than trained ones do, so the bounds are wide."""
    settings = {"pooling": pooling, "dropout": 0.02, "uncertainty": "model", "samples": 200}
    model = model_of(tmp_path, family, **settings)
    tokens, layers = model.encoder.tokenize(TEXTS), range(model.encoder.depth)
    states, variance = propagate(model, tokens, layers)
    plain = model.encoder.run(tokens, None, layers)
    np.testing.assert_allclose(states.features(layers), plain.features(layers), atol=1e-5)
    sampled = model.encode(TEXTS).variance
    ratio = variance.sum(axis=1) / sampled.sum(axis=1)
    assert 0.45 < ratio.min() < ratio.max() < 1.3
    assert np.corrcoef(np.log(variance).ravel(), np.log(sampled).ravel())[0, 1] > 0.5


def test_variances_of_the_default_model_rank_sentences_and_dimensions_as_samples_do():
    model = Sen2Pro(samples=60, normalize=False, uncertainty="model")
    sampled = model.encode(ENGLISH).variance
    states, variance = propagated(model, ENGLISH)
    live = sampled.max(axis=0) > 1e-8 * sampled.mean()
    assert np.corrcoef(np.log(variance[:, live]).ravel(), np.log(sampled[:, live]).ravel())[0, 1] > 0.9
    assert spearmanr(variance.sum(axis=1), sampled.sum(axis=1)).statistic > 0.9
    ratio = variance.sum(axis=1) / sampled.sum(axis=1)
    assert 0.5 < ratio.min() < ratio.max() < 1.1
    assert corrected(states, variance, sampled, np.arange(6) % 2).shape == variance.shape


def test_neighbours_do_not_matter_and_without_dropout_nothing_varies(tmp_path):
    model = model_of(tmp_path / "bert", samples=2)
    tokens = model.encoder.tokenize(TEXTS)
    together = propagate(model, tokens)[1]
    for i, row in enumerate(together):
        np.testing.assert_allclose(propagate(model, tokens.rows([i]))[1][0], row, rtol=1e-4, atol=1e-6)
    silent = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    still = model_of(tmp_path / "silent", changes=silent, uncertainty="data", samples=2)
    assert not propagate(still, tokens)[1].any()


def test_other_networks_are_refused(bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
    with pytest.raises(Sen2ProError, match="native models with mean or cls pooling"):
        propagate(model, model.encoder.tokenize(TEXTS))
