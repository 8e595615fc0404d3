import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file
from test_gaussian import signature

from sen2pro import Gaussian, Sen2ProError
from sen2pro.storage import GaussianWriter, read

SUFFIXES = ["parquet", "safetensors"]


def gaussian(n=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return Gaussian(rng.normal(size=(n, k)), rng.uniform(size=(n, k)), signature())


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=25, deadline=None)
@given(
    mean=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=6),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_the_round_trip_is_exact(tmp_path_factory, suffix, mean):
    path = tmp_path_factory.mktemp("trip") / f"g.{suffix}"
    g = Gaussian(mean, np.abs(mean), signature())
    g.save(path)
    loaded = Gaussian.load(path)
    assert loaded == g
    assert loaded.shape == mean.shape


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_batch_keeps_its_dimensions(tmp_path, suffix):
    gaussian(n=0, k=7).save(tmp_path / f"g.{suffix}")
    assert Gaussian.load(tmp_path / f"g.{suffix}").shape == (0, 7)


def test_parquet_has_plain_columns_that_other_tools_read(tmp_path):
    g = gaussian()
    g.save(tmp_path / "g.parquet", ids=["a", "b", "c", "d"], texts=["w", "x\ny", "ü", "z"])
    table = pq.read_table(tmp_path / "g.parquet")
    assert table.column_names == ["id", "text", "mean", "variance"]
    assert str(table.schema.field("mean").type) == "fixed_size_list<element: float>[3]"
    assert table.column("text").to_pylist() == ["w", "x\ny", "ü", "z"]
    assert json.loads(table.schema.metadata[b"sen2pro.signature"]) == json.loads(g.signature.to_json())
    stored = read(tmp_path / "g.parquet")
    assert (stored.gaussian, stored.ids, stored.texts) == (g, ["a", "b", "c", "d"], ["w", "x\ny", "ü", "z"])


def test_the_safetensors_file_is_one_that_the_library_reads(tmp_path):
    g = gaussian()
    g.save(tmp_path / "g.safetensors")
    tensors = load_file(tmp_path / "g.safetensors")
    np.testing.assert_array_equal(tensors["mean"], g.mean)
    np.testing.assert_array_equal(tensors["variance"], g.variance)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_chunks_make_one_file(tmp_path, suffix):
    g = gaussian(n=10)
    with GaussianWriter(tmp_path / f"g.{suffix}") as writer:
        for start in range(0, 10, 3):
            writer.write(g[start : start + 3])
    assert Gaussian.load(tmp_path / f"g.{suffix}") == g
    assert [p.name for p in tmp_path.iterdir()] == [f"g.{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_run_leaves_nothing_and_the_old_file_alone(tmp_path, suffix):
    path = tmp_path / f"g.{suffix}"
    gaussian().save(path)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), GaussianWriter(path, overwrite=True) as writer:
        writer.write(gaussian(seed=1))
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "g.parquet"
    gaussian().save(path)
    with pytest.raises(Sen2ProError, match="overwrite"):
        gaussian().save(path)
    gaussian(seed=1).save(path, overwrite=True)
    assert Gaussian.load(path) == gaussian(seed=1)


def test_bad_files_and_names_get_a_clear_error(tmp_path):
    with pytest.raises(Sen2ProError, match=r"did you mean '\.parquet'"):
        gaussian().save(tmp_path / "g.parqet")
    with pytest.raises(Sen2ProError, match="there is no file"):
        Gaussian.load(tmp_path / "nothing.parquet")
    for suffix in SUFFIXES:
        half = tmp_path / f"half.{suffix}"
        gaussian(100).save(half)
        half.write_bytes(half.read_bytes()[:-50])
        with pytest.raises(Sen2ProError, match="not a whole"):
            Gaussian.load(half)
    with pytest.raises(Sen2ProError, match="same dimensions"), GaussianWriter(tmp_path / "mixed.parquet") as writer:
        writer.write(gaussian())
        writer.write(gaussian(k=2))
    with pytest.raises(Sen2ProError, match=r"write \.parquet"):
        gaussian().save(tmp_path / "g.safetensors", texts=["a", "b", "c", "d"])
    with pytest.raises(Sen2ProError, match="4 Gaussians need a list of 4 ids"):
        gaussian().save(tmp_path / "g.parquet", ids=["a"])
    with pytest.raises(Sen2ProError, match="there is no folder"):
        gaussian().save(tmp_path / "no" / "such" / "folder.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(Sen2ProError, match="written by sen2pro"):
        Gaussian.load(tmp_path / "foreign.parquet")
