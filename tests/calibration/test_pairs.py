"""The probability of a match: learned from labelled pairs, honest about what the distribution adds, saved and read."""

import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sen2pro import Gaussian, Sen2Pro
from sen2pro.calibration import MatchConfidence, NothingPromised
from sen2pro.calibration.pairs import candidate, names, pair_features
from sen2pro.calibration.report import calibration_error
from sen2pro.calibration.selection import fit, folds, logistic
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.estimation.encoded import Encoded

WORDS = "red green blue old new big small warm cold fast slow dark".split()


def drawn(n, seed=0, told=2.0):
    """Pairs whose logit is 6 * (cosine - 0.5) minus `told` times how unequal their data variances are; and labels."""
    rng = np.random.default_rng(seed)
    cosine, ratio = rng.uniform(0, 1, n), rng.exponential(1, n)
    left, right = np.zeros((n, 4)), np.zeros((n, 4))
    left[:, 0], right[:, 0], right[:, 1] = 1, cosine, np.sqrt(1 - cosine**2)
    variance = np.full((n, 4), 0.01)
    sides = []
    for mean, data in ((left, variance), (right, variance * np.exp(ratio)[:, None])):
        parts = {"model": Gaussian(mean, variance), "data": Gaussian(mean, data)}
        joined = Gaussian(mean, (variance + data) / 2)
        sides.append(Encoded(mean.astype(np.float32), parts, joined, np.full(n, 10.0)))
    return *sides, rng.uniform(size=n) < expit(6 * (cosine - 0.5) - told * (ratio - 1))


@pytest.fixture(scope="module")
def confidence(tiny):
    return MatchConfidence().fit(tiny, *drawn(600))


def test_the_features_of_a_pair_are_what_their_names_say():
    parts = {"data": Gaussian([[3.0, 4.0], [1.0, 0.0]], [[1.0, 1.0], [2.0, 6.0]])}
    sides = Encoded(np.array([[3.0, 4.0], [1.0, 0.0]], np.float32), parts, parts["data"], np.array([2.0, 8.0]))
    a, b = sides[[0]], sides[[1]]
    table = pair_features(a, b)
    assert table.names == names(["data"])
    assert dict(zip(table.names, table.values[0], strict=True)) == pytest.approx({
        "cosine": 0.6,  # 3 / (5 * 1)
        "mean cosine": 0.6,
        "length": np.log(16),
        "length difference": np.log(4),
        "distance": 6,  # means 2 + 4 apart, variances 1 + 5: alpha is 1
        "data total": np.log(10),
        "data ratio": np.log(4),
        "data product": np.log(9 * 2 + 16 * 6 + 1 * 1 + 0 * 1),
    })  # fmt: skip
    assert pair_features(b, a).values == pytest.approx(table.values)


def test_the_logistic_regression_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = (rng.uniform(size=300) < expit(x @ [1, -1, 0.5, 0])).astype(float)
    theirs = LogisticRegression(C=1 / 3, tol=1e-8).fit(x, y)
    ours = logistic(x, y, np.zeros(4), 3.0)
    assert ours == pytest.approx([*theirs.intercept_, *theirs.coef_[0]], abs=1e-4)


def test_few_labels_are_drawn_to_the_default_slope_and_many_are_not():
    a, b, y = drawn(3000)
    x, slopes = pair_features(a, b), []
    for n in (30, 3000):
        rows = np.arange(3000) < n
        fitted = fit(candidate("platt", x.names, n, slope=11.0), x[rows], y[rows].astype(float), strength=100.0)
        slopes.append(fitted.numbers[1] / fitted.spread[0])
    assert slopes[0] == pytest.approx(11.0, abs=1.5)
    assert slopes[1] < 6


def test_a_gain_by_the_distribution_is_found_where_there_is_one_and_only_there(tiny, confidence):
    report = confidence.report()
    assert (report.chosen, report.verdict) == ("logistic, with the distribution", "better")
    assert report.with_distribution.log_loss < report.without.log_loss
    assert report.low > 0
    assert all(text in str(report) for text in ("without the distribution", "gain in log-loss +"))
    nothing = MatchConfidence().fit(tiny, *drawn(200, told=0.0)).report()
    assert nothing.verdict != "better"


def test_probabilities_come_true(confidence):
    a, b, y = drawn(4000, seed=1)
    p = confidence.probability(a, b)
    assert calibration_error(np.maximum(p, 1 - p), (p > 0.5) == y) < 0.06  # 300 pairs fitted it
    assert confidence.probability(b, a) == pytest.approx(p)


def test_a_rule_keeps_its_promise_on_new_pairs(confidence):
    a, b, y = drawn(20_000, seed=2)
    p = confidence.probability(a, b)
    assert y[confidence.threshold(precision=0.8).accepts(p)].mean() >= 0.8
    assert confidence.threshold(recall=0.9).accepts(p)[y].mean() >= 0.9
    assert 1000 * (confidence.threshold(false_matches=50).accepts(p) & ~y).mean() <= 50


