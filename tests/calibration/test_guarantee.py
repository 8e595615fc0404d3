"""Thresholds keep what they promise: shown on sources whose true precision, recall and false matches are known."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sen2pro.calibration.guarantee import lower_bound, plan, promise
from sen2pro.errors import Sen2ProError

RUNS = 100


class Source:
    """Examples drawn from a list of scores, each with its own probability of a yes: all truths are exact sums."""

    def __init__(self, scores, probabilities):
        self.scores, self.probabilities = scores, probabilities

    def draw(self, n, rng):
        picked = rng.integers(len(self.scores), size=n)
        return self.scores[picked], rng.uniform(size=n) < self.probabilities[picked]

    def precision(self, threshold):
        yes = self.scores >= threshold
        return self.probabilities[yes].mean() if yes.any() else 1.0

    def recall(self, threshold):
        return self.probabilities[self.scores >= threshold].sum() / self.probabilities.sum()

    def false_matches(self, threshold):
        return 1000 * (1 - self.probabilities)[self.scores >= threshold].sum() / len(self.scores)


GRID = (np.arange(5000) + 0.5) / 5000
SOURCES = {
    "calibrated": Source(GRID, GRID),
    "sharp": Source(GRID, 1 / (1 + np.exp(-12 * (GRID - 0.5)))),
    "too sure of itself": Source(GRID, 0.5 + 0.45 * GRID),
    "ties": Source(np.round(GRID * 12) / 12, GRID),
    "not in order": Source(GRID, np.clip(GRID + 0.15 * np.sin(40 * GRID), 0, 1)),
    "the highest scores are wrong": Source(GRID, np.where(GRID > 0.97, 0.6, np.sqrt(GRID))),
}


def broken(name, n, target, certainty, source):
    """Return how many of the runs gave a rule, and how many of these rules break their promise."""
    rng = np.random.default_rng([len(name), n, round(100 * target), round(100 * certainty)])
    given = wrong = 0
    for _ in range(RUNS):
        planned_by = source.draw(n, rng) if n > 300 else None
        found = promise(*source.draw(n, rng), certainty=certainty, planned_by=planned_by, **{name: target})
        if found.rule is not None:
            truth = getattr(source, name)(found.rule.threshold)
            given += 1
            wrong += truth > target if name == "false_matches" else truth < target
    return given, wrong


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    ("name", "n", "target", "certainty"),
    [
        ("precision", 200, 0.8, 0.9),
        ("precision", 800, 0.9, 0.95),
        ("recall", 200, 0.9, 0.9),
        ("recall", 100, 0.8, 0.7),
        ("false_matches", 300, 20, 0.95),
        ("false_matches", 300, 100, 0.7),
    ],
)
def test_a_promise_is_broken_no_more_often_than_its_certainty_allows(kind, name, n, target, certainty):
    _, wrong = broken(name, n, target, certainty, SOURCES[kind])
    # Wrong rules beyond the 99.9 % quantile of chance at the rate that is allowed: one test in a thousand would fail.
    assert wrong <= binom.ppf(0.999, RUNS, 1 - certainty)


def test_a_promise_is_made_where_the_labels_allow_it():
    given, _ = broken("precision", 800, 0.9, 0.95, SOURCES["sharp"])
    assert given > 0.9 * RUNS


def test_a_promise_says_yes_nearly_as_often_as_the_truth_allows():
    rng = np.random.default_rng(0)
    source = SOURCES["calibrated"]
    rule = promise(*source.draw(20_000, rng), precision=0.9, planned_by=source.draw(5000, rng)).rule
    assert 0.15 < rule.share < 0.21  # above 0.8 the mean is 0.9: at most 20 % can be answered


def test_the_bound_is_the_exact_one():
    for right, n in ((0, 10), (7, 10), (59, 59), (480, 500)):
        expected = binomtest(right, n, alternative="greater").proportion_ci(0.95, "exact").low
        assert lower_bound(right, n, 0.05) == pytest.approx(expected)


def test_fifty_nine_right_of_fifty_nine_are_the_fewest_for_a_precision_of_95():
    scores, planned = np.linspace(0.5, 1, 59), (np.linspace(0.5, 1, 100), np.ones(100))
    assert promise(scores, np.ones(59), precision=0.95, planned_by=planned).rule.share == 1.0
    assert promise(scores[1:], np.ones(58), precision=0.95, planned_by=planned).rule is None


def test_the_order_of_the_thresholds_is_fixed_by_other_labels():
    """The same plan whatever the labels under test are: nothing of them is passed in."""
    rng = np.random.default_rng(1)
    scores, labels = SOURCES["sharp"].draw(1000, rng)
    order = plan(scores, labels.astype(float), 0.9, 0.05, 500)
    assert set(order) <= set(scores)
    rule = promise(*SOURCES["sharp"].draw(500, rng), precision=0.9, planned_by=(scores, labels)).rule
    assert rule.threshold in order


def test_recall_leaves_out_as_many_as_the_binomial_distribution_allows():
    """29 of a yes: 0.9 ** 29 = 0.047 is the chance that none of them is among the lowest tenth."""
    scores = np.arange(40.0)
    labels = np.arange(40) >= 11
    assert promise(scores, labels, recall=0.9).rule.threshold == 11
    few = promise(scores, np.arange(40) >= 12, recall=0.9)  # 28 of a yes: 0.9 ** 28 = 0.052
    assert few.rule is None
    assert few.labels_needed == 41  # 28.4 of a yes, which are 70 % of the labels
    assert "41 labels" in few.reason


def test_false_matches_start_above_the_highest_no():
    """300 labels: 0.99 ** 300 = 0.049 is the chance that the highest hundredth is not among them."""
    scores, labels = np.arange(300.0), np.arange(300) % 2 == 0
    rule = promise(scores, labels, false_matches=10).rule
    assert rule.threshold == np.nextafter(299.0, np.inf)
    assert not rule.accepts(299.0)
    none = promise(scores[:298], labels[:298], false_matches=10)  # 0.99 ** 298 = 0.0500
    assert (none.rule, none.labels_needed) == (None, 299)


def test_without_a_rule_the_number_of_labels_that_would_do_is_estimated():
    rng = np.random.default_rng(2)
    source = SOURCES["calibrated"]
    few = promise(*source.draw(150, rng), precision=0.9)
    assert few.rule is None
    assert few.labels_needed > 150
    made = [promise(*source.draw(2 * few.labels_needed, rng), precision=0.9).rule is not None for _ in range(20)]
    assert np.mean(made) > 0.5


def test_what_no_number_of_labels_can_promise_says_so():
    rng = np.random.default_rng(3)
    found = promise(rng.uniform(size=2000), rng.uniform(size=2000) < 0.5, precision=0.95)
    assert (found.rule, found.labels_needed) == (None, None)
    assert "highest precision that 2000 labels suggest" in found.reason


def test_a_rule_reads_as_a_sentence():
    rule = promise(np.linspace(0, 1, 300), np.ones(300), precision=0.9).rule
    assert "precision of at least 0.9, with a certainty of 95 %" in str(rule)
    assert rule.accepts([rule.threshold, rule.threshold - 1e-9]).tolist() == [True, False]
    rule = promise(np.linspace(0, 1, 300), np.ones(300), false_matches=50).rule
    assert "false matches at most 50 in a thousand" in str(rule)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": 1.0}, "precision must be between 0 and 1"),
        ({"precision": 0}, "precision must be between 0 and 1"),
        ({"recall": "0.9"}, "recall must be between 0 and 1"),
        ({"recall": True}, "recall must be between 0 and 1"),
        ({"false_matches": 1000}, "false_matches must be between 0 and 1000"),
        ({"precision": 0.9, "certainty": 95}, "certainty must be between 0 and 1"),
        ({"precision": float("nan")}, "precision must be between 0 and 1"),
        ({}, "ask for one promise"),
        ({"precision": 0.9, "recall": 0.9}, "ask for one promise"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(Sen2ProError, match=message):
        promise([0.1, 0.9], [0, 1], **arguments)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([0.1], [0, 1], "lists of one length"),
        ([], [], "lists of one length"),
        ([0.1, np.nan], [0, 1], "number 1 is nan"),
        ([0.1, 0.2], [0, 2], "true or false"),
        ([0.1, 0.2], ["no", "yes"], "true or false"),
    ],
)
def test_scores_and_labels_are_checked(scores, labels, message):
    with pytest.raises(Sen2ProError, match=message):
        promise(scores, labels, precision=0.9)
