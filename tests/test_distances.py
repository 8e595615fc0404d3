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


@pytest.mark.parametrize("faiss", [True, False])
def test_all_pairs_l1_is_the_same_with_and_without_faiss(monkeypatch, faiss):
    monkeypatch.setattr(sen2pro.distances, "_faiss_may_help", lambda: faiss)
    a, b = gaussian(300, 384), gaussian(520, 384)
    expected = cdist(a.mean.astype(np.float64), b.mean.astype(np.float64), "cityblock")
    np.testing.assert_allclose(distance(a, b, alpha=0), expected, rtol=1e-5)


def test_eq_6_with_a_number_and_with_the_ratio():
    a, b = gaussian(), gaussian(4)
    means, variances = cdist(a.mean, b.mean, "cityblock"), cdist(a.variance, b.variance, "cityblock")
    np.testing.assert_allclose(distance(a, b, alpha=0.3), 0.7 * means + 0.3 * variances, rtol=1e-5)
    alpha = np.clip(variances / means, 0, 1)
    np.testing.assert_allclose(distance(a, b), (1 - alpha) * means + alpha * variances, rtol=1e-5)


def test_eq_6_where_a_difference_is_zero():
    a = Gaussian([[1.0, 2.0]], [[0.5, 0.5]])
    assert distance_pairwise(a, a) == [0]
    assert distance(a, a)[0, 0] == 0
    wider = Gaussian([[1.0, 2.0]], [[0.5, 1.5]])
    assert distance_pairwise(a, wider) == [1]  # the means agree, so the ratio is clipped to 1


def wasserstein(ma, va, mb, vb):
    root = sqrtm(np.diag(vb))
    return np.sqrt(((ma - mb) ** 2).sum() + np.trace(np.diag(va + vb) - 2 * sqrtm(root @ np.diag(va) @ root)).real)


def symmetric_kl(*both):
    def kl(ma, va, mb, vb):
        return 0.5 * (np.log(vb / va) + (va + (ma - mb) ** 2) / vb - 1).sum()

    return (kl(*both) + kl(*both[2:], *both[:2])) / 2


def bhattacharyya(ma, va, mb, vb):
    middle = np.diag((va + vb) / 2)
    expected = (ma - mb) @ np.linalg.inv(middle) @ (ma - mb) / 8
    return expected + 0.5 * np.log(np.linalg.det(middle) / np.sqrt(va.prod() * vb.prod()))


@pytest.mark.parametrize("textbook", [wasserstein, symmetric_kl, bhattacharyya])
def test_a_classical_distance_is_the_textbook_formula(textbook):
    """On covariance matrices, where the formula has them."""
    a, b = gaussian(), gaussian()
    for i, found in enumerate(distance_pairwise(a, b, textbook.__name__.replace("_", "-"))):
        both = (part.astype(np.float64) for g in (a[i], b[i]) for part in (g.mean, g.variance))
        assert found == pytest.approx(textbook(*both), rel=1e-5)


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


@pytest.mark.parametrize("metric", METRICS)
def test_a_gaussian_of_many_dimensions_is_at_a_finite_distance_from_itself(metric):
    g = Gaussian(RNG.normal(size=(2, 2000)), np.full((2, 2000), 1e-6))  # the determinant is 10^-12000
    found = distance(g, g, metric)
    assert np.isfinite(found).all()
    if metric in ("sen2pro", "wasserstein", "symmetric-kl", "bhattacharyya"):
        np.testing.assert_allclose(np.diag(found), 0, atol=1e-6)


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


@pytest.mark.parametrize(
    ("metric", "alpha", "message"),
    [("waserstein", "ratio", "did you mean 'wasserstein'"), ("sen2pro", 1.5, r"between 0 and 1 or 'ratio', not 1\.5"),
     ("wasserstein", 0.3, "'wasserstein' has none"), ("sen2pro", "rato", "unknown alpha")],
)  # fmt: skip
def test_a_metric_and_alpha_that_do_not_exist(metric, alpha, message):
    a = gaussian()
    with pytest.raises(Sen2ProError, match=message):
        distance(a, a, metric, alpha=alpha)


def test_what_cannot_be_compared():
    a = gaussian()
    others = {"not ndarray": a.mean, "5 and 4 dimensions": gaussian(k=4)}
    others["pooling 'x' against 'cls'"] = Gaussian(a.mean, a.variance, signature(pooling="cls"))
    for message, other in others.items():
        with pytest.raises(Sen2ProError, match=message):
            distance(Gaussian(a.mean, a.variance, signature()), other)
    with pytest.raises(Sen2ProError, match="6 and 5"):
        distance_pairwise(a, a[:5])
