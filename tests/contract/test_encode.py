"""Sentences become Gaussians: every setting that changes a number."""

import pickle

import numpy as np
import pytest

from contract import api
from contract.about import BOTH, NONE, NUMBERS, ONE_PASS, PLAIN, SAMPLING
from contract.golden import all_refused, noted, refused
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


def by_hand():
    g = api.Gaussian(mean=[[0.0, 1.0], [2.0, 3.0]], variance=[[1.0, 1.0], [4.0, 0.0]], coverage=[0.5, 0.25])
    return {"itself": g, "entropy": g.entropy, "log density": g.log_prob([0.5, 0.5])}


def estimated():
    samples = np.random.default_rng(0).normal(size=(2, 10, 4))
    found = {how: api.estimate(samples, how)[1] for how in ("diagonal", "banded(1)", "full")}
    return {"mean": api.estimate(samples)[0], **found}


# What a default model and a model in one pass give.
CASES = {
    "sampling": (SAMPLING, lambda model, one_pass: model.encode(SENTENCES)),
    "one_pass": (ONE_PASS, lambda model, one_pass: one_pass.encode(SENTENCES)),
    "sources_of_sampling": (SAMPLING, lambda model, one_pass: model.encode_sources(FEW)),
    "sources_of_one_pass": (ONE_PASS, lambda model, one_pass: one_pass.encode_sources(FEW)),
    "plain_vectors": (PLAIN, lambda model, one_pass: api.plain_vectors(model, SENTENCES)),
    "samples": (SAMPLING, lambda model, one_pass: made(samples=(2, 3)).sample(FEW[:2])),
    "gaussians_by_hand": (NUMBERS, lambda model, one_pass: by_hand()),
    "estimate_of_samples": (NUMBERS, lambda model, one_pass: estimated()),
    "a_prompt_goes_before_each_sentence": (BOTH, lambda model, one_pass: {
        "sampling": model.encode(FEW, prompt="query: "), "one-pass": one_pass.encode(FEW, prompt="query: "),
    }),
    "one_sentence_and_none": (BOTH, lambda model, one_pass: {
        "one": model.encode(MAN), "one in one pass": one_pass.encode(MAN),
        "none": list(model.encode([]).shape), "none in one pass": list(one_pass.encode([]).shape),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name, model, one_pass, golden):
    about, call = CASES[name]
    golden(call(model, one_pass), about, name=f"test_{name}")


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, golden):
    golden(made(**SETTINGS[name]).encode(FEW), SAMPLING | {"seed": SETTINGS[name].get("seed", 0)})


@pytest.mark.parametrize("name", ["model-uncertainty", "data-uncertainty", "unified", "raw"])
def test_settings_in_one_pass(name, golden):
    settings = {key: value for key, value in SETTINGS[name].items() if key != "samples"}
    golden(made(**settings, method="one-pass").encode(FEW), ONE_PASS)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_precision(precision, golden):
    """Only float32 is kept to five digits: other processors round halves of it in their own way."""
    golden(made(precision=precision, samples=2).encode(MAN), SAMPLING, tolerance=0.03)


def test_neighbours_do_not_matter_and_a_seed_repeats_the_numbers(model):
    together, alone = model.encode([MAN, SENTENCES[3], PLAYS]), model.encode(MAN)
    assert np.abs(together.mean[0] - alone.mean).max() < 1e-6
    assert np.abs(together.variance[0] - alone.variance).max() < 1e-6
    assert model.encode(FEW) == api.Sen2Pro().encode(FEW)


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
    golden(api.Sen2Pro.load(tmp_path / "model", seed=8).encode(FEW), SAMPLING | {"seed": 8})


def test_gaussians(one_pass, golden):
    g = one_pass.encode(FEW)
    golden(
        {
            "std": g.std, "entropy": g.entropy, "log density at their means": g.log_prob(g.mean),
            "sample": g[0].sample(2), "other sample": g[0].sample(1, seed=3), "length": len(g), "dim": g.dim,
            "rows": [list(part.shape) for part in (g, g[1:], g[1], g[[2, 0]])],
            "joined": api.Gaussian.concatenate([g[:1], g[2]]),
        },
        ONE_PASS,
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(g)) == g
    assert pickle.loads(pickle.dumps(one_pass)).encode(FEW) == g


@pytest.mark.parametrize("suffix", ["parquet", "safetensors"])
def test_a_saved_gaussian_is_read_as_it_was(suffix, one_pass, tmp_path):
    g, path = one_pass.encode(FEW), tmp_path / f"g.{suffix}"
    more = {"ids": ["a", "b", "c"], "texts": FEW} if suffix == "parquet" else {}
    g.save(path, **more)
    assert api.Gaussian.load(path) == g
    stored = api.read(path)
    assert (stored.gaussian, stored.ids, stored.texts) == (g, more.get("ids"), more.get("texts"))
    assert refused(lambda: g.save(path)) == "Sen2ProError"  # it exists
    g[:1].save(path, overwrite=True)
    assert len(api.Gaussian.load(path)) == 1
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert refused(lambda: api.Gaussian.load(path)) == "Sen2ProError"  # damaged


def test_what_is_refused(model, one_pass, golden):
    found = all_refused(
        an_empty_text=lambda: model.encode([""]),
        a_blank_text=lambda: model.encode([MAN, " "]),
        a_number=lambda: model.encode([5]),
        no_list=lambda: model.encode(5),
        half_a_letter=lambda: model.encode(["\ud800"]),
        an_unknown_prompt=lambda: model.encode(FEW, prompt_name="nothing"),
        gaussians_of_two_methods=lambda: api.Gaussian.concatenate([model.encode(MAN), one_pass.encode(MAN)]),
        a_negative_variance=lambda: api.Gaussian([0.0], [-1.0]),
        two_shapes=lambda: api.Gaussian([0.0], [1.0, 1.0]),
        nan=lambda: api.Gaussian([float("nan")], [1.0]),
        no_file=lambda: api.Gaussian.load("nowhere.parquet"),
        another_suffix=lambda: api.Gaussian([0.0], [1.0]).save("g.npz"),
    )
    golden(found, NONE)


REFUSED = (
    {"method": "magic"}, {"samples": 0}, {"samples": 1.5}, {"samples": (1, 2, 3)}, {"uncertainty": "none"},
    {"combine": "mean"}, {"pooling": "max"}, {"dropout": 1.5}, {"dropout": 0.0}, {"seed": "one"}, {"head": "nowhere"},
    {"precision": "int8"}, {"method": "one-pass", "samples": 3}, {"method": "one-pass", "pooling": "cls"},
    {"model": "./nowhere"}, {"vocabulary": []},
)  # fmt: skip


@pytest.mark.parametrize("settings", REFUSED, ids=str)
def test_settings_that_are_refused(settings):
    assert refused(lambda: made(**settings)) == "Sen2ProError"
