"""The classifier: what its heads minimise, scikit-learn's rules, saving, and every kind of bad input."""

import copy
import json
import math
import os
import pickle
import shutil
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_array, check_is_fitted

from sen2pro import Gaussian, Sen2Pro
from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.classification import classifier as classifier_module
from sen2pro.classification.choosing import Choice, _judged, _simplest, _Trial, folds
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Design, Weights, expected_loss, fit, probabilities
from sen2pro.classification.loading import load_encoder, recipe
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
def fitted(shared_folder):
    return Sen2ProClassifier(Sen2Pro(str(shared_folder), samples=4)).fit(TEXTS, LABELS)


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


@pytest.mark.parametrize("kind", ["none", "variances", "roots"])
def test_the_gradient_is_that_of_finite_differences(kind):
    draw = np.random.default_rng(1)
    noise = {"none": (7, 0), "variances": (7, 3), "roots": (7, 2, 3)}[kind]
    x = Design(draw.normal(size=(7, 4)), np.abs(draw.normal(size=noise)))
    labels, weights = np.arange(7) % 3, draw.normal(size=(3, 5))
    _, gradient = expected_loss(x, labels, weights)
    steps = 1e-5 * np.eye(15).reshape(15, 3, 5)
    slopes = [
        (expected_loss(x, labels, weights + h)[0] - expected_loss(x, labels, weights - h)[0]) / 2e-5 for h in steps
    ]
    assert gradient.ravel() == pytest.approx(np.array(slopes), abs=1e-8)


def test_samples_of_full_covariances_are_those_of_variances_where_they_are_diagonal():
    x, labels = design(n=300, noise=0.3)
    full = Design(x.features, np.sqrt(0.3) * np.eye(3)[None].repeat(300, axis=0))
    by_variance, by_roots = (fit(each, labels, 3, "sampled", C=1.0) for each in (x, full))
    assert by_roots.matrix == pytest.approx(by_variance.matrix, abs=1e-4)


def isotropic(classes=20, n=30):
    """Return logits whose covariances have all their eigenvalues in common."""
    draw = np.random.default_rng(0)
    orthogonal = np.linalg.qr(draw.normal(size=(classes, classes)))[0]
    return Design(draw.normal(size=(n, classes)), np.ones((n, classes))), Weights(3 * orthogonal, np.zeros(classes))


def test_a_row_is_predicted_the_same_alone_and_among_others():
    x, weights = isotropic()
    together = probabilities(x, weights)
    alone = np.concatenate([probabilities(x[np.array([i])], weights) for i in range(len(x))])
    assert together == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("noisy", [1, 20])
def test_a_prediction_changes_by_little_where_the_noise_does(noisy):
    x, weights = isotropic()
    before = Design(x.features, x.noise[:, :noisy])
    after = Design(x.features, before.noise * (1 + 1e-8 * np.random.default_rng(1).normal(size=(30, noisy))))
    assert probabilities(after, weights) == pytest.approx(probabilities(before, weights), abs=1e-6)


