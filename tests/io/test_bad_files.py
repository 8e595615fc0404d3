"""Saved settings and command-line values that are damaged, hostile or odd: each is one clear error."""

import json
import shutil

import numpy as np
import pytest
from labelled_texts import LABELS, TEXTS
from test_cli import run

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.io import bundle

CONTENTS = [b"", b"null", b'"a"', b"[]", b"3", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}', b'{"version": 1}']


@pytest.fixture
def saved(tiny, tmp_path):
    tiny.save(tmp_path / "m")
    return tmp_path / "m" / "sen2pro.json"


@pytest.mark.parametrize("name", ["sen2pro.json", "modules.json", "config.json", "config_sentence_transformers.json"])
def test_settings_that_are_none(saved, tmp_path, name):
    if name == "config_sentence_transformers.json":
        shutil.rmtree(tmp_path / "m")
        Sen2Pro(method="one-pass").save(tmp_path / "m")
    for content in CONTENTS:
        (tmp_path / "m" / name).write_bytes(content)
        if name == "config_sentence_transformers.json" and content in CONTENTS[-2:]:
            Sen2Pro.load(tmp_path / "m")  # an object with other keys is not ours to judge
            continue
        with pytest.raises(Sen2ProError):
            Sen2Pro.load(tmp_path / "m")
            pytest.fail(f"{content!r} was accepted")


def test_settings_of_the_wrong_kind_name_the_key(saved):
    good = json.loads(saved.read_text())
    good.pop("digest")
    wrong = {key: ({**good, key: [1.5]}, rf"at `\$.{key}") for key in good}
    wrong["no name"] = ({key: value for key, value in good.items() if key != "name"}, "missing required field `name`")
    for content, message in wrong.values():
        saved.write_text(json.dumps({**content, bundle.DIGEST: bundle.digest_of(content)}))
        with pytest.raises(Sen2ProError, match=message):
            Sen2Pro.load(saved.parent)


def test_a_changed_setting_is_told(saved):
    saved.write_text(saved.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(Sen2ProError, match="was changed or damaged since it was saved. If you changed it yourself"):
        Sen2Pro.load(saved.parent)
    settings = json.loads(saved.read_text())
    settings.pop("digest")
    saved.write_text(json.dumps(settings))  # as the error says
    assert Sen2Pro.load(saved.parent).seed == 1


def test_models_of_older_versions_load(tiny, saved):
    """Version 0.4 wrote no digest and no precision."""
    old = {key: value for key, value in json.loads(saved.read_text()).items() if key not in ("digest", "precision")}
    saved.write_text(json.dumps(old))
    loaded = Sen2Pro.load(saved.parent)  # a folder is run by our own code, a network in memory by its library
    np.testing.assert_allclose(loaded.encode("the dog").mean, tiny.encode("the dog").mean, atol=1e-6)


@pytest.mark.parametrize("samples", ["²", "٣", "1" * 5000, "999999999999999999999", "1+", "", "-3", "1e3"])
def test_numbers_of_samples_that_are_none(tmp_path, shared_folder, samples):
    (tmp_path / "in.txt").write_text("the dog\n")
    result = run("encode", tmp_path / "in.txt", tmp_path / "out.parquet", "-m", shared_folder, f"--samples={samples}")
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("code", ["\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\x9b31m", "\u202eback"])
def test_control_codes_of_a_file_do_not_reach_the_terminal(tmp_path, shared_folder, code):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({code: "a", "other": "b"}) + "\n")
    result = run("encode", path, tmp_path / "out.parquet", "-m", shared_folder)
    assert result.exit_code == 2
    assert "which column holds the sentences?" in result.output
    assert not set(result.output) & set("\x1b\x07\r\x9b\u202e")


def test_control_codes_of_labels_do_not_reach_the_terminal(tmp_path, shared_folder):
    path = tmp_path / "train.jsonl"
    rows = [{"text": text, "label": f"\x1b[31m{label}"} for text, label in zip(TEXTS, LABELS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("classify", "train", path, tmp_path / "c", "-m", shared_folder, "--samples", "2").exit_code == 0
    result = run("classify", "evaluate", tmp_path / "c", path, "-m", shared_folder)
    assert result.exit_code == 0, result.output
    assert "\\x1b[31m" in result.output
    assert "\x1b" not in result.output
