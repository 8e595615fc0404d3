"""Check values that a user passes in: each function returns the value in its one proper form, or raises an error."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from sen2pro.errors import Sen2ProError, first_line, has_surrogates, short_repr

if TYPE_CHECKING:  # the help of a command checks settings, and needs no numpy
    import numpy as np
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float32]"
AnyArray: TypeAlias = "NDArray[Any]"
Array64: TypeAlias = "NDArray[np.float64]"
Labels: TypeAlias = "NDArray[np.int64]"

SOURCES = ("model", "data")
MOST_SAMPLES = 100_000  # of a sentence and source: hours of forward passes; beyond it a number is a slip of the hand
_SEED_BITS = 128  # what a numpy SeedSequence has; there is no use in more
_LEAST_RATE = 1e-5  # dropout draws 16 bits an entry: what is closer to 0 or 1 would drop nothing, or everything
_UNSEEN = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))  # Unicode categories: control, format (zero width), white space
_AXES = ("row", "dimension")  # of means and variances


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number, of Python or numpy, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return a whole number within its bounds as an int, even if it came from numpy."""
    if not is_whole(value) or value < low or (high is not None and value > high):
        bounds = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise Sen2ProError(f"{name} must be a whole number {bounds}, not {short_repr(value)}")
    return int(value)


def check_seed(seed: object) -> int:
    """Return a seed as an int, even if it came from numpy."""
    if not is_whole(seed) or abs(int(seed)) >> _SEED_BITS:
        raise Sen2ProError(f"seed must be a whole number of at most {_SEED_BITS} bits, not {short_repr(seed)}")
    return int(seed)


def check_batch_size(batch_size: object) -> None:
    """Refuse what is not a positive number of rows (None leaves it to the encoder)."""
    if batch_size is not None and (not is_whole(batch_size) or batch_size < 1):
        raise Sen2ProError(f"batch_size must be at least 1 and whole, not {short_repr(batch_size)}")


def parse_fraction(value: object) -> float | None:
    """Return a number from 0 to 1 as a float; None if the value is anything else.

    >>> parse_fraction(0.5), parse_fraction(True), parse_fraction("0.5")
    (0.5, None, None)
    """
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else -1
    return float(number) if 0 <= number <= 1 else None


def check_rate(dropout: object) -> float | None:
    """Return a dropout rate between 0 and 1, or None for the network's own."""
    if dropout is None:
        return None
    rate = parse_fraction(dropout)
    if rate is None or not _LEAST_RATE <= rate <= 1 - _LEAST_RATE:
        raise Sen2ProError(
            f"dropout must be a number between 0 and 1 ({_LEAST_RATE} from both), not {short_repr(dropout)}"
        )
    return rate


def check_samples(samples: object, sources: tuple[str, ...]) -> dict[str, int]:
    """Return the number of samples of each source: at least 2 for those in use, at most `MOST_SAMPLES`."""
    if isinstance(samples, dict):
        if set(samples) != set(SOURCES):
            raise Sen2ProError(f"'samples' must have the keys {' and '.join(SOURCES)}, not {list(samples)}")
        samples = [samples[source] for source in SOURCES]
    pair = samples if isinstance(samples, (tuple, list)) else (samples, samples)
    if len(pair) != 2 or not all(map(is_whole, pair)):
        raise Sen2ProError(f"samples must be a whole number or a pair (model, data), not {short_repr(samples)}")
    numbers = dict(zip(SOURCES, map(int, pair), strict=True))
    for source, number in numbers.items():
        if source in sources and number < 2:
            raise Sen2ProError(
                f"samples={short_repr(number)} gives no variance; take at least 2 for {source} uncertainty"
            )
        if number > MOST_SAMPLES:
            raise Sen2ProError(f"samples={short_repr(number)} is too many; take at most {MOST_SAMPLES} of a sentence")
    return numbers


def check_text(name: str, value: object) -> str:
    """Return a text as a str, even if it came from numpy."""
    if not isinstance(value, str):
        raise Sen2ProError(f"{name} must be a text, not {type(value).__name__}: {short_repr(value)}")
    if has_surrogates(value):
        raise Sen2ProError(f"{name} holds half a surrogate pair, which is not Unicode text: {short_repr(value)}")
    return str(value)


