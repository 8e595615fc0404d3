import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from test_gaussian import signature

import sen2pro.distances
from sen2pro import Gaussian, Sen2ProError, distance, distance_pairwise
from sen2pro.distances import METRICS

RNG = np.random.default_rng(0)


def gaussian(n=6, k=5):
    return Gaussian(RNG.normal(size=(n, k)), RNG.uniform(0.2, 2, size=(n, k)))


def as_float64(g):
    return g.mean.astype(np.float64), g.variance.astype(np.float64)


@pytest.mark.parametrize("faiss", [True, False])
def test_all_pairs_l1_is_the_same_with_and_without_faiss(monkeypatch, faiss):
    monkeypatch.setattr(sen2pro.distances, "_faiss_may_help", lambda: faiss)
    a, b = gaussian(300, 384), gaussian(520, 384)
    expected = cdist(a.mean.astype(np.float64), b.mean.astype(np.float64), "cityblock")
    np.testing.assert_allclose(distance(a, b, alpha=0), expected, rtol=1e-5)


def test_eq_6_with_a_number():
    a, b = gaussian(), gaussian(4)
    expected = 0.7 * cdist(a.mean, b.mean, "cityblock") + 0.3 * cdist(a.variance, b.variance, "cityblock")
    np.testing.assert_allclose(distance(a, b, alpha=0.3), expected, rtol=1e-5)


def test_eq_6_with_the_ratio():
    a, b = gaussian(), gaussian(4)
    means, variances = cdist(a.mean, b.mean, "cityblock"), cdist(a.variance, b.variance, "cityblock")
    alpha = np.clip(variances / means, 0, 1)
    np.testing.assert_allclose(distance(a, b), (1 - alpha) * means + alpha * variances, rtol=1e-5)


def test_eq_6_where_a_difference_is_zero():
    a = Gaussian([[1.0, 2.0]], [[0.5, 0.5]])
    assert distance_pairwise(a, a) == [0]
    assert distance(a, a)[0, 0] == 0
    wider = Gaussian([[1.0, 2.0]], [[0.5, 1.5]])
    assert distance_pairwise(a, wider) == [1]  # the means agree, so the ratio is clipped to 1


def test_wasserstein_is_that_of_the_covariance_matrices():
    a, b = gaussian(), gaussian()
    for i, found in enumerate(distance_pairwise(a, b, "wasserstein")):
        (ma, va), (mb, vb) = as_float64(a[i]), as_float64(b[i])
        root = sqrtm(np.diag(vb))
        squared = ((ma - mb) ** 2).sum() + np.trace(np.diag(va + vb) - 2 * sqrtm(root @ np.diag(va) @ root))
        assert found == pytest.approx(np.sqrt(squared.real), rel=1e-5)


def kl(ma, va, mb, vb):
    return 0.5 * (np.log(vb / va) + (va + (ma - mb) ** 2) / vb - 1).sum()


def test_symmetric_kl_is_the_textbook_formula():
    a, b = gaussian(), gaussian()
    for i, found in enumerate(distance_pairwise(a, b, "symmetric-kl")):
        (ma, va), (mb, vb) = as_float64(a[i]), as_float64(b[i])
        assert found == pytest.approx((kl(ma, va, mb, vb) + kl(mb, vb, ma, va)) / 2, rel=1e-5)


def test_bhattacharyya_is_the_textbook_formula():
    a, b = gaussian(), gaussian()
    for i, found in enumerate(distance_pairwise(a, b, "bhattacharyya")):
        (ma, va), (mb, vb) = as_float64(a[i]), as_float64(b[i])
        middle = np.diag((va + vb) / 2)
        expected = (ma - mb) @ np.linalg.inv(middle) @ (ma - mb) / 8
        expected += 0.5 * np.log(np.linalg.det(middle) / np.sqrt(va.prod() * vb.prod()))
        assert found == pytest.approx(expected, rel=1e-5)


def test_expectations_are_those_of_samples():
    a, b = gaussian(3), gaussian(3)
    x, y = a.sample(200_000, seed=1), b.sample(200_000, seed=2)
    np.testing.assert_allclose(distance_pairwise(a, b, "expected-l2"), ((x - y) ** 2).sum(-1).mean(1), rtol=0.02)
    sizes = np.sqrt((x**2).sum(-1).mean(1) * (y**2).sum(-1).mean(1))
    np.testing.assert_allclose(
        distance_pairwise(a, b, "expected-cosine"), 1 - (x * y).sum(-1).mean(1) / sizes, atol=0.02
    )


