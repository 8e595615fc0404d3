"""What the paired bootstrap promises, against numbers worked out by hand."""

import numpy as np
import pytest

from sen2pro_lab.metrics import bootstrap


def noisy(size, n=200, seed=0):
    return bootstrap.mean_statistic(-np.abs(size * np.random.default_rng(seed).normal(size=n)))


def test_a_clear_gain_is_found_and_none_where_there_is_none():
    better = bootstrap.paired_bootstrap([noisy(10)], noisy(150, seed=1), 200)
    assert better.verdict == "better"
    assert better.p < 0.01
    assert better.low < better.gain < better.high
    assert bootstrap.paired_bootstrap([noisy(150, seed=1)], noisy(10), 200).verdict == "worse"
    same = bootstrap.paired_bootstrap([noisy(50)], noisy(50), 200)
    assert (same.gain, same.verdict, same.p) == (0, "no difference", 1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Two scores of equal worth: in 19 of 20 data sets the interval of the difference holds 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        a, b = rng.normal(size=(2, 60))
        c = bootstrap.paired_bootstrap([bootstrap.mean_statistic(a)], bootstrap.mean_statistic(b), 60, resamples=400)
        inside += c.verdict == "no difference"
    assert 87 <= inside < 100  # binomial(100, 0.95) is outside in less than 1 of 100 cases, and the seed is fixed


def test_seeds_are_averaged_and_their_spread_is_given():
    found = bootstrap.paired_bootstrap(
        [bootstrap.mean_statistic([1.0, 3.0]), bootstrap.mean_statistic([3.0, 5.0])],
        bootstrap.mean_statistic([0.0, 0.0]),
        2,
    )
    assert (found.value, found.baseline) == (3, 0)
    assert found.sd == pytest.approx(np.sqrt(2))  # of 2 and 4
    assert found.scaled(100).sd == pytest.approx(100 * np.sqrt(2))


def test_points_are_drawn_within_their_groups():
    """With one point a group, every resample is the data itself."""
    found = bootstrap.paired_bootstrap(
        [bootstrap.mean_statistic([1.0, 5.0])], bootstrap.mean_statistic([0.0, 1.0]), 2, groups=np.array([0, 1])
    )
    assert (found.low, found.high) == (2.5, 2.5)


def test_resamples_that_are_undefined_are_left_out_and_all_of_them_is_an_error():
    three = bootstrap.mean_statistic([1.0, 2.0, 3.0])

    def where_all_are_drawn(counts):
        return np.where(counts.min(axis=1) > 0, 1.0, np.nan)

    found = bootstrap.paired_bootstrap([three], where_all_are_drawn, 3)
    assert (found.low, found.high) == (1, 1)  # (1 + 2 + 3) / 3 - 1: no other resample counts
    with pytest.raises(bootstrap.Undefined, match="undefined in every resample"):
        bootstrap.paired_bootstrap([lambda counts: np.full(len(counts), np.nan)], three, 3)


def test_of_five_points_nothing_is_said():
    assert bootstrap.Comparison(0, 1, 0.5, 1.5, 0.001, 5).verdict == "too few"


def test_smaller_can_be_better():
    assert bootstrap.Comparison(2, 1, -1.5, -0.5, 0.01, 10, smaller_is_better=True).verdict == "better"