def _check_visible(name: str, value: object) -> str:
    text = check_text(name, value)
    if is_blank(text):
        raise Sen2ProError(f"{name} is empty or blank: {short_repr(text)}; leave it out")
    return text


def is_blank(text: str) -> bool:
    """Tell whether there is nothing to see in a text: it is empty, or of white space and zero-width letters only.

    >>> is_blank(" " + chr(0x200B)), is_blank("a")
    (True, False)
    """
    return not text[:1].isalnum() and all(unicodedata.category(letter) in _UNSEEN for letter in set(text))


def check_sentences(sentences: str | Iterable[str]) -> list[str]:
    """Return a list of sentences, each a text that is not blank."""
    texts = [sentences] if isinstance(sentences, str) else as_list(sentences, "a sentence or a list of sentences")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise Sen2ProError(f"sentence {i} is not a text but {type(text).__name__}: {short_repr(text)}")
    return [_check_visible(f"sentence {i}", text) for i, text in enumerate(texts)]


def check_vocabulary(vocabulary: str | Iterable[str] | None) -> list[str] | None:
    """Return the words for the edits as a list, or None for the tokenizer's own.

    >>> check_vocabulary(["red", "dark blue"])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: word 1 of the vocabulary holds white space: 'dark blue'; give single words
    """
    if vocabulary is None:
        return None
    words = [] if isinstance(vocabulary, str) else as_list(vocabulary, "vocabulary as a list of words")
    if not words:
        raise Sen2ProError(f"vocabulary must be a list of at least one word, not {short_repr(vocabulary)}")
    words = [_check_visible(f"word {i} of the vocabulary", word) for i, word in enumerate(words)]
    for i, word in enumerate(words):
        if word.split() != [word]:
            raise Sen2ProError(f"word {i} of the vocabulary holds white space: {short_repr(word)}; give single words")
        if "\0" in word:
            raise Sen2ProError(f"word {i} of the vocabulary holds a NUL character: {short_repr(word)}; leave it out")
    return words


def as_list(values: Any, what: str) -> list[Any]:
    """Return what stands in a list, an array, a column of a table or a generator, in its order."""
    if isinstance(values, (set, frozenset)):
        raise Sen2ProError(f"give {what}, not a {type(values).__name__}: it has no order; sorted(...) gives it one")
    if isinstance(values, (bytes, bytearray, memoryview, Mapping)) or hasattr(values, "columns"):
        raise Sen2ProError(f"give {what} (of a table, one column), not {type(values).__name__}")
    try:
        rows = iter(values)
    except Exception:
        raise Sen2ProError(f"give {what}, not {type(values).__name__}") from None
    return list(rows)  # an error in a generator of the caller's is the caller's to see


def check_numbers(
    name: str, values: Any, dtype: type[np.floating[Any]] | None = None, *, axes: Sequence[str] = _AXES,
    copy: bool = False,
) -> AnyArray:  # fmt: skip
    """Return an array of real numbers that float32 can hold, none of them NaN or infinite.

    It has the type `dtype`, by default the one that the numbers have, and shares no memory with `values` if `copy`.
    The message says where the first bad value stands, by the names of the last `axes`.

    >>> check_numbers("mean", [[1.0, 2.0], [3.0, float("nan")]])
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: mean must be finite, but row 1, dimension 1 is nan
    """
    import numpy as np

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


def as_array(name: str, values: Any) -> AnyArray:
    """Return what numpy makes of some values, or say why it makes nothing of them."""
    import numpy as np

    try:
        array = np.asarray(values)
        masked = np.ma.is_masked(values)
    except Exception as error:  # ragged lists, tensors on a GPU or with a gradient, anything an unknown class raises
        raise Sen2ProError(f"{name} cannot be read as an array of numbers: {first_line(error)}") from None
    if masked:
        raise Sen2ProError(f"{name} has masked values; fill them in, or leave their rows out")
    return array


def _refuse_kind(name: str, array: AnyArray, axes: Sequence[str]) -> None:
    """Raise for an array that is not of numbers: name the first value that is none."""
    if array.ndim == 0:
        raise Sen2ProError(f"{name} must be an array of numbers, not {short_repr(array.item())}")
    import numpy as np

    for index, value in np.ndenumerate(array.astype(object)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise Sen2ProError(f"{name} must be numbers, but {place(index, axes)} is {short_repr(value)}")
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
