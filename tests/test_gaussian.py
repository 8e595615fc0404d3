import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from sen2pro import Gaussian, Sen2ProError
from sen2pro.signature import Signature

RNG = np.random.default_rng(0)


def signature(**changes):
    fields = dict.fromkeys(Signature.__dataclass_fields__, "x")
    return Signature(**{**fields, **changes})


@pytest.fixture
def batch():
    return Gaussian(RNG.normal(size=(5, 3)), RNG.uniform(0.1, 2, size=(5, 3)), signature())


def test_it_is_float32_read_only_and_does_not_follow_what_it_was_made_from(batch):
    assert batch.mean.dtype == batch.variance.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        batch.mean[0, 0] = 1
    with pytest.raises(AttributeError, match="immutable"):
        batch.mean = np.zeros((5, 3))
    source = np.zeros(3, np.float32)
    g = Gaussian(source, source)
    source += 1
    assert (g.mean == 0).all()


def test_length_indexing_slicing_iteration(batch):
    assert len(batch) == 5
    assert batch[2].shape == (3,)
    assert batch[-1] == batch[4]
    assert batch[1:3].shape == (2, 3)
    assert batch[[0, 4]] == Gaussian.concatenate([batch[0], batch[4]])
    assert batch[batch.mean[:, 0] > -100] == batch
    assert Gaussian.concatenate(list(batch)) == pickle.loads(pickle.dumps(batch)) == batch
    assert batch[1].signature == batch.signature
    with pytest.raises(TypeError):
        len(batch[0])
    with pytest.raises(TypeError):
        batch[0][0]
    with pytest.raises(IndexError):
        batch[5]


def test_density_and_entropy_are_scipys(batch):
    x = RNG.normal(size=(5, 3))
    normals = [multivariate_normal(g.mean, np.diag(g.variance)) for g in batch]
    expected = [normal.logpdf(point) for normal, point in zip(normals, x, strict=True)]
    np.testing.assert_allclose(batch.log_prob(x), expected, rtol=1e-5)
    np.testing.assert_allclose(batch.entropy, [normal.entropy() for normal in normals], rtol=1e-5)
    with pytest.raises(Sen2ProError, match="last dimension must be 3"):
        batch.log_prob([1.0, 2.0])


def test_a_dimension_that_never_varies_gives_finite_numbers():
    g = Gaussian([1.0, 2.0], [0.0, 1.0])
    assert np.isfinite(g.entropy)
    assert np.isfinite(g.log_prob([1.0, 2.0]))
    assert np.isfinite(Gaussian([1.0], [0.0]).entropy)


def test_samples_have_the_moments_of_the_gaussian(batch):
    drawn = batch.sample(20_000, seed=1)
    assert drawn.shape == (5, 20_000, 3)
    np.testing.assert_allclose(drawn.mean(axis=1), batch.mean, atol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(drawn.var(axis=1), batch.variance, rtol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_array_equal(batch.sample(3, seed=7), batch.sample(3, seed=7))
    assert (batch.sample(3, seed=7) != batch.sample(3, seed=8)).any()
    assert batch[0].sample(4).shape == (4, 3)


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [([1.0], [1.0, 2.0], "one shape"), ([[[1.0]]], [[[1.0]]], "one shape"), ([1.0], [-1.0], "negative"),
     ([1.0], [np.inf], "finite")],
)  # fmt: skip
def test_what_is_not_a_gaussian_is_refused(mean, variance, message):
    with pytest.raises(Sen2ProError, match=message):
        Gaussian(mean, variance)


def test_concatenation_checks_what_it_joins(batch):
    with pytest.raises(Sen2ProError, match="empty"):
        Gaussian.concatenate([])
    with pytest.raises(Sen2ProError, match="3 and 1 dimensions"):
        Gaussian.concatenate([batch, Gaussian([[1.0]], [[1.0]])])
    other = Gaussian(batch.mean, batch.variance, signature(hash="y"))
    with pytest.raises(Sen2ProError, match="hash 'x' against 'y'"):
        Gaussian.concatenate([batch, other])
    reseeded = Gaussian(batch.mean, batch.variance, signature(seed="1"))
    assert Gaussian.concatenate([batch, reseeded]).signature == signature(seed="mixed")


def test_a_signature_of_another_version_can_be_read():
    known = signature()
    assert Signature.from_json(known.to_json()[:-1] + ', "new_field": "1"}') == known
    assert Signature.from_json('{"model": "m"}').hash == "unknown"


@given(st.integers(0, 4), st.integers(1, 5))
def test_an_empty_batch_has_its_dimensions(n, k):
    g = Gaussian(np.zeros((n, k)), np.ones((n, k)))
    assert (len(g), g.dim, g.total_variance.shape, g.entropy.shape) == (n, k, (n,), (n,))
