"""Analytic: dropout followed through the network, what it must agree with, and what it refuses."""

import json
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import WORDS, build_network, build_tokenizer
from safetensors.numpy import load_file, save_file
from scipy.stats import spearmanr
from typer.testing import CliRunner

from sen2pro import Head, Sen2Pro, Sen2ProError
from sen2pro.cli.app import app
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import HeadMissing
from sen2pro.estimation.analytic import CONFIG, TENSORS

NATIVE = ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert")
TEXTS = [" ".join((WORDS * 2)[i : i + n]) for i, n in enumerate([3, 9, 1, 3, 14, 5, 9, 3, 2, 20])]
ENGLISH = [
    "A man is playing a guitar.", "They did it again.", "Stocks fell sharply on Monday after the bank raised rates.",
    "no", "The committee will meet next week to discuss the new rules for parking in the old town.",
    "I really liked this film, although the second half was a bit long and the ending made little sense to me.",
]  # fmt: skip


def save(folder, family="bert", **changes):
    build_network(family, **changes).save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return str(folder)


def some_sentences(count, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 20))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def head(folder, tmp_path_factory):
    """A head with its correction, on disk."""
    model = Sen2Pro(folder).distill(some_sentences(400, 0), samples=8, verbose=False)
    place = tmp_path_factory.mktemp("head")
    model.head.save(place)
    return str(place)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("family", NATIVE)
