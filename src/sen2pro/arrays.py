"""Arrays of numbers that a user passes in, checked: one gate for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, first_line, shown

_AXES = ("row", "dimension")  # of means and variances


def check_numbers(
    name: str, values: Any, dtype: type[np.floating[Any]] | None = None, *, axes: Sequence[str] = _AXES,
    copy: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Return an array of real numbers that float32 can hold, none of them NaN or infinite.

    It has the type `dtype`, by default the one that the numbers have, and shares no memory with `values` if `copy`.
    The message says where the first bad value stands, by the names of the last `axes`.

    >>> check_numbers("mean", [[1.0, 2.0], [3.0, float("nan")]])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: mean must be finite, but row 1, dimension 1 is nan
    """
    array = as_array(name, values)
    if array.dtype.kind not in "fiu":
        _refuse_kind(name, array, axes)
    with np.errstate(over="ignore", invalid="ignore"):
        single = array.astype(np.float32, order="C", copy=copy)
    finite = np.isfinite(single)
    if not finite.all():
        index = np.unravel_index(int(np.argmin(finite)), array.shape)
        value = array[index]
        why = "; float32 holds numbers up to 3.4e38: scale all of them down" if np.isfinite(value) else ""
        raise Sen2ProError(f"{name} must be finite, but {place(index, axes)} is {value}{why}")
    return single if dtype is np.float32 else array.astype(dtype or array.dtype, order="C", copy=copy)


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return what numpy makes of some values, or say why it makes nothing of them."""
    try:
        array = np.asarray(values)
        masked = np.ma.is_masked(values)
    except Exception as error:  # ragged lists, tensors on a GPU or with a gradient, whatever a stranger raises
        raise Sen2ProError(f"{name} cannot be read as an array of numbers: {first_line(error)}") from None
    if masked:
        raise Sen2ProError(f"{name} has masked values; fill them in, or leave their rows out")
    return array


def _refuse_kind(name: str, array: NDArray[Any], axes: Sequence[str]) -> None:
    """Raise for an array that is not of numbers: name the first value that is none."""
    if array.ndim == 0:
        raise Sen2ProError(f"{name} must be an array of numbers, not {shown(array.item())}")
    for index, value in np.ndenumerate(array.astype(object)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise Sen2ProError(f"{name} must be numbers, but {place(index, axes)} is {shown(value)}")
    raise Sen2ProError(f"{name} must be numbers, not of type {array.dtype}; turn them into floats: astype(float)")


def place(index: Sequence[Any], axes: Sequence[str] = _AXES) -> str:
    """Say where a value stands.

    >>> place((1, 2)), place((2,)), place((0, 1, 2))
    ('row 1, dimension 2', 'dimension 2', 'the value at [0, 1, 2]')
    """
    numbers = [int(i) for i in index]
    if not 0 < len(numbers) <= len(axes):
        return f"the value at {numbers}" if numbers else "it"
    return ", ".join(f"{axis} {number}" for axis, number in zip(axes[-len(numbers) :], numbers, strict=True))
