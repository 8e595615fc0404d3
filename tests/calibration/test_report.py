"""Measures of predicted probabilities against numbers worked out by hand."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.metrics import log_loss

from sen2pro.calibration.report import calibration_error
from sen2pro.classification import evaluate
from sen2pro.errors import Sen2ProError

# Confidences 0.9, 0.8, 0.6, 0.55, 0.95; right are the rows 0, 1, 3, 4.
PROBABILITIES = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.45, 0.55], [0.05, 0.95]]
TRUTH = [0, 1, 1, 1, 1]


def test_the_measures_by_hand():
    assert asdict(evaluate(PROBABILITIES, TRUTH)) == pytest.approx({
        "accuracy": 0.8,
        "log_loss": -sum(math.log(p) for p in (0.9, 0.8, 0.4, 0.55, 0.95)) / 5,
        # Fifteen bins of 1/15: 0.9 in (13/15, 14/15], 0.8 on the edge 12/15 and so below it, 0.6 on the edge 9/15 and
        # so below it, with 0.55 in (8/15, 9/15], 0.95 in the last. Off by
        # |0.9-1|, |0.8-1|, |(0.6+0.55)/2-1/2| twice, |0.95-1|.
        "calibration_error": (0.1 + 0.2 + 2 * 0.075 + 0.05) / 5,
        # Four of five rows stay: the one at 0.55, which is right, goes; of the others three are right.
        "accuracy_of_answered": 0.75,
        "n": 5,
    })  # fmt: skip
    assert evaluate(PROBABILITIES, TRUTH).log_loss == pytest.approx(log_loss(TRUTH, PROBABILITIES))


def test_a_probability_of_zero_costs_much_but_not_infinitely():
    assert evaluate([[1.0, 0.0]], [1]).log_loss == pytest.approx(-math.log(1e-15))


def test_the_calibration_error_compares_confidence_with_accuracy():
    confidence, right = np.array([0.9, 0.8, 0.6, 0.55, 0.95]), np.array([1, 1, 0, 1, 1]) == 1
    assert calibration_error(confidence, right, bins=1) == pytest.approx(abs(3.8 / 5 - 0.8))
    draw = np.random.default_rng(0)
    p = draw.uniform(0.5, 1, 40000)
    assert calibration_error(p, draw.uniform(size=40000) <= p) < 0.02


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([0.5, 0.5], [0], "do not fit"),
        ([[0.5, 0.5]], [0, 1], "do not fit"),
        (np.empty((0, 2)), [], "do not fit"),
        *(([[0.5, 0.5]], y, r"class numbers, whole numbers from 0 to 1 .* not \[")
          for y in (["a"], [0.0], [2], [-1], [True])),
        *(([[0.5, 0.5], row], [0, 1], "row 1 is no distribution over the classes")
          for row in ([math.nan, 0.5], [math.inf, 0.0], [2.0, -1.0], [3.0, 0.1], [0.2, 0.2])),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(p, y, message):
    with pytest.raises(Sen2ProError, match=message):
        evaluate(p, y)


def test_rounded_probabilities_are_taken():
    assert evaluate(np.array([[0.333, 0.333, 0.333]], np.float16), np.array([0], np.uint8)).accuracy == 1.0
