"""The class that users meet."""

import tracemalloc

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sen2pro import Gaussian, Sen2Pro, Sen2ProError, Sen2ProWarning, Whitening, estimate
from sen2pro.errors import TruncationWarning

TEXTS = ["the big dog runs in the park", "rain today", "a woman sees the cat"]


def test_a_list_a_string_and_nothing(tiny):
    g = tiny.encode(TEXTS)
    assert isinstance(g, Gaussian)
    assert g.mean.shape == g.variance.shape == (3, 32)
    assert tiny.encode(TEXTS[0]).shape == (32,)
    assert tiny.encode([]).shape == (0, 32)
    assert tiny.sample([]).shape == (0, 8, 32)
    assert tiny.encode_plain([]).shape == (0, 32)
    assert tiny.encode(np.array(TEXTS)) == g
    assert tiny.encode(tuple(TEXTS)) == g


def test_encode_estimates_from_what_sample_returns(tiny):
    samples = tiny.sample(TEXTS)
    assert samples.shape == (3, 8, 32)
    (mean_m, var_m), (mean_d, var_d) = estimate(samples[:, :4]), estimate(samples[:, 4:])
    g = tiny.encode(TEXTS)
    np.testing.assert_allclose(g.mean, (mean_m + mean_d) / 2, atol=1e-6)
    np.testing.assert_allclose(g.variance, (var_m + var_d) / 2, atol=1e-6)


def test_unified_and_the_two_ablations(bert, tokenizer, tiny):
    samples = tiny.sample(TEXTS)
    cases = {
        ("both", "unified"): samples,
        ("model", "individual"): samples[:, :4],
        ("data", "individual"): samples[:, 4:],
    }
    for (uncertainty, combine), chosen in cases.items():
        g = Sen2Pro(bert, tokenizer=tokenizer, samples=4, uncertainty=uncertainty, combine=combine).encode(TEXTS)
        mean, variance = estimate(chosen)
        np.testing.assert_allclose(g.mean, mean, atol=1e-6)
        np.testing.assert_allclose(g.variance, variance, atol=1e-6)


def test_sources_are_the_two_ablations_and_join_to_what_encode_gives(bert, tokenizer, tiny):
    parts = tiny.encode_sources(TEXTS)
    for source in ("model", "data"):
        assert parts[source] == Sen2Pro(bert, tokenizer=tokenizer, samples=4, uncertainty=source).encode(TEXTS)
    assert tiny.encode_sources(TEXTS[0])["model"].shape == (32,)
    assert tiny.join(parts) == tiny.encode(TEXTS)
    with pytest.raises(Sen2ProError, match=r"joins model and data, as encode_sources gives them, not \['model'\]"):
        tiny.join({"model": parts["model"]})


def test_samples_may_differ_by_source(bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=(3, 5))
    assert model.sample(TEXTS).shape == (3, 8, 32)
    assert model.signature().samples == "3+5"


def test_similarity_is_greater_for_what_is_closer(minilm):
    g = minilm.encode(["A man is playing a guitar.", "Someone plays the guitar.", "The market fell on Tuesday."])
    table = minilm.similarity(g, g)
    assert table.shape == (3, 3)
    assert table[0, 1] > table[0, 2]
    np.testing.assert_allclose(np.diag(table), 0, atol=1e-6)
    np.testing.assert_allclose(
        minilm.similarity_pairwise(g, g[[1, 2, 0]]), [table[0, 1], table[1, 2], table[2, 0]], rtol=1e-5
    )


def test_gaussians_of_other_settings_cannot_be_compared(bert, tokenizer, tiny):
    g = tiny.encode(TEXTS)
    for changes in ({"pooling": "cls"}, {"uncertainty": "model"}, {"dropout": 0.3}, {"normalize": True}):
        other = Sen2Pro(bert, tokenizer=tokenizer, samples=4, **changes).encode(TEXTS)
        with pytest.raises(Sen2ProError, match="cannot be compared"):
            tiny.similarity(g, other)
    reseeded = Sen2Pro(bert, tokenizer=tokenizer, samples=6, seed=1).encode(TEXTS)
    assert tiny.similarity(g, reseeded).shape == (3, 3), "seed and number of samples do not matter"


