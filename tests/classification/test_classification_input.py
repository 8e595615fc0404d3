"""Every kind of bad input to the classifier."""

import math

import numpy as np
import pytest
from labelled_texts import LABELS, TEXTS, gaussians

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.errors import Sen2ProError


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
    with pytest.raises(Sen2ProError, match="sentence 2 is empty or blank: ' '; leave it out"):
        Sen2ProClassifier(tiny).fit([*TEXTS[:2], " ", *TEXTS[3:]], LABELS)
    with pytest.raises(Sen2ProError, match="sentence 1 is empty"):
        fitted.predict(["a man", ""])


def test_one_text_or_a_table_is_not_a_list_of_sentences(tiny, fitted):
    pandas = pytest.importorskip("pandas")
    table = "give a list of sentences .*of a table, one column"
    texts = [(text, "give a list of sentences") for text in ("the man runs", np.array("the man runs"))]
    for given, message in [*texts, (pandas.DataFrame({"text": TEXTS}), table), ({"text": TEXTS}, table)]:
        with pytest.raises(Sen2ProError, match=message):
            fitted.predict(given)
        for finetune in (False, True):
            with pytest.raises(Sen2ProError, match=message):
                Sen2ProClassifier(tiny, finetune=finetune).fit(given, LABELS)
    assert fitted.predict(pandas.Series(TEXTS)).tolist() == fitted.predict(TEXTS).tolist()


def test_vectors_and_lists_of_gaussians_are_not_sentences():
    train, labels = gaussians(k=384)
    with pytest.raises(Sen2ProError, match="sentence 0 is not a text but ndarray: .*not its means") as raised:
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
    with pytest.raises(Sen2ProError, match="validation label 2 of row 0 was never seen in training; the classes"):
        Sen2ProClassifier().fit(train, labels, validation=(train[:1], [2]))
    with pytest.raises(Sen2ProError, match="label 0 of row 0 was never seen .* classes are: '0', '1'. Leave the row"):
        Sen2ProClassifier().fit(train, labels.astype(str), validation=(train, labels))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "means"}, "did you mean 'mean'"),
        ({"head": "samples"}, "did you mean 'sampled'"),
        ({"method": "onepass"}, "did you mean 'one-pass'"),
        ({"method": "shrinkage"}, "'shrinkage' was removed .* use 'sampling'"),
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


def test_gaussians_of_another_kind_are_refused(fitted):
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    with pytest.raises(Sen2ProError, match="X has 4 features, but .* expecting 6 .* on Gaussians of 6 dimensions"):
        classifier.predict(gaussians(k=4)[0])
    with pytest.raises(Sen2ProError, match="not a single one"):
        classifier.predict(train[0])
    one_sided = Sen2Pro(
        fitted.model.encoder.source, tokenizer=fitted.model.encoder.transformers.source_tokenizer, uncertainty="data"
    )
    message = "X does not fit the classifier: .*uncertainty 'both' against 'data'.*or fit again"
    with pytest.raises(Sen2ProError, match=message):
        fitted.predict(one_sided.encode(TEXTS))
