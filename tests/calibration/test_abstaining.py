"""Whether the hits of another search are likely right: by the model again, or by a confidence on its scores."""

import numpy as np
import pytest

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.calibration.hits import SearchConfidence
from sen2pro.errors import Sen2ProWarning
from sen2pro.integrations.frameworks import Judge
from sen2pro.search import Index

HELP = [
    "Our office is in Lyon, near the station.", "We ship to all of Europe within five days.",
    "To reset your password, open Settings and choose Security.", "Refunds take two weeks.",
]  # fmt: skip
KNOWN, UNKNOWN = "how do I reset my password?", "who won the world cup in 1998?"
NO_SCORES = [None] * len(HELP)


@pytest.fixture(scope="module")
def model():
    return Sen2Pro("all-MiniLM-L6-v2", method="one-pass")


@pytest.fixture(scope="module")
def labelled():
    """Scores of 400 queries, 3 hits each; a first hit is the likelier right, the greater its score."""
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.uniform(size=(400, 3)), axis=1)
    first = rng.uniform(size=400) < 1 / (1 + np.exp(-20 * (scores[:, 0] - 0.7)))
    return scores, first


@pytest.fixture(scope="module")
def confidence(labelled):
    return SearchConfidence().fit(*labelled)


def test_without_a_confidence_hits_are_ranked_and_judged_as_an_index_would(model):
    judged = Judge(model)(KNOWN, HELP, NO_SCORES)
    expected = Index.build(model, HELP).search(KNOWN, k=4)
    assert judged.hits == expected.hits
    assert judged.answer.id == "2"
    kept = Judge(model).kept(KNOWN, HELP, NO_SCORES, top_k=2)
    assert kept == [(int(hit.id), hit.probability) for hit in expected[:2]]
    assert Judge(model).kept(UNKNOWN, HELP, NO_SCORES) == []
    assert Judge(model).kept(KNOWN, [], []) == []


def test_a_precision_asks_for_more(model):
    likely = Judge(model)(KNOWN, HELP, NO_SCORES).probability
    with pytest.warns(Sen2ProWarning, match="not promised"):
        assert Judge(model, precision=likely - 0.001)(KNOWN, HELP, NO_SCORES).answer
    with pytest.warns(Sen2ProWarning, match="not promised"):
        assert not Judge(model, precision=min(likely + 0.001, 1.0))(KNOWN, HELP, NO_SCORES).answer


def test_a_confidence_judges_the_scores_of_the_search_and_needs_no_model(confidence, tmp_path):
    judge = Judge("no such model", confidence)
    judged = judge("any", list("abcd"), [0.2, 0.95, 0.4, 0.1])
    assert [hit.id for hit in judged] == ["1", "2", "0", "3"]
    assert judged.probability == confidence.probability([[0.95, 0.4, 0.2]])[0]
    assert [hit.probability for hit in judged[1:]] == [None] * 3  # of later hits it has no labels
    assert judged.answer
    assert not judge("any", list("abc"), [0.2, 0.45, 0.4]).answer
    # Few hits are judged as if the last one were there again.
    assert judge("any", ["a"], [0.9]).probability == confidence.probability([[0.9, 0.9, 0.9]])[0]
    confidence.save(tmp_path / "confidence")
    assert Judge("", tmp_path / "confidence")("any", list("abcd"), [0.2, 0.95, 0.4, 0.1]) == judged


def test_the_precision_of_a_confidence_is_that_of_its_promise(confidence):
    threshold = confidence.abstain(0.8).threshold
    judge = Judge("", confidence, precision=0.8)
    for best in np.linspace(0.5, 1, 21):
        judged = judge("any", list("abc"), [best, 0.3, 0.2])
        assert bool(judged.answer) == (judged.probability >= threshold)
    with pytest.warns(Sen2ProWarning):  # nothing can be promised
        never = Judge("", confidence, precision=0.9999)
    assert not never("any", list("abc"), [1.0, 0.0, 0.0]).answer


def test_lengths_are_those_of_the_query(labelled):
    scores, _ = labelled
    lengths = np.random.default_rng(1).integers(1, 40, 400)
    confidence = SearchConfidence().fit(scores, lengths > 20, lengths=lengths)
    assert confidence.needs == ("lengths",)
    judge = Judge("", confidence)
    assert judge("word " * 35, ["a"], [0.5]).answer
    assert not judge("two words", ["a"], [0.5]).answer


def test_what_cannot_be_judged_is_said(tiny, confidence, labelled):
    with pytest.raises(Sen2ProError, match="there are no probabilities for the model"):
        Judge(tiny)
    with pytest.raises(Sen2ProError, match="a hit has no score"):
        Judge("", confidence)("any", ["a", "b"], [0.3, None])
    with pytest.raises(Sen2ProError, match="precision must be between 0 and 1, not 95"):
        Judge("", confidence, precision=95)
    with pytest.raises(Sen2ProError, match="confidence is a fitted SearchConfidence"):
        Judge("", 0.9)
    scores, _ = labelled
    votes = np.random.default_rng(2).uniform(0.1, 1, 400)
    with pytest.raises(Sen2ProError, match=r"fitted with (agreement|votes)"):
        Judge("", SearchConfidence().fit(scores, votes > 0.5, agreement=votes))
