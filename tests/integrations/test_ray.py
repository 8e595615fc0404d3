"""Gaussians for a Ray dataset, on a real Ray on this machine."""

import numpy as np
import pyarrow as pa
import pytest
from scale_runs import some_texts, tiny_model
from test_encode_files import poisoned  # noqa: F401  a fixture

ray = pytest.importorskip("ray")

from sen2pro import Sen2ProError
from sen2pro.integrations.ray import encode_dataset

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def model(shared_folder):
    return tiny_model(shared_folder)


def test_a_dataset_gets_columns_of_fixed_size_lists(model):
    texts = some_texts(500)
    dataset = ray.data.from_arrow(pa.table({"n": range(500), "body": texts}))
    found = encode_dataset(dataset, model.settings, column="body")
    table = pa.concat_tables(ray.get(found.to_arrow_refs())).sort_by("n")
    assert table.schema.field("mean").type == pa.list_(pa.float32(), 32)
    assert table.column("n").to_pylist() == list(range(500))
    expected = model.encode(texts)
    for name in ("mean", "variance"):
        numbers = table.column(name).combine_chunks().flatten().to_numpy().reshape(500, 32)
        np.testing.assert_allclose(numbers, getattr(expected, name), atol=1e-5)
    np.testing.assert_allclose(table.column("total_variance").to_numpy(), expected.total_variance, atol=1e-4)
    assert {"model_variance", "data_variance"} <= set(table.column_names)


def test_a_dataset_can_leave_poisoned_rows_out(poisoned):  # noqa: F811
    rows = [{"text": "the dog"}, {"text": "rain"}, {"text": None}, {"text": "a cat"}]
    found = encode_dataset(ray.data.from_items(rows), poisoned, on_error="skip")
    assert [row["text"] for row in found.take_all()] == ["the dog", "a cat"]
    assert {"mean", "variance", "model_variance"} <= set(found.columns())


@pytest.mark.parametrize("settings", ["all-MiniLM-L6-v2", None])
def test_a_dataset_wants_settings(settings):
    with pytest.raises(Sen2ProError, match="give the Settings of a model"):
        encode_dataset(None, settings)
