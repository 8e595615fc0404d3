"""Gaussians for a Ray dataset, on a real Ray on this machine."""

import numpy as np
import pyarrow as pa
import pytest
from test_encode_files import poisoned_model

ray = pytest.importorskip("ray")

from sen2pro import Sen2ProError
from sen2pro.integrations.ray import encode_dataset

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_a_dataset_gets_columns_of_fixed_size_lists_and_can_leave_poisoned_rows_out(bert, tokenizer, tmp_path):
    model = poisoned_model(bert, tokenizer, tmp_path / "model")
    texts = [
        *[None] * 10,
        *["the dog runs", None, "a cat sees", "rain today"] * 10,
    ]
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        dataset = ray.data.from_arrow(pa.table({"n": range(len(texts)), "body": texts}))
        found = encode_dataset(dataset, model, column="body", batch_size=10, on_error="skip")
        table = pa.concat_tables(ray.get(found.to_arrow_refs())).sort_by("n")
    finally:
        ray.shutdown()
    kept = [n for n, text in enumerate(texts) if text and "rain" not in text]
    assert table.column("n").to_pylist() == kept
    assert table.schema.field("mean").type == pa.list_(pa.float32(), 32)
    expected = model.encode([texts[n] for n in kept])
    for name in ("mean", "variance"):
        numbers = table.column(name).combine_chunks().flatten().to_numpy().reshape(-1, 32)
        np.testing.assert_allclose(numbers, getattr(expected, name), atol=1e-5)
    np.testing.assert_allclose(table.column("total_variance").to_numpy(), expected.total_variance, atol=1e-4)
    assert "model_variance" in table.column_names


@pytest.mark.parametrize("settings", ["all-MiniLM-L6-v2", None])
def test_a_dataset_wants_settings(settings):
    with pytest.raises(Sen2ProError, match="give the Settings of a model"):
        encode_dataset(None, settings)
