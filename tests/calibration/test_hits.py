"""A probability for a search result: what it promises, shown on simulated lists whose truth is known."""

import json
import warnings

import numpy as np
import pytest

from sen2pro.calibration.defaults import FittedCalibration
from sen2pro.calibration.hits import SearchConfidence, check_hits, choose_both
from sen2pro.errors import Sen2ProError, Sen2ProWarning

K = 6


def simulated(n, seed=0):
    """Return lists and which hits are right; two fifths of the queries have no answer.

    The one right document scores N(3, 1), five others N(0, 1); where it is missing there is one more of those.
    """
    rng = np.random.default_rng(seed)
    scores, right = rng.normal(size=(n, K)), np.zeros((n, K), bool)
    right[:, 0] = rng.uniform(size=n) < 0.6
    scores[right] += 3
    order = np.argsort(-scores, axis=1)
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(right, order, axis=1)


def truth(scores):
    """Return P(right | scores) of each hit by Bayes: each has odds of exp(3 s - 4.5), none 0.4 / 0.6."""
    weights = np.exp(3 * scores - 4.5)
    return weights / (weights.sum(axis=1, keepdims=True) + K * 0.4 / 0.6)


@pytest.fixture(scope="module")
def fitted():
    return SearchConfidence().fit(*simulated(2000))


def test_the_probability_of_each_hit_is_close_to_the_true_one(fitted):
    scores, right = simulated(4000, seed=1)
    each = fitted.probability_each(scores)
    np.testing.assert_allclose(each[:, 0], fitted.probability(scores))
    assert np.abs(each - truth(scores)).mean(axis=0) == pytest.approx(0, abs=0.04)
    # The mean of probabilities is the share of right hits, within three standard errors and what 1000 labels tell.
    assert each.mean(axis=0) == pytest.approx(right.mean(axis=0), abs=0.05)


def test_a_calibration_fills_short_lists_and_knows_nothing_beyond_its_depth(fitted):
    calibration = FittedCalibration(fitted)
    short, none, long = calibration.probabilities([[2.0, 1.0], [], [3.0] + [0.0] * K])
    assert short == fitted.probability_each([[2.0] + [1.0] * (K - 1)])[0, :2].tolist()
    assert none == []
    assert long == [*fitted.probability_each([[3.0] + [0.0] * (K - 1)])[0], None]
    assert calibration.threshold(None, 0.95) == 0.5
    assert calibration.threshold(0.7, 0.95) == fitted.abstain(0.7).threshold
    with pytest.warns(Sen2ProWarning):
        assert calibration.threshold(0.9999, 0.95) > 1


def test_scores_of_any_scale_and_origin_give_the_same(fitted):
    scores, right = simulated(2000)
    other = SearchConfidence().fit(100 * scores - 7, right)
    new, _ = simulated(50, seed=2)
    np.testing.assert_allclose(other.probability(100 * new - 7), fitted.probability(new), atol=1e-6)


def test_a_rule_keeps_its_promise_on_new_queries_in_all_but_few_draws():
    """30 draws of 400 labels: a broken promise has a chance of 5 % each, so more than 5 of 30 have one of 0.3 %."""
    new, right = simulated(20_000, seed=99)
    broken = made = 0
    for seed in range(30):
        confidence = SearchConfidence().fit(*simulated(400, seed=seed + 100))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Sen2ProWarning)
            rule = confidence.abstain(precision=0.75)
        if rule is not None:
            made += 1
            broken += right[rule.accepts(confidence.probability(new)), 0].mean() < 0.75
    assert made > 15
    assert broken <= 5


def test_answer_sets_hold_a_right_hit_for_the_promised_share_of_queries_that_have_one():
    """Over 25 draws of 300 labels the mean coverage is within 2 points of the promise, or above (sets are whole)."""
    new, right = simulated(5000, seed=98)
    has = right.any(axis=1)
    rank = right.argmax(axis=1) + 1
    found, sizes = [], []
    for seed in range(25):
        size = SearchConfidence(seed=seed).fit(*simulated(300, seed=seed + 500)).answer_set(new, share=0.9)
        found.append((rank <= size)[has].mean())
        sizes.append(size.mean())
    assert np.mean(found) > 0.88
    assert np.mean(sizes) < np.quantile(rank[has], 0.9) + 1.5  # not bought by taking all hits