def test_memory_does_not_grow_with_the_number_of_samples(bert, tokenizer):
    def peak(samples):
        model = Sen2Pro(bert, tokenizer=tokenizer, samples=samples, uncertainty="model")
        model.encode(TEXTS)
        tracemalloc.start()
        model.encode(TEXTS * 20)
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    assert peak(200) < 1.5 * peak(50)


def test_whitening_is_fitted_applied_to_samples_and_saved_with_the_model(bert, tokenizer, tmp_path):
    corpus = [
        f"{a} {b} {c}"
        for a in ("the", "a")
        for b in ("big", "small", "red", "blue")
        for c in ("dog", "cat", "man", "ball", "house")
    ]
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=3, seed=5).fit_whitening(corpus, dim=8)
    vectors = model.encode_plain(corpus)
    assert vectors.shape == (40, 8)
    np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(8), atol=1e-2)
    g = model.encode(TEXTS)
    assert g.dim == model.dim == 8
    plain = Sen2Pro(bert, tokenizer=tokenizer, samples=3, seed=5)
    np.testing.assert_allclose(model.sample(TEXTS), model.whitening.apply(plain.sample(TEXTS)), atol=1e-4)

    model.save(tmp_path / "saved")
    loaded = Sen2Pro.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.encode(TEXTS).mean, g.mean, atol=1e-5)
    loaded.similarity(loaded.encode(TEXTS), g)
    assert loaded.seed == 5
    assert Sen2Pro.load(tmp_path / "saved", seed=6).seed == 6
    assert Sen2Pro(str(tmp_path / "saved"), samples=3).whitening is not None, "a saved whitening is not lost silently"
    assert Sen2Pro(str(tmp_path / "saved"), samples=3, whitening=False).dim == 32
    with pytest.raises(Sen2ProError, match="not an empty folder"):
        model.save(tmp_path / "saved")
    cls = Sen2Pro(bert, tokenizer=tokenizer, samples=3, pooling="cls").fit_whitening(corpus, dim=8)
    cls.save(tmp_path / "cls")
    again = Sen2Pro(str(tmp_path / "cls"), samples=3)
    assert again.signature() == cls.signature(), "a folder keeps name, pooling and whitening together"
    with pytest.raises(Sen2ProError, match="does not fit mean pooling"):
        Sen2Pro(str(tmp_path / "cls"), pooling="mean")
    assert Sen2Pro(str(tmp_path / "cls"), pooling="mean", whitening=False).dim == 32
    with pytest.raises(Sen2ProError, match=r"no sen2pro\.json"):
        Sen2Pro.load(tmp_path)


def test_a_saved_model_is_one_for_sentence_transformers_too(minilm, tmp_path):
    minilm.save(tmp_path / "saved")
    loaded = Sen2Pro.load(tmp_path / "saved")
    text = "A man is playing a guitar."
    np.testing.assert_allclose(loaded.encode(text).mean, minilm.encode(text).mean, atol=1e-5)
    np.testing.assert_allclose(
        SentenceTransformer(str(tmp_path / "saved")).encode(text), minilm.encode_plain(text), atol=1e-5
    )


