"""Contests C3 and C4: what a confidence of search is measured by, and the intent router."""

import json
import os

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sen2pro import Sen2Pro
from sen2pro.calibration.report import calibration_error
from sen2pro.errors import Sen2ProError
from sen2pro_lab.contests import retrieval
from sen2pro_lab.contests.intent_router import IntentRouter, by_intent
from sen2pro_lab.metrics.abstention import auroc, calibration, nauc, risk_coverage_area, share_answered
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.store import Store
from sen2pro_lab.tables import reproduce


def test_measures_are_those_of_scikit_learn_mteb_and_of_a_resample_drawn_by_hand():
    from mteb._evaluators.retrieval_metrics import nauc as of_mteb

    rng = np.random.default_rng(1)
    c, y = rng.uniform(size=200).round(1), (rng.uniform(size=200) < 0.6).astype(float)
    counts = rng.integers(0, 3, (1, 200)).astype(float)
    rows = np.repeat(np.arange(200), counts[0].astype(int))
    assert auroc(c, y)(counts)[0] == pytest.approx(roc_auc_score(y[rows], c[rows]))
    assert nauc(c, y)(counts)[0] == pytest.approx(of_mteb(c[rows], y[rows]))
    for n in (7, 76, 200):  # ties, no ties, several resamples at once
        for values in (c[:n], rng.normal(size=n)):
            many = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(5)]).astype(float)
            drawn = [np.repeat(np.arange(n), row.astype(int)) for row in many]
            expected = [of_mteb(values[rows], y[:n][rows]) for rows in drawn]
            np.testing.assert_allclose(nauc(values, y[:n])(many), expected, atol=1e-12)
    assert np.isnan(nauc(c, np.ones(200))(np.ones((1, 200)))[0])
    sure = np.where(c > 0.5, c, 1 - c)  # of two classes, the measure of the package looks at the likelier one
    expected = calibration_error(sure[rows], y[rows] == 1)
    assert calibration(sure, y)(counts)[0] == pytest.approx(expected, abs=1e-9)
    assert share_answered(c, y, 0.5)(counts)[0] == 1.0
    perfect = risk_coverage_area(y, y)(np.ones((1, 200)))[0]
    assert perfect < risk_coverage_area(c, y)(np.ones((1, 200)))[0]


def test_an_intent_scores_as_its_nearest_example():
    scores, intents = by_intent(np.array([[0.2, 0.7, 0.5, 0.9]]), np.array([1, 0, 1, 0]))
    assert scores.tolist() == [[0.9, 0.5]]
    assert intents.tolist() == [[0, 1]]


REQUESTS = {
    "play some {} music": "jazz rock blues techno soul pop folk metal classical reggae dance country",
    "what is the weather in {}": "london paris rome berlin madrid oslo tokyo cairo lima delhi boston moscow",
    "set an alarm for {} o'clock": "one two three four five six seven eight nine ten eleven twelve",
    "order a {} for dinner": "pizza burger salad soup curry steak sandwich burrito kebab pie taco stew",
}


def test_a_router_names_the_intent_or_none():
    model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    texts = [(pattern.format(thing), pattern[:4]) for pattern, things in REQUESTS.items() for thing in things.split()]
    outside = [f"the {a} of the {b} {c}" for a in ("law", "end", "king") for b in ("old", "red", "war")
               for c in ("river", "engine", "theorem", "tax", "bone")]  # fmt: skip
    router = IntentRouter(precision=0.8).fit(model, *zip(*texts, strict=True), out_of_scope=outside)
    found = router.route(["play some disco music", "order a lasagna for dinner", "the law of the old castle"])
    assert found == ["play", "orde", None]
    with pytest.raises(Sen2ProError, match="48 texts, but 1 labels"):
        IntentRouter().fit(model, [text for text, _ in texts], ["a"])
    with pytest.raises(Sen2ProError, match="two intents at least"):
        IntentRouter().fit(model, [text for text, _ in texts], ["a"] * 48)


@pytest.fixture
def lab(tmp_path):
    folder = os.environ.get("SEN2PRO_DATA")
    if not folder or not os.path.isdir(os.path.join(folder, "confidence")):  # noqa: PTH112, PTH118
        pytest.skip("set SEN2PRO_DATA to a folder of evaluation data with confidence")
    return Lab(method="one-pass", limit=60, store=Store(tmp_path, show=False))


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::sen2pro.errors.TruncationWarning")  # documents are longer than the model takes
def test_c4_judges_all_ways_on_the_same_queries(lab, monkeypatch):
    monkeypatch.setattr(retrieval, "SEEDS", 1)
    monkeypatch.setattr(retrieval, "sets", lambda *_: ["xquad"])
    result = reproduce("C4", lab)
    ways = {row[0] for row in result.grids[0].rows}
    assert {"max", "std", "diff1", "DenseQPP", "ours, with the distribution", "ridge on the sorted scores"} <= ways
    assert "NaN" not in json.dumps(result.numbers)
    assert any("the first hit is right for" in note for note in result.notes)
