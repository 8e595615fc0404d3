"""Texts as columns of a table, by scikit-learn's rules."""

import pickle

import numpy as np
import pytest
from conftest import WORDS
from labelled_texts import LABELS, TEXTS
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.integrations.sklearn import Sen2ProVectorizer


class OnNumbers(Sen2ProVectorizer):
    """Takes the tables that scikit-learn's checks are made of: a row of numbers is a text of as many words."""

    def fit(self, X, y=None):
        return super().fit(self.texts(X, reset=True))

    def transform(self, X):
        check_is_fitted(self)
        return np.asarray(super().transform(self.texts(X, reset=False)))  # scikit-learn wraps this method again

    def texts(self, X, reset):
        rows = validate_data(self, X, reset=reset)
        return [" ".join(WORDS[int(abs(number)) % len(WORDS)] for number in row) for row in np.nan_to_num(rows * 10)]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string, tags.requires_fit = True, False, True
        return tags


# For an estimator of texts scikit-learn itself runs one check (it can be cloned) and leaves out all others. These need
# no table, so they run on the class as it is; all that need one run on `OnNumbers`.
WITHOUT_DATA = [
    "check_estimator_cloneable", "check_estimator_repr", "check_estimator_tags_renamed", "check_get_params_invariance",
    "check_mixin_order", "check_no_attributes_set_in_init", "check_parameters_default_constructible",
    "check_set_params", "check_valid_tag_types",
]  # fmt: skip
# `check_transformer_get_feature_names_out` is not here: it compares names of input columns, and texts have none.
OF_OUTPUT = [
    "check_global_output_transform_pandas", "check_global_set_output_transform_polars", "check_set_output_transform",
    "check_set_output_transform_pandas", "check_set_output_transform_polars",
]  # fmt: skip


@pytest.mark.parametrize("check", WITHOUT_DATA)
def test_scikit_learns_checks_that_need_no_table_pass(check):
    getattr(estimator_checks, check)("Sen2ProVectorizer", Sen2ProVectorizer())


@pytest.mark.parametrize("check", OF_OUTPUT)
def test_scikit_learns_checks_of_set_output_and_names_pass(check):
    getattr(estimator_checks, check)("OnNumbers", OnNumbers(Sen2Pro()))


@estimator_checks.parametrize_with_checks([OnNumbers(Sen2Pro())])
def test_scikit_learns_checks_of_transformers_pass(estimator, check):
    check(estimator)


def test_vectors_are_plain_ones_or_means_and_variances_and_columns_have_names(tiny):
    plain, g = tiny.encode_plain(TEXTS), tiny.encode(TEXTS)
    np.testing.assert_array_equal(Sen2ProVectorizer(tiny).fit_transform(TEXTS), plain)
    np.testing.assert_array_equal(Sen2ProVectorizer(tiny).transform(np.array(TEXTS)), plain)  # without fit
    np.testing.assert_array_equal(Sen2ProVectorizer(tiny, features="mean").transform(TEXTS), g.mean)
    both = Sen2ProVectorizer(tiny, features="mean+variance", batch_size=3)
    np.testing.assert_allclose(both.transform(TEXTS), np.hstack([g.mean, g.variance]), atol=1e-6)
    assert both.get_feature_names_out()[[0, 31, 32, 63]].tolist() == ["mean0", "mean31", "variance0", "variance31"]
    assert Sen2ProVectorizer(tiny).get_feature_names_out()[[0, -1]].tolist() == ["plain0", "plain31"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_output_can_be_a_table(tiny, kind):
    library = pytest.importorskip(kind)
    vectorizer = Sen2ProVectorizer(tiny).set_output(transform=kind)
    table = clone(vectorizer).fit_transform(TEXTS)
    assert isinstance(table, library.DataFrame)
    assert list(table.columns) == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(table.to_numpy(), tiny.encode_plain(TEXTS))


def test_a_column_of_a_table_is_texts(tiny):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "number": range(len(TEXTS))}, index=range(5, 5 + len(TEXTS)))
    both = make_column_transformer((Sen2ProVectorizer(tiny), "text"), ("passthrough", ["number"]))
    found = both.set_output(transform="pandas").fit_transform(table)
    assert list(found.columns[[0, -1]]) == ["sen2provectorizer__plain0", "passthrough__number"]
    assert list(found.index) == list(table.index)


def test_a_pipeline_learns_searches_and_is_pickled(shared_folder):
    model = str(shared_folder)
    pipeline = make_pipeline(Sen2ProVectorizer(model), LogisticRegression(C=100.0))
    pipeline.fit(TEXTS, LABELS)
    assert pipeline.score(TEXTS, LABELS) > 0.8
    assert cross_val_score(pipeline, TEXTS, LABELS, cv=2).shape == (2,)
    search = GridSearchCV(pipeline, {"sen2provectorizer__features": ["plain", "mean"]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["sen2provectorizer__features"] in ("plain", "mean")
    frozen = pickle.dumps(pipeline)
    assert len(frozen) < 10_000  # the encoder is loaded again by its name
    np.testing.assert_array_equal(pickle.loads(frozen).predict_proba(TEXTS), pipeline.predict_proba(TEXTS))


def test_a_clone_shares_the_encoder(shared_folder):
    vectorizer = Sen2ProVectorizer(shared_folder).fit(TEXTS)
    cloned = clone(vectorizer)
    assert cloned.get_params() == vectorizer.get_params()
    assert cloned._encoder() is vectorizer._encoder()
    assert Sen2ProVectorizer(shared_folder)._encoder() is not vectorizer._encoder()
    cloned.set_params(features="mean")
    assert vectorizer.features == "plain"


@pytest.mark.parametrize(
    ("settings", "texts", "said"),
    [
        ({"features": "varience"}, TEXTS, "unknown features 'varience'"),
        ({"batch_size": 0}, TEXTS, "batch_size must be at least 1"),
        ({"model": 3}, TEXTS, "model is a hub id, a folder or a Sen2Pro, not 3"),
        ({}, "a text", "not a single text"), ({}, [], "no texts to fit on"), ({}, ["a", 3], "3"),
        ({}, ["a", " "], "blank|empty"),
    ],
)  # fmt: skip
def test_wrong_settings_and_texts_are_refused_when_they_are_used(tiny, settings, texts, said):
    with pytest.raises(Sen2ProError, match=said):
        Sen2ProVectorizer(**{"model": tiny, **settings}).fit(texts)
