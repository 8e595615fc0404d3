"""One list of settings: each field survives every way in and out, and a new one cannot be forgotten."""

import copy
import inspect
import json
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from conftest import build_network
from labelled_texts import LABELS, TEXTS
from msgspec import structs
from typer.testing import CliRunner

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.classification import Sen2ProClassifier
from sen2pro.cli import options
from sen2pro.cli.app import app
from sen2pro.io import bundle
from sen2pro.settings import CALLER, DATA, Settings

# A value for each setting that differs from its default. A new setting must get one here.
OTHERS = {
    "method": "one-pass", "samples": (3, 4), "uncertainty": "model", "combine": "unified", "pooling": "cls",
    "normalize": False, "dropout": 0.3, "seed": 7, "precision": "bfloat16", "vocabulary": ("market", "rain"),
}  # fmt: skip
GIVEN = {"model", "head", "whitening", "tokenizer", "device", "revision", "trust_remote_code", "allow_pickle"}


def test_every_setting_has_a_place():
    """A value to be tried with, or a place on the list of what files may not set; and a parameter of the constructor.

    The constructor spells the settings out, so that editors and type checkers know them.
    """
    assert (set(OTHERS), set(CALLER)) == (set(DATA), GIVEN)
    assert set(CALLER) <= set(bundle.GRANTED_BY_CALLER)
    assert all(getattr(Settings(), name) != OTHERS[name] for name in OTHERS)
    parameters = {name: each.default for name, each in inspect.signature(Sen2Pro).parameters.items()}
    assert parameters == {each.name: each.default for each in structs.fields(Settings)}


def tried(name):
    """Return settings with which `name` can be set alone."""
    return {name: OTHERS[name]} if name in ("samples", "method") else {"samples": 3, name: OTHERS[name]}


@pytest.fixture
def differing(shared_folder):
    def make(name):
        return Sen2Pro("all-MiniLM-L6-v2" if name == "method" else str(shared_folder), **tried(name))  # it has a head

    return make


@pytest.mark.parametrize("name", DATA)
def test_a_setting_survives_save_and_load_pickle_and_copy(differing, tmp_path, name):
    model = differing(name)
    model.save(tmp_path / "m")
    ways = {
        "load": Sen2Pro.load(tmp_path / "m"), "pickle": pickle.loads(pickle.dumps(model)),
        "copy": copy.deepcopy(model), "settings": Sen2Pro.from_settings(model.settings),
    }  # fmt: skip
    for way, again in ways.items():
        assert getattr(again.settings, name) == OTHERS[name], way
        assert again.signature() == model.signature(), way


@pytest.mark.parametrize("name", [name for name in DATA if name != "method"])
def test_a_setting_survives_a_classifier_folder(differing, shared_folder, tmp_path, name):
    model = differing(name)
    Sen2ProClassifier(model, C=1.0).fit(TEXTS, LABELS).save(tmp_path / "c")
    again = Sen2ProClassifier.load(tmp_path / "c", model=shared_folder).encoder
    assert getattr(again.settings, name) == OTHERS[name]
    assert again.signature() == model.signature()


ON_COMMAND_LINE = {"samples": ["--samples", "3+4"], "normalize": ["--no-normalize"]}


@pytest.mark.parametrize("name", [name for name in DATA if name != "vocabulary"])  # which no command line can hold
@pytest.mark.parametrize("command", ["encode", "compare"])
def test_a_setting_can_be_given_on_the_command_line(monkeypatch, tmp_path, name, command):
    seen = {}

    def load(**settings):
        seen.update(settings)
        raise Sen2ProError("enough")

    monkeypatch.setattr(options, "load", load)
    (tmp_path / "in.txt").write_text("the dog\n")
    paths = [str(tmp_path / "in.txt"), str(tmp_path / "out.parquet")] if command == "encode" else ["a", "b"]
    result = CliRunner().invoke(
        app, [command, *paths, *ON_COMMAND_LINE.get(name, ["--" + name.replace("_", "-"), str(OTHERS[name])])]
    )
    assert "enough" in result.output
    assert seen[name] == OTHERS[name]
    assert seen["model"] == "all-MiniLM-L6-v2"
    assert set(seen) == set(options.NAMES)


def test_a_model_in_memory_travels_with_its_weights(bert, tokenizer):
    model = Sen2Pro(copy.deepcopy(bert), tokenizer=tokenizer, samples=3, pooling="cls")
    again = pickle.loads(pickle.dumps(model))
    before, after = model.encode(TEXTS), again.encode(TEXTS)
    assert before == after  # the same bits, and the same signature
    assert again.encoder.folder is None
    assert pickle.loads(pickle.dumps(again)).encode(TEXTS) == before


def test_a_model_whose_weights_changed_travels_with_them(shared_folder):
    model = Sen2Pro(str(shared_folder), samples=3)
    assert len(pickle.dumps(model)) < 10_000  # by the name of its folder
    with torch.no_grad():
        next(model.encoder.transformers.network.parameters()).mul_(1.5)
    before = model.encode(TEXTS)
    again = pickle.loads(pickle.dumps(model))
    assert again.encode(TEXTS) == before


def test_a_pickle_knows_weights_that_changed_in_their_folder(tiny_folder):
    kept = pickle.dumps(Sen2Pro(str(tiny_folder), samples=3))
    other = build_network("bert")
    with torch.no_grad():
        next(other.parameters()).mul_(2)
    other.save_pretrained(tiny_folder)
    with pytest.raises(Sen2ProError, match="were changed or damaged since"):
        pickle.loads(kept)


def test_whitening_and_sentence_transformers_travel_too(shared_folder):
    from sentence_transformers import SentenceTransformer

    source = SentenceTransformer(str(shared_folder), device="cpu")
    model = Sen2Pro(source, samples=3).fit_whitening(TEXTS, dim=3)
    again = copy.deepcopy(model)
    assert again.encode(TEXTS) == model.encode(TEXTS)
    assert again.encoder.source is not source
    assert Sen2Pro.from_settings(model.settings).whitening.hash == model.whitening.hash


def _encoded(model):
    return model.encode(TEXTS).mean


def test_a_spawned_worker_gives_the_same_bits(shared_folder):
    model = Sen2Pro(str(shared_folder), samples=3)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found,) = pool.map(_encoded, [model])
    np.testing.assert_allclose(found, model.encode(TEXTS).mean, atol=1e-6)


@pytest.mark.parametrize("method", ["shrinkage", "analytic"])
def test_a_method_that_was_removed_names_what_to_use(method, shared_folder, tmp_path):
    message = f"the method '{method}' was removed in version 0.12; use 'sampling' .exact. or 'one-pass' .fast."
    with pytest.raises(Sen2ProError, match=message):
        Sen2Pro(str(shared_folder), method=method)
    Sen2Pro(str(shared_folder)).save(tmp_path / "m")
    path = tmp_path / "m" / "sen2pro.json"
    saved = {**json.loads(path.read_text()), "method": method}
    del saved["digest"]
    path.write_text(json.dumps(saved))
    with pytest.raises(Sen2ProError, match=message):
        Sen2Pro.load(tmp_path / "m")
    assert Sen2Pro.load(tmp_path / "m", method="sampling").method == "sampling"
    assert Sen2Pro(str(tmp_path / "m"), samples=2).passes == 4