def test_the_pass_beside_which_variances_are_computed_is_the_plain_one(family, pooling, tmp_path):
    encoder = Encoder(save(tmp_path, family), pooling=pooling)
    tokens, layers = encoder.tokens(TEXTS), range(encoder.depth)
    found = encoder.propagate(tokens, layers)
    np.testing.assert_allclose(found[:, : -encoder.dim], encoder.forward(tokens, layers=layers), atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("family", NATIVE)
def test_at_a_small_rate_propagated_variances_are_near_those_of_many_samples(family, pooling, tmp_path):
    """Random weights mix dimensions and turn attention far more than trained ones do, so the bounds are wide."""
    settings = {"pooling": pooling, "normalize": False, "dropout": 0.02, "uncertainty": "model"}
    model = Sen2Pro(save(tmp_path, family), samples=300, **settings)
    sampled = model.encode(TEXTS).variance
    propagated = model.encoder.propagate(model.encoder.tokens(TEXTS)).numpy()[:, -model.dim :]
    ratio = propagated.sum(axis=1) / sampled.sum(axis=1)
    assert ratio.min() > 0.45
    assert ratio.max() < 1.3
    assert np.corrcoef(np.log(propagated).ravel(), np.log(sampled).ravel())[0, 1] > 0.5


def test_in_the_default_model_propagated_variances_rank_sentences_and_dimensions_as_samples_do():
    model = Sen2Pro(samples=60, normalize=False, uncertainty="model")
    sampled = model.encode(ENGLISH).variance
    propagated = model.encoder.propagate(model.encoder.tokens(ENGLISH)).numpy()[:, -model.dim :]
    live = sampled.max(axis=0) > 1e-8 * sampled.mean()
    found, truth = np.log(propagated[:, live]), np.log(sampled[:, live])
    assert np.corrcoef(found.ravel(), truth.ravel())[0, 1] > 0.9
    assert spearmanr(propagated.sum(axis=1), sampled.sum(axis=1)).statistic > 0.9
    ratio = propagated.sum(axis=1) / sampled.sum(axis=1)
    assert ratio.min() > 0.5
    assert ratio.max() < 1.1


def test_a_sentence_has_the_same_variance_whatever_stands_beside_it(folder):
    encoder = Encoder(folder)
    tokens = encoder.tokens(TEXTS)
    together = encoder.propagate(sorted(tokens, key=len))
    for ids, row in zip(sorted(tokens, key=len), together, strict=True):
        np.testing.assert_allclose(encoder.propagate([ids])[0], row, rtol=1e-4, atol=1e-6)


def test_without_dropout_nothing_varies(tmp_path):
    silent = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = Encoder(save(tmp_path, **silent))
    assert not encoder.propagate(encoder.tokens(TEXTS))[:, -encoder.dim :].any()


@pytest.mark.slow
def test_on_the_default_model_analytic_is_nearer_to_many_samples_than_one_pass():
    settings = {"uncertainty": "model"}
    truth = np.log(Sen2Pro(samples=120, seed=1, **settings).encode(ENGLISH).variance + 1e-12)
    found = [np.log(Sen2Pro(method=m, **settings).encode(ENGLISH).variance + 1e-12) for m in ("analytic", "one-pass")]
    errors = [np.mean((each - truth) ** 2) for each in found]
    assert errors[0] < 0.95 * errors[1]


def test_totals_of_the_default_model_are_those_of_many_samples():
    settings = {"uncertainty": "model"}
    truth = Sen2Pro(samples=60, seed=1, **settings).encode(ENGLISH).total_variance
    found = Sen2Pro(method="analytic", **settings).encode(ENGLISH).total_variance
    assert np.abs(np.log(found / truth)).max() < np.log(1.25)


def test_the_data_s_uncertainty_and_all_means_are_the_head_s():
    analytic, one_pass = (Sen2Pro(method=method).encode_sources(ENGLISH) for method in ("analytic", "one-pass"))
    np.testing.assert_allclose(analytic["data"].variance, one_pass["data"].variance, rtol=1e-4, atol=1e-9)
    assert not np.allclose(analytic["model"].variance, one_pass["model"].variance, rtol=0.01)
    length = (analytic["model"].mean.astype(float) ** 2).sum(axis=1) + analytic["model"].total_variance
    np.testing.assert_allclose(length, 1, atol=1e-5)  # samples of length 1
    assert np.array_equal(analytic["model"].coverage, one_pass["model"].coverage)


def test_one_text_no_text_and_the_signature():
    model = Sen2Pro(method="analytic")
    assert model.encode(ENGLISH[0]).shape == (384,)
    assert model.encode([]).shape == (0, 384)
    signature = model.signature()
    assert signature.estimator.startswith("analytic (correction ")
    assert (signature.samples, signature.seed) == ("0", "no")
    assert "analytic" not in str(Sen2Pro(method="analytic", uncertainty="data").signature().estimator.split("(")[1])


def test_distill_fits_a_correction_that_travels_with_the_head(folder, head, tmp_path):
    texts = some_sentences(20, 1)
    model = Sen2Pro(folder, method="analytic", head=head)
    expected = model.encode(texts)
    truth = Sen2Pro(folder, samples=200, seed=3).encode_sources(texts)["model"]
    found = model.encode_sources(texts)["model"]
    assert np.abs(np.log(found.total_variance / truth.total_variance)).mean() < 0.15
    assert "by the method analytic" in model.head.report()
    model.save(tmp_path / "saved")
    assert Sen2Pro.load(tmp_path / "saved").encode(texts) == expected
    assert pickle.loads(pickle.dumps(model)).encode(texts) == expected
    whitened = Sen2Pro(folder).fit_whitening(texts, dim=8).distill(some_sentences(300, 2), samples=6, verbose=False)
    white = Sen2Pro(folder, method="analytic", head=whitened.head, whitening=whitened.whitening, uncertainty="model")
    sampled = Sen2Pro(folder, samples=200, whitening=whitened.whitening, uncertainty="model").encode(texts)
    assert np.abs(np.log(white.encode(texts).total_variance / sampled.total_variance)).mean() < 0.25


def test_what_it_cannot_follow_is_said(folder, head, bert, tokenizer):
    with pytest.raises(Sen2ProError, match="dropout cannot be followed"):
        Sen2Pro(bert, tokenizer=tokenizer, method="analytic")
    with pytest.raises(Sen2ProError, match="dropout cannot be followed"):
        Sen2Pro(folder, method="analytic", head=head, pooling="first-last-avg")
    with pytest.raises(Sen2ProError, match="analytic takes no samples"):
        Sen2Pro(folder, method="analytic", head=head, samples=3)
    with pytest.raises(HeadMissing, match="there is no head"):
        Sen2Pro(folder, method="analytic", uncertainty="model")


def test_weights_that_change_are_not_followed(head, tmp_path):
    model = Sen2Pro(save(tmp_path), method="analytic", uncertainty="model", head=head)
    with torch.no_grad():
        next(model.encoder.transformers.network.parameters()).add_(1e-3)
    with pytest.raises(Sen2ProError, match="dropout cannot be followed"):
        model.encode("a dog")


def test_a_head_from_before_says_so(folder, head, tmp_path):
    Head.load(head).save(tmp_path)
    replace(Head.load(head), correction=None).save(tmp_path)  # over one that has it
    with pytest.raises(HeadMissing, match="no correction of analytic variances"):
        Sen2Pro(folder, method="analytic", head=tmp_path)
    assert Sen2Pro(folder, method="analytic", uncertainty="data", head=tmp_path).encode("a dog").shape == (32,)


def damage_numbers(folder):
    arrays = load_file(folder / TENSORS)
    arrays["terms"][0, 0] += 1
    save_file(arrays, folder / TENSORS)


def damage_shape(folder):
    arrays = load_file(folder / TENSORS)
    save_file({**arrays, "directions": arrays["directions"][:-1]}, folder / TENSORS)


def add_a_key(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, "trust_remote_code": True}))


def of_another_head(folder):
    config = json.loads((folder / CONFIG).read_text())
    config = {name: value for name, value in config.items() if name != "digest"}
    (folder / CONFIG).write_text(json.dumps({**config, "head": "00000000"}))


def far_too_many_layers(folder):
    config = json.loads((folder / CONFIG).read_text())
    config = {name: value for name, value in config.items() if name != "digest"}
    (folder / CONFIG).write_text(json.dumps({**config, "layers": [0] * 60_000}))


@pytest.mark.parametrize("damage", [damage_numbers, damage_shape, add_a_key, of_another_head, far_too_many_layers])
def test_a_damaged_correction_is_refused(folder, head, tmp_path, damage):
    Head.load(head).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(Sen2ProError, match="sen2pro_analytic"):
        Sen2Pro(folder, method="analytic", head=tmp_path)


def test_the_command_line_knows_it(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.parquet"
    source.write_text("\n".join(ENGLISH))
    result = CliRunner().invoke(app, ["encode", str(source), str(target), "--method", "analytic"])
    assert result.exit_code == 0, result.output
    assert "analytic (correction" in result.output
