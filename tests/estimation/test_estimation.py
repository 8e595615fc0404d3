import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sen2pro import Sen2ProError, estimate
from sen2pro.estimation.moments import Moments, combine

samples = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 20), st.integers(1, 5)),
    elements=st.floats(-1e3, 1e3, width=32),
)


@given(samples)
def test_estimators_agree_with_numpy(x):
    mean, variance = estimate(x)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(variance, x.astype(np.float64).var(axis=1), rtol=1e-9, atol=1e-9)
    _, full = estimate(x, "full")
    for i in range(len(x)):
        np.testing.assert_allclose(full[i], np.cov(x[i].T, bias=True).reshape(full[i].shape), rtol=1e-6, atol=1e-6)
    _, banded = estimate(x, "banded(1)")
    far = np.abs(np.subtract.outer(np.arange(x.shape[2]), np.arange(x.shape[2]))) > 1
    assert (banded[:, far] == 0).all()
    np.testing.assert_array_equal(banded[:, ~far], full[:, ~far])
    np.testing.assert_array_equal(estimate(x, "banded(0)")[1], variance)


@given(samples, st.integers(1, 7))
@settings(deadline=None)
def test_streamed_moments_are_those_of_all_samples(x, chunk):
    n, number, k = x.shape
    moments = Moments(n, k)
    rows = [(i, s) for i in range(n) for s in range(number)]
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        moments.update(np.array([i for i, _ in part]), np.stack([x[i, s] for i, s in part]))
    mean, variance = estimate(x)
    np.testing.assert_allclose(moments.mean, mean, atol=1e-9)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-9, atol=1e-9)
    assert (moments.variance >= 0).all()


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_identical_samples_have_variance_exactly_zero(chunk):
    x = np.full((1000, 2), [0.1, 1e8], np.float32)
    moments = Moments(1, 2)
    for start in range(0, 1000, chunk):
        part = x[start : start + chunk]
        moments.update(np.zeros(len(part), np.int64), part)
    assert (moments.variance == 0).all()
    assert (moments.mean[0] == x[0]).all()
    assert (estimate(x)[1] == 0).all()
    assert (estimate(x, "full")[1] == 0).all()


def test_a_large_offset_does_not_spoil_the_variance():
    x = np.array([[1e8], [1e8 + 8], [1e8 + 16]])  # by hand: the variance is 128 / 3
    assert estimate(x)[1] == pytest.approx([128 / 3])


@given(samples, st.integers(1, 19))
def test_combinations_are_those_of_the_specification(x, cut):
    cut = min(cut, x.shape[1])
    pieces = x[:, :cut], x[:, cut:] if cut < x.shape[1] else x[:, :1]
    estimates, counts = [estimate(piece) for piece in pieces], [piece.shape[1] for piece in pieces]
    (mean_m, var_m), (mean_d, var_d) = estimates
    mean, variance = combine(estimates, counts, "individual")
    np.testing.assert_allclose(mean, (mean_m + mean_d) / 2, atol=1e-9)
    np.testing.assert_allclose(variance, (var_m + var_d) / 2, rtol=1e-9, atol=1e-9)
    mean, variance = combine(estimates, counts, "unified")
    pooled_mean, pooled_variance = estimate(np.concatenate(pieces, axis=1))
    np.testing.assert_allclose(mean, pooled_mean, atol=1e-9)
    np.testing.assert_allclose(variance, pooled_variance, rtol=1e-6, atol=1e-6)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(Sen2ProError, match="did you mean 'diagonal'"):
        estimate(np.zeros((3, 2)), "diagnal")
    with pytest.raises(Sen2ProError, match="did you mean 'unified'"):
        combine([estimate(np.zeros((3, 2)))], [3], "unify")
