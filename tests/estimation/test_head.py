"""One pass: what a head predicts, what it refuses, what it costs."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import WORDS, build_network
from msgspec import structs
from safetensors.numpy import load_file, save_file

from sen2pro import Gaussian, Head, Sen2Pro, Sen2ProError
from sen2pro.estimation.head import CONFIG, TENSORS


def some_sentences(count, seed, longest=20):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def distilled(tokenizer):
    model = Sen2Pro(build_network("bert"), tokenizer=tokenizer)
    return model.distill(some_sentences(500, 0), samples=8, verbose=False)


def log_error(found, truth):
    return np.mean(np.log(found.variance / truth.variance) ** 2)


def test_one_pass_predicts_better_than_15_samples_and_the_plain_vector(distilled, tokenizer):
    texts = some_sentences(40, 1)
    truth, sampled = (
        Sen2Pro(build_network("bert"), tokenizer=tokenizer, samples=samples, seed=seed).encode_sources(texts)
        for samples, seed in ((150, 1), (15, 0))
    )
    predicted, plain = distilled.encode_sources(texts), distilled.encode_plain(texts)
    for source in ("model", "data"):
        assert log_error(predicted[source], truth[source]) < 0.9 * log_error(sampled[source], truth[source])
        ratio = predicted[source].total_variance / truth[source].total_variance
        assert np.exp(np.abs(np.log(ratio).mean())) < 1.1
        error = np.mean((predicted[source].mean - truth[source].mean) ** 2)
        assert error < 0.8 * np.mean((plain - truth[source].mean) ** 2)


def test_a_prediction_does_not_depend_on_its_batch(distilled):
    texts = some_sentences(12, 2)
    together = distilled.encode(texts)
    for i, text in enumerate(texts):
        np.testing.assert_allclose(distilled.encode(text).mean, together[i].mean, atol=1e-5)
        np.testing.assert_allclose(distilled.encode(text).variance, together[i].variance, rtol=1e-4)


def test_coverage_is_low_for_what_the_head_has_never_seen(distilled):
    usual = distilled.encode(some_sentences(200, 3)).coverage
    assert 0.3 < np.median(usual) < 0.7
    assert (usual < 0.01).mean() < 0.05
    longer = distilled.encode([" ".join(WORDS[:26])])
    assert longer.coverage[0] == 0


def test_a_head_is_saved_and_loaded(distilled, tmp_path, tokenizer):
    texts = some_sentences(5, 4)
    distilled.head.save(tmp_path / "head")
    loaded = Sen2Pro(build_network("bert"), tokenizer=tokenizer, method="one-pass", head=tmp_path / "head")
    assert loaded.encode(texts) == distilled.encode(texts)
    distilled.save(tmp_path / "model")
    again = Sen2Pro.load(tmp_path / "model")
    assert again.method == "one-pass"
    np.testing.assert_allclose(again.encode(texts).variance, distilled.encode(texts).variance, rtol=1e-5)
    assert Sen2Pro.load(tmp_path / "model", method="sampling", samples=3).encode(texts).coverage is None


def test_the_signature_says_head_corpus_and_teacher(distilled, tiny):
    signature = distilled.encode(["the dog runs"]).signature
    assert f"one-pass (head {distilled.head.hash}, corpus {distilled.head.config.corpus.hash} of" in signature.estimator
    assert "teacher 8+8, seed 0" in signature.estimator
    assert (signature.samples, signature.seed) == ("0", "no")
    with pytest.raises(Sen2ProError, match="estimator"):
        distilled.similarity(distilled.encode(["the dog runs"]), tiny.encode(["the dog runs"]))


def test_coverage_survives_files_and_indexing(distilled, tmp_path):
    g = distilled.encode(some_sentences(6, 5))
    for name in ("g.parquet", "g.safetensors"):
        g.save(tmp_path / name)
        assert Gaussian.load(tmp_path / name) == g
        g[2].save(tmp_path / f"one-{name}")
        assert Gaussian.load(tmp_path / f"one-{name}") == g[2]
    assert Gaussian.concatenate([g[:2], g[2:]]) == g
    assert Gaussian.concatenate([g[:2], Gaussian(g.mean[2:], g.variance[2:], g.signature)]).coverage is None
    with pytest.raises(Sen2ProError, match="coverage must have shape"):
        Gaussian(g.mean, g.variance, coverage=[1.0])


@pytest.mark.parametrize("uncertainty", ["model", "data"])
def test_one_kind_of_uncertainty_alone(distilled, tokenizer, uncertainty):
    settings = {"method": "one-pass", "head": distilled.head, "uncertainty": uncertainty}
    model = Sen2Pro(build_network("bert"), tokenizer=tokenizer, **settings)
    texts = some_sentences(4, 6)
    np.testing.assert_array_equal(model.encode(texts).variance, distilled.encode_sources(texts)[uncertainty].variance)


def test_a_head_for_another_model_is_refused(distilled, tokenizer):
    for family, changes, what in (("electra", {}, "hash"), ("bert", {"normalize": True}, "geometry")):
        with pytest.raises(Sen2ProError, match=f"does not fit this model: .*{what}"):
            Sen2Pro(
                build_network(family), tokenizer=tokenizer, method="one-pass", head=distilled.head, **changes
            )  # fmt: skip


def test_a_model_without_a_head_says_how_to_get_one(tiny, bert, tokenizer):
    with pytest.raises(Sen2ProError, match="there is no head for BertModel.*distill"):
        Sen2Pro(bert, tokenizer=tokenizer, method="one-pass")
    with pytest.raises(Sen2ProError, match="takes no samples"):
        Sen2Pro(bert, tokenizer=tokenizer, method="one-pass", samples=4)
    with pytest.raises(Sen2ProError, match="method"):
        Sen2Pro(bert, tokenizer=tokenizer, method="two-pass")


def test_bad_corpora_are_refused(tiny):
    with pytest.raises(Sen2ProError, match="at least 200 different sentences, better thousands, not 2"):
        tiny.distill(["the dog runs", "a cat"] * 300)
    with pytest.raises(Sen2ProError, match="samples must be a whole number between 6 and"):
        tiny.distill(some_sentences(300, 0), samples=2)
    with pytest.raises(Sen2ProError, match="held_out"):
        tiny.distill(some_sentences(300, 0), held_out=0.9)
    assert tiny.method == "sampling"


def test_damaged_heads_are_refused(distilled, tmp_path):
    with pytest.raises(Sen2ProError, match="there is no head"):
        Head.load(tmp_path)
    distilled.head.save(tmp_path)
    tensors = load_file(tmp_path / TENSORS)
    tensors["coverage.low"] = tensors["coverage.low"] + 1
    save_file(tensors, tmp_path / TENSORS)
    with pytest.raises(Sen2ProError, match="changed or damaged"):
        Head.load(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    del config["layers"]
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(Sen2ProError, match="missing required field `layers`"):
        Head.load(tmp_path)


@pytest.mark.parametrize("family", ["t5", "albert"])
def test_other_families_and_geometries_can_be_distilled(family, tokenizer, capsys):
    network = build_network(family)
    model = Sen2Pro(network, tokenizer=tokenizer, normalize=True)
    model.fit_whitening(some_sentences(300, 8), dim=16)
    before = model.encoder.hash
    model.distill(some_sentences(300, 8), samples=6)
    assert (model.encoder.hash, network.training) == (before, False)  # the encoder is left alone
    assert "R2 on held-out sentences" in capsys.readouterr().out
    g = model.encode(some_sentences(5, 9))
    assert g.shape == (5, 16)
    assert (g.variance > 0).all()
    with pytest.raises(Sen2ProError, match="whiten first, then distill"):
        model.fit_whitening(some_sentences(300, 8), dim=16)


PASSAGE = (
    "The ferry left the harbour a little after six, with the lights of the town still burning behind it. Most of "
    "the passengers had gone below to sleep or to drink coffee, but an old man stayed on deck and watched the "
    "gulls. He had made this crossing every spring for forty years, first with his father and later with his own "
    "children. The island had changed less than he had. There was a new school now, and a clinic with a doctor "
    "who came twice a week, but the fields were the same, and so were the stone walls that nobody alive had "
    "built. He wondered, as he always did when the first hills came into view, why he had ever moved away, and "
    "whether it was too late to come back."
)
ENGLISH = [
    "A man is playing a guitar.",
    "The committee met for the third time this year, in Geneva, to discuss the rules of trade.",
    "Thanks!",
    "Shares of the company fell by four percent on Tuesday.",
    "how to boil an egg",
    PASSAGE,
]


@pytest.mark.parametrize("normalize", [True, False])
def test_the_default_model_has_heads(normalize):
    one = Sen2Pro("all-MiniLM-L6-v2", method="one-pass", normalize=normalize)
    many = Sen2Pro("all-MiniLM-L6-v2", samples=40, normalize=normalize, seed=1)
    few = Sen2Pro("all-MiniLM-L6-v2", samples=5, normalize=normalize)
    truth, predicted, sampled = (model.encode_sources(ENGLISH) for model in (many, one, few))
    live = truth["model"].variance.max(axis=0) > 1e-9
    assert live.sum() == 381  # three dimensions of MiniLM never vary
    for source in ("model", "data"):
        errors = [
            np.mean(np.log(g[source].variance[:, live] / truth[source].variance[:, live]) ** 2)
            for g in (predicted, sampled)
        ]
        assert errors[0] < 0.5 * errors[1]
        ratio = predicted[source].total_variance / truth[source].total_variance
        assert np.exp(np.abs(np.log(ratio)).mean()) < 1.5
        assert 0.55 < ratio[-1] < 1.8  # of the passage
        if normalize:  # the mean has the length that the variance leaves
            for g in (predicted[source], sampled[source]):
                length = (g.mean.astype(float) ** 2).sum(axis=1)
                np.testing.assert_allclose(length + g.total_variance, 1, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
def test_the_default_heads_know_plain_english_of_any_length_and_nothing_else(normalize):
    one = Sen2Pro("all-MiniLM-L6-v2", method="one-pass", normalize=normalize)
    known = one.encode([*ENGLISH, "good morning", "Where is the station?", f"{PASSAGE} {PASSAGE[:350]}"]).coverage
    assert (known > 0.01).all()
    assert np.median(known) > 0.1
    strange = ["aaaa aaaa aaaa aaaa aaaa aaaa aaaa", "今日は天気がいいですね", "!!! ??? ...", "word " * 150]
    assert (one.encode(strange).coverage < 0.01).all()


def test_a_prediction_far_from_the_corpus_is_large_but_finite(distilled):
    """Text unlike any of the corpus gave an infinite variance, and one such sentence made the whole batch fail."""
    config, arrays = distilled.head.config, dict(distilled.head.arrays)
    arrays["data.variance.terms"] = arrays["data.variance.terms"] + 1e4
    config = structs.replace(config, transforms={**config.transforms, "data.variance": "log"})
    head = replace(distilled.head, config=config, arrays=arrays)
    states = distilled.sampler.run_plain(distilled.tokenize(["the dog runs"]), head.layers)
    variance = head.predict(states, "data")[1]
    assert np.isfinite(variance.astype(np.float32)).all()
    assert variance.max() > 1e30


def test_a_head_is_read_once_until_its_files_change(distilled, tmp_path):
    distilled.head.save(tmp_path)
    first = Head.load(tmp_path)
    assert Head.load(tmp_path) is first
    replace(distilled.head, config=structs.replace(first.config, rest=9.0)).save(tmp_path)
    assert Head.load(tmp_path).config.rest == 9
