"""The linear heads: what they minimise, the features they take, and how a setting is chosen."""

import math
import tracemalloc

import numpy as np
import pytest
from labelled_texts import gaussians
from sklearn.linear_model import LogisticRegression

from sen2pro import Gaussian
from sen2pro.classification.heads import (
    HEADS,
    Choice,
    Design,
    Scaling,
    Trial,
    Weights,
    _judged,
    _simplest,
    expected_loss,
    fit,
    folds,
    probabilities,
)


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


@pytest.mark.parametrize("head", HEADS)
def test_full_covariances_that_are_diagonal_give_what_variances_give(head):
    x, labels = design(n=300, noise=0.3)
    full = Design(x.features, np.sqrt(0.3) * np.eye(3)[None].repeat(300, axis=0))
    by_variance, by_roots = (fit(each, labels, 3, head, C=1.0) for each in (x, full))
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


def isotropic(classes=20, n=30):
    """Return logits whose covariances have all their eigenvalues in common."""
    draw = np.random.default_rng(0)
    orthogonal = np.linalg.qr(draw.normal(size=(classes, classes)))[0]
    return Design(draw.normal(size=(n, classes)), np.ones((n, classes))), Weights(3 * orthogonal, np.zeros(classes))


def test_a_row_is_predicted_the_same_alone_and_among_others():
    x, weights = isotropic()
    together = probabilities(x, weights)
    rows = [Design(x.features[i : i + 1], x.noise[i : i + 1]) for i in range(len(x))]
    alone = np.concatenate([probabilities(row, weights) for row in rows])
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
    return Trial(Choice(name, "expected", 1.0, 1.0, float(np.mean(losses)), 1.0), np.array(losses))


def test_the_simplest_within_a_standard_error_of_the_best_is_taken():
    simple = trial("mean", [1.0, 0.0, 1.0, 0.0])
    assert _simplest([simple, trial("mean+variance", [0.0, 0.9, 0.0, 0.9])]) is simple
    clear = trial("mean+variance", [0.4, -0.6, 0.5, -0.5])
    assert _simplest([simple, clear]) is clear
    simple = trial("mean", [1.0, 1.0])  # rounding is no gain
    assert _simplest([simple, trial("mean+variance", [1 - 2e-16, 1 - 2e-16])]) is simple