def test_many_classes_do_not_fill_the_memory():
    draw = np.random.default_rng(0)
    x = Design(draw.normal(size=(1000, 8)), np.ones((1000, 8)))
    weights = Weights(draw.normal(size=(80, 8)), np.zeros(80))
    tracemalloc.start()
    _judged(x, np.arange(1000) % 80, weights, doubt=0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # one number for each factor, row and class are 16 MB


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


def trial(name, losses):
    return _Trial(Choice(name, "expected", 1.0, 1.0, float(np.mean(losses)), 1.0), np.array(losses))


def test_the_simplest_within_a_standard_error_of_the_best_is_taken():
    simple = trial("mean", [1.0, 0.0, 1.0, 0.0])
    assert _simplest([simple, trial("mean+variance", [0.0, 0.9, 0.0, 0.9])]) is simple
    clear = trial("mean+variance", [0.4, -0.6, 0.5, -0.5])
    assert _simplest([simple, clear]) is clear


def test_rounding_is_no_gain():
    simple = trial("mean", [1.0, 1.0])
    assert _simplest([simple, trial("mean+variance", [1 - 2e-16, 1 - 2e-16])]) is simple


# ------------------------------------------------------------------------------------------------------ classifier


def test_learns_from_a_few_sentences(minilm):
    sport = ["The match ended in a draw.", "She won the final set.", "Their striker scored twice."]
    money = ["Shares fell on Monday.", "The bank raised its rates.", "Profits rose this quarter."]
    classifier = Sen2ProClassifier().fit(sport + money, ["sport"] * 3 + ["money"] * 3)
    assert classifier.encoder.method == "one-pass"  # the default model has a head
    assert classifier.classes_.tolist() == ["money", "sport"]
    found = classifier.predict(["The goalkeeper was injured.", "Investors sold their stocks."])
    assert found.tolist() == ["sport", "money"]
    assert recipe(classifier.encoder)["model"] == "all-MiniLM-L6-v2"  # and not where it is on this machine


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


def test_many_rows_are_predicted_a_part_at_a_time():
    train, labels = gaussians(k=200)
    classifier = Sen2ProClassifier(C=1.0, features="mean", head="expected").fit(train, labels)
    many, truth = gaussians(n=10_000, k=200)
    tracemalloc.start()
    found = classifier.predict_proba(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # means and variances in double precision are 32 MB
    ends = np.r_[:3, 2046:2050, 9997:10_000]
    assert found[ends] == pytest.approx(classifier.predict_proba(many[ends]), abs=1e-9)
    assert (found.argmax(axis=1) == truth).mean() > 0.7


def test_the_same_seed_gives_the_same_classifier():
    train, labels = gaussians()
    first, second = (Sen2ProClassifier(head="sampled", seed=3).fit(train, labels) for _ in range(2))
    assert np.array_equal(first.weights_.matrix, second.weights_.matrix)
    other = Sen2ProClassifier(head="sampled", seed=4, C=first.choice_.C).fit(train, labels)
    assert not np.array_equal(first.weights_.matrix, other.weights_.matrix)


def test_the_weights_are_those_of_the_chosen_setting_times_its_temperature():
    train, labels = gaussians()
    classifier = Sen2ProClassifier(C=0.001, head="expected").fit(train, labels)
    choice = classifier.choice_
    assert choice.temperature > 2
    plain = fit(Scaling.fit(train, choice.features)(train), labels, 2, choice.head, choice.C)
    assert classifier.weights_.matrix == pytest.approx(choice.temperature * plain.matrix)
    assert classifier.weights_.bias == pytest.approx(choice.temperature * plain.bias)


def test_the_choice_says_how_many_held_out_rows_were_right():
    train, labels = gaussians(gap=1.0)
    held_out = gaussians(n=400, gap=1.0, seed=1)
    classifier = Sen2ProClassifier().fit(train, labels, validation=held_out)
    assert classifier.choice_.accuracy == pytest.approx(classifier.score(*held_out), abs=0.01)
    assert 0.5 < classifier.choice_.accuracy < 0.9


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
    found = Sen2ProClassifier(C=1.0).fit(train, labels).predict(train)
    assert found.dtype == np.array(labels).dtype
    assert set(found.tolist()) == set(np.array(labels).tolist())


def test_a_fit_that_fails_leaves_the_classifier_as_it_was():
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    before = classifier.predict(train)
    with pytest.raises(Sen2ProError, match="the validation set has 4 features"):
        classifier.fit(train, np.where(labels == 0, "a", "b"), validation=(gaussians(k=4)[0], ["a", "b"] * 15))
    assert np.array_equal(classifier.predict(train), before)


def test_a_score_counts_right_answers_and_refuses_labels_never_trained_on():
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    right = classifier.predict(train) == labels
    assert not right.all()
    assert classifier.score(train, labels) == right.mean()
    assert classifier.score(train, labels, sample_weight=~right) == 0
    with pytest.raises(Sen2ProError, match="label 2 of row 29 was never seen in training"):
        classifier.score(train, [*labels[:-1], 2])
    with pytest.raises(Sen2ProError, match="no sentences to judge by"):
        classifier.score(train[:0], [])


def test_a_fitted_classifier_keeps_to_the_settings_it_was_fitted_with(tiny_folder, tmp_path):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3, C=1.0).fit(TEXTS, LABELS)
    before = classifier.predict_proba(TEXTS)
    classifier.set_params(samples=2, model="nowhere", C=2.0)
    assert np.array_equal(classifier.predict_proba(TEXTS), before)
    classifier.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert np.array_equal(loaded.predict_proba(TEXTS), before)
    assert (loaded.samples, loaded.C) == (3, 1.0)
    with pytest.raises(Sen2ProError, match="settings were changed \\(finetune\\) .* fit again"):
        loaded.set_params(finetune=True).predict(TEXTS)


# ---------------------------------------------------------------------------------------------------- scikit-learn


class OnArrays(Sen2ProClassifier):
    """Takes the numbers that scikit-learn's checks are made of."""

    def fit(self, X, y):
        return super().fit(self.gaussian(X), y)

    def predict_proba(self, X, **options):
        check_is_fitted(self)
        return super().predict_proba(self.gaussian(X), **options)

    def score(self, X, y):
        return super().score(self.gaussian(X), y)

    def gaussian(self, X):
        if isinstance(X, Gaussian):
            return X
        mean = check_array(X, estimator=self)
        return Gaussian(mean, np.full(mean.shape, 0.01))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        return tags


@estimator_checks.parametrize_with_checks([OnArrays(C=1.0, features="mean", head="expected")])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_a_clone_shares_the_encoder_and_forgets_what_was_learnt(fitted):
    cloned = clone(fitted)
    assert cloned.model is fitted.model
    assert cloned.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        cloned.predict(TEXTS)


def test_works_in_pipelines_and_searches(tiny):
    classifier = Sen2ProClassifier(tiny, features="mean", head="expected")
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), classifier)
    assert pipeline.fit([text.upper() for text in TEXTS], LABELS).score(TEXTS, LABELS) > 0.5
    search = GridSearchCV(classifier, {"C": [1e-30, 1.0]}, cv=2, scoring="neg_log_loss").fit(TEXTS, LABELS)
    assert search.best_params_["C"] == 1.0  # the other can only guess


