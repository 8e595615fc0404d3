"""The classifier on disk."""

import copy
import json
import os
import pickle
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from labelled_texts import LABELS, OWN, TEXTS, gaussians
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import NotFittedError

from sen2pro import Sen2Pro
from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.errors import Sen2ProError


def test_saved_and_loaded_it_predicts_the_same(tiny_folder, tmp_path):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=(3, 4)).fit(TEXTS, LABELS)
    classifier.save(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".safetensors"}
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=str(tiny_folder))
    assert loaded.get_params() == classifier.get_params()
    assert np.array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    assert loaded.predict(TEXTS).dtype == classifier.predict(TEXTS).dtype


def test_what_fails_half_way_leaves_room_for_another_go(tiny_folder, tmp_path, monkeypatch):
    classifier = Sen2ProClassifier(str(tiny_folder), samples=3, finetune=FineTuning(epochs=1)).fit(TEXTS, LABELS)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space left"):
        patched.setattr("sen2pro.io.bundle.save", full)
        classifier.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    assert {path.name for path in tmp_path.iterdir()} == {tiny_folder.name}
    classifier.save(tmp_path / "saved")
    found = Sen2ProClassifier.load(tmp_path / "saved").predict_proba(TEXTS)
    np.testing.assert_allclose(found, classifier.predict_proba(TEXTS), atol=1e-6)


def test_a_model_is_saved_with_all_its_settings_and_may_have_moved(tiny_folder, tmp_path):
    model = Sen2Pro(str(tiny_folder), **OWN)
    classifier = Sen2ProClassifier(model, C=1.0).fit(TEXTS, LABELS)
    before = classifier.predict_proba(TEXTS)
    classifier.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=tiny_folder)
    assert loaded.encoder.signature() == model.signature()
    assert np.array_equal(loaded.predict_proba(TEXTS), before)
    moved = tiny_folder.rename(tmp_path / "moved")
    with pytest.raises(Sen2ProError, match="no model"):
        Sen2ProClassifier.load(tmp_path / "saved", model=tiny_folder)
    for place in (str(moved), Sen2Pro(str(moved), **OWN)):
        assert np.array_equal(Sen2ProClassifier.load(tmp_path / "saved", model=place).predict_proba(TEXTS), before)


def test_the_encoder_may_have_moved(tiny_folder, tmp_path):
    Sen2ProClassifier(str(tiny_folder), samples=3).fit(TEXTS, LABELS).save(tmp_path / "saved")
    moved = tiny_folder.rename(tmp_path / "moved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved", model=str(moved))
    assert loaded.predict(TEXTS).shape == (8,)


def test_the_model_that_is_needed_is_named_such_that_it_is_found_from_elsewhere(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny_folder.parent)
    (tmp_path / "a-hub-id").mkdir()
    for name, said in ((tiny_folder.name, str(tiny_folder.resolve())), ("a-hub-id", "a-hub-id")):
        Sen2ProClassifier(name, C=1.0).fit(*gaussians(k=32)).save(tmp_path / f"saved-{name}")
        with pytest.raises(Sen2ProError, match=re.escape(f"pass model={said!r}")):
            Sen2ProClassifier.load(tmp_path / f"saved-{name}")
        assert Sen2ProClassifier.load(tmp_path / f"saved-{name}", model=said).model == said


def test_the_default_model_need_not_be_named(tmp_path):
    Sen2ProClassifier(C=1.0).fit(*gaussians(k=384)).save(tmp_path / "saved")
    assert Sen2ProClassifier.load(tmp_path / "saved").predict(["the market fell"]).shape == (1,)


def test_numbers_of_numpy_are_saved_as_plain_ones(tmp_path):
    settings = {"seed": np.int64(3), "samples": (np.int64(3), np.int32(4)), "C": np.float32(0.5)}
    Sen2ProClassifier(**settings).fit(*gaussians()).save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved").get_params()
    assert {name: loaded[name] for name in settings} == {"seed": 3, "samples": (3, 4), "C": 0.5}
    assert type(loaded["seed"]) is int


