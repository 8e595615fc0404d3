"""Measures of predicted probabilities against numbers worked out by hand, and what the paired bootstrap promises."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.metrics import log_loss as sklearn_log_loss

from sen2pro.calibration import measures
from sen2pro.errors import Sen2ProError

# Confidences 0.9, 0.8, 0.6, 0.55, 0.95; right are the rows 0, 1, 3, 4.
PROBABILITIES = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.45, 0.55], [0.05, 0.95]]
TRUTH = [0, 1, 1, 1, 1]


def test_accuracy_is_the_share_of_right_rows():
    assert measures.accuracy(PROBABILITIES, TRUTH) == 0.8


def test_log_loss_by_hand_and_by_scikit_learn():
    by_hand = -sum(math.log(p) for p in (0.9, 0.8, 0.4, 0.55, 0.95)) / 5
    assert measures.log_loss(PROBABILITIES, TRUTH) == pytest.approx(by_hand)
    assert measures.log_loss(PROBABILITIES, TRUTH) == pytest.approx(sklearn_log_loss(TRUTH, PROBABILITIES))


def test_a_probability_of_zero_costs_much_but_not_infinitely():
    assert measures.log_loss([[1.0, 0.0]], [1]) == pytest.approx(-math.log(1e-15))


def test_calibration_error_by_hand():
    # Fifteen bins of 1/15: 0.9 in (13/15, 14/15], 0.8 on the edge 12/15 and so below it, 0.6 on the edge 9/15 and so
    # below it, with 0.55 in (8/15, 9/15], 0.95 in the last. |0.9-1|, |0.8-1|, |(0.6+0.55)/2-1/2| twice, |0.95-1|.
    by_hand = (0.1 + 0.2 + 2 * 0.075 + 0.05) / 5
    assert measures.calibration_error(PROBABILITIES, TRUTH) == pytest.approx(by_hand)


def test_one_bin_compares_mean_confidence_with_accuracy():
    assert measures.calibration_error(PROBABILITIES, TRUTH, bins=1) == pytest.approx(abs(3.8 / 5 - 0.8))


def test_probabilities_that_come_true_as_often_as_they_say_are_calibrated():
    draw = np.random.default_rng(0)
    p = draw.uniform(0.5, 1, 40000)
    truth = (draw.uniform(size=40000) > p).astype(int)
    assert measures.calibration_error(np.c_[p, 1 - p], truth) < 0.02


def test_accuracy_of_answered_leaves_out_the_least_certain_fifth():
    # Four of five rows stay: the one at 0.55, which is right, goes; of the others three are right.
    assert measures.accuracy_of_answered(PROBABILITIES, TRUTH) == 0.75
    assert measures.accuracy_of_answered(PROBABILITIES, TRUTH, answered=0.6) == 1.0
    assert measures.accuracy_of_answered(PROBABILITIES, TRUTH, answered=1.0) == 0.8


def test_all_at_once():
    scores = measures.evaluate(PROBABILITIES, TRUTH)
    assert scores.n == 5
    assert asdict(scores) == {
        "accuracy": 0.8,
        "log_loss": measures.log_loss(PROBABILITIES, TRUTH),
        "calibration_error": measures.calibration_error(PROBABILITIES, TRUTH),
        "accuracy_of_answered": 0.75,
        "n": 5,
    }


@pytest.mark.parametrize(("p", "y"), [([0.5, 0.5], [0]), ([[0.5, 0.5]], [0, 1]), (np.empty((0, 2)), [])])
def test_shapes_that_do_not_fit_are_refused(p, y):
    with pytest.raises(Sen2ProError, match="do not fit"):
        measures.evaluate(p, y)


@pytest.mark.parametrize("y", [["a"], [0.0], [2], [-1], [True]])
def test_a_truth_that_is_not_class_numbers_is_refused(y):
    with pytest.raises(Sen2ProError, match="class numbers, whole numbers from 0 to 1 .* not \\["):
        measures.evaluate([[0.5, 0.5]], y)


@pytest.mark.parametrize("row", [[math.nan, 0.5], [math.inf, 0.0], [2.0, -1.0], [3.0, 0.1], [0.2, 0.2]])
def test_what_is_not_a_distribution_is_refused_with_its_row(row):
    with pytest.raises(Sen2ProError, match="row 1 is no distribution over the classes"):
        measures.evaluate([[0.5, 0.5], row], [0, 1])


def test_rounded_probabilities_are_taken():
    assert measures.accuracy(np.array([[0.333, 0.333, 0.333]], np.float16), np.array([0], np.uint8)) == 1.0


def noisy(size, n=200, seed=0):
    return measures.mean_statistic(-np.abs(size * np.random.default_rng(seed).normal(size=n)))


def test_a_clear_gain_is_found_and_none_where_there_is_none():
    better = measures.paired_bootstrap([noisy(10)], noisy(150, seed=1), 200)
    assert better.verdict == "better"
    assert better.p < 0.01
    assert better.low < better.gain < better.high
    assert measures.paired_bootstrap([noisy(150, seed=1)], noisy(10), 200).verdict == "worse"
    same = measures.paired_bootstrap([noisy(50)], noisy(50), 200)
    assert (same.gain, same.verdict, same.p) == (0, "no difference", 1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Two scores of equal worth: in 19 of 20 data sets the interval of the difference holds 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        a, b = rng.normal(size=(2, 60))
        c = measures.paired_bootstrap([measures.mean_statistic(a)], measures.mean_statistic(b), 60, resamples=400)
        inside += c.verdict == "no difference"
    assert 87 <= inside < 100  # binomial(100, 0.95) is outside in less than 1 of 100 cases, and the seed is fixed


def test_seeds_are_averaged_and_their_spread_is_given():
    found = measures.paired_bootstrap(
        [measures.mean_statistic([1.0, 3.0]), measures.mean_statistic([3.0, 5.0])],
        measures.mean_statistic([0.0, 0.0]),
        2,
    )
    assert (found.value, found.baseline) == (3, 0)
    assert found.sd == pytest.approx(np.sqrt(2))  # of 2 and 4
    assert found.scaled(100).sd == pytest.approx(100 * np.sqrt(2))


def test_points_are_drawn_within_their_groups():
    """With one point a group, every resample is the data itself."""
    found = measures.paired_bootstrap(
        [measures.mean_statistic([1.0, 5.0])], measures.mean_statistic([0.0, 1.0]), 2, groups=np.array([0, 1])
    )
    assert (found.low, found.high) == (2.5, 2.5)


def test_resamples_that_are_undefined_are_left_out_and_all_of_them_is_an_error():
    three = measures.mean_statistic([1.0, 2.0, 3.0])

    def where_all_are_drawn(counts):
        return np.where(counts.min(axis=1) > 0, 1.0, np.nan)

    found = measures.paired_bootstrap([three], where_all_are_drawn, 3)
    assert (found.low, found.high) == (1, 1)  # (1 + 2 + 3) / 3 - 1: no other resample counts
    with pytest.raises(measures.Undefined, match="undefined in every resample"):
        measures.paired_bootstrap([lambda counts: np.full(len(counts), np.nan)], three, 3)


def test_of_five_points_nothing_is_said():
    assert measures.Comparison(0, 1, 0.5, 1.5, 0.001, 5).verdict == "too few"


def test_smaller_can_be_better():
    assert measures.Comparison(2, 1, -1.5, -0.5, 0.01, 10, smaller_is_better=True).verdict == "better"