def test_expected_cosine_is_exact_on_the_unit_sphere():
    x, y = RNG.normal(size=(2, 50, 4))
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    a, b = (Gaussian(v.mean(0), v.var(0)) for v in (x, y))
    assert distance(a, b, "expected-cosine")[0, 0] == pytest.approx(1 - (x @ y.T).mean(), abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=30, deadline=None)
@given(
    data=hnp.arrays(np.float32, (2, 4, 3), elements=st.floats(-100, 100, width=32)),
    spread=hnp.arrays(np.float32, (2, 4, 3), elements=st.floats(0, 100, width=32)),
)
def test_symmetric_finite_and_pairwise_is_the_diagonal(metric, data, spread):
    a, b = (Gaussian(m, v) for m, v in zip(data, spread, strict=True))
    table = distance(a, b, metric)
    assert np.isfinite(table).all()
    if metric != "corrected-cosine":  # which is above 1 for close sentences that are uncertain
        assert (table >= -1e-4 * (1 + np.abs(table).max())).all()
    np.testing.assert_allclose(table, distance(b, a, metric).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.diag(table), distance_pairwise(a, b, metric), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", ["sen2pro", "wasserstein", "symmetric-kl", "bhattacharyya"])
def test_a_gaussian_is_at_distance_zero_from_itself(metric):
    g = gaussian()
    np.testing.assert_allclose(np.diag(distance(g, g, metric)), 0, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_many_dimensions_do_not_underflow(metric):
    g = Gaussian(RNG.normal(size=(2, 2000)), np.full((2, 2000), 1e-6))  # the determinant is 10^-12000
    assert np.isfinite(distance(g, g, metric)).all()


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_do_not_change_the_result(metric, monkeypatch):
    a, b = gaussian(9), gaussian(7)
    whole = distance(a, b, metric)
    monkeypatch.setattr(sen2pro.distances, "_BLOCK", 2)
    monkeypatch.setattr(sen2pro.distances, "_BLOCK_NUMBERS", 40)
    np.testing.assert_allclose(distance(a, b, metric), whole, rtol=1e-6)


def test_memory_stays_bounded():
    """Measured in a separate process, since Python's own count does not see torch's memory."""
    code = """
import resource, numpy as np
from sen2pro import Gaussian, distance
from sen2pro.distances import METRICS
rng = np.random.default_rng(0)
a = Gaussian(rng.normal(size=(20, 384)), rng.uniform(0.2, 2, size=(20, 384)))
b = Gaussian(rng.normal(size=(20_000, 384)), rng.uniform(0.2, 2, size=(20_000, 384)))
for metric in METRICS:
    distance(a, a, metric)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for metric in METRICS:
    distance(a, b, metric)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    array = 20 * 20_000 * 384 * 8 / 1024  # kilobytes of the (n, m, k) array that must never exist: 1.2 GB
    assert int(done.stdout) < array / 4


def test_single_gaussians_and_empty_batches():
    a = gaussian()
    assert distance(a[0], a).shape == (1, 6)
    assert distance_pairwise(a[0], a[1]).shape == (1,)
    for metric in METRICS:
        assert distance(a[:0], a, metric).shape == (0, 6)
        assert distance(a, a[:0], metric).shape == (6, 0)


def test_bad_arguments_get_a_clear_error():
    a = gaussian()
    with pytest.raises(Sen2ProError, match="did you mean 'wasserstein'"):
        distance(a, a, "waserstein")
    with pytest.raises(Sen2ProError, match=r"between 0 and 1 or 'ratio', not 1\.5"):
        distance(a, a, alpha=1.5)
    with pytest.raises(Sen2ProError, match="not ndarray"):
        distance(a.mean, a.mean)
    with pytest.raises(Sen2ProError, match="'wasserstein' has none"):
        distance(a, a, "wasserstein", alpha=0.3)
    with pytest.raises(Sen2ProError, match="unknown alpha"):
        distance(a, a, alpha="rato")
    with pytest.raises(Sen2ProError, match="6 and 5"):
        distance_pairwise(a, a[:5])
    with pytest.raises(Sen2ProError, match="5 and 4 dimensions"):
        distance(a, gaussian(k=4))
    with pytest.raises(Sen2ProError, match="pooling 'x' against 'cls'"):
        distance(Gaussian(a.mean, a.variance, signature()), Gaussian(a.mean, a.variance, signature(pooling="cls")))
