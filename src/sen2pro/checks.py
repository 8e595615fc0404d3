"""What a user passes in, checked: each function returns the value in its one proper form, or raises with the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from sen2pro.errors import Sen2ProError, has_surrogates

SOURCES = ("model", "data")


def check_seed(seed: Any) -> int:
    """Return a seed as an int, also if it came from numpy."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise Sen2ProError(f"seed must be a whole number, not {seed!r}")
    return int(seed)


def check_batch_size(batch_size: Any) -> None:
    """Refuse what is not a positive number of rows (None leaves it to the encoder)."""
    if batch_size is not None and (not isinstance(batch_size, Integral) or batch_size < 1):
        raise Sen2ProError(f"batch_size must be at least 1, not {batch_size!r}")


def check_rate(dropout: Any) -> float | None:
    """Return a dropout rate between 0 and 1, or None for the network's own."""
    if dropout is None:
        return None
    if not isinstance(dropout, Real) or not 0 < float(dropout) < 1:
        raise Sen2ProError(f"dropout must be a number between 0 and 1 (exclusive), not {dropout!r}")
    return float(dropout)


def check_samples(samples: Any, sources: tuple[str, ...]) -> dict[str, int]:
    """Return the number of samples of each source, at least 2 for those in use."""
    pair = samples if isinstance(samples, (tuple, list)) else (samples, samples)
    if len(pair) != 2 or not all(isinstance(n, Integral) and not isinstance(n, bool) for n in pair):
        raise Sen2ProError(f"samples must be a whole number or a pair (model, data), not {samples!r}")
    numbers = dict(zip(SOURCES, map(int, pair), strict=True))
    for source in sources:
        if numbers[source] < 2:
            raise Sen2ProError(f"samples={numbers[source]} gives no variance; take at least 2 for {source} uncertainty")
    return numbers


def check_sentences(sentences: str | Sequence[str]) -> list[str]:
    """Return a list of sentences, each a text that is not blank."""
    if sentences is None or isinstance(sentences, (bytes, Mapping)) or hasattr(sentences, "columns"):
        raise Sen2ProError(
            f"give a sentence or a list of sentences (of a table, one column), not {type(sentences).__name__}"
        )
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise Sen2ProError(f"sentence {i} is not a text but {type(text).__name__}: {text!r}")
        if not text.strip():
            raise Sen2ProError(f"sentence {i} is empty or blank: {text!r}; leave it out")
        if has_surrogates(text):
            raise Sen2ProError(f"sentence {i} holds half a surrogate pair, which is not Unicode text: {text!r}")
    return texts
