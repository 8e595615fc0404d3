"""The classifier: learning, predicting, its settings."""

import tracemalloc

import numpy as np
import pytest
from labelled_texts import LABELS, TEXTS, gaussians, sentences

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification.heads import Scaling, fit
from sen2pro.classification.saved import recipe
from sen2pro.errors import HeadMissing, Sen2ProError


def test_learns_from_a_few_sentences(minilm):
    sport = ["The match ended in a draw.", "She won the final set.", "Their striker scored twice."]
    money = ["Shares fell on Monday.", "The bank raised its rates.", "Profits rose this quarter."]
    classifier = Sen2ProClassifier().fit(sport + money, ["sport"] * 3 + ["money"] * 3)
    assert classifier.encoder.method == "one-pass"  # the default model has a head
    assert classifier.classes_.tolist() == ["money", "sport"]
    found = classifier.predict(["The goalkeeper was injured.", "Investors sold their stocks."])
    assert found.tolist() == ["sport", "money"]
    assert recipe(classifier.encoder).model == "all-MiniLM-L6-v2"  # and not where it is on this machine


def test_a_model_without_a_head_is_sampled(tiny_folder):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS)
    assert classifier.encoder.method == "sampling"
    assert classifier.encoder.samples == {"model": 3, "data": 3}


def test_a_head_that_does_not_fit_is_left_aside(tiny_folder, tmp_path):
    one_source = Sen2Pro(str(tiny_folder), samples=4, uncertainty="model")
    one_source.distill(sentences(216), samples=6, show_progress_bar=False, verbose=False).save(tmp_path / "model")
    assert Sen2ProClassifier(tmp_path / "model", uncertainty="model").encoder.method == "one-pass"
    assert Sen2ProClassifier(tmp_path / "model").encoder.method == "sampling"
    with pytest.raises(HeadMissing, match="the head does not fit this model"):
        Sen2ProClassifier(tmp_path / "model", method="one-pass").fit(TEXTS, LABELS)


def test_learns_from_ready_made_gaussians():
    train, labels = gaussians()
    test, truth = gaussians(seed=1, n=200)
    classifier = Sen2ProClassifier().fit(train, labels)
    assert classifier.score(test, truth) > 0.85  # a gap of 3 standard deviations: 93 % at best
    assert classifier.n_features_in_ == 6
    assert classifier.predict_proba(test).sum(axis=1) == pytest.approx(np.ones(200))


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


def test_the_weights_are_those_of_the_chosen_setting_divided_by_its_temperature():
    train, labels = gaussians()
    classifier = Sen2ProClassifier(C=0.001, head="expected").fit(train, labels)
    choice = classifier.choice_
    assert choice.temperature < 0.5
    plain = fit(Scaling.fit(train, choice.features)(train), labels, 2, choice.head, choice.C)
    assert classifier.weights_.matrix == pytest.approx(plain.matrix / choice.temperature)
    assert classifier.weights_.bias == pytest.approx(plain.bias / choice.temperature)


def test_the_choice_has_accuracy_and_log_loss_of_the_rows_held_out():
    train, labels = gaussians(gap=1.0)
    held_out = gaussians(n=400, gap=1.0, seed=1)
    classifier = Sen2ProClassifier().fit(train, labels, validation=held_out)
    assert classifier.choice_.accuracy == pytest.approx(classifier.score(*held_out), abs=0.01)
    assert 0.5 < classifier.choice_.accuracy < 0.9
    own = classifier.predict_proba(held_out[0])[np.arange(400), held_out[1]]
    assert classifier.choice_.log_loss == pytest.approx(-np.log(own).mean(), rel=0.02)


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
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=tiny_folder)
    assert np.array_equal(loaded.predict_proba(TEXTS), before)
    assert (loaded.samples, loaded.C) == (3, 1.0)
    assert np.array_equal(loaded.set_params(finetune=True).predict_proba(TEXTS), before)
