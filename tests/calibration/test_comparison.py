"""Two sentences compared, as an answer that a person can read; and the numbers behind it."""

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
    together = one_pass.compare_pairs([a for a, _ in pairs], [b for _, b in pairs])
    for found, pair in zip(together, pairs, strict=True):
        alone, parts = one_pass.compare(*pair), one_pass.encode_sources(list(pair))
        assert str(found) == str(alone)
        assert found.probability == pytest.approx(alone.probability, abs=1e-6)
        assert set(found.variances) == {"model", "data"}
        for source, totals in found.variances.items():
            assert totals == pytest.approx(parts[source].total_variance, rel=1e-4)
    assert one_pass.compare_pairs([], []) == []
    with pytest.raises(Sen2ProError, match="of 2 and 1"):
        one_pass.compare_pairs(["a dog", "a cat"], ["a dog"])


def test_a_model_that_samples_compares_alike(minilm, one_pass):
    pair = "A dog runs.", "A dog is running in the park."
    assert minilm.compare(*pair).similarity == pytest.approx(one_pass.compare(*pair).similarity, abs=1e-4)


def test_the_error_for_another_model_says_how_to_fit_its_own(tiny):
    with pytest.raises(Sen2ProError, match=r"this one has hash .*MatchConfidence\(\)\.fit"):
        tiny.compare("a dog", "a cat")
    assert default_slope(tiny.signature()) == 0.0


def test_the_default_curves_rise_with_the_cosine():
    cosine = np.linspace(-1, 1, 201)
    grade, low, high = defaults().pairs.grade(cosine)
    assert (np.diff(defaults().pairs.probability(cosine)) > 0).all()
    assert (np.diff(grade) > 0).all()
    assert ((low >= 0) & (low <= grade) & (grade <= high) & (high <= 5)).all()
