"""Measures of predicted probabilities against numbers worked out by hand."""

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
