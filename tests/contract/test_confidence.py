"""Probabilities that are learned from labels, and the thresholds that keep a promise."""

import numpy as np
import pytest

from contract import api
from contract.about import NONE, NUMBERS, ONE_PASS
from contract.golden import all_refused, noted, refused
from contract.texts import FIRST, MATCHES, NEW_PAIRS, SECOND, TEXTS

FAR = "一个男人在街角弹吉他，一个女人在唱歌。"  # the head knows English only
A, B = [a for a, _ in NEW_PAIRS], [b for _, b in NEW_PAIRS]


@pytest.fixture(scope="module")
def fitted(one_pass):
    with noted():
        return api.MatchConfidence().fit(one_pass, FIRST, SECOND, MATCHES)


def rule_of(rule):
    return None if rule is None else {
        "threshold": rule.threshold, "share": rule.share, "target": rule.target, "labels": rule.labels
    }  # fmt: skip


def test_match(fitted, golden):
    with noted():
        golden({"many": fitted.probability(A, B), "one": fitted.probability(A[0], B[0])}, ONE_PASS)


@pytest.mark.parametrize(
    "promise",
    [{"precision": 0.6}, {"precision": 0.8}, {"recall": 0.5}, {"false_matches": 500}, {"precision": 0.99}],
    ids=str,
)
def test_thresholds(promise, fitted, golden):
    with noted() as notes:
        kept, loose = fitted.threshold(**promise), fitted.threshold(**promise, certainty=0.8)
        everywhere = fitted.threshold(**promise, uncovered=True)
    golden({"rule": rule_of(kept), "less certain": rule_of(loose), "uncovered": rule_of(everywhere),
            "warned": bool(notes)}, ONE_PASS)  # fmt: skip


def test_verdicts(fitted, golden):
    with noted():
        rule = fitted.threshold(precision=0.6)
        found = fitted.match([*A, FIRST[0], FAR], [*B, SECOND[0], FAR + "!"], rule)
        loose = fitted.match([FAR], [FAR + "!"], rule, uncovered=True)
        without = fitted.match(A, B, None)
    golden(
        {
            "probability": found.probability, "verdict": found.verdict, "uncovered": found.uncovered,
            "fitted on": found.fitted_on, "without a rule": without.verdict, "far, but allowed": loose.verdict,
        },
        ONE_PASS,
    )  # fmt: skip


def test_graded_labels(one_pass, golden):
    grades = [5 - number % 2 for number in range(40)] + [2] * 40
    with noted():
        fitted = api.MatchConfidence(match_from=4, seed=3).fit(one_pass, FIRST, SECOND, grades)
        golden(fitted.probability(A, B), ONE_PASS | {"seed": 3})


def test_a_saved_confidence_says_the_same(fitted, one_pass, tmp_path):
    fitted.save(tmp_path / "pairs")
    loaded = api.MatchConfidence.load(tmp_path / "pairs", model=one_pass)
    with noted():
        assert loaded.probability(A, B) == pytest.approx(fitted.probability(A, B), abs=1e-6)
        assert rule_of(loaded.threshold(precision=0.6)) == rule_of(fitted.threshold(precision=0.6))
        assert (
            refused(lambda: api.MatchConfidence.load(tmp_path / "pairs", model=api.Sen2Pro(samples=2)))
            == "Sen2ProError"
        )


def test_duplicates_by_labels(fitted, one_pass, golden):
    with noted():
        found = api.find_duplicates(one_pass, TEXTS, precision=0.6, confidence=fitted)
    golden(
        {"kept": found.kept, "dropped": [[each.row, each.like, each.probability] for each in found.dropped],
         "threshold": found.threshold, "promised": found.rule is not None}, ONE_PASS,
    )  # fmt: skip


def scores(queries, seed):
    """Return made-up scores of ten hits, and which hits are right: the higher the first, the likelier it is."""
    draw = np.random.default_rng(seed)
    numbers = -np.sort(-draw.normal(size=(queries, 10)), axis=1)
    right = np.zeros((queries, 10), bool)
    right[:, 0] = draw.uniform(size=queries) < 1 / (1 + np.exp(-6 * (numbers[:, 0] - 1)))
    later = draw.uniform(size=queries) < 0.3
    right[np.arange(queries), draw.integers(1, 10, queries)] |= later & ~right[:, 0]
    return numbers, right


@pytest.fixture(scope="module")
def searching():
    return api.SearchConfidence().fit(*scores(400, 0))


def test_search_confidence(searching, golden):
    new = scores(6, 1)[0]
    golden({"probability": searching.probability(new), "needs": searching.needs}, NUMBERS)


def test_answer_sets(searching, golden):
    golden(
        {str(share): searching.answer_set(scores(6, 1)[0], share=share).tolist() for share in (0.5, 0.9, 0.999)},
        NUMBERS,
    )


@pytest.mark.parametrize("precision", [0.6, 0.9, 0.9999])
def test_rules_that_abstain(precision, searching, golden):
    with noted() as notes:
        rule = searching.abstain(precision)
    new = searching.probability(scores(6, 1)[0])
    golden(
        {"rule": rule_of(rule), "accepts": None if rule is None else rule.accepts(new), "warned": bool(notes)}, NUMBERS
    )


def test_search_confidence_of_first_hits_and_lengths(golden):
    numbers, draw = scores(300, 0)[0], np.random.default_rng(2)
    lengths = draw.integers(1, 30, 300)
    right = draw.uniform(size=300) < 1 / (1 + np.exp(-3 * (numbers[:, 0] - 1.5) - 0.3 * (lengths - 15)))
    fitted = api.SearchConfidence(held_out=0.3, seed=5).fit(numbers, right, lengths=lengths)
    more = {name: [3, 9, 27, 3, 9, 27] for name in fitted.needs}
    golden({"needs": fitted.needs, "probability": fitted.probability(scores(6, 1)[0], **more)}, NUMBERS | {"seed": 5})


def test_a_saved_search_confidence_says_the_same(searching, tmp_path):
    searching.save(tmp_path / "search")
    loaded, new = api.SearchConfidence.load(tmp_path / "search"), scores(6, 1)[0]
    assert loaded.probability(new) == pytest.approx(searching.probability(new), abs=1e-9)
    assert rule_of(loaded.abstain(0.6)) == rule_of(searching.abstain(0.6))


def test_what_is_refused(one_pass, searching, golden):
    confidence, (numbers, right) = api.MatchConfidence(), scores(30, 0)
    found = all_refused(
        too_few_pairs=lambda: confidence.fit(one_pass, A, B, [1, 0, 1, 0]),
        one_kind_of_label=lambda: confidence.fit(one_pass, FIRST, SECOND, [1] * 80),
        grades=lambda: confidence.fit(one_pass, FIRST, SECOND, [number % 3 for number in range(80)]),
        labels_missing=lambda: confidence.fit(one_pass, FIRST, SECOND, [1, 0]),
        other_lengths=lambda: confidence.fit(one_pass, FIRST[1:], SECOND, MATCHES),
        no_folder=lambda: api.MatchConfidence.load("nowhere", one_pass),
        too_few_queries=lambda: api.SearchConfidence().fit(numbers[:5], right[:5]),
        scores_that_rise=lambda: api.SearchConfidence().fit(numbers[:, ::-1], right),
        other_numbers_of_hits=lambda: searching.probability(numbers[:, :3]),
        a_certain_precision=lambda: searching.abstain(1.0),
        held_out=lambda: api.SearchConfidence(held_out=1.0).fit(numbers, right),
        no_such_folder=lambda: api.SearchConfidence.load("no"),
    )
    golden(found, NONE)
