"""Files of older releases are read by this one, to the last bit; `files/make.py` wrote them with the old code."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from contract import api
from contract.about import ONE_PASS, SAMPLING
from contract.command import run
from contract.files.make import ENCODER, SENTENCES, TINY
from contract.golden import noted, refused

FILES = Path(__file__).with_name("files")
RELEASES = sorted((path.parent.name for path in FILES.glob("*/content.json")), key=lambda name: int(name[2:]))
WITH_MODELS = [name for name in RELEASES if (FILES / name / "head").is_dir()]
KINDS = [
    (release, name)
    for release in RELEASES
    for name in ("sampling.parquet", "one-pass.safetensors", "single.parquet", "shards")
    if (FILES / release / name).exists()
]
CASES = pytest.mark.parametrize(("release", "name"), KINDS, ids=map("-".join, KINDS))


def content(release):
    """Return what the old code said of its own files."""
    return json.loads((FILES / release / "content.json").read_text(encoding="utf-8"))


def test_no_release_is_missing():
    assert RELEASES == ["0.5", "0.6", "0.7", "0.8", "0.9", "0.10", "0.11"]
    assert WITH_MODELS == ["0.10", "0.11"]
    assert len(KINDS) == 3 * 7 + 2


@CASES
def test_gaussians_are_read_to_the_last_bit(release, name):
    expected, stored = content(release)[name], api.read(FILES / release / name)
    for part in ("mean", "variance", "coverage"):
        array = getattr(stored.gaussian, part)
        assert (array is None) == (part not in expected)
        if array is not None:
            assert list(array.shape) == expected[part]["shape"]
            assert array.dtype == np.float32
            assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == expected[part]["sha256"]
    assert (stored.ids, stored.texts) == (expected["ids"], expected["texts"])
    found = json.loads(stored.gaussian.signature.to_json())
    assert {field: found[field] for field in expected["signature"]} == expected["signature"]
    assert api.Gaussian.load(FILES / release / name) == stored.gaussian


@pytest.fixture(scope="module")
def sampled(model):
    return model.encode(SENTENCES)


@pytest.mark.parametrize("release", RELEASES)
def test_sampled_gaussians_compare_with_those_of_today(release, sampled, golden):
    """The same settings are the same settings in every release, and samples of one seed are the same samples."""
    old, new = api.Gaussian.load(FILES / release / "sampling.parquet"), sampled
    golden({"distances": api.distance_pairwise(old, new), "others": api.distance(old[:1], new[1:])}, SAMPLING)
    assert np.abs(old.mean - new.mean).max() < 1e-5
    assert np.abs(old.variance - new.variance).max() < 1e-6


@pytest.mark.parametrize("release", RELEASES)
def test_gaussians_of_an_older_head_are_told_apart(release, one_pass, golden):
    """A head of other numbers gives other Gaussians, which an error says."""
    old = api.Gaussian.load(FILES / release / "one-pass.safetensors")
    golden({"error": refused(lambda: api.distance(old, one_pass.encode(SENTENCES)))}, ONE_PASS)


@CASES
def test_show(release, name):
    """A table needs a batch, so a single Gaussian is refused."""
    ran = run("show", FILES / release / name)
    assert ran.code == (2 if name == "single.parquet" else 0), ran.err


@pytest.mark.parametrize("release", WITH_MODELS)
def test_shards_become_an_index(release, one_pass):
    """The head is the one that ships today, so today's queries fit. Columns that were kept are its metadata."""
    index = api.Index.from_file(one_pass, FILES / release / "shards")
    (hit,) = index.search("Who is playing the guitar?", k=1)
    assert (hit.id, dict(hit.metadata)) == ("guitar", {"length": "26"})


@pytest.fixture
def saved(release, tmp_path):
    """The folders of two models as that release saved them: what it wrote, and the encoder."""
    for name in ("head", "whitened"):
        shutil.copytree(ENCODER, tmp_path / name)
        shutil.copytree(FILES / release / name, tmp_path / name, dirs_exist_ok=True)
    return tmp_path


def same(gaussian, expected):
    for part in ("mean", "variance", "coverage"):
        array = getattr(gaussian, part)
        assert (array is None) == (expected[part] is None)
        if array is not None:
            np.testing.assert_allclose(array, np.float32(expected[part]), rtol=1e-4, atol=1e-5)
    found = json.loads(gaussian.signature.to_json())
    assert {**found, "version": "", "model": ""} == {**expected["signature"], "version": "", "model": ""}


@pytest.mark.parametrize("release", WITH_MODELS)
def test_heads(release):
    """Also with its correction for a method that is gone, which is passed over."""
    model = api.Sen2Pro(str(ENCODER), method="one-pass", head=FILES / release / "head")
    expected = content(release)["head"]
    same(model.encode(TINY), expected)
    assert model.specificity(TINY).value.tolist() == pytest.approx(expected["specificity"], rel=1e-4)


@pytest.mark.parametrize("release", WITH_MODELS)
def test_saved_models(release, saved):
    expected = content(release)
    with noted():
        same(api.Sen2Pro.load(saved / "head").encode(TINY), expected["head"])
        same(api.Sen2Pro(str(saved / "head"), method="one-pass").encode(TINY), expected["head"])
        whitened = api.Sen2Pro.load(saved / "whitened")
    same(whitened.encode(TINY), expected["whitened"])
    assert whitened.samples == {"model": 3, "data": 5}
    assert whitened.seed == 7


@pytest.mark.parametrize("release", WITH_MODELS)
def test_numbers_of_a_saved_head(release, golden):
    model = api.Sen2Pro(str(ENCODER), method="one-pass", head=FILES / release / "head")
    golden(model.encode(TINY), ONE_PASS | {"head": f"of {release}"})
