"""The classifier on disk."""

import copy
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from unittest.mock import Mock

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


def test_a_save_that_fails_leaves_no_folder(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("sen2pro.io.bundle.save", Mock(side_effect=OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        fitted.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


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


def test_changed_contents_and_other_formats_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    with pytest.raises(Sen2ProError, match="not an empty folder"):
        fitted.save(tmp_path / "saved")
    numbers, path = (tmp_path / f"saved/sen2pro_classifier.{kind}" for kind in ("safetensors", "json"))
    kept, tensors = json.loads(path.read_text()), load_file(numbers)
    damaged = "changed or damaged since it was saved"
    for content, message in {
        json.dumps({**kept, "classes": kept["classes"][::-1]}): damaged,
        json.dumps({**kept, "format": 99, "version": "7.0"}):
            r"sen2pro '7.0' saved it in another format than .*; train it again",
        "not JSON": "cannot be read", "[1, 2]": "cannot be read", "3": "cannot be read",
    }.items():  # fmt: skip
        path.write_text(content)
        with pytest.raises(Sen2ProError, match=message):
            Sen2ProClassifier.load(tmp_path / "saved")
    path.write_text(json.dumps(kept))
    save_file({**tensors, "bias": tensors["bias"] + 1e-9}, numbers)
    with pytest.raises(Sen2ProError, match=damaged):
        Sen2ProClassifier.load(tmp_path / "saved")
    numbers.write_bytes(numbers.read_bytes()[:-10])
    with pytest.raises(Sen2ProError, match="cannot be read: .*; train it again"):
        Sen2ProClassifier.load(tmp_path / "saved")
    numbers.unlink()
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