def test_none_and_the_reason_where_nothing_can_be_promised(tiny, confidence):
    with pytest.warns(NothingPromised, match=r"no precision of 0\.999 can be promised") as caught:
        assert confidence.threshold(precision=0.999) is None
    assert caught[0].message.labels_needed is None or caught[0].message.labels_needed > 600
    with pytest.raises(Sen2ProError, match="precision must be between 0 and 1"):
        confidence.threshold(precision=1.5)
    with pytest.raises(Sen2ProError, match="held_out=0"):
        MatchConfidence(held_out=0).fit(tiny, *drawn(60)).threshold(precision=0.9)


def test_grades_are_a_match_from_a_grade_on(tiny):
    a, b, y = drawn(60)
    grades = np.where(y, 4.2, 1.8)
    with pytest.raises(Sen2ProError, match="say from which grade on they are a match, for instance match_from=4"):
        MatchConfidence().fit(tiny, a, b, grades)
    assert MatchConfidence(match_from=4).fit(tiny, a, b, grades).report().positive == y.sum()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 0] * 5, "10 labelled pairs are too few: it takes at least 20"),
        ([1] * 30, "match for 30 pairs and no match for 0; it takes at least 4 of each kind"),
        ([0, 1, 2] * 10, "3 kinds"),
        ([1] * 28 + [0] * 2, "match for 28 pairs and no match for 2; it takes at least 4 of each kind"),
        (["yes", "no"] * 15, "labels must be numbers"),
        ([1, 0] * 14, "there are 30 pairs, but 28 labels"),
        ([float("nan"), 1] * 15, "labels must be numbers"),
    ],
)
def test_labels_that_cannot_teach_are_refused(tiny, labels, message):
    a, b, _ = drawn(10 if len(labels) == 10 else 30)
    with pytest.raises(Sen2ProError, match=message):
        MatchConfidence().fit(tiny, a, b, labels)


@pytest.mark.parametrize("settings", [{"held_out": 1.0}, {"held_out": "half"}, {"seed": 0.5}, {"match_from": "four"}])
def test_settings_that_make_no_sense_are_refused(tiny, settings):
    confidence = MatchConfidence(**settings)
    with pytest.raises(Sen2ProError, match=next(iter(settings))):
        confidence.fit(tiny, *drawn(30))
    for ask in (confidence.report, confidence.threshold, lambda: confidence.probability("a", "b")):
        with pytest.raises(Sen2ProError, match="MatchConfidence is not fitted yet; call fit"):
            ask()


def test_a_repeated_pair_is_counted_and_kept_on_one_side(tiny):
    first = [f"the {a} {b}" for a in WORDS[:6] for b in WORDS]
    second = [f"a {b} {a}" for a in WORDS[:6] for b in WORDS]
    labels = [i % 3 == 0 for i in range(72)]
    with pytest.warns(Sen2ProWarning, match="10 of 82 pairs are repeated"):
        found = MatchConfidence().fit(tiny, first + second[:10], second + first[:10], labels + labels[:10])
    assert found.report().repeated == 10
    assert len(found.state.testing.labels) == 36  # half of the 72 pairs that differ
    groups = np.r_[np.arange(72), np.arange(10)]
    for held in folds(np.array(labels + labels[:10], float), groups):
        assert not set(groups[held]) & set(groups[~held])


def test_sentences_or_encoded_ones_but_no_gaussians(tiny):
    first, second = ([f"the {w} {v}" for w in WORDS[:5] for v in WORDS] for _ in range(2))
    second = second[7:] + second[:7]
    found = MatchConfidence().fit(tiny, first, second, [i % 2 for i in range(60)])
    one = found.probability(first[0], second[0])
    assert isinstance(one, float)
    assert one == pytest.approx(found.probability(first[:1], second[:1])[0])
    assert one == pytest.approx(found.probability(tiny.estimate(first), tiny.estimate(second))[0], abs=1e-6)
    with pytest.raises(Sen2ProError, match="a Gaussian has no plain vector and no length"):
        found.probability(tiny.encode(first), tiny.encode(second))
    with pytest.raises(Sen2ProError, match="two lists of one length, not of 2 and 1"):
        found.probability(first[:2], second[:1])
    with pytest.raises(Sen2ProError, match="not one of each"):
        found.probability(tiny.estimate(first), second)


