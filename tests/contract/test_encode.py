"""Sentences become Gaussians: every setting that changes a number."""

import pickle

import numpy as np
import pytest

from contract import api
from contract.about import NONE, NUMBERS, ONE_PASS, PLAIN, SAMPLING, of
from contract.golden import noted, refused
from contract.texts import MAN, MARKET, PLAYS, SENTENCES

FEW = [MAN, "They did it again.", MARKET]
SETTINGS = {
    "model-uncertainty": {"uncertainty": "model"},
    "data-uncertainty": {"uncertainty": "data"},
    "unified": {"combine": "unified", "samples": (4, 8)},
    "samples-and-seed": {"samples": (3, 6), "seed": 7},
    "raw": {"normalize": False, "samples": 4},
    "cls": {"pooling": "cls", "samples": 4},
    "first-last-avg": {"pooling": "first-last-avg", "samples": 4},
    "dropout": {"dropout": 0.3, "samples": 4},
    "vocabulary": {"vocabulary": ["market", "rain", "music"], "samples": 4},
}


def made(**settings):
    with noted():
        return api.Sen2Pro(**settings)


def about(settings):
    return of(SAMPLING, seed=settings.get("seed", 0))


def test_sampling(model, golden):
    golden(model.encode(SENTENCES), SAMPLING)


def test_one_pass(one_pass, golden):
    golden(one_pass.encode(SENTENCES), ONE_PASS)


def test_sources_of_sampling(model, golden):
    golden(model.encode_sources(FEW), SAMPLING)


def test_sources_of_one_pass(one_pass, golden):
    golden(one_pass.encode_sources(FEW), ONE_PASS)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, golden):
    golden(made(**SETTINGS[name]).encode(FEW), about(SETTINGS[name]))


@pytest.mark.parametrize("name", ["model-uncertainty", "data-uncertainty", "unified", "raw"])
def test_settings_in_one_pass(name, golden):
    settings = {key: value for key, value in SETTINGS[name].items() if key != "samples"}
    golden(made(**settings, method="one-pass").encode(FEW), ONE_PASS)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_precision(precision, golden):
    """Only float32 is kept to five digits: other processors round halves of it in their own way."""
    golden(made(precision=precision, samples=2).encode(MAN), SAMPLING, tolerance=0.03)


def test_a_prompt_goes_before_each_sentence(model, one_pass, golden):
    golden(
        {"sampling": model.encode(FEW, prompt="query: "), "one-pass": one_pass.encode(FEW, prompt="query: ")},
        of(SAMPLING, method="both", head="shipped"),
    )


def test_one_sentence_and_none(model, one_pass, golden):
    golden(
        {
            "one": model.encode(MAN), "one in one pass": one_pass.encode(MAN),
            "none": list(model.encode([]).shape), "none in one pass": list(one_pass.encode([]).shape),
        },
        of(SAMPLING, method="both", head="shipped"),
    )  # fmt: skip


def test_neighbours_do_not_matter(model):
    together, alone = model.encode([MAN, SENTENCES[3], PLAYS]), model.encode(MAN)
    assert np.abs(together.mean[0] - alone.mean).max() < 1e-6
    assert np.abs(together.variance[0] - alone.variance).max() < 1e-6


def test_the_same_seed_gives_the_same_numbers(model):
    assert model.encode(FEW) == api.Sen2Pro().encode(FEW)


def test_samples(golden):
    golden(made(samples=(2, 3)).sample(FEW[:2]), SAMPLING)


def test_plain_vectors(model, golden):
    golden(api.plain_vectors(model, SENTENCES), PLAIN)


def test_a_long_text_is_cut_with_a_warning(model, golden):
    with noted() as notes:
        vector = api.plain_vectors(model, ["word " * 600])
    golden({"warned": bool(notes), "vector": vector}, PLAIN)


def test_whitening_turns_and_scales_all_vectors(golden):
    """Directions have no sign, so what is kept does not depend on it."""
    whitened = made(samples=4).fit_whitening(SENTENCES, dim=4)
    g = whitened.encode(FEW)
    golden(
        {"dim": whitened.dim, "total": g.total_variance, "lengths": np.linalg.norm(g.mean, axis=1),
         "distances": whitened.similarity(g, g)}, SAMPLING,
    )  # fmt: skip


