"""The classifier: what its heads minimise, scikit-learn's rules, saving, and every kind of bad input."""

import json
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from sen2pro import Gaussian, Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.choosing import folds
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Design, Weights, fit, probabilities
from sen2pro.errors import Sen2ProError

SPORT = ["the man plays the ball", "a woman runs in the park", "the dog runs slowly", "a man runs quickly"]
MONEY = ["the market fell today", "the price rose tomorrow", "the market rose and the price fell", "a big price today"]
TEXTS, LABELS = SPORT + MONEY, ["sport"] * 4 + ["money"] * 4


def gaussians(n=30, k=6, seed=0, gap=3.0):
    """Return two classes that differ in the first dimension, and their labels."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    mean = draw.normal(size=(n, k))
    mean[:, 0] += gap * labels
    return Gaussian(mean, draw.uniform(0.1, 1, (n, k))), labels


@pytest.fixture(scope="module")
def fitted(tiny):
    return Sen2ProClassifier(tiny).fit(TEXTS, LABELS)


# ---------------------------------------------------------------------------------------------------------- heads


def design(n=40, k=3, noise=0.5, seed=0):
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    features = draw.normal(size=(n, k)) + np.eye(3)[labels][:, :k] * 2
    return Design(features, np.full((n, k), noise)), labels


def test_without_noise_the_head_is_scikit_learns_logistic_regression():
    x, labels = design()
    ours = fit(Design(x.features, x.noise[:, :0]), labels, 3, "expected", C=0.7)
    theirs = LogisticRegression(C=0.7, tol=1e-8, max_iter=1000).fit(x.features, labels)
    centred = [w - w.mean(axis=0) for w in (ours.matrix, theirs.coef_)]  # a constant for all classes changes nothing
    assert centred[0] == pytest.approx(centred[1], abs=1e-3)


def test_the_closed_form_is_what_many_samples_give():
    x, labels = design(n=400, noise=0.1)
    expected = fit(x, labels, 3, "expected", C=1.0)
    sampled = fit(x, labels, 3, "sampled", C=1.0)
    plain = fit(Design(x.features, x.noise[:, :0]), labels, 3, "expected", C=1.0)
    distance = [np.linalg.norm(w.matrix - sampled.matrix) / np.linalg.norm(sampled.matrix) for w in (expected, plain)]
    assert distance[0] < 0.05 < 0.1 < distance[1]


def test_full_covariances_that_are_diagonal_give_what_variances_give():
    x, labels = design(noise=0.3)
    roots = np.sqrt(0.3) * np.eye(3)[None].repeat(40, axis=0)
    full = Design(x.features, roots)
    by_variance, by_roots = (fit(each, labels, 3, "expected", C=1.0) for each in (x, full))
    assert by_roots.matrix == pytest.approx(by_variance.matrix, abs=1e-4)
    assert probabilities(full, by_variance) == pytest.approx(probabilities(x, by_variance), abs=1e-6)


def test_noise_in_a_dimension_makes_the_head_rely_on_it_less():
    draw = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = np.repeat(labels[:, None] * 2.0, 2, axis=1) + draw.normal(size=(60, 2)) * 0.5
    noise = np.array([[0.0, 4.0]]).repeat(60, axis=0)
    weights = fit(Design(features, noise), labels, 2, "expected", C=10.0).matrix
    contrast = np.abs(weights[1] - weights[0])
    assert contrast[1] < 0.3 * contrast[0]


def test_probabilities_are_averaged_over_the_distribution():
    # Two classes, z = (0, x), x ~ N(1, 4): E sigmoid(x) by numerical integration.
    grid = np.linspace(-30, 30, 200001)
    density = np.exp(-((grid - 1) ** 2) / 8) / math.sqrt(8 * math.pi)
    by_integral = np.trapezoid(density / (1 + np.exp(-grid)), grid)
    weights = Weights(np.array([[0.0], [1.0]]), np.zeros(2))
    found = probabilities(Design(np.array([[1.0]]), np.array([[4.0]])), weights)
    assert found[0, 1] == pytest.approx(by_integral, abs=0.01)
    assert found[0, 1] < 1 / (1 + math.exp(-1)) - 0.05  # what the centre alone would say
    assert found.sum() == pytest.approx(1)


def test_features_are_centred_and_each_block_has_one_scale():
    gaussian, _ = gaussians()
    scaling = Scaling.fit(gaussian, "mean+variance")
    found = scaling(gaussian)
    assert found.features.shape == (30, 12)
    assert found.features.mean(axis=0) == pytest.approx(np.zeros(12), abs=1e-6)
    assert np.square(found.features[:, :6]).mean() == pytest.approx(1, rel=1e-5)
    assert np.square(found.features[:, 6:]).mean() == pytest.approx(0.09, rel=1e-5)  # 0.3 squared
    assert found.noise == pytest.approx(gaussian.variance / scaling.mean_scale**2, rel=1e-5)


def test_constant_features_do_not_divide_by_zero():
    same = Gaussian(np.ones((4, 2)), np.zeros((4, 2)))
    assert np.isfinite(Scaling.fit(same, "mean+variance")(same).features).all()


def test_folds_keep_every_class_on_both_sides():
    gaussian, _ = gaussians(n=11)
    labels = np.array([0] * 8 + [1] * 3)
    parts = folds(gaussian, labels, seed=0)
    assert len(parts) == 3  # no more than the rarest class has
    assert sum(len(part.held_out_labels) for part in parts) == 11
    for part in parts:
        assert set(part.train_labels) == set(part.held_out_labels) == {0, 1}


# ------------------------------------------------------------------------------------------------------ classifier


def test_learns_from_a_few_sentences(minilm):
    sport = ["The match ended in a draw.", "She won the final set.", "Their striker scored twice."]
    money = ["Shares fell on Monday.", "The bank raised its rates.", "Profits rose this quarter."]
    classifier = Sen2ProClassifier().fit(sport + money, ["sport"] * 3 + ["money"] * 3)
    assert classifier.encoder.method == "one-pass"  # the default model has a head
    assert classifier.classes_.tolist() == ["money", "sport"]
    found = classifier.predict(["The goalkeeper was injured.", "Investors sold their stocks."])
    assert found.tolist() == ["sport", "money"]


def test_a_model_without_a_head_is_sampled(tiny_folder):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS)
    assert classifier.encoder.method == "sampling"
    assert classifier.encoder.samples == {"model": 3, "data": 3}


def test_learns_from_ready_made_gaussians():
    train, labels = gaussians()
    test, truth = gaussians(seed=1, n=200)
    classifier = Sen2ProClassifier().fit(train, labels)
    assert classifier.score(test, truth) > 0.85  # a gap of 3 standard deviations: 93 % at best
    assert classifier.n_features_in_ == 6
    assert classifier.predict_proba(test).sum(axis=1) == pytest.approx(np.ones(200))


def test_a_prediction_does_not_depend_on_its_neighbours(fitted):
    alone = np.concatenate([fitted.predict_proba([text]) for text in TEXTS])
    assert fitted.predict_proba(TEXTS) == pytest.approx(alone, abs=1e-5)


def test_the_same_seed_gives_the_same_classifier():
    train, labels = gaussians()
    first, second = (Sen2ProClassifier(head="sampled", seed=3).fit(train, labels) for _ in range(2))
    assert np.array_equal(first.weights_.matrix, second.weights_.matrix)
    other = Sen2ProClassifier(head="sampled", seed=4, C=first.choice_.C).fit(train, labels)
    assert not np.array_equal(first.weights_.matrix, other.weights_.matrix)


def test_six_rows_without_an_error_do_not_call_for_certainty():
    train, labels = gaussians(n=6, gap=20.0)
    classifier = Sen2ProClassifier().fit(train, labels)
    assert classifier.score(train, labels) == 1
    assert classifier.predict_proba(train).max() < 0.9999


def test_settings_can_be_chosen_on_a_validation_set():
    train, labels = gaussians(n=10, gap=1.0)
    large = gaussians(n=500, gap=1.0, seed=1)
    test, truth = gaussians(n=2000, gap=1.0, seed=2)
    by_folds = Sen2ProClassifier().fit(train, labels)
    by_validation = Sen2ProClassifier().fit(train, labels, validation=large)
    losses = [
        -np.log(c.predict_proba(test)[np.arange(2000), truth]).mean() for c in (by_validation, by_folds)
    ]  # fmt: skip
    assert losses[0] <= losses[1]
    single = Sen2ProClassifier().fit(train[:3], [0, 1, 1], validation=large)
    assert single.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("labels", [[True, False] * 4, [3, 7] * 4, ["a", "b"] * 4, np.array([1.0, 2.0] * 4)])
def test_labels_come_back_as_they_were_given(labels):
    train, _ = gaussians(n=8)
    found = Sen2ProClassifier().fit(train, labels).predict(train)
    assert set(found.tolist()) <= set(np.array(labels).tolist())


# ---------------------------------------------------------------------------------------------------- scikit-learn

CHECKS = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_mixin_order,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_scikit_learns_checks_that_need_no_numbers_pass(check):
    check("Sen2ProClassifier", Sen2ProClassifier())


def test_a_clone_shares_the_encoder_and_forgets_what_was_learnt(fitted):
    copy = clone(fitted)
    assert copy.model is fitted.model
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)


def test_works_in_pipelines_and_searches(tiny):
    classifier = Sen2ProClassifier(tiny, features="mean", head="expected")
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), classifier)
    assert pipeline.fit([text.upper() for text in TEXTS], LABELS).score(TEXTS, LABELS) > 0.5
    search = GridSearchCV(classifier, {"C": [0.01, 1.0]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["C"] in (0.01, 1.0)


def test_gaussians_can_be_cross_validated():
    train, labels = gaussians()
    assert cross_val_score(Sen2ProClassifier(), train, labels, cv=3).mean() > 0.8


def test_a_pickle_leaves_the_encoder_behind_and_loads_it_again(tiny_folder):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS)
    frozen = pickle.dumps(classifier)
    assert len(frozen) < 50_000
    assert pickle.loads(frozen).predict_proba(TEXTS) == pytest.approx(classifier.predict_proba(TEXTS), abs=1e-6)
    by_object = Sen2ProClassifier(Sen2Pro(str(tiny_folder), samples=3)).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(by_object))
    assert again.predict_proba(TEXTS) == pytest.approx(by_object.predict_proba(TEXTS), abs=1e-6)


# ---------------------------------------------------------------------------------------------------------- saving


def test_saved_and_loaded_it_predicts_the_same(tiny_folder, tmp_path):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=(3, 4)).fit(TEXTS, LABELS)
    classifier.save(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".safetensors"}
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.get_params() == classifier.get_params()
    assert np.array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    assert loaded.predict(TEXTS).dtype == classifier.predict(TEXTS).dtype


def test_the_encoder_may_have_moved(tiny_folder, tmp_path):
    Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS).save(tmp_path / "saved")
    moved = tiny_folder.rename(tmp_path / "moved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=str(moved))
    assert loaded.predict(TEXTS).shape == (8,)


def test_changed_contents_are_refused(fitted, tmp_path):
    from safetensors.numpy import load_file, save_file

    fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.safetensors"
    tensors = load_file(path)
    tensors["bias"][0] += 1e-9
    save_file(tensors, path)
    with pytest.raises(Sen2ProError, match="changed since it was saved"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_other_formats_and_other_folders_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="not an empty folder"):
        fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.json"
    config = json.loads(path.read_text())
    config["classes"].reverse()
    path.write_text(json.dumps(config))
    with pytest.raises(Sen2ProError, match="changed since it was saved"):
        Sen2ProClassifier.load(tmp_path / "saved")
    path.write_text(json.dumps({**config, "format": 99, "version": "7.0"}))
    with pytest.raises(Sen2ProError, match="format 99.*install sen2pro 7.0"):
        Sen2ProClassifier.load(tmp_path / "saved")
    path.write_text("not JSON")
    with pytest.raises(Sen2ProError, match="cannot be read"):
        Sen2ProClassifier.load(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="there is no classifier in"):
        Sen2ProClassifier.load(tmp_path / "nowhere")


def test_an_unfitted_classifier_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        Sen2ProClassifier().save(tmp_path / "saved")


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 8, "all 8 labels are 'a'; it takes at least two classes"),
        (["a"] * 7 + ["b"], "class 'b' has one example"),
        (["a", "b"] * 3, "8 sentences but 6 labels"),
        (["a", "b", None] + ["a"] * 5, "row 2 has no label"),
        ([1.0, math.nan] * 4, "row 1 has no label"),
        (["a", " "] * 4, "row 1 has no label"),
        (["a", "a", 1, "b"] * 2, "mixed types: row 0 has text 'a', row 2 has whole number 1"),
        ([0.5, 1.5] * 4, "row 0 has a float as its label"),
        ([["a"], ["b"]] * 4, "row 0 has a list as its label"),
        (np.zeros((8, 2)), "not of shape \\(8, 2\\)"),
        ("abababab", "not str"),
        (None, "not NoneType"),
    ],
)
def test_wrong_labels_are_named(tiny, labels, message):
    with pytest.raises(Sen2ProError, match=message):
        Sen2ProClassifier(tiny).fit(TEXTS, labels)


def test_an_empty_sentence_is_named_with_its_row(tiny, fitted):
    with pytest.raises(Sen2ProError, match="sentence 2 is empty"):
        Sen2ProClassifier(tiny).fit([*TEXTS[:2], " ", *TEXTS[3:]], LABELS)
    with pytest.raises(Sen2ProError, match="sentence 1 is empty"):
        fitted.predict(["a man", ""])


def test_one_text_is_not_a_list_of_sentences(tiny, fitted):
    with pytest.raises(Sen2ProError, match="give a list of sentences"):
        fitted.predict("the man runs")
    with pytest.raises(Sen2ProError, match="give a list of sentences"):
        Sen2ProClassifier(tiny).fit("the man runs", ["a"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "means"}, "did you mean 'mean'"),
        ({"head": "samples"}, "did you mean 'sampled'"),
        ({"method": "onepass"}, "did you mean 'one-pass'"),
        ({"C": -1}, "C must be a number above 0"),
        ({"model": 3}, "not int"),
    ],
)
def test_wrong_settings_are_named_when_fitting(settings, message):
    with pytest.raises(Sen2ProError, match=message):
        Sen2ProClassifier(**settings).fit(TEXTS, LABELS)


def test_a_validation_label_that_was_never_trained_on_is_named():
    train, labels = gaussians()
    with pytest.raises(Sen2ProError, match="validation label 2 of row 0 was never seen in training; the classes"):
        Sen2ProClassifier().fit(train, labels, validation=(train[:1], [2]))


def test_gaussians_of_another_kind_are_refused(fitted):
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    with pytest.raises(Sen2ProError, match="of 6 dimensions, but these have 4"):
        classifier.predict(gaussians(k=4)[0])
    with pytest.raises(Sen2ProError, match="not a single one"):
        classifier.predict(train[0])
    one_sided = Sen2Pro(fitted.model.encoder.source, tokenizer=fitted.model.encoder.tokenizer, uncertainty="data")
    with pytest.raises(Sen2ProError, match="uncertainty 'both' against 'data'"):
        fitted.predict(one_sided.encode(TEXTS))
