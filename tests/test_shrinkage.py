import numpy as np
import pytest

from sen2pro import Sen2Pro, Sen2ProError, estimate
from sen2pro.errors import HeadMissing
from sen2pro.estimation.shrinkage import Strength, dof_of_noise, polygamma, shrunk


def log_error(found, truth):
    return np.mean(np.log(found / truth) ** 2)


@pytest.mark.parametrize("dof", [0.5, 3.0, 14.0, 200.0])
def test_degrees_of_freedom_are_read_off_the_noise(dof):
    assert dof_of_noise(polygamma(1, dof / 2)) == pytest.approx(dof, rel=1e-6)


def test_no_noise_is_worth_any_number_of_samples():
    assert dof_of_noise(0.0) > 1e6
    assert dof_of_noise(-0.1) > 1e6


def test_a_level_that_the_prior_knows_is_trusted_against_noisy_samples():
    prior, variance = np.ones((1, 50)), np.full((1, 50), 4.0)
    sure = shrunk(variance, 4, prior, Strength(dof=1e9, level=1e-9, level_noise=1.0))
    open_ = shrunk(variance, 4, prior, Strength(dof=1e9, bias=0.0))
    np.testing.assert_allclose(sure, 1.0, rtol=1e-6)
    np.testing.assert_allclose(open_, 4.0, rtol=1e-6)


def test_dimensions_that_never_vary_stay_at_zero():
    rng = np.random.default_rng(0)
    variance, prior = rng.chisquare(4, size=(20, 6)), np.ones((20, 6))
    prior[:, 2] = 0
    assert (shrunk(variance, 5, prior, Strength(dof=4))[:, 2] == 0).all()


def test_samples_near_the_truth_are_drawn_nearer_by_a_good_prior():
    rng = np.random.default_rng(0)
    n, k, count, nu0 = 400, 60, 8, 4.0
    profile, levels = rng.uniform(0.2, 5, size=k), np.exp(rng.normal(size=(n, 1)))
    truth = profile * levels * nu0 / rng.chisquare(nu0, size=(n, k))
    noisy = truth * rng.chisquare(count - 1, size=(n, k)) / (count - 1)
    found = log_error(shrunk(noisy, count, np.broadcast_to(profile, (n, k)), Strength(dof=nu0)), truth)
    assert found < 0.75 * log_error(noisy, truth)


def test_without_a_head_there_is_nothing_to_shrink_towards(bert, tokenizer):
    with pytest.raises(HeadMissing, match=r"there is no head .* fit one on a few thousand sentences"):
        Sen2Pro(bert, tokenizer=tokenizer, samples=4, method="shrinkage")
    with pytest.raises(Sen2ProError, match="unknown estimator 'shrinkage'"):
        estimate(np.zeros((10, 4, 3)), "shrinkage")