def test_gaussians_can_be_cross_validated():
    train, labels = gaussians()
    assert cross_val_score(Sen2ProClassifier(), train, labels, cv=3).mean() > 0.8


OWN = {"samples": 3, "seed": 7, "pooling": "cls", "dropout": 0.3, "combine": "unified", "normalize": False,
       "vocabulary": ["market", "rain"]}  # fmt: skip


def test_a_pickle_leaves_the_encoder_behind_and_loads_it_again(tiny_folder):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3, seed=5).fit(TEXTS, LABELS)
    frozen = pickle.dumps(classifier)
    assert len(frozen) < 50_000
    assert np.array_equal(pickle.loads(frozen).predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_a_pickle_makes_a_model_again_with_all_its_settings(tiny_folder):
    model = Sen2Pro(str(tiny_folder), **OWN)
    unfitted = pickle.loads(pickle.dumps(Sen2ProClassifier(model, C=1.0)))
    assert unfitted.encoder.signature() == model.signature()
    fitted = Sen2ProClassifier(model, C=1.0).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.encoder is again.model  # made once
    assert np.array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_what_is_only_in_memory_cannot_be_pickled_or_saved(tiny, shared_folder, tmp_path):
    in_memory = Sen2ProClassifier(tiny, C=1.0).fit(TEXTS, LABELS)
    with pytest.raises(Sen2ProError, match="its network is in memory.*model.save\\(folder\\)"):
        pickle.dumps(in_memory)
    with pytest.raises(Sen2ProError, match="its network is in memory.*Sen2Pro.load\\(folder\\)"):
        in_memory.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    white = Sen2Pro(str(shared_folder), samples=3).fit_whitening(TEXTS, dim=2)
    with pytest.raises(Sen2ProError, match="its whitening is not in its folder"):
        pickle.dumps(Sen2ProClassifier(white))
    headed = Sen2Pro(str(shared_folder))
    headed.method, headed._head = "one-pass", object()
    with pytest.raises(Sen2ProError, match="its head is neither in its folder nor"):
        pickle.dumps(Sen2ProClassifier(headed))


def test_a_model_that_was_saved_can_be_pickled_whole(shared_folder, tmp_path):
    Sen2Pro(str(shared_folder), **{**OWN, "normalize": True}).fit_whitening(TEXTS, dim=2).save(tmp_path / "model")
    model = Sen2Pro.load(tmp_path / "model")
    again = pickle.loads(pickle.dumps(Sen2ProClassifier(model))).encoder
    assert again.signature() == model.signature()
    assert again.signature().whitening != "no"
    plain = Sen2Pro.load(tmp_path / "model", whitening=False)
    assert pickle.loads(pickle.dumps(Sen2ProClassifier(plain))).encoder.signature() == plain.signature()


def test_copies_share_the_encoder_and_nothing_that_is_learnt(tiny):
    classifier = Sen2ProClassifier(tiny, C=1.0).fit(TEXTS, LABELS)
    for copied in (copy.copy(classifier), copy.deepcopy(classifier)):
        assert copied.encoder is tiny
        assert np.array_equal(copied.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    copied.weights_.bias[0] += 1
    assert copied.weights_.bias[0] != classifier.weights_.bias[0]


def test_clones_load_the_encoder_once_and_another_one_for_other_settings(shared_folder, monkeypatch):
    loaded = []
    monkeypatch.setattr(classifier_module, "load_encoder", lambda *how: loaded.append(how) or load_encoder(*how))
    classifier = Sen2ProClassifier(str(shared_folder), samples=3, C=1.0, features="mean", head="expected")
    cross_val_score(classifier, TEXTS, LABELS, cv=2)
    classifier.fit(TEXTS, LABELS)
    assert len(loaded) == 1
    other = clone(classifier).set_params(samples=2)
    assert other.encoder.samples == {"model": 2, "data": 2}
    assert classifier.encoder.samples == {"model": 3, "data": 3}
    assert len(loaded) == 2


# ---------------------------------------------------------------------------------------------------------- saving


def test_saved_and_loaded_it_predicts_the_same(tiny_folder, tmp_path):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=(3, 4)).fit(TEXTS, LABELS)
    classifier.save(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".safetensors"}
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.get_params() == classifier.get_params()
    assert np.array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    assert loaded.predict(TEXTS).dtype == classifier.predict(TEXTS).dtype


def test_a_model_is_saved_with_all_its_settings_and_may_have_moved(tiny_folder, tmp_path):
    model = Sen2Pro(str(tiny_folder), **OWN)
    classifier = Sen2ProClassifier(model, C=1.0).fit(TEXTS, LABELS)
    before = classifier.predict_proba(TEXTS)
    classifier.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.encoder.signature() == model.signature()
    assert np.array_equal(loaded.predict_proba(TEXTS), before)
    moved = tiny_folder.rename(tmp_path / "moved")
    with pytest.raises(Sen2ProError, match="no model"):
        Sen2ProClassifier.load(tmp_path / "saved")
    for place in (str(moved), Sen2Pro(str(moved), **OWN)):
        assert np.array_equal(Sen2ProClassifier.load(tmp_path / "saved", model=place).predict_proba(TEXTS), before)


def test_the_encoder_may_have_moved(tiny_folder, tmp_path):
    Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS).save(tmp_path / "saved")
    moved = tiny_folder.rename(tmp_path / "moved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=str(moved))
    assert loaded.predict(TEXTS).shape == (8,)


def test_a_folder_is_found_from_elsewhere(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny_folder.parent)
    (tmp_path / "a-hub-id").mkdir()
    for name in (tiny_folder.name, "a-hub-id"):
        Sen2ProClassifier(name, C=1.0).fit(*gaussians(k=32)).save(tmp_path / f"saved-{name}")
    monkeypatch.chdir("/")
    loaded = Sen2ProClassifier.load(tmp_path / f"saved-{tiny_folder.name}")
    assert loaded.predict(TEXTS).shape == (8,)
    assert Sen2ProClassifier.load(tmp_path / "saved-a-hub-id").model == "a-hub-id"  # an empty folder is none


def test_numbers_of_numpy_are_saved_as_plain_ones(tmp_path):
    settings = {"seed": np.int64(3), "samples": (np.int64(3), np.int32(4)), "C": np.float32(0.5)}
    Sen2ProClassifier(**settings).fit(*gaussians()).save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved").get_params()
    assert {name: loaded[name] for name in settings} == {"seed": 3, "samples": (3, 4), "C": 0.5}
    assert type(loaded["seed"]) is int


def test_others_may_read_what_was_saved(fitted, tmp_path):
    before = os.umask(0o022)
    try:
        fitted.save(tmp_path / "saved")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "saved").iterdir()} == {0o644}


