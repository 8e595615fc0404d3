"""Classifiers of a few labelled sentences."""

import pytest

from contract import api
from contract.about import NONE, ONE_PASS, SAMPLING
from contract.files.make import ENCODER
from contract.golden import all_refused, noted, refused
from contract.texts import LABELLED, LABELS, UNLABELLED

WAYS = {
    "mean": {"features": "mean", "C": 1.0}, "mean+variance": {"features": "mean+variance", "C": 1.0},
    "expected": {"head": "expected", "C": 10.0}, "sampled": {"head": "sampled", "C": 10.0},
    "model-uncertainty": {"uncertainty": "model", "features": "mean", "head": "expected", "C": 1.0},
}  # fmt: skip
CHOICE = ("features", "head", "C", "temperature", "accuracy", "log_loss")


@pytest.fixture(scope="module")
def classifier():
    return api.Sen2ProClassifier().fit(LABELLED, LABELS)


def said(classifier, texts=UNLABELLED):
    choice = classifier.choice_
    return {
        "classes": classifier.classes_.tolist(), "labels": classifier.predict(texts).tolist(),
        "probabilities": classifier.predict_proba(texts),
        "choice": {name: getattr(choice, name) for name in CHOICE},
    }  # fmt: skip


def test_classify(classifier, golden):
    golden({**said(classifier), "score": classifier.score(LABELLED[:6], LABELS[:6])}, ONE_PASS)


@pytest.mark.parametrize("name", WAYS)
def test_ways(name, golden):
    golden(said(api.Sen2ProClassifier(**WAYS[name]).fit(LABELLED, LABELS)), ONE_PASS)


def test_samples(golden):
    classifier = api.Sen2ProClassifier(method="sampling", samples=4, seed=3, C=1.0, features="mean", head="expected")
    golden(said(classifier.fit(LABELLED, LABELS)), SAMPLING | {"seed": 3})


def test_gaussians_and_a_validation_set(one_pass, golden):
    train, held = slice(0, 18, 2), slice(1, 18, 2)
    g = one_pass.encode(LABELLED)
    classifier = api.Sen2ProClassifier().fit(g[train], LABELS[train], validation=(g[held], LABELS[held]))
    golden(said(classifier, one_pass.encode(UNLABELLED)), ONE_PASS)


@pytest.mark.parametrize("labels", [[1, 2, 3], [True, False, True]], ids=["numbers", "truth"])
def test_labels_keep_their_type(labels, golden):
    classifier = api.Sen2ProClassifier(C=1.0).fit(LABELLED, [labels[number // 6] for number in range(18)])
    golden({"classes": classifier.classes_.tolist(), "labels": classifier.predict(UNLABELLED).tolist()}, ONE_PASS)


def test_a_saved_classifier_says_the_same(classifier, one_pass, tmp_path):
    classifier.save(tmp_path / "classifier")
    loaded = api.Sen2ProClassifier.load(tmp_path / "classifier")
    assert loaded.predict_proba(UNLABELLED) == pytest.approx(classifier.predict_proba(UNLABELLED), abs=1e-6)
    again = api.Sen2ProClassifier.load(tmp_path / "classifier", model=one_pass)
    assert again.predict(UNLABELLED).tolist() == classifier.predict(UNLABELLED).tolist()
    assert refused(lambda: classifier.save(tmp_path / "classifier")) == "Sen2ProError"


def test_a_fine_tuned_encoder(tmp_path, golden):
    """Training adds up rounding, so three digits are kept."""
    texts = ["the man plays the ball", "a woman runs in the park", "the market fell today", "the price rose"] * 3
    labels = ["sport", "sport", "money", "money"] * 3
    with noted():
        how = api.FineTuning(epochs=2)
        classifier = api.Sen2ProClassifier(str(ENCODER), samples=2, C=1.0, finetune=how).fit(texts, labels)
        classifier.save(tmp_path / "tuned")
        loaded = api.Sen2ProClassifier.load(tmp_path / "tuned")
    new = ["a dog runs", "the market rose"]
    assert loaded.predict_proba(new) == pytest.approx(classifier.predict_proba(new), abs=1e-5)
    golden({"labels": classifier.predict(new).tolist(), "probabilities": classifier.predict_proba(new)},
           SAMPLING | {"head": "trained"}, tolerance=1e-3)  # fmt: skip


def test_what_is_refused(classifier, model, golden):
    new = api.Sen2ProClassifier()
    found = all_refused(
        no_texts=lambda: new.fit([], []),
        one_class=lambda: new.fit(LABELLED[:6], LABELS[:6]),
        other_lengths=lambda: new.fit(LABELLED, LABELS[:3]),
        a_blank=lambda: classifier.predict([""]),
        one_text=lambda: classifier.predict("text"),
        not_fitted=lambda: new.predict(LABELLED),
        gaussians_of_another_method=lambda: classifier.predict(model.encode(UNLABELLED[:1])),
        an_unknown_label=lambda: classifier.score(LABELLED[:1], ["art"]),
        an_unknown_loss=lambda: api.Sen2ProClassifier(head="magic").fit(LABELLED, LABELS),
        C_below_0=lambda: api.Sen2ProClassifier(C=-1).fit(LABELLED, LABELS),
        no_folder=lambda: api.Sen2ProClassifier.load("nowhere"),
    )
    golden(found, NONE)
