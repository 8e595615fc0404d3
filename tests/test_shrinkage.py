import numpy as np
import pytest

from sen2pro import Sen2Pro, Sen2ProError, estimate
from sen2pro.estimation.shrinkage import Strength, dof_of_noise, polygamma, shrunk, shrunk_to_batch


def log_error(found, truth):
    return np.mean(np.log(found / truth) ** 2)


@pytest.mark.parametrize("dof", [0.5, 3.0, 14.0, 200.0])
def test_degrees_of_freedom_are_read_off_the_noise(dof):
    assert dof_of_noise(polygamma(1, dof / 2)) == pytest.approx(dof, rel=1e-6)


def test_no_noise_is_worth_any_number_of_samples():
    assert dof_of_noise(0.0) > 1e6
    assert dof_of_noise(-0.1) > 1e6


@pytest.mark.parametrize("nu0", [4.0, 40.0])
def test_the_estimated_strength_is_near_the_best(nu0):
    rng = np.random.default_rng(0)
    n, k, count = 400, 60, 8
    profile, levels = rng.uniform(0.2, 5, size=k), np.exp(rng.normal(size=(n, 1)))
    truth = profile * levels * nu0 / rng.chisquare(nu0, size=(n, k))
    noisy = truth * rng.chisquare(count - 1, size=(n, k)) / (count - 1)
    found = log_error(shrunk_to_batch(noisy, count), truth)
    best = min(
        log_error(shrunk(noisy, count, np.broadcast_to(profile, (n, k)), Strength(dof)), truth)
        for dof in np.geomspace(0.5, 500, 30)
    )
    assert found < 1.1 * best
    assert found < 0.75 * log_error(noisy, truth)


def test_a_level_that_the_prior_knows_is_trusted_against_noisy_samples():
    prior, variance = np.ones((1, 50)), np.full((1, 50), 4.0)
    sure = shrunk(variance, 4, prior, Strength(dof=1e9, level=1e-9, level_noise=1.0))
    open_ = shrunk(variance, 4, prior, Strength(dof=1e9, bias=0.0))
    np.testing.assert_allclose(sure, 1.0, rtol=1e-6)
    np.testing.assert_allclose(open_, 4.0, rtol=1e-6)


def test_dimensions_that_never_vary_stay_at_zero():
    rng = np.random.default_rng(0)
    variance = rng.chisquare(4, size=(20, 6))
    variance[:, 2] = 0
    assert (shrunk_to_batch(variance, 5)[:, 2] == 0).all()


def test_it_is_an_estimator_of_samples():
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.5, 2, size=30)
    samples = rng.normal(size=(50, 4, 30)) * scale
    mean, variance = estimate(samples, "shrinkage")
    np.testing.assert_allclose(mean, samples.mean(axis=1), atol=1e-12)
    assert log_error(variance, scale**2) < 0.1 * log_error(samples.var(axis=1, ddof=1), scale**2)


def test_too_few_sentences_for_a_prior_are_refused(tiny, bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=4, method="shrinkage")
    with pytest.raises(Sen2ProError, match="at least 8 sentences, not 1"):
        model.encode("the dog runs")
    with pytest.raises(Sen2ProError, match="at least 2 samples"):
        estimate(np.zeros((10, 1, 3)), "shrinkage")
    assert model.encode([]).shape == (0, 32)


def test_without_a_head_the_batch_is_the_prior(tiny, bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=4, method="shrinkage")
    texts = [f"the {word} runs in the park" for word in "dog cat man woman house ball sun rain song market".split()]
    g, plain = model.encode(texts), tiny.encode(texts)
    assert "prior from the batch" in g.signature.estimator
    assert g.coverage is None
    np.testing.assert_allclose(g.mean, plain.mean, atol=1e-6)
    assert np.log(g.variance).std(axis=0).mean() < np.log(plain.variance).std(axis=0).mean()
