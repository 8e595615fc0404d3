"""Every bad argument is a clear error: never a traceback from a library underneath, a NaN, or a hang."""

import datetime
import decimal
import fractions
import warnings

import numpy as np
import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import DataConversionWarning
from test_gaussian import signature

import sen2pro.distances
from sen2pro import Gaussian, Sen2Pro, Sen2ProError, Sen2ProWarning, Whitening, distance, distance_pairwise, estimate
from sen2pro.classification.labels import check_labels
from sen2pro.cli.options import parse_samples
from sen2pro.distances import METRICS
from sen2pro.estimation.moments import combine
from sen2pro.validation import (
    MOST_SAMPLES,
    check_batch_size,
    check_rate,
    check_samples,
    check_seed,
    check_sentences,
    check_vocabulary,
    short_repr,
)

NAN, LARGEST = float("nan"), float(np.finfo(np.float32).max)
BATCH = Gaussian([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
WHITE = Whitening.fit(np.random.default_rng(0).normal(size=(20, 3)))


class Broken:
    """An object that raises whatever it is asked."""

    def fail(self, *arguments, **options):
        raise RuntimeError("broken")

    __array__ = __len__ = __iter__ = __float__ = __int__ = __index__ = __bool__ = __eq__ = __repr__ = __str__ = fail
    __hash__ = object.__hash__


class BrokenIterator:
    def __iter__(self):
        raise RuntimeError("broken")


def table(column):
    return pytest.importorskip("pandas").DataFrame({"text": column})


# One argument that is wrong: targets by name -> values, each with what the error says.


def each(message, *values):
    """Return values that have one message."""
    return [(value, message) for value in values]


PROMPT_TAKERS = ("encode", "sample", "encode_plain", "encode_sources")
SENTENCE_TAKERS = ("sentences", "encode", "encode_plain")
# By the word that an error begins with: what takes an array of numbers.
ARRAY_TAKERS = {
    "mean": "mean", "variance": "variance", "log_prob": "x", "whitening fit": "vectors", "whitening apply": "vectors",
    "estimate": "samples",
}  # fmt: skip
NO_ARRAYS = [
    ("abc", "must be an array of numbers, not 'abc'"),
    (None, "must be an array of numbers, not None"),
    ({1.0}, "must be an array of numbers"),
    (Broken(), "cannot be read as an array of numbers: broken"),
    ([[1.0, 2.0], [3.0]], "cannot be read as an array"),
    ([[1.0, 2.0], [3.0, 4j]], "must be numbers, but row 0, dimension 0 is \\(1\\+0j\\)"),
    ([["True", "False"]], "must be numbers, but row 0, dimension 0 is 'True'"),
    (np.array([[True, False]]), "must be numbers, but row 0, dimension 0 is True"),
    (np.array([[1.0, 2.0], [3.0, None]], object), "must be numbers, but row 1, dimension 1 is None"),
    ([[1.0, decimal.Decimal(2)]], "must be numbers, but row 0, dimension 1 is Decimal"),
    (np.array([[1, 10**30]], object), "must be numbers, not of type object; turn them into floats"),
    (np.array([["2020-01-01"]], "datetime64[D]"), "must be numbers, but row 0, dimension 0 is datetime"),
    ([[1.0, 2.0], [3.0, NAN]], "must be finite, but row 1, dimension 1 is nan"),
    ([1.0, float("-inf")], "must be finite, but dimension 1 is -inf"),
    ([[1.0, 1e300]], "must be finite, but row 0, dimension 1 is 1e\\+300; float32 holds numbers up to 3.4e38"),
    (np.ma.masked_array([[1.0, 2.0]], [[False, True]]), "has masked values"),
    (torch.ones(2, requires_grad=True), "cannot be read as an array"),
]
NO_FLOAT = (fractions.Fraction(10**400), 10**400, Broken(), np.array([0.1, 0.2]))
NO_ALPHA = (None, NAN, True, False, 0.5j, -0.1, float("inf"), np.array([0.1, 0.2]), [0.5], b"ratio", Broken())
WRONG = {
    tuple(f"{name} prompt" for name in PROMPT_TAKERS): [
        (b"x", "prompt must be a text, not bytes: b'x'"),
        (1, "prompt must be a text, not int"),
        (["query: "], "prompt must be a text, not list"),
        ("query \ud800", "prompt holds half a surrogate pair"),
    ],
    tuple(f"{name} prompt_name" for name in PROMPT_TAKERS): [
        (3, "prompt_name must be a text, not int"),
        (np.zeros(2), "prompt_name must be a text, not ndarray"),
        (["query"], "prompt_name must be a text, not list"),
    ],
    SENTENCE_TAKERS: [
        ({"the dog", "a cat"}, "not a set: it has no order"),
        (frozenset(["the dog"]), "not a frozenset: it has no order"),
        (5, "give a sentence or a list of sentences, not int"),
        (NAN, "not float"),
        (True, "not bool"),
        (np.array("the dog"), "not ndarray"),
        (bytearray(b"the dog"), "not bytearray"),
        (BrokenIterator(), "not BrokenIterator"),
        (np.array([["the dog"]]), "sentence 0 is not a text but ndarray"),
        (np.array([b"the dog"]), "sentence 0 is not a text but bytes_"),
        ([list(range(100_000))], r"sentence 0 is not a text but list: \[0, 1, 2, 3, 4, 5, \.\.\.\]$"),
        (["the dog", "\u200b"], r"sentence 1 is empty or blank: '\\u200b'"),
        (["\u200b \u200d\ufeff\u2060\t\u00a0"], "sentence 0 is empty or blank"),
        (["\0"], "sentence 0 is empty or blank"),
    ],
    ("vocabulary",): [
        ("words", "at least one word, not 'words'"),
        ([], "at least one word"),
        ({"red"}, "not a set: it has no order"),
        ({"red": 1}, "not dict"),
        (b"red", "not bytes"),
        (3, "not int"),
        (["red", 3], "word 1 of the vocabulary must be a text, not int: 3"),
        (["red", None], "word 1 of the vocabulary must be a text, not NoneType"),
        ([b"red"], "word 0 of the vocabulary must be a text, not bytes"),
        (["red", ""], "word 1 of the vocabulary is empty or blank"),
        (["\u200b"], "word 0 of the vocabulary is empty or blank"),
        (["red", "dark blue"], "word 1 of the vocabulary holds white space: 'dark blue'"),
        (["red\n"], "word 0 of the vocabulary holds white space"),
        (["re\0d"], "word 0 of the vocabulary holds a NUL"),
        (["red", "\udc00"], "word 1 of the vocabulary holds half a surrogate pair"),
    ],
    ("labels",): [
        (["a", "a\0"], r"label of row 1 holds a NUL character: 'a\\x00'"),
        (["a", "\0b"], "label of row 1 holds a NUL"),
        (["a", "\ud800"], "label of row 1 holds half a surrogate pair"),
        ([1, 2**63], "label of row 1 is too large a number: 9223372036854775808"),
        ([1.0, 1e300], "label of row 1 is too large a number: 1e\\+300"),
        *each("label of row 1 is too large a number", [1, -(10**30)], [1, 10**5000]),
        ([1.0, 2**53 + 1], "label of row 1 is too large a number"),  # as a float it would be 2**53
        ([1, float("inf")], "row 1 has"),
        ([1, 1j], "row 1 has complex"),
        ({"a", "b"}, "not of shape"),
        (Broken(), "labels cannot be read"),
        ([Broken(), Broken()], "row 0 has a Broken as its label"),
    ],
    tuple(f"{function} alpha of {metric}" for function in ("distance", "pairwise") for metric in METRICS): each(
        "alpha must be a number between 0 and 1 or 'ratio', not", *NO_ALPHA
    ),
    ("similarity alpha", "similarity_pairwise alpha"): each("alpha must be a number", *NO_ALPHA),
    ("distance metric", "pairwise metric"): each(
        "metric must be a text", None, 3, ["sen2pro"], np.array(["sen2pro", "x"]), b"sen2pro", Broken()
    ),
    ("samples",): [
        *each("is too many; take at most 100000", 10**21, MOST_SAMPLES + 1, (15, 10**30), (10**30, 15), 10**5000),
        *each(
            "samples must be a whole number or a pair",
            True, None, "15", 15.0, NAN, (15,), (15, True), np.array([2, 3]), Broken(),
        ),
    ],
    ("rate",): each(
        "dropout must be a number between 0 and 1",
        NAN, float("inf"), True, False, "0.1", 0, 1, 0.0, 1.0, -0.5, 0.5j, [0.1], 1e-9, *NO_FLOAT,
    ),
    ("seed",): each(
        "seed must be a whole number", None, True, 1.0, "1", NAN, [1], np.array([1, 2]), 2**128, 10**5000, Broken()
    ),
    ("batch_size", "encode batch_size"): each(
        "batch_size must be at least 1 and whole, not",
        True, False, 0, -1, 1.5, "x", [1], np.array([1, 2]), NAN, Broken(),
    ),
    ("coverage",): [
        ([0.5, NAN], "coverage must be finite, but row 1 is nan"),
        ([float("inf"), 0.5], "coverage must be finite, but row 0 is inf"),
        ([0.5], r"coverage must have shape \(2,\), not \(1,\)"),
        (0.5, r"coverage must have shape \(2,\), not \(\)"),
        ("high", "coverage must be an array of numbers"),
        ([True, False], "coverage must be numbers, but row 0 is True"),
    ],
    ("signature",): each("signature must be a Signature or None, not", "model:x", {}, 1, np.zeros(3)),
    ("concatenate",): [
        (None, "give a list of Gaussians, not NoneType"),
        (1, "give a list of Gaussians, not int"),
        (BATCH[0], "give a list of Gaussians, not Gaussian"),
        ([1], "number 0 is int: 1"),
        ([BATCH, BATCH.mean], "number 1 is ndarray"),
        ({"a": BATCH}, "not dict"),
        (BrokenIterator(), "not BrokenIterator"),
    ],
    ("sample n",): each(
        "n must be a whole number between 0 and", -1, 1.5, True, None, "3", NAN, 10**30, [3], Broken()
    ),
    ("sample seed",): each("seed must be a whole number", "x", -1, 1.5, None, 10**5000, Broken()),
    ("log_prob",): [(np.zeros((3, 3)), r"x of shape \(3, 3\) does not fit Gaussians of shape \(2, 3\)")],
    ("estimate",): each(
        r"samples must have shape \(..., N, k\)", *map(np.zeros, [(), (3,), (0, 3), (3, 0), (2, 0, 3)])
    ),
    ("estimator",): [
        *each("estimator must be a text", None, ["full"], b"full"),
        ("banded(99999999999999999999999)", "give the number of bands, for instance 'banded\\(3\\)', not"),
        *each("give the number of bands", f"banded({'9' * 5000})", "banded(²)", "banded(-1)", "banded(1.5)"),
        ("full\ud800", "estimator holds half a surrogate pair"),
    ],
    ("whitening dim",): each(
        "dim must be a whole number between 1 and 3, not",
        0, 4, -1, 1.5, 2.0, "2", True, NAN, [2], 10**30, np.array([1, 2]), Broken(),
    ),
    ("whitening fit",): [
        *each("all the same", np.ones((5, 3)), np.full((5, 3), 0.1), np.zeros((5, 0))),
        *each(
            "scale them to numbers of ordinary size",
            *(np.random.default_rng(0).normal(size=(20, 3)) * scale for scale in (1e-36, 1e37)),
        ),
    ],
    ("whitening apply",): [(1.0, "takes vectors of 3 dimensions, not a single number")],
    ("mean and variance",): [
        ((1.0, 1.0), "one shape"),
        *each("at least one dimension", ([], []), (np.zeros((3, 0)),) * 2),
        (([[1.0], [1.0]], [[1.0], [-2.0]]), "cannot be negative, but row 1, dimension 0 is -2.0"),
        (([1.0], [1.0], None, NAN), "coverage must be finite, but it is nan"),
    ],
}  # fmt: skip
CASES = [(target, *case) for names, cases in WRONG.items() for target in names for case in cases]
CASES += [
    (target, value, f"{name} {message.replace('row', 'sample') if name == 'samples' else message}")
    for target, name in ARRAY_TAKERS.items() for value, message in NO_ARRAYS
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_a_wrong_argument_is_refused_and_named(tiny, number):
    target, value, message = CASES[number]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Sen2ProError, match=message):
            more_targets(tiny)[target](value)


def more_targets(model):
    """Return `targets`, and those that only the table above has."""
    texts = ["the dog"]
    found = {
        "mean and variance": lambda v: Gaussian(*v),
        "similarity_pairwise alpha": lambda v: model.similarity_pairwise(BATCH, BATCH, alpha=v),
    }
    for name in PROMPT_TAKERS:
        for option in ("prompt", "prompt_name"):
            found[f"{name} {option}"] = lambda v, name=name, option=option: getattr(model, name)(texts, **{option: v})
    for metric in METRICS:
        found[f"distance alpha of {metric}"] = lambda v, metric=metric: distance(BATCH, BATCH, metric, alpha=v)
        found[f"pairwise alpha of {metric}"] = lambda v, metric=metric: distance_pairwise(BATCH, BATCH, metric, alpha=v)
    return {**targets(model), **found}


@pytest.mark.parametrize("index", [None, True, [[0, 1], [1, 0]], Broken(), [[0], [0, 1]]])
def test_a_batch_is_indexed_by_sentence(index):
    with pytest.raises(TypeError):
        BATCH[index]


@pytest.mark.parametrize(
    "text", ["²", "١٥", "1" * 10, "9" * 5000, "", "+", "15+", "1+2+3", "-5", "1e3", "0x10", "1_0", "15+²"]
)
def test_samples_of_the_command_line_are_digits(text):
    assert parse_samples(" 15 + 30 ") == (15, 30)
    with pytest.raises(typer.BadParameter, match="neither a number"):
        parse_samples(text)


def test_an_error_in_the_callers_own_generator_is_passed_on():
    def lines():
        yield "the dog"
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        check_sentences(lines())


def test_a_bad_sample_is_named_with_its_sentence():
    samples = np.zeros((4, 5, 6), np.float32)
    samples[2, 3, 4] = np.nan
    with pytest.raises(Sen2ProError, match="sentence 2, sample 3, dimension 4 is nan"):
        estimate(samples)
    with pytest.raises(Sen2ProError, match=r"the value at \[0, 2, 3, 4\] is nan"):
        estimate(samples[None])


def test_whitening_that_goes_beyond_float32_is_refused():
    steep = Whitening(np.zeros(3, np.float32), np.full((3, 3), 1e10, np.float32))
    with pytest.raises(Sen2ProError, match="vectors, whitened, must be finite, but row 0, dimension 0 is"):
        steep.apply(np.array([[LARGEST, -LARGEST, 0.0]], np.float32))


# Odd arguments that are right.


def test_texts_words_and_labels_come_in_any_list():
    pandas = pytest.importorskip("pandas")
    texts = ["the dog", "a cat"]
    lists = [texts, tuple(texts), np.array(texts), np.array(texts, object), pandas.Series(texts)]
    for container in [*lists, (text for text in texts), dict.fromkeys(texts).keys()]:
        found = check_sentences(container)
        assert found == texts
        assert {type(text) for text in found} == {str}
    assert check_sentences("the dog") == check_sentences(np.str_("the dog")) == ["the dog"]
    assert check_sentences([]) == []
    assert check_vocabulary(None) is None
    for words in (["red", "blue"], ("red", "blue"), np.array(["red", "blue"]), iter(["red", "blue"])):
        assert check_vocabulary(words) == ["red", "blue"]
    assert check_labels([2**63 - 1, -(2**63) + 1], 2).tolist() == [2**63 - 1, -(2**63) + 1]
    assert check_labels(["ä", "b c"], 2).tolist() == ["ä", "b c"]


def test_a_model_takes_odd_letters_large_seeds_and_huge_batches(tiny, bert, tokenizer):
    assert tiny.encode(["the \0 dog", "the\0dog", "the dog\u200b", "👩\u200d🚀 runs"]).shape == (4, 32)
    one = tiny.encode(["the dog"])
    np.testing.assert_allclose(tiny.encode(["the dog"], batch_size=10**30).mean, one.mean, atol=1e-6)
    for seed in (10**30, -1, -(10**30), np.int64(-5), 2**128 - 1):
        model = Sen2Pro(bert, tokenizer=tokenizer, samples=2, seed=seed)
        assert model.encode("the dog runs").signature.seed == str(int(seed))


def test_numbers_may_be_of_numpy():
    for alpha in (np.float32(0.5), np.float64(0.5), fractions.Fraction(1, 2)):
        np.testing.assert_array_equal(distance(BATCH, BATCH, alpha=alpha), distance(BATCH, BATCH, alpha=0.5))
    np.testing.assert_array_equal(distance(BATCH, BATCH, alpha=np.int64(1)), distance(BATCH, BATCH, alpha=1))
    assert check_samples((np.int64(2), np.uint8(3)), ("model", "data")) == {"model": 2, "data": 3}
    assert check_samples(MOST_SAMPLES, ("model",))["model"] == MOST_SAMPLES
    assert check_rate(None) is None
    for rate in (0.25, np.float32(0.25), np.float16(0.25), np.float64(0.25), fractions.Fraction(1, 4)):
        assert check_rate(rate) == 0.25
        assert type(check_rate(rate)) is float
    np.testing.assert_array_equal(BATCH.sample(np.int64(2), np.uint8(3)), BATCH.sample(2, 3))
    assert BATCH.sample(0).shape == (2, 0, 3)
    assert BATCH.sample(seed=10**30).shape == (2, 1, 3)


def test_arrays_may_be_of_any_real_numbers():
    for dtype in ("f2", "f4", "f8", "g", "i1", "u8", ">f4", ">i2"):
        assert Gaussian(np.ones((2, 3), dtype), np.ones((2, 3), dtype)).mean.dtype == np.float32
    assert Gaussian(torch.ones(3), (1, 2, 3)).shape == (3,)
    assert Gaussian([LARGEST], [LARGEST]).mean == [LARGEST]
    assert np.isfinite(BATCH.log_prob([LARGEST, -LARGEST, 0.0])).all()
    np.testing.assert_array_equal(WHITE.apply([[1.0, 2.0, 3.0]]), WHITE.apply(np.array([[1.0, 2.0, 3.0]])))
    assert Gaussian([1.0], [1.0], signature()).signature == signature()
    assert Gaussian.concatenate(BATCH[i] for i in range(2)) == BATCH
    samples = np.random.default_rng(0).normal(size=(9, 4))
    np.testing.assert_array_equal(estimate(samples, "banded(999999999)")[1], estimate(samples, "full")[1])


# Distances of any Gaussians


def numbers(low):
    special = [0.0, 1e-45, 1e-38, 1e-30, 1e-20, 1.0, 1e15, 1e19, 1e30, 3e38, LARGEST]
    signed = special if low == 0 else special + [-number for number in special]
    return st.one_of(
        st.sampled_from([float(np.float32(number)) for number in signed]), st.floats(low, LARGEST, width=32)
    )


@pytest.mark.parametrize("faiss", [True, False])
@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=100, deadline=None)
@given(
    means=hnp.arrays(np.float32, (2, 3, 4), elements=numbers(-LARGEST)),
    variances=hnp.arrays(np.float32, (2, 3, 4), elements=numbers(0)),
    alpha=st.sampled_from(["ratio", 0.0, 0.5, 1.0]),
)
def test_all_pairs_and_pairwise_agree_for_any_gaussians(faiss, metric, means, variances, alpha):
    a, b = (Gaussian(m, v) for m, v in zip(means, variances, strict=True))
    options = {"alpha": alpha} if metric == "sen2pro" else {}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sen2pro.distances, "_faiss_may_help", lambda: faiss and sen2pro.distances.find_spec("faiss"))
        warnings.simplefilter("error")
        table, pairs = distance(a, b, metric, **options), distance_pairwise(a, b, metric, **options)
    assert not np.isnan(table).any()
    assert not np.isnan(pairs).any()
    np.testing.assert_allclose(np.diag(table), pairs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [distance, distance_pairwise])
