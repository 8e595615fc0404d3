"""Correlations against scipy, and what the paired bootstrap promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sen2pro.errors import Sen2ProError
from sen2pro.metrics.statistics import (
    Comparison,
    Undefined,
    average_statistic,
    correlation_statistic,
    kendall,
    mean_statistic,
    paired_bootstrap,
    pearson,
    spearman,
)

numbers = st.lists(st.integers(0, 6), min_size=4, max_size=30)


@settings(deadline=None)
@given(numbers, st.randoms(use_true_random=False))
def test_correlations_are_scipys_with_any_ties(values, random):
    x = np.array(values, float)
    y = np.array([random.randint(0, 6) for _ in values], float)
    if len(set(x)) == 1 or len(set(y)) == 1:
        with pytest.raises(Undefined, match="are equal"):
            spearman(x, y)
        return
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


def test_what_has_no_correlation_is_said():
    with pytest.raises(Undefined, match="all 4 values on one side are equal"):
        pearson([1, 2, 3, 4], [2, 2, 2, 2])
    with pytest.raises(Undefined, match="2 points are too few"):
        spearman([1, 2], [2, 1])
    with pytest.raises(Sen2ProError, match="finite"):
        spearman([1, 2, np.nan], [1, 2, 3])
    with pytest.raises(Sen2ProError, match="one length"):
        spearman([1, 2, 3], [1, 2])


@pytest.mark.parametrize("kind", ["spearman", "pearson", "kendall"])
def test_a_correlation_by_counts_is_that_of_the_points_written_out(kind):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 40).astype(float), rng.normal(size=40)
    drawn = rng.integers(0, 40, 40)
    counts = np.bincount(drawn, minlength=40)[None].astype(float)
    scipys = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}[kind]
    assert correlation_statistic(kind, x, y)(counts)[0] == pytest.approx(
        scipys(x[drawn], y[drawn]).statistic, abs=1e-12
    )


def test_no_scale_is_too_small_to_be_seen():
    x, y = np.array([1.0, 2, 4, 3]), np.array([1.0, 3, 2, 4])
    tiny = correlation_statistic("pearson", x * 1e-15, y * 1e-15)(np.ones((1, 4)))[0]
    assert tiny == pytest.approx(stats.pearsonr(x, y).statistic)


def test_an_average_takes_each_part_at_its_places_with_its_weight():
    parts = [mean_statistic([1.0, 3.0]), mean_statistic([10.0])]
    places = [np.array([0, 2]), np.array([1])]
    assert average_statistic(parts, places)(np.ones((1, 3)))[0] == 6  # (2 + 10) / 2
    assert average_statistic(parts, places, [3, 1])(np.ones((1, 3)))[0] == 4  # (3 * 2 + 10) / 4


def noisy(size, n=200, seed=0):
    gold = np.arange(float(n))
    return correlation_statistic("spearman", gold + size * np.random.default_rng(seed).normal(size=n), gold)


def test_a_clear_gain_is_found_and_none_where_there_is_none():
    better = paired_bootstrap([noisy(10)], noisy(150, seed=1), 200)
    assert better.verdict == "better"
    assert better.p < 0.01
    assert better.low < better.gain < better.high
    assert paired_bootstrap([noisy(150, seed=1)], noisy(10), 200).verdict == "worse"
    same = paired_bootstrap([noisy(50)], noisy(50), 200)
    assert (same.gain, same.verdict, same.p) == (0, "no difference", 1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Two scores of equal worth: in 19 of 20 data sets the interval of the difference holds 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        a, b = rng.normal(size=(2, 60))
        c = paired_bootstrap([mean_statistic(a)], mean_statistic(b), 60, resamples=400)
        inside += c.verdict == "no difference"
    assert 87 <= inside < 100  # binomial(100, 0.95) is outside in less than 1 of 100 cases, and the seed is fixed


def test_seeds_are_averaged_and_their_spread_is_given():
    found = paired_bootstrap([mean_statistic([1.0, 3.0]), mean_statistic([3.0, 5.0])], mean_statistic([0.0, 0.0]), 2)
    assert (found.value, found.baseline) == (3, 0)
    assert found.sd == pytest.approx(np.sqrt(2))  # of 2 and 4
    assert found.scaled(100).sd == pytest.approx(100 * np.sqrt(2))


def test_points_are_drawn_within_their_groups():
    """With one point a group, every resample is the data itself."""
    found = paired_bootstrap([mean_statistic([1.0, 5.0])], mean_statistic([0.0, 1.0]), 2, groups=np.array([0, 1]))
    assert (found.low, found.high) == (2.5, 2.5)


def test_resamples_that_are_undefined_are_left_out_and_all_of_them_is_an_error():
    three = correlation_statistic("pearson", [1, 2, 3], [1, 2, 3])
    assert paired_bootstrap([three], correlation_statistic("pearson", [1, 3, 2], [1, 2, 3]), 3).high == pytest.approx(2)
    with pytest.raises(Undefined, match="undefined in every resample"):
        paired_bootstrap([lambda counts: np.full(len(counts), np.nan)], three, 3)


def test_of_five_points_nothing_is_said():
    assert Comparison(0, 1, 0.5, 1.5, 0.001, 5).verdict == "too few"


def test_smaller_can_be_better():
    assert Comparison(2, 1, -1.5, -0.5, 0.01, 10, smaller_is_better=True).verdict == "better"