def test_others_may_read_what_was_saved(fitted, tmp_path):
    before = os.umask(0o022)
    try:
        fitted.save(tmp_path / "saved")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "saved").iterdir()} == {0o644}


@pytest.fixture(scope="module")
def tuned(tiny):
    settings = FineTuning(epochs=1, batch_size=16)
    return Sen2ProClassifier(tiny, method="sampling", finetune=settings).fit(TEXTS, LABELS, show_progress_bar=False)


def test_fine_tuning_is_saved_with_its_settings(tuned, tmp_path):
    tuned.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.finetune == tuned.finetune
    # A folder is run by our own code, the network that was trained by its library.
    np.testing.assert_allclose(loaded.predict_proba(TEXTS), tuned.predict_proba(TEXTS), atol=1e-6)
    assert all(path.stat().st_mode & 0o044 for path in (tmp_path / "saved").rglob("*.safetensors"))
    with pytest.raises(Sen2ProError, match="contains its fine-tuned encoder; leave the model out"):
        Sen2ProClassifier.load(tmp_path / "saved", model="all-MiniLM-L6-v2")


def test_a_fine_tuned_encoder_that_was_changed_is_refused(tuned, tmp_path):
    tuned.save(tmp_path / "saved")
    path = tmp_path / "saved" / "encoder" / "config.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(Sen2ProError, match=r"encoder/config.json was changed since it was saved; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved" / "encoder")
    with pytest.raises(Sen2ProError, match="its folder encoder is missing; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_a_fine_tuned_encoder_travels_in_a_pickle(tuned):
    again = pickle.loads(pickle.dumps(tuned))
    assert np.array_equal(again.predict_proba(TEXTS), tuned.predict_proba(TEXTS))
    assert copy.deepcopy(tuned).encoder is tuned.encoder


def test_changed_contents_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.safetensors"
    tensors = load_file(path)
    tensors["bias"][0] += 1e-9
    save_file(tensors, path)
    with pytest.raises(Sen2ProError, match="changed or damaged since it was saved"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_other_formats_and_other_folders_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="not an empty folder"):
        fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.json"
    config = json.loads(path.read_text())
    config["classes"].reverse()
    path.write_text(json.dumps(config))
    with pytest.raises(Sen2ProError, match="changed or damaged since it was saved"):
        Sen2ProClassifier.load(tmp_path / "saved")
    path.write_text(json.dumps({**config, "format": 99, "version": "7.0"}))
    with pytest.raises(Sen2ProError, match=r"sen2pro '7.0' saved it in another format than .*; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")
    for wrong in ("not JSON", "[1, 2]", "3"):
        path.write_text(wrong)
        with pytest.raises(Sen2ProError, match="cannot be read"):
            Sen2ProClassifier.load(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="there is no classifier in"):
        Sen2ProClassifier.load(tmp_path / "nowhere")


def test_numbers_that_are_missing_or_broken_are_said_to_be(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    path = tmp_path / "saved" / "sen2pro_classifier.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(Sen2ProError, match="cannot be read: .*; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")
    path.unlink()
    with pytest.raises(Sen2ProError, match=r"there is no classifier in .*: sen2pro_classifier.safetensors is missing"):
        Sen2ProClassifier.load(tmp_path / "saved")


def test_an_unfitted_classifier_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        Sen2ProClassifier().save(tmp_path / "saved")


def test_a_saved_classifier_predicts_on_gaussians_without_scikit_learn(tmp_path):
    train, labels = gaussians()
    classifier = Sen2ProClassifier().fit(train, labels)
    classifier.save(tmp_path / "saved")
    train.save(tmp_path / "g.safetensors")
    script = """
import sys
sys.modules["sklearn"] = sys.modules["scipy"] = None  # importing them is an error
from sen2pro import Gaussian
from sen2pro.classification import Sen2ProClassifier
loaded = Sen2ProClassifier.load("saved", model="all-MiniLM-L6-v2")
print(loaded.predict(Gaussian.load("g.safetensors")).tolist())
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.stdout.strip() == str(classifier.predict(train).tolist()), ended.stderr
