"""Open a Parquet file that somebody else may have written: whatever pyarrow says of it becomes one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sen2pro.errors import Sen2ProError, first_line


@contextmanager
def opened(path: str | Path, **options: Any) -> Iterator[Any]:
    """Give a `pyarrow.parquet.ParquetFile` whose pages are checked against their checksums as they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True, **options) as file:
            yield file
    except Sen2ProError:
        raise
    except FileNotFoundError:
        raise Sen2ProError(f"there is no file {path}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise Sen2ProError(f"{path} is not a whole Parquet file: {first_line(error)}") from None


def trouble(error: BaseException) -> BaseException | None:
    """Return what the machine said if that is behind an error: no memory, or a disk that fails; not a damaged file.

    >>> try:
    ...     with opened("no-such-file.parquet"):
    ...         pass
    ... except Sen2ProError as error:
    ...     print(trouble(error))
    None
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, MemoryError):
            return behind
        # pyarrow also raises an OSError, without a number, for a file whose end makes no sense.
        if isinstance(behind, OSError) and behind.errno is not None and not isinstance(behind, FileNotFoundError):
            return behind
        behind = behind.__cause__ or behind.__context__
    return None


def batches(file: Any, size: int, columns: list[str] | None = None, first: int = 0) -> Iterator[Any]:
    """Yield what an opened file holds in batches of at most `size` rows, from the group of rows `first` on.

    pyarrow keeps what it has read of all groups of rows that it was asked for, so it is asked for one group at a time.
    """
    for group in range(first, file.num_row_groups):
        yield from file.iter_batches(batch_size=size, row_groups=[group], columns=columns)


def texts(column: Any) -> list[str]:
    """Return the texts of a column; equal ones are one object, where a dictionary holds them."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values, indices = column.dictionary.to_pylist(), column.indices.to_pylist()
    if any(not 0 <= index < len(values) for index in indices):
        raise pa.ArrowInvalid("texts are missing")
    return [values[index] for index in indices]
