"""The figures of a head are true, or said to be unknown; a head that is worse than a constant is not saved."""

import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import WORDS, build_network
from typer.testing import CliRunner

from sen2pro import Sen2Pro
from sen2pro.cli.app import app
from sen2pro.errors import Sen2ProWarning
from sen2pro.estimation.distill import Teacher, _Lesson
from sen2pro.estimation.head import CONFIG, Head
from sen2pro.estimation.shrinkage import Strength, dof_of_noise, polygamma

SENTENCES, DIMENSIONS = 300, 200
HELD, REST = np.arange(60), np.arange(60, SENTENCES)


def lesson(truth, count, same=0):
    """Return a lesson from Gaussian samples of known variances (n, k); of some sentences, one half is all the same."""
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(len(truth), count, truth.shape[1])) * np.sqrt(truth)[:, None]
    samples[:same, ::2] = samples[:same, :1]
    teacher = Teacher.empty(len(truth), truth.shape[1], count)
    teacher.put(slice(None), samples)
    return _Lesson(teacher, np.zeros(truth.shape, np.float32), np.ones((len(truth), 3)))


def variances(level, dimension, seed=0):
    """Return variances (n, k) whose logarithms vary by these standard deviations, by sentence and beyond it."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(SENTENCES, 1)) * level + rng.normal(size=(SENTENCES, DIMENSIONS)) * dimension
    return np.exp(size)


def quality(truth, predicted, count):
    return lesson(truth, count).quality(predicted[HELD], np.zeros((len(HELD), DIMENSIONS)), HELD, REST)


@pytest.mark.parametrize("same", [0, 6])
@pytest.mark.parametrize("count", [6, 16])
def test_the_strength_is_that_of_the_errors_put_in(count, same):
    truth = variances(0.5, 0.5)
    found = lesson(truth, count, same).strength(np.log(truth * variances(0.3, 0.4, seed=2)))
    assert polygamma(1, found.dof / 2) == pytest.approx(0.4**2, rel=0.25)
    assert found.level == pytest.approx(0.3**2, rel=0.4)
    assert found.efficiency == pytest.approx(1, abs=0.15)  # the samples are Gaussian


def test_a_perfect_prediction_is_not_said_to_be_worth_millions_of_samples():
    truth = variances(0.5, 0.5)
    assert 50 < lesson(truth, 6).strength(np.log(truth)).samples < 2000


@pytest.mark.parametrize("error", [0.25, 1.0])
def test_r2_is_the_share_of_the_spread_that_is_explained(error):
    truth = variances(0.5, 0.5)
    found = quality(truth, truth * variances(0.5 * error, 0.5 * error, seed=2), 6)
    assert found["variance per dimension"] == pytest.approx(1 - error**2, abs=0.15)
    assert found["total variance"] == pytest.approx(1 - error**2, abs=0.35)  # of 60 sentences


def test_r2_is_unknown_where_the_sentences_differ_less_than_their_samples():
    truth = variances(0.0, 0.02)
    assert np.isnan(quality(truth, truth, 6)["variance per dimension"])


def test_worse_than_a_constant_is_known_even_where_the_size_of_r2_is_not():
    found = quality(variances(0.0, 0.02), variances(0.3, 0.3, seed=2), 6)
    assert found["variance per dimension"] < 0
    assert found["total variance"] < 0


def test_the_worth_in_samples_counts_the_level_and_the_tails():
    # 15 Gaussian samples have 14 degrees of freedom: an error of trigamma(7) in the logarithm of a variance.
    assert Strength(dof=14, level=0).samples == pytest.approx(15)
    assert Strength(dof=14, efficiency=0.5, level=0).samples == pytest.approx(29)
    both = Strength(dof=1e5, level=polygamma(1, 7)).samples
    assert both == pytest.approx(1 + dof_of_noise(polygamma(1, 7)), rel=1e-3)


@pytest.fixture(scope="module")
def alike():
    """Sentences of the same words in another order: there is hardly anything to learn from their variances."""
    rng = random.Random(0)
    return list(dict.fromkeys(" ".join(rng.sample(WORDS[:8], 8)) for _ in range(300)))[:260]


@pytest.fixture(scope="module")
def poor(tokenizer, alike):
    model = Sen2Pro(build_network("bert"), tokenizer=tokenizer)
    with pytest.warns(Sen2ProWarning, match="worse than a constant.*fit a head on more sentences, or more samples"):
        model.distill(alike, samples=6, verbose=False)
    return model


def test_a_head_that_is_worse_than_a_constant_is_set_and_says_so(poor):
    assert poor.method == "one-pass"
    assert poor.head.flaw in poor.head.report()
    assert "than 260 sentences with 6+6 samples each" in poor.head.flaw


def test_the_report_names_what_is_unknown_and_what_is_below_0(poor):
    names = ("variance per dimension", "total variance", "shift of the mean")
    fine = {
        "model": dict(zip(names, (0.9, 0.8, -0.1), strict=True)),
        "data": dict(zip(names, (0.5, np.nan, 0.2), strict=True)),
    }
    head = replace(poor.head, quality=fine)
    assert head.flaw == ""
    assert "total variance 0.80, shift of the mean below 0; worth" in head.report()
    assert "total variance unknown, shift" in head.report()
    assert "unknown: cannot be told from 260 sentences" in head.report()
    head = replace(head, quality={**fine, "data": {**fine["data"], "total variance": -17.3}})
    assert "(data: total variance)" in head.flaw
    assert "-17" not in head.report()


def test_what_is_unknown_is_still_so_after_saving(poor, tmp_path):
    head = replace(poor.head, quality={source: {"total variance": float("nan")} for source in poor.head.sources})
    head.save(tmp_path / "head")
    assert "total variance unknown" in Head.load(tmp_path / "head").report()


def test_a_head_that_is_worse_than_a_constant_is_saved_by_force_only(alike, shared_folder, tmp_path):
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "head"
    corpus.write_text("\n".join(alike))
    arguments = ["distill", str(corpus), str(folder), "-m", str(shared_folder), "--samples", "6"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 2
    assert "the head was not saved, because it is worse than a constant" in refused.output
    assert "--force" in refused.output
    assert not folder.exists()
    forced = CliRunner().invoke(app, [*arguments, "--force"])
    assert forced.exit_code == 0, forced.output
    assert forced.output.count("worse than a constant") == 1
    assert (folder / CONFIG).exists()
