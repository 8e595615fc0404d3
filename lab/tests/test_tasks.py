"""The tasks, on data small enough to work out by hand."""

import numpy as np
import pytest

from sen2pro import Gaussian, distance
from sen2pro_lab.metrics import retrieval, sts
from sen2pro_lab.metrics.bootstrap import Undefined
from sen2pro_lab.metrics.statistics import aligned, by_system, spearman
from sen2pro_lab.metrics.sts import Pairs
from sen2pro_lab.paper.tables import theorems as theory
from sen2pro_lab.paper.tables.pairs import full_distance

PAIRS = Pairs("toy", ("x",) * 3 + ("y",) * 5, ("a",) * 8, ("b",) * 8, np.array([1, 2, 3, 1, 2, 3, 4, 5.0]))


def test_sts_aggregations_by_hand():
    # x is right (rho = 1), y is upside down (rho = -1): mean 0, weighted (3 * 1 - 5 * 1) / 8 = -0.25
    scores = np.array([1, 2, 3, 9, 8, 7, 6, 5.0])
    assert sts.correlation(scores, PAIRS, "mean") == 0
    assert sts.correlation(scores, PAIRS, "wmean") == -0.25
    # all: ranks of the scores 1 2 3 8 7 6 5 4, of gold 1.5 3.5 5.5 1.5 3.5 5.5 7 8, centred products by hand
    x, y = np.array([1, 2, 3, 8, 7, 6, 5, 4]) - 4.5, np.array([1.5, 3.5, 5.5, 1.5, 3.5, 5.5, 7, 8]) - 4.5
    assert sts.correlation(scores, PAIRS) == pytest.approx((x @ y) / np.sqrt((x @ x) * (y @ y)))


def test_evalrank_ranks_by_hand():
    a, b, c, d = range(4)
    pairs = np.array([(a, b), (b, c), (a, d), (c, c)])
    scores = np.array([[9, 5, 5, 1], [3, 9, 4, 2], [0, 1, 9, 2], [0, 0, 0, 9.0]], np.float32)
    # a -> b: only a scores more (c ties): 1. b -> c: only b: 1. a -> d: b and c: 3. c -> c: none: 1.
    found = retrieval.ranks(pairs, lambda rows: scores[rows])
    assert found.tolist() == [1, 1, 3, 1]
    values = {name: float(s(np.ones((1, 4)))[0]) for name, s in retrieval.measures(found).items()}
    assert values == pytest.approx({"MRR": (3 + 1 / 3) / 4, "Hits@1": 0.75, "Hits@3": 1})


def test_evalrank_does_not_rely_on_a_query_being_nearest_to_itself():
    """A corrected cosine can be greater with another sentence than with itself; that must not make room for one."""
    scores = np.array([[1.0, 2.0, 3.0]], np.float32)  # c is closer to a than b is, and b closer than a
    assert retrieval.ranks(np.array([(0, 1)]), lambda rows: scores[rows]).tolist() == [2]


def test_evalrank_in_blocks_is_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.array([(i, 39 - i) for i in range(40)])
    scores = rng.normal(size=(40, 40)).astype(np.float32)
    whole = retrieval.ranks(pairs, lambda rows: scores[rows])
    monkeypatch.setattr(retrieval, "_BLOCK", 7)
    np.testing.assert_array_equal(retrieval.ranks(pairs, lambda rows: scores[rows]), whole)


def test_centred_gaussians_are_close_to_centring_and_normalising_every_sample():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(20, 1, 30)) + 0.3 * rng.normal(size=(20, 400, 30)) + 2
    shifted = samples - samples.mean(axis=(0, 1))
    unit = shifted / np.linalg.norm(shifted, axis=-1, keepdims=True)
    found = retrieval.centred_gaussian(Gaussian(samples.mean(axis=1), samples.var(axis=1)))
    lengths = np.linalg.norm(found.mean, axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(unit.mean(axis=1), axis=1), rtol=0.01)
    np.testing.assert_allclose(lengths**2 + found.total_variance, 1, rtol=1e-5)
    cosines = (found.mean * unit.mean(axis=1)).sum(axis=1) / lengths / np.linalg.norm(unit.mean(axis=1), axis=1)
    assert cosines.min() > 0.999


