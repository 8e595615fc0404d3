"""What the fuzzer has found, one test each: what happened before is in the comment."""

import json
import lzma
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_arguments import BATCH, Broken

from fuzz import originals
from sen2pro import Gaussian, Sen2Pro, Sen2ProError, Whitening
from sen2pro.estimation.head import Head
from sen2pro.io.inputs import sentences


def flipped(data, place=-3):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt.gz", b""),  # no sentences
        ("a.txt.xz", b"\0" * 18),  # no sentences: the header of an empty file in an older format
        ("a.txt.xz", lzma.compress(b"the dog\n", format=lzma.FORMAT_ALONE)),  # that format has no checksum
    ],
)
def test_an_archive_that_is_none_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Sen2ProError, match="is not a whole (gzip|xz) file"):
        sentences(str(tmp_path / name)).count()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": pa.array([["the dog"]])}, "the column 'text' holds list<.*>, not single values"),  # KeyError
        ({"text": pa.array([{"a": 1}])}, "the column 'text' holds struct"),  # KeyError
        ({"text": pa.array(["a"]), "id": pa.array([2**62], pa.timestamp("us"))}, "row 1: a value that cannot be read"),
        ({"text": pa.array(["a"]), "id": pa.array([2**30], pa.date32())}, "row 1: a value that cannot be read"),
    ],
)
def test_columns_without_texts_are_refused(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    source = sentences(str(tmp_path / "a.parquet"), id_column="id" if "id" in columns else None)
    for read in (source.count, lambda: list(source)):
        with pytest.raises(Sen2ProError, match=message):
            read()


def test_a_column_of_parquet_that_stands_there_twice_is_refused(tmp_path):  # KeyError
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(Sen2ProError, match="the column 'text' occurs more than once"):
        sentences(str(tmp_path / "a.parquet")).count()


def test_more_gaussians_than_a_file_says_are_refused(tmp_path, monkeypatch):  # ValueError
    BATCH.save(tmp_path / "g.parquet")
    says_one = SimpleNamespace(metadata=None, num_rows=1, num_row_groups=1)
    monkeypatch.setattr(pq.ParquetFile, "metadata", property(lambda file: says_one))
    with pytest.raises(Sen2ProError, match="is not a whole Parquet file: more than the 1 rows"):
        Gaussian.load(tmp_path / "g.parquet")


def test_a_line_cannot_be_allowed_to_be_of_any_length(tmp_path):  # OverflowError
    (tmp_path / "a.csv").write_text("text\nthe dog\n")
    with pytest.raises(Sen2ProError, match="longest_line must be a whole number between 1 and"):
        sentences(str(tmp_path / "a.csv"), longest_line=10**30)


@pytest.mark.parametrize("path", ["a" * 5000, "a" * 256, "a/" * 3000])
def test_a_name_that_no_file_can_have_is_refused(tiny, path):  # OSError
    takers = (Gaussian.load, BATCH.save, Head.load, Sen2Pro, sentences)
    own = tiny.encoder.transformers
    for function in (*takers, lambda name: Sen2Pro(own.source, tokenizer=own.source_tokenizer, head=name)):
        with pytest.raises(Sen2ProError, match="no file system has names this long: 'a"):
            function(path)


def test_a_message_does_not_grow_with_the_file(tmp_path):  # a message of megabytes
    (tmp_path / "a.csv").write_text("a" * 1_000_000 + ",b\nx,y\n")
    with pytest.raises(Sen2ProError, match="letters left out") as caught:
        sentences(str(tmp_path / "a.csv")).count()
    assert len(str(caught.value)) < 2100


def test_a_damaged_whitening_says_so(tmp_path):  # other numbers
    path = tmp_path / "w.safetensors"
    path.write_bytes(flipped((originals.whitening() / "w.safetensors").read_bytes()))
    with pytest.raises(Sen2ProError, match="was changed or damaged since it was written"):
        Whitening.load(path)


def test_a_whitening_without_a_hash_is_read_with_a_warning(tmp_path):
    from safetensors.numpy import save_file

    save_file({"mean": np.zeros(2, np.float32), "kernel": np.eye(2, dtype=np.float32)}, tmp_path / "w.safetensors")
    with pytest.warns(UserWarning, match="has no hash"):
        assert Whitening.load(tmp_path / "w.safetensors").dim == 2


def test_damaged_weights_of_a_saved_model_say_so(tmp_path):  # other Gaussians
    folder = shutil.copytree(originals.model_folder(), tmp_path / "m")
    weights = folder / "model.safetensors"
    start = 8 + int.from_bytes(weights.read_bytes()[:8], "little")
    weights.write_bytes(flipped(weights.read_bytes(), start + 100))
    for load in (Sen2Pro.load, Sen2Pro):
        with pytest.raises(Sen2ProError, match="the weights in .* were changed or damaged since the model was saved"):
            load(folder)
    settings = json.loads((folder / "sen2pro.json").read_text())
    del settings["hash"], settings["digest"]
    (folder / "sen2pro.json").write_text(json.dumps(settings))
    assert Sen2Pro.load(folder).encode("the dog").shape == (32,)


@pytest.mark.parametrize("modules", [1, 2])
def test_a_folder_whose_modules_do_not_fit_together_is_refused(tmp_path, modules):  # KeyError and TypeError
    folder = shutil.copytree(originals.sentence_folder(), tmp_path / "m")
    listed = json.loads((folder / "modules.json").read_text())
    if modules == 1:
        (folder / "modules.json").write_text(json.dumps(listed[:1]))
    else:
        (folder / "2_Normalize" / "config.json").write_text(json.dumps({"module_output_name": {"a": 1}}))
    with pytest.raises(Sen2ProError, match="the model in .* cannot be used"):
        Sen2Pro(str(folder))


def test_truth_values_of_two_axes_are_no_index():  # a Gaussian of numbers of several sentences
    with pytest.raises(TypeError, match="a Gaussian is indexed by a number"):
        BATCH[np.array([[True, False, True], [False, True, False]])]


@pytest.mark.parametrize("suffix", [".parquet", ".safetensors"])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "\ud800"], "the id of row 1 holds half a surrogate pair"),  # UnicodeEncodeError
        ([10**5000, 1], "these ids cannot be turned into texts"),  # ValueError
        (Broken(), "give a list of 2 ids, not Broken"),  # RuntimeError
    ],
)
def test_ids_that_are_no_texts_are_refused(tmp_path, suffix, ids, message):
    with pytest.raises(Sen2ProError, match=message):
        Gaussian(BATCH.mean, BATCH.variance).save(tmp_path / f"g{suffix}", ids=ids)
    assert not list(tmp_path.iterdir())