def test_whitening_refuses_what_it_cannot_use(tmp_path, bert, tokenizer):
    with pytest.raises(Sen2ProError, match="at least two vectors"):
        Whitening.fit(np.zeros((1, 3)))
    vectors = np.random.default_rng(0).normal(size=(5, 20))
    with pytest.warns(Sen2ProWarning, match="5 vectors cannot fill 20 directions"):
        assert np.isfinite(Whitening.fit(vectors).apply(vectors)).all()
    fitted = Whitening.fit(np.random.default_rng(0).normal(size=(10, 3)))
    with pytest.raises(Sen2ProError, match="3 dimensions, not 2"):
        fitted.apply(np.zeros((1, 2)))
    with pytest.raises(Sen2ProError, match="to fit one"):
        Sen2Pro(bert, tokenizer=tokenizer, whitening=True)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(Sen2ProError, match="not a whole safetensors file"):
        Whitening.load(tmp_path / "broken.safetensors")


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["the dog", ""], "sentence 1 is empty or blank: ''; leave it out"),
        ([" \t\n"], "sentence 0 is empty or blank"),
        (["the dog", None], "sentence 1 is not a text but NoneType"),
        (["the dog", float("nan")], "sentence 1 is not a text but float: nan"),
        ([b"the dog"], "sentence 0 is not a text but bytes"),
        ([["the dog"]], "sentence 0 is not a text but list"),
        ("", "sentence 0 is empty"),
        (None, "give a sentence or a list of sentences"),
        (b"the dog", "give a sentence or a list of sentences"),
        ({"text": "the dog"}, "of a table, one column"),
        (["the \ud800 dog"], "sentence 0 holds half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("method", ["encode", "sample", "encode_plain", "encode_sources"])
def test_bad_sentences_are_named_by_their_index(tiny, method, sentences, message):
    with pytest.raises(Sen2ProError, match=message):
        getattr(tiny, method)(sentences)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": 1}, "at least 2 for model uncertainty"),
        ({"samples": (15, 0)}, "samples=0 gives no variance"),
        ({"normalize": "no"}, "normalize must be True, False or None"),
        ({"whitening": "x"}, "a fitted Whitening"),
        ({"samples": 2.5}, "whole number or a pair"),
        ({"samples": (1, 2, 3)}, "whole number or a pair"),
        ({"uncertainty": "modle"}, "did you mean 'model'"),
        ({"combine": "unifed"}, "did you mean 'unified'"),
        ({"pooling": "men"}, "did you mean 'mean'"),
        ({"dropout": 0}, "between 0 and 1"),
        ({"dropout": 1.5}, "between 0 and 1"),
        ({"seed": "zero"}, "seed must be a whole number"),
        ({"vocabulary": []}, "at least one word"),
        ({"device": "cudda"}, "cudda"),
    ],
)
def test_bad_settings_get_a_clear_error(bert, tokenizer, arguments, message):
    with pytest.raises(Sen2ProError, match=message):
        Sen2Pro(bert, tokenizer=tokenizer, **arguments)


def test_it_says_what_it_is(tiny):
    assert tiny.encode(TEXTS).signature == tiny.signature()
    assert repr(tiny) == "Sen2Pro('BertModel', uncertainty='both', samples=4+4)"
    assert repr(tiny.encode(TEXTS)) == "Gaussian(shape=(3, 32), made: BertModel, both)"
    assert repr(Gaussian([0.0], [1.0])) == "Gaussian(shape=(1,), made: by hand)"


def test_numbers_may_come_from_numpy(bert, tokenizer):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=np.int64(3), seed=np.int32(1), dropout=np.float32(0.25))
    assert (model.signature().samples, model.signature().seed, model.signature().dropout) == ("3+3", "1", "0.25")


def test_unused_sources_need_no_samples(bert, tokenizer):
    assert Sen2Pro(bert, tokenizer=tokenizer, samples=(2, 0), uncertainty="model").encode("the dog").dim == 32


def test_long_sentences_are_cut_counted_and_said_once(tiny):
    long = "the dog runs in the park " * 20
    with pytest.warns(TruncationWarning, match="2 of 3 sentences are longer than the 32 tokens") as caught:
        g = tiny.encode([long, "the dog", long + " again"])
    assert len(caught) == 1
    assert caught[0].message.count == 2
    assert np.isfinite(g.mean).all()


def test_long_sentences_are_counted_among_all_when_words_are_inserted(tiny):
    texts = [*["the dog"] * 300, "the dog runs in the park " * 20]  # more than are in memory at once
    with pytest.warns(TruncationWarning, match="1 of 301 sentences is longer") as caught:
        moved = tiny.sampler.measure_moves(tiny.tokenize(texts), count=1)
    assert len(caught) == 1
    assert np.isfinite(moved).all()


def test_a_long_window_of_samples_is_cut_without_a_seam(bert, tokenizer):
    many = Sen2Pro(bert, tokenizer=tokenizer, samples=1500, uncertainty="model")  # more than are prepared at once
    mean, variance = estimate(many.sample("the dog runs", batch_size=256))
    g = many.encode("the dog runs", batch_size=256)
    np.testing.assert_allclose(g.mean, mean, atol=1e-6)
    np.testing.assert_allclose(g.variance, variance, atol=1e-6)


def test_progress_is_shown_when_asked_for(tiny, capfd):
    tiny.encode(TEXTS, show_progress_bar=True)
    assert "24/24" in capfd.readouterr().err
    tiny.encode(TEXTS, show_progress_bar=None)
    assert capfd.readouterr().err == ""
    done = []
    tiny.encode(TEXTS, show_progress_bar=done.append)
    assert sum(done) == 3 * 8