@pytest.fixture(scope="module")
def tuned(tiny):
    settings = FineTuning(epochs=1, batch_size=16, checkpoints=None)
    return Sen2ProClassifier(tiny, method="sampling", finetune=settings).fit(TEXTS, LABELS, show_progress_bar=False)


def test_fine_tuning_is_saved_with_its_settings_but_for_the_checkpoints(tuned, tmp_path):
    copied = copy.copy(tuned)
    copied.settings_ = {**tuned.settings_, "finetune": replace(tuned.finetune, checkpoints=str(tmp_path))}
    copied.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.finetune == tuned.finetune
    assert np.array_equal(loaded.predict_proba(TEXTS), tuned.predict_proba(TEXTS))
    assert all(path.stat().st_mode & 0o044 for path in (tmp_path / "saved").rglob("*.safetensors"))
    with pytest.raises(Sen2ProError, match="has an encoder of its own, fine-tuned; leave the model out"):
        Sen2ProClassifier.load(tmp_path / "saved", model="all-MiniLM-L6-v2")


def test_a_fine_tuned_encoder_that_was_changed_is_refused(tuned, tmp_path):
    tuned.save(tmp_path / "saved")
    path = tmp_path / "saved" / "encoder" / "config.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(Sen2ProError, match="changed since it was saved: encoder/config.json does not have the hash"):
        Sen2ProClassifier.load(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved" / "encoder")
    with pytest.raises(Sen2ProError, match="is incomplete: its folder encoder is missing; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_a_fine_tuned_encoder_is_not_pickled(tuned):
    with pytest.raises(Sen2ProError, match="does not travel in a pickle; use save and load"):
        pickle.dumps(tuned)
    assert copy.deepcopy(tuned).encoder is tuned.encoder


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
    for wrong in ("not JSON", "[1, 2]", "3"):
        path.write_text(wrong)
        with pytest.raises(Sen2ProError, match="cannot be read"):
            Sen2ProClassifier.load(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="there is no classifier in"):
        Sen2ProClassifier.load(tmp_path / "nowhere")


def test_numbers_that_are_missing_or_broken_are_said_to_be(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(Sen2ProError, match="cannot be read: .*; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")
    path.unlink()
    with pytest.raises(Sen2ProError, match="there is no classifier in .*: sen2pro_classifier.safetensors is missing"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_an_unfitted_classifier_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        Sen2ProClassifier().save(tmp_path / "saved")


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 8, "all 8 labels are 'a': one class; it takes at least two"),
        (["a"] * 7 + ["b"], "class 'b' has one example"),
        (["a", "b"] * 3, "8 sentences but 6 labels"),
        (["a", "b", None] + ["a"] * 5, "row 2 has no label"),
        ([1.0, math.nan] * 4, "row 1 has no label"),
        (["a", " "] * 4, "row 1 has no label"),
        ([np.zeros(3)] * 8, "row 0 has a ndarray as its label"),
        ([list(range(1000))] * 8, "row 0 has a list as its label \\(\\[0, 1, 2, 3, 4, 5, ...\\]\\)"),
        (["a", "a", 1, "b"] * 2, "mixed types: row 0 has text 'a', row 2 has whole number 1"),
        ([0.5, 1.5] * 4, "row 0 has a float as its label"),
        ([["a"], ["b"]] * 4, "row 0 has a list as its label"),
        (np.zeros((8, 2)), "not of shape \\(8, 2\\)"),
        ("abababab", "not str"),
        (None, "give a label for each sentence"),
    ],
)
def test_wrong_labels_are_named(tiny, labels, message):
    with pytest.raises(Sen2ProError, match=message):
        Sen2ProClassifier(tiny).fit(TEXTS, labels)


def test_a_label_that_is_missing_in_a_table_is_named(tiny):
    pandas = pytest.importorskip("pandas")
    for labels in (["a", pandas.NA] * 4, pandas.Series([1, None] * 4, dtype="Int64"), pandas.Series(["a", None] * 4)):
        with pytest.raises(Sen2ProError, match="row 1 has no label"):
            Sen2ProClassifier(tiny).fit(TEXTS, labels)


def test_an_empty_sentence_is_named_with_its_row(tiny, fitted):
    with pytest.raises(Sen2ProError, match="sentence 2 is empty or blank: ' '; leave the row out"):
        Sen2ProClassifier(tiny).fit([*TEXTS[:2], " ", *TEXTS[3:]], LABELS)
    with pytest.raises(Sen2ProError, match="sentence 1 is empty"):
        fitted.predict(["a man", ""])


def test_one_text_is_not_a_list_of_sentences(tiny, fitted):
    for text in ("the man runs", np.array("the man runs")):
        with pytest.raises(Sen2ProError, match="give a list of sentences"):
            fitted.predict(text)
        with pytest.raises(Sen2ProError, match="give a list of sentences"):
            Sen2ProClassifier(tiny).fit(text, ["a"])


def test_a_table_is_not_a_list_of_sentences(tiny, fitted):
    pandas = pytest.importorskip("pandas")
    for table in (pandas.DataFrame({"text": TEXTS}), {"text": TEXTS}):
        with pytest.raises(Sen2ProError, match="give one column, for instance frame\\['text'\\], not a whole"):
            fitted.predict(table)
        with pytest.raises(Sen2ProError, match="give one column"):
            Sen2ProClassifier(tiny).fit(table, LABELS)
        with pytest.raises(Sen2ProError, match="give one column"):
            Sen2ProClassifier(tiny, finetune=True).fit(table, LABELS)
    assert fitted.predict(pandas.Series(TEXTS)).tolist() == fitted.predict(TEXTS).tolist()


def test_vectors_and_lists_of_gaussians_are_not_sentences():
    train, labels = gaussians(k=384)
    with pytest.raises(Sen2ProError, match="sentence 0 is not a text but list: .*itself, not its means") as raised:
        Sen2ProClassifier().fit(train.mean, labels)
    assert len(str(raised.value)) < 300
    with pytest.raises(Sen2ProError, match="Gaussian.concatenate"):
        Sen2ProClassifier().fit(list(train), labels)


def test_nothing_cannot_be_learnt_from(tiny):
    for nothing in ([], gaussians()[0][:0]):
        with pytest.raises(Sen2ProError, match="there are no sentences to learn from"):
            Sen2ProClassifier(tiny).fit(nothing, [])


def test_a_validation_set_that_cannot_be_is_refused(tiny):
    train, labels = gaussians()
    for wrong in (["a", "b"], TEXTS, train):
        with pytest.raises(Sen2ProError, match="validation is a pair \\(sentences, labels\\)"):
            Sen2ProClassifier(tiny).fit(TEXTS, LABELS, validation=wrong)
    with pytest.raises(Sen2ProError, match="there are no sentences in the validation set"):
        Sen2ProClassifier().fit(train, labels, validation=(train[:0], []))
    with pytest.raises(Sen2ProError, match="the validation set has 4 features, but .* expecting 6 features"):
        Sen2ProClassifier().fit(train, labels, validation=gaussians(k=4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "means"}, "did you mean 'mean'"),
        ({"head": "samples"}, "did you mean 'sampled'"),
        ({"method": "onepass"}, "did you mean 'one-pass'"),
        ({"uncertainty": "dat"}, "did you mean 'data'"),
        ({"C": -1}, "C must be a number above 0"),
        ({"C": True}, "C must be a number above 0"),
        ({"C": "1"}, "C must be a number above 0"),
        ({"C": math.nan}, "C must be a number above 0"),
        ({"model": 3}, "not int"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"samples": 1}, "samples=1 gives no variance"),
        ({"samples": 1, "method": "one-pass"}, "samples=1 gives no variance"),
        ({"finetune": "yes"}, "finetune is True, False or a FineTuning, not 'yes'"),
    ],
)
def test_wrong_settings_are_named_when_fitting(settings, message):
    with pytest.raises(Sen2ProError, match=message):
        Sen2ProClassifier(**settings).fit(*gaussians())