def test_a_distance_beyond_float32_is_infinite(function):
    a, b = Gaussian([[3e38, 3e38]], [[1.0, 1.0]]), Gaussian([[-3e38, -3e38]], [[1.0, 1.0]])
    assert function(a, b).item() == np.inf
    assert function(a, b, alpha=1).item() == 0  # and not 0 * inf
    near = Gaussian([[2e38, 3e38]], [[1.0, 1.0]])
    assert function(a, near, alpha=0).item() == pytest.approx(1e38, rel=1e-6)


# Whatever else may come


def hostile():
    """Values of every odd kind."""
    nan, inf = NAN, float("inf")
    scalars = [
        None, True, False, 0, 1, 2, -1, 10**30, -(10**30), 10**5000, 0.0, -0.0, 0.5, 1e-320, 1e300, nan, inf, -inf,
        1j, complex(nan), "", " ", "\0", "x", "ratio", "full", "diagonal", "²", "\ud800", "\u200b", "a\0", b"", b"x",
        bytearray(b"x"), memoryview(b"x"), decimal.Decimal("NaN"), decimal.Decimal(1), fractions.Fraction(1, 3),
        fractions.Fraction(10**400), datetime.datetime(2020, 1, 1), object(), type, len, Ellipsis, NotImplemented,
        range(3), slice(None), Broken(), BrokenIterator(), np.float32(nan), np.float64(0.5), np.int8(-1), np.uint64(3),
        np.bool_(True), np.str_("x"), np.bytes_(b"x"), np.datetime64("NaT"), np.void(b"x"), np.longdouble("1e4000"),
        signature(), BATCH, BATCH[0], BATCH[:0], WHITE,
    ]  # fmt: skip
    containers = [
        [], (), {}, set(), frozenset({1}), {1: 2}, [[]], [[], [1]], [None], [nan], [inf], [True], ["x"], [b"x"], [1j],
        [1, "x"], [10**400], [0.5, 10**400], [[1.0], [2.0, 3.0]], [[[1.0]]], [[nan, 1.0]], ["a", None], ["a", 1],
        ["\ud800"], ["a\0", "a"], [Broken()], [object()], [BATCH], [BATCH, None], iter([1]), (x for x in "ab"),
        map(str, [1]), [1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]] * 2, [[1e300] * 3] * 2, [3e38] * 3, [1e-45] * 3, (15, 15),
        (15, 10**20), (2, True), [2, nan],
    ]  # fmt: skip
    arrays = [
        np.array(values, dtype)
        for values in (1, [], [1, 0, 1], [[1, 0, 1], [0, 1, 1]], [[[1, 0, 1]]])
        for dtype in ("f2", "f4", "f8", "g", "i8", "u1", "?", "c16", "U5", "S5", "O", "M8[s]", "m8[s]")
    ]
    odd = [
        np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 3, 0)), np.zeros((1,) * 30), np.full((2, 3), nan),
        np.full((2, 3), inf), np.full((2, 3), LARGEST), np.full((2, 3), -LARGEST), np.full((2, 3), 1e-45),
        np.broadcast_to(1.0, (2, 3)), np.arange(12.0).reshape(3, 4).T[::-1], np.zeros(2, [("a", "f4")]),
        np.ma.masked_all(3), np.recarray((2,), [("a", "f4")]), torch.ones(2, 3),
        torch.ones(2, 3, requires_grad=True), torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.complex64),
        torch.ones(3).to_sparse(), torch.empty(3, device="meta"), table(["a", None]), table(["a"])["text"],
        table([1.0, nan, 2.0])["text"],
    ]  # fmt: skip
    return [*scalars, *containers, *arrays, *odd]