def test_answer_sets_grow_with_the_share_and_too_few_labels_are_not_hidden(fitted):
    new, _ = simulated(200, seed=3)
    small, large = fitted.answer_set(new, share=0.5), fitted.answer_set(new, share=0.95)
    assert 1 <= small.min() <= large.max() <= K
    assert (small <= large).all()
    assert (SearchConfidence().fit(*simulated(40)).answer_set(new, share=0.99) == K + 1).all()


def test_labels_of_the_first_hit_are_enough_but_for_what_is_said_of_later_ones():
    scores, right = simulated(200)
    confidence = SearchConfidence().fit(scores, right[:, 0])
    np.testing.assert_allclose(
        confidence.probability(scores), SearchConfidence().fit(scores, right).probability(scores)
    )
    assert np.isnan(confidence.probability_each(scores)[:, 1:]).all()
    with pytest.raises(Sen2ProError, match="labels of the first hit alone"):
        confidence.answer_set(scores)


def test_twenty_labels_and_lists_of_two_hits_work():
    scores, right = simulated(20, seed=4)
    confidence = SearchConfidence().fit(scores[:, :2], right[:, :2])
    found = confidence.probability(scores[:, :2])
    assert ((found > 0) & (found < 1)).all()
    assert "20 queries" in str(confidence.report())
    assert confidence.report().with_distribution is None
    assert "no distribution was given" in str(confidence.report())


def test_lists_whose_scores_are_all_equal_give_the_share_of_right_ones():
    right = np.arange(40) % 4 == 0
    found = SearchConfidence(held_out=0).fit(np.ones((40, 3)), right).probability(np.ones((1, 3)))
    assert found[0] == pytest.approx(0.25, abs=0.001)


def test_what_is_worth_nothing_is_not_used_and_what_is_worth_much_is():
    scores, right = simulated(800)
    rng = np.random.default_rng(0)
    noise, telling = rng.uniform(0.1, 1, (800, 2)), np.where(right[:, 0], 0.8, 0.2) * rng.uniform(0.5, 1, 800)
    idle = SearchConfidence().fit(scores, right, variances=noise)
    assert idle.needs == ()
    assert idle.report().verdict in ("no difference", "worse")
    idle.probability(scores)  # asks for nothing that it does not use
    used = SearchConfidence().fit(scores, right, variances=noise, agreement=telling)
    assert "agreement" in used.needs
    report = used.report()
    assert report.verdict == "better"
    assert 0 < report.low < report.gain < report.high
    assert "with the distribution" in str(report)
    with pytest.raises(Sen2ProError, match="fitted with agreement; pass them again"):
        used.probability(scores)


def test_what_is_saved_says_the_same_when_it_is_loaded(tmp_path):
    scores, _ = simulated(100, seed=6)
    confidence = SearchConfidence().fit(*simulated(300), lengths=np.arange(300) + 1)
    confidence.save(tmp_path / "a")
    again = SearchConfidence.load(tmp_path / "a")
    lengths = {"lengths": np.full(100, 5)} if confidence.needs else {}
    np.testing.assert_array_equal(again.probability(scores, **lengths), confidence.probability(scores, **lengths))
    np.testing.assert_array_equal(again.answer_set(scores, **lengths), confidence.answer_set(scores, **lengths))
    assert again.abstain(0.7) == confidence.abstain(0.7)
    assert again.report() == confidence.report()
    assert (again.state, again.held_out) == (confidence.state, 0.5)
    assert SearchConfidence.from_json(confidence.to_json()).state == confidence.state
    again.save(tmp_path / "b")


def changed(content, **values):
    return content | {"digest": None, "candidate": content["candidate"] | values}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"hits": 7}, "was changed or damaged since it was saved"),
        (lambda d: d | {"digest": None, "hits": 1}, "hits"),
        (lambda d: changed(d, features=["os"]), "the features must be among first, gap"),
        (lambda d: changed(d, features=[]), "there must be features"),
        (lambda d: changed(d, spread=[]), "as many spreads as centres"),
        (lambda d: d | {"digest": None, "report": d["report"] | {"gain": 1.0}}, "must have a gain"),
        (lambda d: changed(d, temperature=0), "temperature"),
    ],
)
def test_a_changed_folder_is_refused(tmp_path, change, message):
    SearchConfidence().fit(*simulated(40)).save(tmp_path / "a")
    path = tmp_path / "a" / f"{SearchConfidence.FILE}.json"
    content = {k: v for k, v in change(json.loads(path.read_text())).items() if v is not None}
    path.write_text(json.dumps(content))
    with pytest.raises(Sen2ProError, match=message):
        SearchConfidence.load(tmp_path / "a")
    with pytest.raises(Sen2ProError, match="does not contain a SearchConfidence"):
        SearchConfidence.load(tmp_path)


