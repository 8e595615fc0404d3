"""Correlations against scipy, and averages of statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sen2pro.errors import Sen2ProError
from sen2pro_lab.metrics.bootstrap import Undefined, mean_statistic
from sen2pro_lab.metrics.statistics import average_statistic, correlation_statistic, kendall, pearson, spearman

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
