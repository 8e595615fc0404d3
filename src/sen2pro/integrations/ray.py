"""Add Gaussians to a Ray dataset by `encode_dataset`. It needs the extra `ray`.

The model travels as its settings, so a folder that they name must be on every node.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa
import torch
from ray.data import ActorPoolStrategy, Dataset

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.io.inputs import Record
from sen2pro.io.shards import COLUMNS
from sen2pro.jobs.workers import RowOptions, encode_chunk, load_model
from sen2pro.model import Sen2Pro
from sen2pro.settings import Settings
from sen2pro.validation import check_whole


def encode_dataset(
    dataset: Dataset, settings: Settings | Sen2Pro, *, column: str = "text", actors: int | tuple[int, int] = 1,
    cpus: float = 1, gpus: float = 0, batch_size: int = 256, on_error: str = "fail",
) -> Dataset:  # fmt: skip
    """Add the Gaussians of a column of texts to a Ray dataset.

    The new columns are `mean` and `variance` (fixed-size lists of float32), `total_variance`, `model_variance` and
    `data_variance`, and with a head `coverage`. As in all of Ray Data, nothing runs until the result is used.

    Parameters
    ----------
    dataset
        A dataset with a column of texts; its other columns stay.
    settings
        The `Settings` of a model, or a `Sen2Pro`, which travels as its settings. Each actor loads it once.
    actors
        The number of actors, or the least and the most of a pool that grows with the work.
    cpus, gpus
        What an actor takes of the cluster; torch gets so many threads. For a GPU give `Settings(device="cuda")` too.
    batch_size
        Rows that are encoded at once. The numbers of a row do not depend on it, but for rounding (1e-5).
    on_error
        `fail` ends the work at a text that cannot be encoded; `skip` leaves its row out.

    Examples
    --------
    >>> import ray
    >>> from sen2pro.settings import Settings
    >>> texts = ray.data.from_items([{"text": "One sentence."}, {"text": "Another one."}])  # doctest: +SKIP
    >>> gaussians = encode_dataset(texts, Settings(method="one-pass"), actors=2)  # doctest: +SKIP
    >>> gaussians.write_parquet("gaussians")  # doctest: +SKIP
    """
    if not isinstance(settings, (Settings, Sen2Pro)):
        raise Sen2ProError(f"give the Settings of a model, or a Sen2Pro, not {type(settings).__name__}")
    one_of("on_error", on_error, ("fail", "skip"))
    least, most = (actors, actors) if isinstance(actors, int) else actors
    check_whole("actors", least, 1)
    pool = ActorPoolStrategy(min_size=least, max_size=check_whole("actors", most, least))
    arguments = (pickle.dumps(settings), column, max(1, int(cpus)), on_error == "skip")
    return dataset.map_batches(
        _BatchEncoder, fn_constructor_args=arguments, compute=pool, num_cpus=cpus, num_gpus=gpus,
        batch_size=check_whole("batch_size", batch_size, 1), batch_format="pyarrow",
    )  # fmt: skip


class _BatchEncoder:
    """The actor class of `encode_dataset`."""

    def __init__(self, pickled: bytes, column: str, threads: int, skip: bool) -> None:
        torch.set_num_threads(threads)  # as many as the actor has CPUs
        self._model, self._column = load_model(pickle.loads(pickled)), column
        self._how = RowOptions(texts=False, skip_faults=skip)

    def __call__(self, table: pa.Table) -> pa.Table:
        if self._column not in table.column_names:
            raise Sen2ProError(f"there is no column {self._column!r}, only: {', '.join(table.column_names)}")
        taken = [name for name in COLUMNS if name in table.column_names and name not in ("id", "text")]
        if taken:
            raise Sen2ProError(f"the dataset has a column {taken[0]!r} already; rename it")
        rows, left_out = _rows(table.column(self._column).to_pylist(), self._how.skip_faults)
        if rows:
            piece, report = encode_chunk(self._model, rows, self._how)
            left_out |= {int(place.rsplit(" ", 1)[1]) for place, _ in report.skipped}
        kept = [number for number in range(len(table)) if number not in left_out]
        if not kept:  # an empty batch has the columns of a full one
            piece, _ = encode_chunk(self._model, [("", Record(None, "a", ""))], RowOptions(texts=False))
        result = table.take(pa.array(kept, pa.int64())) if len(kept) < len(table) else table
        columns = {"total_variance": piece.variance.sum(axis=-1, dtype=float), **piece.totals}
        if piece.coverage is not None:
            columns["coverage"] = piece.coverage
        for name, numbers in columns.items():
            result = result.append_column(name, pa.array(numbers[: len(kept)]))
        for name in ("mean", "variance"):
            flat = pa.array(getattr(piece, name)[: len(kept)].reshape(-1))
            result = result.append_column(name, pa.FixedSizeListArray.from_arrays(flat, piece.mean.shape[-1]))
        return result


def _rows(texts: Sequence[object], skip: bool) -> tuple[list[tuple[str, Record]], set[int]]:
    """Return texts as rows to encode, each named by its number in the batch, and the numbers of those that are none."""
    sound = {number: text for number, text in enumerate(texts) if isinstance(text, str) and text.strip()}
    faulty = set(range(len(texts))) - sound.keys()
    if faulty and not skip:
        number = min(faulty)
        raise Sen2ProError(f"row {number} of a batch is not a text but {texts[number]!r}; pass on_error='skip'")
    return [("the batch", Record(None, text, f"row {number}")) for number, text in sound.items()], faulty