@pytest.mark.parametrize("C", [np.int64(1), np.float32(1)])
def test_numbers_of_numpy_are_numbers(C):
    assert Sen2ProClassifier(C=C, seed=np.int64(1)).fit(*gaussians()).choice_.C == 1.0


def test_a_validation_label_that_was_never_trained_on_is_named():
    train, labels = gaussians()
    with pytest.raises(Sen2ProError, match="validation label 2 of row 0 was never seen in training; the classes"):
        Sen2ProClassifier().fit(train, labels, validation=(train[:1], [2]))
    with pytest.raises(Sen2ProError, match="label 0 of row 0 was never seen .* classes are: '0', '1'. Leave the row"):
        Sen2ProClassifier().fit(train, labels.astype(str), validation=(train, labels))


def test_gaussians_of_another_kind_are_refused(fitted):
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    with pytest.raises(Sen2ProError, match="X has 4 features, but .* expecting 6 .* on Gaussians of 6 dimensions"):
        classifier.predict(gaussians(k=4)[0])
    with pytest.raises(Sen2ProError, match="not a single one"):
        classifier.predict(train[0])
    one_sided = Sen2Pro(fitted.model.encoder.source, tokenizer=fitted.model.encoder.tokenizer, uncertainty="data")
    with pytest.raises(
        Sen2ProError, match="trained on .* uncertainty 'both', .* X has uncertainty 'data', .*fit again"
    ):
        fitted.predict(one_sided.encode(TEXTS))