def test_a_saved_model_encodes_the_same(tmp_path, golden):
    model = made(samples=(3, 6), seed=7, combine="unified")
    model.save(tmp_path / "model")
    loaded = api.Sen2Pro.load(tmp_path / "model")
    assert loaded.encode(FEW) == model.encode(FEW)
    changed = api.Sen2Pro.load(tmp_path / "model", seed=8)
    golden(changed.encode(FEW), of(SAMPLING, seed=8))


def test_gaussians(one_pass, golden):
    g = one_pass.encode(FEW)
    golden(
        {
            "std": g.std,
            "entropy": g.entropy,
            "log density at their means": g.log_prob(g.mean),
            "sample": g[0].sample(2),
            "other sample": g[0].sample(1, seed=3),
            "rows": [list(part.shape) for part in (g, g[1:], g[1], g[[2, 0]])],
            "joined": api.Gaussian.concatenate([g[:1], g[2]]),
            "length": len(g),
            "dim": g.dim,
        },
        ONE_PASS,
    )


def test_gaussians_by_hand(golden):
    g = api.Gaussian(mean=[[0.0, 1.0], [2.0, 3.0]], variance=[[1.0, 1.0], [4.0, 0.0]], coverage=[0.5, 0.25])
    golden({"itself": g, "entropy": g.entropy, "log density": g.log_prob([0.5, 0.5])}, NUMBERS)


def test_pickled(one_pass):
    g = one_pass.encode(FEW)
    assert pickle.loads(pickle.dumps(g)) == g
    assert pickle.loads(pickle.dumps(one_pass)).encode(FEW) == g


def test_estimate_of_samples(golden):
    samples = np.random.default_rng(0).normal(size=(2, 10, 4))
    found = {how: api.estimate(samples, how)[1] for how in ("diagonal", "banded(1)", "full")}
    golden({"mean": api.estimate(samples)[0], **found}, NUMBERS)


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_saved_gaussian_is_read_as_it_was(suffix, one_pass, tmp_path):
    g, path = one_pass.encode(FEW), tmp_path / f"g.{suffix}"
    more = {"ids": ["a", "b", "c"], "texts": FEW} if suffix == "parquet" else {}
    g.save(path, **more)
    assert api.Gaussian.load(path) == g
    stored = api.read(path)
    assert (stored.gaussian, stored.ids, stored.texts) == (g, more.get("ids"), more.get("texts"))
    assert refused(g.save, path) == "Sen2ProError"  # it exists
    g[:1].save(path, overwrite=True)
    assert len(api.Gaussian.load(path)) == 1
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert refused(api.Gaussian.load, path) == "Sen2ProError"  # damaged


def test_what_is_refused(model, one_pass, golden):
    calls = {
        "an empty text": (model.encode, [""]),
        "a blank text": (model.encode, [MAN, " "]),
        "a number": (model.encode, [5]),
        "no list": (model.encode, 5),
        "half a letter": (model.encode, ["\ud800"]),
        "an unknown prompt": (
            lambda texts: model.encode(texts, prompt_name="nothing"),
            FEW,
        ),
        "gaussians of two methods": (api.Gaussian.concatenate, [model.encode(MAN), one_pass.encode(MAN)]),
        "a negative variance": (api.Gaussian, [0.0], [-1.0]),
        "two shapes": (api.Gaussian, [0.0], [1.0, 1.0]),
        "nan": (api.Gaussian, [float("nan")], [1.0]),
        "no file": (api.Gaussian.load, "nowhere.parquet"),
        "another suffix": (api.Gaussian([0.0], [1.0]).save, "g.npz"),
    }
    golden({name: refused(*call) for name, call in calls.items()}, NONE)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "magic"},
        {"samples": 0},
        {"samples": 1.5},
        {"samples": (1, 2, 3)},
        {"uncertainty": "none"},
        {"combine": "mean"},
        {"pooling": "max"},
        {"dropout": 1.5},
        {"dropout": 0.0},
        {"seed": "one"},
        {"precision": "int8"},
        {"method": "one-pass", "samples": 3},
        {"method": "one-pass", "pooling": "cls"},
        {"head": "nowhere"},
        {"model": "./nowhere"},
        {"vocabulary": []},
    ],
    ids=str,
)
def test_settings_that_are_refused(settings):
    assert refused(made, **settings) == "Sen2ProError"