def test_analogy_by_hand():
    where = np.array([[0, 1, 2, 3], [2, 3, 0, 1]])  # a : b :: c : d, and c : d :: a : b
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8], [-0.8, 0.6]])  # |a - b| = |c - d| = sqrt(2): a quarter turn each
    np.testing.assert_allclose(retrieval.differences(vectors, where), 0, atol=1e-12)
    # b - a + c = (-0.4, 1.8): of what is left, only d. c - d and a: the only one left is b.
    assert retrieval.completed(vectors, where).all()
    far = np.array([[1, 0], [0, 1], [0.6, 0.8], [0.8, -0.6], [-0.2, 1.0]])
    assert retrieval.completed(far, where[:1]).tolist() == [False]  # the fifth lies nearer


def test_system_correlations_keep_their_sign_and_need_three_systems():
    scores = by_system(["x", "y", "z", "x"], [1, 5, 3, 3])
    assert scores == {"x": 2, "y": 5, "z": 3}
    assert spearman(*aligned(scores, {"x": 3, "y": 1, "z": 2})) == -1
    with pytest.raises(Undefined, match=r"2 systems \(x, y\); it takes at least 3"):
        aligned({"x": 1, "y": 2}, {"x": 1, "y": 2})


def test_corrected_cosine_by_hand_and_where_nothing_is_uncertain():
    # |mean| = 1 and total variance 3 give R = 1 / 2; both sides: cosine 0.6, divided by (1/4)^0.75
    a, b = Gaussian([[1.0, 0.0]], [[1.5, 1.5]]), Gaussian([[0.6, 0.8]], [[3.0, 0.0]])
    assert distance(a, b, "corrected-cosine")[0, 0] == pytest.approx(1 - 0.6 / 0.25**0.75, rel=1e-5)
    sure = Gaussian([[3.0, 4.0], [0.0, 2.0]], np.zeros((2, 2)))
    np.testing.assert_allclose(distance(sure, sure, "corrected-cosine"), [[0, 0.2], [0.2, 0]], atol=1e-6)


def test_theorem_1_has_the_rates_it_claims():
    rates = theory.theorem_1(trials=30, n=200)
    assert rates.exponent_n == pytest.approx(-0.5, abs=0.06)
    assert 0.4 < rates.exponent_k < 1  # 0.5 in the limit, never that of log k itself


def test_theorem_2_holds_below_its_bound_and_fails_somewhere_above():
    shares = theory.theorem_2(trials=40, n=5)
    assert all(share == 1 for factor, share in shares.items() if factor < 1)
    assert min(shares.values()) < 0.5
    assert theory.theorem_2(trials=40, n=3)[0.99] < 1  # too few samples: not even below the bound


def test_the_divergence_is_that_of_the_densities_up_to_monte_carlo_error():
    rng = np.random.default_rng(0)
    ma, va, mb, vb = rng.normal(size=3), rng.uniform(0.5, 2, 3), rng.normal(size=3), rng.uniform(0.5, 2, 3)
    x = ma + np.sqrt(va) * rng.normal(size=(200_000, 3))
    a, b = Gaussian(ma, va), Gaussian(mb, vb)
    assert theory.kl(ma, va, mb, vb) == pytest.approx((a.log_prob(x) - b.log_prob(x)).mean(), rel=0.02)


def test_the_distance_of_full_covariances_by_hand():
    # Left: samples (1, 1) and (-1, -1), covariance all ones. Right: (3, -1) and (1, 1), mean (2, 0), covariance -1.
    left, right = {"model": np.array([[[1.0, 1], [-1, -1]]])}, {"model": np.array([[[3.0, -1], [1, 1]]])}
    # L1 of the means 2; of the covariances |1-1| + 2 |1+1| + |1-1| = 4, of their diagonals 0, so alpha 0
    assert full_distance(left, right).tolist() == [2]
    assert full_distance(left, right, own_weight=True).tolist() == [4]  # alpha = 4 / 2, clipped to 1
