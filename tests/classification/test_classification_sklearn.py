"""The classifier as an estimator: scikit-learn's own checks, clones, searches, pickles."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from conftest import WORDS
from labelled_texts import LABELS, OWN, TEXTS, gaussians
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_array, check_is_fitted

from sen2pro import Gaussian, Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.classification import classifier as classifier_module
from sen2pro.errors import Sen2ProError, Sen2ProWarning


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
    assert cross_val_score(Sen2ProClassifier(C=1.0), *gaussians(), cv=3).mean() > 0.8


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


def test_what_is_only_in_memory_travels_in_a_pickle_but_not_in_a_folder(tiny, shared_folder, tmp_path):
    in_memory = Sen2ProClassifier(tiny, C=1.0).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(in_memory))
    assert np.array_equal(again.predict_proba(TEXTS), in_memory.predict_proba(TEXTS))
    white = Sen2Pro(str(shared_folder), samples=3).fit_whitening(TEXTS, dim=2)
    headed = Sen2Pro(str(shared_folder), samples=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Sen2ProWarning)
        headed.distill([f"{a} {b}" for a in WORDS[:15] for b in WORDS[:15]], samples=6, verbose=False)
    why = {"its network is in memory": tiny, "its whitening is not in its folder": white,
           "its head is neither in its folder nor": headed}  # fmt: skip
    for message, model in why.items():
        with pytest.raises(Sen2ProError, match=message + ".*Sen2Pro.load\\(folder\\)"):
            Sen2ProClassifier(model, C=1.0).fit(TEXTS, LABELS).save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()


def test_copies_share_the_encoder_and_nothing_that_is_learnt(tiny):
    classifier = Sen2ProClassifier(tiny, C=1.0).fit(TEXTS, LABELS)
    for copied in (copy.copy(classifier), copy.deepcopy(classifier)):
        assert copied.encoder is tiny
        assert np.array_equal(copied.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    copied.weights_.bias[0] += 1
    assert copied.weights_.bias[0] != classifier.weights_.bias[0]


def test_clones_load_the_encoder_once_and_another_one_for_other_settings(shared_folder, monkeypatch):
    loaded = []
    load = classifier_module._open
    monkeypatch.setattr(classifier_module, "_open", lambda *how, **more: loaded.append(how) or load(*how, **more))
    classifier = Sen2ProClassifier(str(shared_folder), samples=3, C=1.0, features="mean", head="expected")
    cross_val_score(classifier, TEXTS, LABELS, cv=2)
    classifier.fit(TEXTS, LABELS)
    assert len(loaded) == 1
    other = clone(classifier).set_params(samples=2)
    assert other.encoder.samples == {"model": 2, "data": 2}
    assert classifier.encoder.samples == {"model": 3, "data": 3}
    assert len(loaded) == 2
