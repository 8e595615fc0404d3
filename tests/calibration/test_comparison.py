"""Two sentences compared, as an answer that a person can read; and the numbers behind it."""

import re
from pathlib import Path

import numpy as np
import pytest

from sen2pro import Sen2Pro
from sen2pro.calibration.defaults import default_slope, defaults
from sen2pro.errors import Sen2ProError


@pytest.fixture(scope="module")
def one_pass():
    return Sen2Pro("all-MiniLM-L6-v2", method="one-pass")


def test_a_comparison_is_a_sentence_that_a_person_can_read(one_pass):
    found = one_pass.compare("A man is playing a guitar.", "Someone makes music.")
    assert str(found).startswith(
        f"{100 * found.probability:.0f} % likely the same meaning ({found.verdict}). Similarity "
    )
    assert str(found).endswith("The second sentence is the vaguer one.")
    assert found.low < found.similarity < found.high
    swapped = one_pass.compare("Someone makes music.", "A man is playing a guitar.")
    assert (swapped.vaguer, swapped.probability) == ("first", pytest.approx(found.probability))


def test_the_verdict_follows_the_probability(one_pass):
    same = one_pass.compare("A man is playing a guitar.", "A man plays the guitar.")
    assert (same.verdict, same.vaguer) == ("likely", None)
    assert "about equally specific" in str(same)
    assert one_pass.compare("A man is playing a guitar.", "Shares fell on Monday.").verdict == "unlikely"
    copy = one_pass.compare("It rains.", "It rains.")
    assert (copy.probability, copy.similarity, copy.vaguer) == (1.0, 5.0, None)


def test_many_pairs_in_one_pass_are_compared_as_each_alone(one_pass):
    pairs = [("A man is playing a guitar.", "Someone makes music."), ("It rains.", "It rains."), ("a dog", "no")]
    together = one_pass.compare([a for a, _ in pairs], [b for _, b in pairs])
    for found, pair in zip(together, pairs, strict=True):
        alone, parts = one_pass.compare(*pair), one_pass.encode_sources(list(pair))
        assert str(found) == str(alone)
        assert found.probability == pytest.approx(alone.probability, abs=1e-6)
        assert set(found.variances) == {"model", "data"}
        for source, totals in found.variances.items():
            assert totals == pytest.approx(parts[source].total_variance, rel=1e-4)
    assert one_pass.compare([], []) == []
    with pytest.raises(Sen2ProError, match="of 2 and 1"):
        one_pass.compare(["a dog", "a cat"], ["a dog"])


def test_a_model_that_samples_compares_alike(minilm, one_pass):
    pair = "A dog runs.", "A dog is running in the park."
    assert minilm.compare(*pair).similarity == pytest.approx(one_pass.compare(*pair).similarity, abs=1e-4)


def test_the_error_for_another_model_says_how_to_fit_its_own(tiny):
    with pytest.raises(Sen2ProError, match=r"this one has hash .*MatchConfidence\(\)\.fit"):
        tiny.compare("a dog", "a cat")
    assert default_slope(tiny.signature()) == 0.0


def test_the_default_curves_rise_with_the_cosine():
    curves, cosine = defaults().pairs, np.linspace(-1, 1, 201)
    for variance, words in ((0.2, 8), (0.5, 20), (5.0, 300)):
        terms = curves.terms(cosine, np.full(201, variance), np.full(201, words))
        grade, low, high = curves.grade(terms)
        assert (np.diff(curves.probability(terms)) > 0).all()
        assert (np.diff(grade) > 0).all()
        assert ((low >= 0) & (low <= grade) & (grade <= high) & (high <= 5)).all()


def test_outside_of_what_the_curves_were_fitted_on_the_nearest_value_counts():
    curves = defaults().pairs
    inside = curves.terms(0.7, curves.variances[1], curves.words[1])
    np.testing.assert_array_equal(curves.terms(0.7, 100.0, 10_000), inside)


def test_lists_are_not_mixed_with_single_sentences(one_pass):
    with pytest.raises(Sen2ProError, match="a must be a text, not list"):
        one_pass.compare(["It rains."], "It rains.")


def test_the_page_of_everyday_pairs_says_what_compare_answers(one_pass):
    page = Path(__file__).parents[2] / "docs/everyday-pairs.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(rows) == 20
    for row, found in zip(rows, one_pass.compare([row[0] for row in rows], [row[1] for row in rows]), strict=True):
        probability, similarity, low, high = (float(number) for number in re.findall(r"[\d.]+", row[2] + row[4]))
        assert row[3] == found.verdict
        assert probability == pytest.approx(100 * found.probability, abs=0.51)
        assert similarity == pytest.approx(found.similarity, abs=0.051)
        assert (low, high) == pytest.approx((found.low, found.high), abs=0.051)