SCORES, RIGHT = simulated(40)


def with_nan(query, hit):
    scores = SCORES.copy()
    scores[query, hit] = np.nan
    return scores


@pytest.mark.parametrize(
    ("scores", "right", "more", "message"),
    [
        (SCORES[:, ::-1], RIGHT, {}, "descending order, but those of query 0"),
        (with_nan(3, 1), RIGHT, {}, "must be finite, but query 3, hit 1 is nan"),
        (SCORES[:, :1], RIGHT[:, :1], {}, "at least 2"),
        (SCORES[:, 0], RIGHT[:, 0], {}, r"shape \(queries, hits\)"),
        ([[2.0, 1.0], [3.0, 2.0, 1.0]], [True, False], {}, "the same number of hits for every query"),
        ([["a", "b"]] * 40, RIGHT, {}, "must be numbers"),
        (SCORES, RIGHT[:39], {}, r"right has the shape \(39, 6\)"),
        (SCORES, RIGHT[:, :3], {}, r"right has the shape \(40, 3\)"),
        (SCORES, RIGHT * 2, {}, "true or false"),
        (SCORES, ["yes"] * 40, {}, "true or false"),
        (SCORES[:19], RIGHT[:19], {}, "19 labelled queries are too few: it takes at least 20"),
        (SCORES, np.ones(40, bool), {}, "a right first hit for 40 queries and a wrong first hit for 0"),
        (SCORES, np.zeros((40, K)), {}, "a right first hit for 0 queries and a wrong first hit for 40"),
        (SCORES, np.arange(40) < 2, {}, "a wrong first hit for 38; it takes at least 4 of each"),
        (SCORES, RIGHT, {"lengths": [1] * 39}, "lengths must have a row for each of the 40 queries"),
        (SCORES, RIGHT, {"lengths": [0] * 40}, "lengths must be above 0, but query 0"),
        (SCORES, RIGHT, {"variances": -np.ones((40, 4))}, "variances must be above 0"),
        (SCORES, RIGHT, {"agreement": [2] * 40}, "agreement must be a share"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_the_remedy(scores, right, more, message):
    with pytest.raises(Sen2ProError, match=message):
        SearchConfidence().fit(scores, right, **more)


def test_what_cannot_be_asked_is_refused_with_the_remedy(fitted):
    with pytest.raises(Sen2ProError, match="3 hits of each query, but 6 when fitted"):
        fitted.probability(SCORES[:, :3])
    with pytest.raises(Sen2ProError, match="share must be between 0 and 1"):
        fitted.answer_set(SCORES, share=1.0)
    with pytest.raises(Sen2ProError, match="precision must be between 0 and 1"):
        fitted.abstain(precision=1.5)
    all_fit = SearchConfidence(held_out=0).fit(SCORES, RIGHT)
    for ask in (all_fit.abstain, lambda: all_fit.answer_set(SCORES)):
        with pytest.raises(Sen2ProError, match="none can test a promise"):
            ask()


def test_the_best_with_the_distribution_adds_it_to_the_best_without():
    hits = check_hits(SCORES, lengths=np.ones(40), votes=np.ones(40), variances=np.ones((40, 4)), agreement=np.ones(40))
    without, with_ = choose_both(hits, RIGHT[:, 0].astype(float))
    base, features = without.fitted.features, with_.fitted.features
    assert features[: len(base)] == base
    assert {"variances", "agreement"} & {*features}


def test_other_columns_than_those_it_was_fitted_with_are_an_error():
    telling = np.where(RIGHT[:, :1], 0.1, 5.0) * np.ones((1, 4))
    confidence = SearchConfidence().fit(SCORES, RIGHT, variances=telling)
    assert confidence.needs == ("variances",)
    with pytest.raises(Sen2ProError, match=r"fitted on \d+ numbers per example, but there are \d+"):
        confidence.probability(SCORES, variances=telling[:, :2])