def targets(model):
    """The public functions, each with one argument left open."""
    samples = np.random.default_rng(0).normal(size=(4, 5, 3))
    return {
        "mean": lambda v: Gaussian(v, v),
        "variance": lambda v: Gaussian(BATCH.mean, v),
        "signature": lambda v: Gaussian(BATCH.mean, BATCH.variance, v),
        "coverage": lambda v: Gaussian(BATCH.mean, BATCH.variance, None, v),
        "log_prob": BATCH.log_prob,
        "sample n": BATCH.sample,
        "sample seed": lambda v: BATCH.sample(1, v),
        "concatenate": Gaussian.concatenate,
        "concatenate part": lambda v: Gaussian.concatenate([BATCH, v]),
        "distance": lambda v: distance(v, BATCH),
        "distance itself": lambda v: distance(v, v),
        "distance metric": lambda v: distance(BATCH, BATCH, v),
        "distance alpha": lambda v: distance(BATCH, BATCH, alpha=v),
        "pairwise": lambda v: distance_pairwise(BATCH, v),
        "pairwise metric": lambda v: distance_pairwise(BATCH, BATCH, v),
        "pairwise alpha": lambda v: distance_pairwise(BATCH, BATCH, alpha=v),
        "similarity alpha": lambda v: model.similarity(BATCH, BATCH, alpha=v),
        "estimate": estimate,
        "estimate full": lambda v: estimate(v, "full"),
        "estimator": lambda v: estimate(samples, v),
        "combine": lambda v: combine([(BATCH.mean, BATCH.variance)], [3], v),
        "whitening fit": Whitening.fit,
        "whitening dim": lambda v: Whitening.fit(samples[0], v),
        "whitening apply": WHITE.apply,
        "labels": lambda v: check_labels(v, 2),
        "one label": lambda v: check_labels([v, v], 2),
        "seed": check_seed,
        "rate": check_rate,
        "batch_size": check_batch_size,
        "samples": lambda v: check_samples(v, ("model", "data")),
        "sentences": check_sentences,
        "one sentence": lambda v: check_sentences([v]),
        "vocabulary": check_vocabulary,
        "one word": lambda v: check_vocabulary([v]),
        "encode prompt": lambda v: model.encode("the dog", prompt=v),
        "encode prompt_name": lambda v: model.encode("the dog", prompt_name=v),
        "encode batch_size": lambda v: model.encode("the dog", batch_size=v),
        "encode": lambda v: model.encode(v),
        "encode_plain": lambda v: model.encode_plain(v),
    }


def has_nan(found):
    if isinstance(found, Gaussian):
        return has_nan((found.mean, found.variance, found.entropy, found.total_variance))
    if isinstance(found, (tuple, list)):
        return any(map(has_nan, found))
    return isinstance(found, (np.ndarray, np.floating)) and found.dtype.kind == "f" and bool(np.isnan(found).any())


def outcome(target, value):
    """The result of a value: a clear error, or a result without NaN."""
    try:
        return "NaN" if has_nan(target(value)) else "fine"
    except Sen2ProError as error:
        return "fine" if 10 < len(str(error)) < 1000 else f"an unclear message: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", targets(None))
def test_hostile_values_give_a_clear_error_or_a_result_without_nan(tiny, name):
    target, values = targets(tiny)[name], hostile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", Sen2ProWarning)
        warnings.simplefilter("ignore", DataConversionWarning)
        found = {f"{i}: {short_repr(value)}": outcome(target, value) for i, value in enumerate(values)}
    assert {value: what for value, what in found.items() if what != "fine"} == {}
