"""The figures of a head are true, or said to be unknown; a head that is worse than a constant is not saved."""

import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import WORDS, build_network
from msgspec import structs
from typer.testing import CliRunner

from sen2pro import Sen2Pro
from sen2pro.cli.app import app
from sen2pro.encoder.backend import States
from sen2pro.errors import Sen2ProWarning
from sen2pro.estimation.distill import SampledMoments, _Targets, fit_coverage
from sen2pro.estimation.head import CONFIG, Head
from sen2pro.estimation.moments import dof_of_noise, noise_of_dof, samples_worth

SENTENCES, DIMENSIONS = 300, 200
HELD, REST = np.arange(60), np.arange(60, SENTENCES)


def targets(truth, count, same=0, scalars=None):
    """Return targets from Gaussian samples of known variances (n, k); of some sentences, one half is all the same."""
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(len(truth), count, truth.shape[1])) * np.sqrt(truth)[:, None]
    samples[:same, ::2] = samples[:same, :1]
    moments = SampledMoments.empty(len(truth), truth.shape[1], count)
    moments.put(slice(None), samples)
    scalars = np.ones((len(truth), 3)) if scalars is None else scalars
    return _Targets(moments, np.zeros(truth.shape, np.float32), scalars)


def variances(level, dimension, seed=0):
    """Return variances (n, k) whose logarithms vary by these standard deviations, by sentence and beyond it."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(SENTENCES, 1)) * level + rng.normal(size=(SENTENCES, DIMENSIONS)) * dimension
    return np.exp(size)


def quality(truth, predicted, count):
    return targets(truth, count).quality(predicted[HELD], np.zeros((len(HELD), DIMENSIONS)), HELD, REST)


@pytest.mark.parametrize("same", [0, 6])
@pytest.mark.parametrize("count", [6, 16])
def test_the_worth_in_samples_is_that_of_the_errors_put_in(count, same):
    truth = variances(0.5, 0.5)
    made = targets(truth, count, same)
    found = made.worth(np.log(truth * variances(0.3, 0.4, seed=2)))
    assert found == pytest.approx(1 + dof_of_noise(0.4**2 + 0.3**2), rel=0.3)  # the samples are Gaussian
    assert same or count > 6 or 50 < made.worth(np.log(truth)) < 2000  # of a perfect prediction: not millions


@pytest.mark.parametrize("error", [0.25, 1.0])
def test_r2_is_the_share_of_the_spread_that_is_explained(error):
    truth = variances(0.5, 0.5)
    found = quality(truth, truth * variances(0.5 * error, 0.5 * error, seed=2), 6)
    assert found["variance per dimension"] == pytest.approx(1 - error**2, abs=0.15)
    assert found["total variance"] == pytest.approx(1 - error**2, abs=0.35)  # of 60 sentences


def test_an_r2_is_unknown_or_below_0_where_the_sentences_differ_less_than_their_samples():
    truth = variances(0.0, 0.02)
    assert np.isnan(quality(truth, truth, 6)["variance per dimension"])
    found = quality(truth, variances(0.3, 0.3, seed=2), 6)  # worse than a constant
    assert max(found["variance per dimension"], found["total variance"]) < 0


def test_the_worth_in_samples_counts_the_level_and_the_tails():
    # 15 Gaussian samples have 14 degrees of freedom: an error of trigamma(7) in the logarithm of a variance.
    assert samples_worth(dof=14, efficiency=1, level=0) == pytest.approx(15)
    assert samples_worth(dof=14, efficiency=0.5, level=0) == pytest.approx(29)
    both = samples_worth(dof=1e5, efficiency=1, level=noise_of_dof(14))
    assert both == pytest.approx(1 + dof_of_noise(noise_of_dof(14)), rel=1e-3)
    for dof in (0.5, 3.0, 14.0, 200.0):
        assert dof_of_noise(noise_of_dof(dof)) == pytest.approx(dof, rel=1e-6)
    assert min(dof_of_noise(0.0), dof_of_noise(-0.1)) > 1e6


@pytest.fixture(scope="module")
def alike():
    """Sentences of the same words in another order: there is hardly anything to learn from their variances."""
    rng = random.Random(0)
    return list(dict.fromkeys(" ".join(rng.sample(WORDS[:8], 8)) for _ in range(300)))[:260]


@pytest.fixture(scope="module")
def poor(tokenizer, alike):
    model = Sen2Pro(build_network("bert"), tokenizer=tokenizer)
    with pytest.warns(Sen2ProWarning, match="worse than a constant.*fit a head on more sentences"):
        model.distill(alike, samples=6, verbose=False)
    return model


def test_a_head_that_is_worse_than_a_constant_is_set_and_says_so(poor):
    assert poor.method == "one-pass"
    assert poor.head.flaw in poor.head.report()
    assert "than 260 sentences with 6+6 samples each" in poor.head.flaw


def with_quality(head, quality):
    return replace(head, config=structs.replace(head.config, quality=quality))


def test_the_report_names_what_is_unknown_and_what_is_below_0(poor, tmp_path):
    names = ("variance per dimension", "total variance", "shift of the mean")
    fine = {
        "model": dict(zip(names, (0.9, 0.8, -0.1), strict=True)),
        "data": dict(zip(names, (0.5, np.nan, 0.2), strict=True)),
    }
    head = with_quality(poor.head, fine)
    assert head.flaw == ""
    assert "total variance 0.80, shift of the mean below 0; worth" in head.report()
    assert "total variance unknown, shift" in head.report()
    assert "unknown: cannot be told from 260 sentences" in head.report()
    head.save(tmp_path / "head")
    assert "total variance unknown" in Head.load(tmp_path / "head").report()
    head = with_quality(head, {**fine, "data": {**fine["data"], "total variance": -17.3}})
    assert "sentences: data: total variance)" in head.flaw
    assert "-17" not in head.report()


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


def test_the_level_of_the_totals_is_right_at_every_length():
    """The truth is one constant times exp(t), t the logarithm of the length; the prediction says 1 everywhere."""
    rng = np.random.default_rng(0)
    scalars = np.repeat(rng.uniform(1, 5, size=(SENTENCES, 1)), 3, axis=1)
    truth = np.exp(scalars[:, :1]) * variances(0.3, 0.3)
    found = targets(truth, 16, scalars=scalars)
    predicted = np.ones_like(found.variance)
    for transform, most in (("log", 0.1), ("root", np.inf)):
        level = found.terms @ found.level(predicted, transform, slice(None))
        ratio = found.variance.sum(axis=1) / (predicted.sum(axis=1) * np.exp(level))
        assert ratio.mean() == pytest.approx(1, abs=1e-6)
        long = scalars[:, 0] > 4
        assert abs(ratio[long].mean() - 1) < most
        assert transform == "log" or ratio[long].mean() > 1.5  # a root takes a constant only


def test_coverage_does_not_follow_the_length():
    """Vectors of long sentences lie nearer together: a fixed limit would flag the short ones only."""
    rng = np.random.default_rng(0)
    words = rng.integers(1, 200, size=1000)
    vectors = rng.normal(size=(1000, 30)) * words[:, None] ** -0.4
    states = States(vectors.astype(np.float32), {}, words + 2, words)
    order = rng.permutation(1000)
    coverage = fit_coverage(states, (), [(order[:400], order[400:])])
    found = coverage(states.rows(order[:400]))
    short = words[order[:400]] < 20
    for part in (found[short], found[~short]):
        assert 0.3 < np.median(part) < 0.7
        assert (part < 0.05).mean() < 0.15
    far = replace(states, vectors=states.vectors * 6)
    assert (coverage(far) < 0.01).mean() > 0.9