def test_a_saved_confidence_says_the_same(tiny, confidence, tmp_path):
    confidence.save(tmp_path / "kept")
    found = MatchConfidence.load(tmp_path / "kept", model=tiny)
    a, b, _ = drawn(20, seed=3)
    assert found.probability(a, b) == pytest.approx(confidence.probability(a, b), abs=0)
    assert found.state == confidence.state
    assert (found.match_from, found.held_out, found.seed) == (None, 0.5, 0)
    found.plot(tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").read_bytes()[:4] == b"\x89PNG"


def test_another_model_or_other_settings_are_named(bert, tokenizer, tiny, confidence, tmp_path):
    confidence.save(tmp_path / "kept")
    with pytest.raises(Sen2ProError, match="samples '4\\+4' when it was fitted, but '5\\+5' now"):
        MatchConfidence.load(tmp_path / "kept", model=Sen2Pro(bert, tokenizer=tokenizer, samples=5))
    with pytest.raises(Sen2ProError, match="hash"):
        MatchConfidence.load(tmp_path / "kept", Sen2Pro(method="one-pass"))


def wider(candidate):
    """Give a candidate a feature more; each has a weight, and its product with the cosine another one."""
    for name, more in (("features", ["new"]), ("centre", [0]), ("spread", [1]), ("numbers", [0, 0])):
        candidate[name] += more


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda kept: kept["level"].__setitem__(0, 9.0), "was changed or damaged since it was saved"),
        (lambda kept: kept.update(model="evil/model"), "a file may not set 'model'"),
        (lambda kept: (kept.pop("digest"), kept["candidate"]["numbers"].pop()), "do not belong together"),
        (lambda kept: (kept.pop("digest"), kept["testing"]["labels"].pop()), "one label for each score"),
        (lambda kept: kept["testing"]["labels"].__setitem__(0, 2), r"<= 1.*testing\.labels"),
        (lambda kept: kept.update(format=1), "saved by another version of sen2pro; fit the confidence again"),
        (lambda kept: (kept.pop("digest"), kept.update(level=[0, -1])), r"level\[1\]"),
        (lambda kept: (kept.pop("digest"), kept["testing"]["scores"].__setitem__(0, 2)), r"<= 1.*testing\.scores"),
        (lambda kept: (kept.pop("digest"), kept["testing"]["uncovered"].append(10**6)), "numbers of rows below"),
        (lambda kept: (kept.pop("digest"), wider(kept["candidate"])), "do not fit the 11 features of this model"),
        (lambda kept: kept["candidate"].update(shape="pickle"), "shape"),
    ],
)
def test_a_changed_folder_is_refused(tiny, confidence, tmp_path, change, message):
    confidence.save(tmp_path / "kept")
    path = tmp_path / "kept" / f"{MatchConfidence.FILE}.json"
    kept = json.loads(path.read_text())
    change(kept)
    path.write_text(json.dumps(kept))
    with pytest.raises(Sen2ProError, match=message):
        MatchConfidence.load(tmp_path / "kept", model=tiny)
    with pytest.raises(Sen2ProError, match="does not contain a MatchConfidence"):
        MatchConfidence.load(tmp_path, tiny)


def test_a_promise_is_for_pairs_that_the_head_knows_unless_asked_for(tiny):
    a, b, y = drawn(600)
    far = np.arange(600) % 3 == 0  # a third is unknown text, where labels are upside down
    sides = []
    for side in (a, b):
        joined = Gaussian(side.gaussian.mean, side.gaussian.variance, None, np.where(far, 0.0, 1.0))
        sides.append(Encoded(side.vectors, side.parts, joined, side.words))
    with pytest.warns(Sen2ProWarning, match="200 of 600 pairs have a sentence far from what the head was fitted on"):
        found = MatchConfidence().fit(tiny, *sides, np.where(far, ~y, y))
    known, all_pairs = (found.threshold(recall=0.8, uncovered=uncovered) for uncovered in (False, True))
    assert known.labels == 300 - len(found.state.testing.uncovered)
    assert all_pairs.labels == 300
    assert known.threshold > all_pairs.threshold


def test_a_pair_is_known_again_in_any_order_and_from_a_folder(tiny, tmp_path):
    first = [f"the {a} {b}" for a in WORDS[:6] for b in WORDS[:6]]
    second = [f"a {b} {a}" for a in WORDS[6:] for b in WORDS[:6]]
    found = MatchConfidence().fit(tiny, first, second, [i % 2 for i in range(36)])
    found.save(tmp_path / "kept")
    again = MatchConfidence.load(tmp_path / "kept", model=tiny)
    for each in (found, again):
        matches = each.match([second[0], first[0], "a dog"], [first[0], second[1], "a cat"], None)
        assert matches.fitted_on.tolist() == [True, False, False]
        assert matches.verdict == ["", "", ""]
        assert matches.probability == pytest.approx(
            each.probability([second[0], first[0], "a dog"], [first[0], second[1], "a cat"])
        )
    encoded = MatchConfidence().fit(tiny, *drawn(40))  # has no texts to know again
    assert encoded.match(first[0], second[0], None).fitted_on is None
