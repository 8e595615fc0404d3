import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors
from test_gaussian import signature

from sen2pro import Gaussian, Sen2Pro, Sen2ProError
from sen2pro.errors import Sen2ProWarning
from sen2pro.gaussian import Stored, read
from sen2pro.io.gaussians import GaussianWriter
from sen2pro.io.inputs import sentences

SUFFIXES = ["parquet", "safetensors"]


def gaussian(n=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return Gaussian(rng.normal(size=(n, k)), rng.uniform(size=(n, k)), signature())


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=25, deadline=None)
@example(mean=np.zeros((0, 7), np.float32))
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


def test_other_tools_read_the_files(tmp_path):
    g = gaussian()
    g.save(tmp_path / "g.safetensors")
    for name, numbers in load_file(tmp_path / "g.safetensors").items():
        np.testing.assert_array_equal(numbers, getattr(g, name))
    g.save(tmp_path / "g.parquet", ids=["a", "b", "c", "d"], texts=["w", "x\ny", "ü", "z"])
    table = pq.read_table(tmp_path / "g.parquet")
    assert table.column_names == ["id", "text", "total_variance", "mean", "variance"]
    assert str(table.schema.field("mean").type) == "fixed_size_list<element: float>[3]"
    assert table.column("text").to_pylist() == ["w", "x\ny", "ü", "z"]
    assert json.loads(table.schema.metadata[b"sen2pro.signature"]) == json.loads(g.signature.to_json())
    stored = read(tmp_path / "g.parquet")
    assert (stored.gaussian, stored.ids, stored.texts) == (g, ["a", "b", "c", "d"], ["w", "x\ny", "ü", "z"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_chunks_make_one_file(tmp_path, suffix):
    g = gaussian(n=10)
    with GaussianWriter(tmp_path / f"g.{suffix}") as writer:
        for start in range(0, 10, 3):
            writer.write(g[start : start + 3])
    assert Gaussian.load(tmp_path / f"g.{suffix}") == g
    assert [p.name for p in tmp_path.iterdir()] == [f"g.{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_replaced_only_on_request_and_never_by_half_a_file(tmp_path, suffix):
    path = tmp_path / f"g.{suffix}"
    with pytest.raises(Sen2ProError, match="written by another process"), GaussianWriter(path) as writer:
        writer.write(gaussian(seed=1))
        gaussian(seed=2).save(path)  # meanwhile
    with pytest.raises(Sen2ProError, match="overwrite"):
        gaussian(seed=1).save(path)
    with pytest.raises(KeyboardInterrupt), GaussianWriter(path, overwrite=True) as writer:
        writer.write(gaussian(seed=1))
        raise KeyboardInterrupt
    assert Gaussian.load(path) == gaussian(seed=2)
    gaussian(seed=1).save(path, overwrite=True)
    assert Gaussian.load(path) == gaussian(seed=1)
    assert list(tmp_path.iterdir()) == [path]


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


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


@pytest.mark.filterwarnings("ignore:.*has no digest")  # where the bit was in the name of the digest
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_flipped_bit_is_told_or_changes_nothing(tmp_path, suffix):
    rng, path = np.random.default_rng(0), tmp_path / f"g.{suffix}"
    g = Gaussian(rng.normal(size=(6, 4)), rng.uniform(size=(6, 4)), signature(), rng.uniform(size=6))
    kept = {"ids": list("abcdef"), "texts": list("uvwxyz")} if suffix == "parquet" else {}
    g.save(path, **kept)
    content, before, told = path.read_bytes(), read(path), 0
    for bit in rng.choice(len(content) * 8, 200, replace=False):
        path.write_bytes(flipped(content, int(bit)))
        try:
            after = read(path)
        except Sen2ProError:
            told += 1
        else:
            assert after == before, f"bit {bit}"
    assert told > 100


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_changed_numbers_are_told_unless_one_does_not_want_to_know(tmp_path, suffix):
    path = tmp_path / f"g.{suffix}"
    gaussian().save(path)
    if suffix == "parquet":
        table = pq.read_table(path)
        footer = pq.ParquetFile(path).metadata.metadata
        other = pa.FixedSizeListArray.from_arrays(pa.array(gaussian(seed=1).mean.reshape(-1)), 3)
        table = table.set_column(table.column_names.index("mean"), table.schema.field("mean"), other)
        pq.write_table(table.replace_schema_metadata({k: v for k, v in footer.items() if k != b"ARROW:schema"}), path)
    else:
        content = path.read_bytes()
        path.write_bytes(content.replace(gaussian().mean.tobytes(), gaussian(seed=1).mean.tobytes()))
    with pytest.raises(Sen2ProError, match="was changed or damaged since it was written.*verify=False"):
        Gaussian.load(path)
    loaded = Gaussian.load(path, verify=False)
    np.testing.assert_array_equal(loaded.mean, gaussian(seed=1).mean)


def without_digest(path):
    """Make a file as version 0.4 wrote it."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        kept = {k: v for k, v in (table.schema.metadata or {}).items() if k != b"sen2pro.digest"}
        pq.write_table(table.replace_schema_metadata(kept), path)
    else:
        with safe_open(path, "np") as file:
            metadata = {k: v for k, v in file.metadata().items() if k != "sen2pro.digest"}
        save_file(load_file(path), path, metadata)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("single", [False, True])
def test_files_of_older_versions_load_with_a_warning(tmp_path, suffix, single):
    g, path = gaussian()[0] if single else gaussian(), tmp_path / f"g.{suffix}"
    g.save(path)
    without_digest(path)
    with pytest.warns(Sen2ProWarning, match="has no digest"):
        assert Gaussian.load(path) == g
    assert Gaussian.load(path, verify=False) == g


VECTOR = pa.list_(pa.float32(), 2)


def column(values):
    return pa.array(values, VECTOR)


GOOD = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"mean": column([GOOD[0], None, GOOD[2]])}, "row 2: there is no mean|index 2 had size=0"),  # pyarrow 25
        ({"variance": column([GOOD[0], GOOD[1], [5.0, None]])}, "row 3: there is no variance, or not all of it"),
        ({"mean": column([GOOD[0], [np.nan, 0], GOOD[2]])}, "mean must be finite, but row 1, dimension 0 is nan"),
        ({"variance": column([[np.inf, 0], *GOOD[1:]])}, "variance must be finite, but row 0, dimension 0 is inf"),
        ({"variance": column([[-1.0, 0], *GOOD[1:]])}, "a variance cannot be negative"),
        ({"coverage": pa.array([0.5, None, 0.5])}, "row 2: there is no coverage"),
        ({"coverage": pa.array([0.5, np.nan, 0.5])}, "coverage must be finite, but row 1 is nan"),
        ({"id": pa.array(["a", None, "c"])}, "row 2: there is no id"),
        ({"text": pa.array(["a", "b", None])}, "row 3: there is no text"),
        ({"id": pa.array([1, 2, 3])}, "column 'id' must hold texts, not int64"),
        ({"mean": pa.array(["a", "b", "c"])}, "no column 'mean' of fixed-size lists"),
        ({"mean": pa.array([["a", "b"]] * 3, pa.list_(pa.string(), 2))}, "must be float or double, not string"),
        ({"mean": pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2))}, "must be float or double, not int64"),
        ({"mean": pa.array([[1.0]] * 3, pa.list_(pa.float32(), 1))}, "have 1 and 2 dimensions"),
        ({"coverage": pa.array(["a"] * 3)}, "'coverage' must be float or double, not string"),
    ],
)
def test_a_parquet_file_with_something_missing_or_wrong_is_refused_with_the_row(tmp_path, columns, message):
    path = tmp_path / "g.parquet"
    pq.write_table(pa.table({"mean": column(GOOD), "variance": column(GOOD), **columns}), path)
    with pytest.raises(Sen2ProError, match=message):
        read(path, verify=False)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mean": np.zeros((2, 3), np.float64)}, "numbers of 'mean' must be F32, not F64"),
        ({"mean": np.zeros((2, 3), np.complex64)}, "must be F32, not C64"),
        ({"mean": np.zeros((2, 3), np.float16)}, "must be F32, not F16"),
        ({"mean": np.zeros((2, 3, 1), np.float32)}, "'mean' must have 2 dimensions, not the shape"),
        ({"variance": np.zeros((3, 3), np.float32)}, "'variance' must have shape"),
        ({"coverage": np.zeros(3, np.float32)}, "'coverage' must have shape"),
        ({"coverage": np.zeros((2, 3), np.float32)}, "'coverage' must have 1 dimensions"),
        ({"mean": np.full((2, 3), np.nan, np.float32)}, "mean must be finite, but row 0, dimension 0 is nan"),
        ({"mean": torch.zeros(2, 3, dtype=torch.bfloat16)}, "must be F32, not BF16"),
        ({"mean": torch.zeros(2, 3).to(torch.float8_e4m3fn)}, "must be F32, not F8_E4M3"),
    ],
)
def test_a_safetensors_file_of_other_types_or_shapes_is_refused(tmp_path, tensors, message):
    whole = {"mean": np.zeros((2, 3), np.float32), "variance": np.zeros((2, 3), np.float32), **tensors}
    save_tensors({name: torch.as_tensor(each) for name, each in whole.items()}, tmp_path / "g.safetensors")
    with pytest.raises(Sen2ProError, match=message):
        read(tmp_path / "g.safetensors", verify=False)


def test_nothing_is_allocated_for_what_a_header_only_claims(tmp_path):
    """A file of holes that claims 6 GB of float64, and one of some bytes that claims them and ends."""
    shape = [10**6, 384]
    for size, kind in ((8, "F64"), (4, "F32")):
        length = size * shape[0] * shape[1]
        header = {
            "mean": {"dtype": kind, "shape": shape, "data_offsets": [0, length]},
            "variance": {"dtype": kind, "shape": shape, "data_offsets": [length, 2 * length]},
        }
        text = json.dumps(header).encode()
        path = tmp_path / "g.safetensors"
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + 2 * length if kind == "F64" else 100)
        tracemalloc.start()
        with pytest.raises(Sen2ProError, match="must be F32|not a whole"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
        tracemalloc.stop()


def test_a_small_parquet_file_cannot_claim_gigabytes(tmp_path):
    path = tmp_path / "g.parquet"
    rows = 300_000
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 64, np.float32)), 64)
    pq.write_table(pa.table({"mean": zeros, "variance": zeros}), path, compression="zstd")
    with pytest.raises(Sen2ProError, match="claims to hold 153,600,000 bytes of numbers"):
        read(path)


@pytest.mark.parametrize("wrong", ["[]", "{", "null", '{"model": 1}', "3", '{"model": "\\ud800"}'])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_signature_that_is_none_is_refused(tmp_path, suffix, wrong):
    path, metadata = tmp_path / f"g.{suffix}", {"sen2pro.signature": wrong}
    if suffix == "parquet":
        table = pa.table({"mean": column(GOOD), "variance": column(GOOD)})
        pq.write_table(table.replace_schema_metadata(metadata), path)
    else:
        save_file({"mean": np.zeros(2, np.float32), "variance": np.zeros(2, np.float32)}, path, metadata)
    with pytest.raises(Sen2ProError, match="the signature"):
        read(path)


def test_duplicate_ids_are_warned_of_and_cannot_be_looked_up(tmp_path):
    path = tmp_path / "g.parquet"
    with pytest.warns(Sen2ProWarning, match="1 of 4 ids in .* are duplicates .e.g. rows 1 and 3"):
        gaussian().save(path, ids=["a", "b", "c", "b"])
    stored = read(path)
    assert stored.find("c") == gaussian()[2]
    with pytest.raises(Sen2ProError, match="the id 'b' is in 2 rows, for instance 1 and 3"):
        stored.find("b")
    with pytest.raises(Sen2ProError, match="there is no id 'z' among 4"):
        stored.find("z")
    with pytest.raises(Sen2ProError, match="no ids were kept"):
        Stored(gaussian(), None, None).find("a")


def test_a_path_with_a_nul_is_refused():
    for use in (gaussian().save, Gaussian.load, sentences, Sen2Pro, Sen2Pro.load):
        with pytest.raises(Sen2ProError, match="cannot hold a NUL"):
            use("a\0.parquet")


def test_a_text_that_repeats_is_kept_once(tmp_path):
    """A file of some kilobytes can hold gigabytes of text: one long text, thousands of times."""
    rows, text = 2000, "a" * 200_000
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
    vectors = column([[1.0, 2.0]] * rows)
    pq.write_table(pa.table({"text": repeated.cast(pa.string()), "mean": vectors, "variance": vectors}),
                   tmp_path / "g.parquet")  # fmt: skip
    assert (tmp_path / "g.parquet").stat().st_size < 10**6
    tracemalloc.start()
    stored = read(tmp_path / "g.parquet", verify=False)
    assert tracemalloc.get_traced_memory()[1] < 20 * 10**6
    tracemalloc.stop()
    assert stored.texts == [text] * rows


def test_a_writer_that_was_not_entered_writes_nothing(tmp_path):
    with pytest.raises(Sen2ProError, match="with GaussianWriter"):
        GaussianWriter(tmp_path / "g.parquet").write(gaussian())
    assert not list(tmp_path.iterdir())


def test_threads_that_write_to_one_target_do_not_take_each_others_file(tmp_path):
    path = tmp_path / "g.safetensors"
    with GaussianWriter(path, overwrite=True) as first, GaussianWriter(path, overwrite=True) as second:
        first.write(gaussian(seed=1))
        second.write(gaussian(seed=2))
    assert Gaussian.load(path) == gaussian(seed=1)
    assert list(tmp_path.iterdir()) == [path]
