"""Distances, specificity, explanations and comparisons."""

import pytest

from contract import api
from contract.about import NONE, NUMBERS, ONE_PASS, PLAIN, SAMPLING
from contract.golden import all_refused, refused
from contract.texts import LONG, MAN, MARKET, PLAYS, SENTENCES

DISTANCES = (
    "sen2pro", "wasserstein", "symmetric-kl", "bhattacharyya", "expected-cosine", "expected-l2", "corrected-cosine",
)  # fmt: skip
PAIRS = [
    (MAN, "A man plays the guitar."), (MAN, PLAYS), (MAN, MARKET), (MAN, MAN), ("They did it again.", MARKET),
    ("A man is playing a guitar.", "A man is not playing a guitar."), (LONG, "It happened."),
    ("Der Mann spielt Gitarre.", MAN),
]  # fmt: skip


@pytest.fixture(scope="module")
def sampled(model):
    return model.encode(SENTENCES[:4])


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_of_sampled_sentences(name, sampled, model, golden):
    g = sampled
    golden(
        {"all": api.distance(g, g[:3], name), "pairs": api.distance_pairwise(g[:3], g[1:], name),
         "one": api.distance(g[0], g[1], name), "similarity": model.similarity(g[:1], g, metric=name)}, SAMPLING,
    )  # fmt: skip


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_of_sentences_in_one_pass(name, one_pass, golden):
    g = one_pass.encode(SENTENCES[:4])
    golden({"all": api.distance(g, g[:3], name), "pairs": one_pass.similarity_pairwise(g[:3], g[1:], metric=name)},
           ONE_PASS)  # fmt: skip


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_by_hand(name, golden):
    a = api.Gaussian([[0.0, 0.0], [3.0, 4.0]], [[1.0, 1.0], [2.0, 0.5]])
    b = api.Gaussian([[1.0, 3.0], [3.0, 4.0], [-1.0, 0.0]], [[1.0, 2.0], [2.0, 0.5], [0.1, 0.0]])
    golden({"all": api.distance(a, b, name), "pairs": api.distance_pairwise(a, b[:2], name)}, NUMBERS)


def test_alpha_weighs_the_variances(golden):
    a, b = api.Gaussian([[0.0, 0.0]], [[1.0, 1.0]]), api.Gaussian([[1.0, 3.0]], [[1.0, 2.0]])
    golden({str(alpha): api.distance(a, b, alpha=alpha) for alpha in (0, 0.25, 1, "ratio")}, NUMBERS)


def test_distances_that_are_refused(model, one_pass, golden):
    a, b = model.encode([MAN]), one_pass.encode([MAN])
    found = all_refused(
        another_method=lambda: api.distance(a, b),
        an_unknown_name=lambda: api.distance(a, a, "euclid"),
        texts=lambda: api.distance(a, MAN),
        other_dimensions=lambda: api.distance(api.Gaussian([0.0], [1.0]), a),
        pairs_of_two_lengths=lambda: api.distance_pairwise(a, model.encode([MAN, PLAYS])),
        alpha_of_another_distance=lambda: api.distance(a, a, "wasserstein", alpha=0.5),
        alpha_above_1=lambda: api.distance(a, a, alpha=2),
    )
    golden(found, NONE)


def specific(found):
    return {name: getattr(found, name) for name in ("score", "at_length", "value")}


def test_specificity(model, one_pass, golden):
    found = specific(one_pass.specificity(SENTENCES))
    assert found["value"].tolist() == pytest.approx(model.specificity(SENTENCES).value.tolist(), rel=1e-6)
    golden({"list": found, "one": specific(one_pass.specificity(MAN)), "none": len(one_pass.specificity([]))}, ONE_PASS)


def test_specificity_by_samples(model, golden):
    golden(specific(model.specificity(SENTENCES[:4], samples=12)), SAMPLING)


def test_specificity_of_another_pooling(golden):
    """No head ships for it, so it has values that can be ranked, and no percentiles."""
    other = api.Sen2Pro(pooling="cls")
    assert refused(lambda: other.specificity([MAN])) == "Sen2ProError"
    golden(specific(other.specificity(SENTENCES[:3], samples=6)), SAMPLING)


@pytest.mark.parametrize("text", [MAN, "Well, the guitar was sort of loud.", "Guitar", "  spaces   in between  "])
def test_explain(text, one_pass, golden):
    found = one_pass.explain(text)
    golden(
        {"words": found.words, "moves": list(map(float, found.moves)), "share": list(map(float, found.share))}, PLAIN
    )


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_compare(number, one_pass, model, golden):
    a, b = PAIRS[number]
    found = one_pass.compare(a, b)
    names = ("probability", "similarity", "low", "high", "vaguer", "coverage", "variances", "verdict")
    assert f"{100 * found.probability:.0f} %" in str(found)
    assert found.probability == pytest.approx(
        model.compare(a, b).probability, abs=1e-6
    )  # one pass, whatever the method
    golden({"texts": [a, b], **{name: getattr(found, name) for name in names}}, ONE_PASS)


def test_answers_that_are_refused(model, golden):
    other = api.Sen2Pro(pooling="cls", samples=3)
    found = all_refused(
        compare_a_blank=lambda: model.compare(MAN, " "),
        compare_no_text=lambda: model.compare(MAN, 5),
        compare_with_another_model=lambda: other.compare(MAN, PLAYS),
        specificity_of_a_blank=lambda: model.specificity([""]),
        explain_a_list=lambda: model.explain([MAN]),
        explain_a_blank=lambda: model.explain(""),
    )
    golden(found, NONE)
