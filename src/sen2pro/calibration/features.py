"""What is known of a pair of sentences, in a few numbers: with and without the distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sen2pro.distances import distance_pairwise
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.signature import Signature
from sen2pro.validation import Array, Array64

PLAIN = ("cosine", "length", "length difference")  # what can be had without a distribution
_FLOOR = 1e-12  # of a variance, before its logarithm


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences as a confidence needs them: their plain vectors, their distributions, and their lengths.

    `parts` are the Gaussians of model and data uncertainty, as `Sen2Pro.encode_sources` gives them, and `joined` is
    what `Sen2Pro.encode` gives; `words` is the number of words of each sentence (n,).
    """

    vectors: Array
    parts: Mapping[str, Gaussian]
    joined: Gaussian
    words: Array64

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Encoded:
        parts = {name: part[rows] for name, part in self.parts.items()}
        return Encoded(self.vectors[rows], parts, self.joined[rows], self.words[rows])

    @property
    def signature(self) -> Signature | None:
        """How they were made."""
        return self.joined.signature


def encode(model: Sen2Pro, sentences: Sequence[str]) -> Encoded:
    """Encode sentences for a confidence. A model that works in one pass takes just that one.

    >>> found = encode(Sen2Pro(method="one-pass"), ["A man plays the guitar.", "Someone makes music."])
    >>> len(found), found.words.tolist()
    (2, [5.0, 3.0])
    """
    if not isinstance(model, Sen2Pro):
        raise Sen2ProError(f"model must be a Sen2Pro, not {type(model).__name__}")
    found = model.estimate(sentences)
    return Encoded(found.plain, found.parts, found.gaussian, found.words.astype(np.float64))


def names(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features of a pair, those without a distribution first.

    >>> names(["data"])
    ('cosine', 'length', 'length difference', 'distance', 'mean cosine', 'data total', 'data ratio', 'data product')
    """
    of_source = [f"{source} {what}" for source in sources for what in ("total", "ratio", "product")]
    return (*PLAIN, "distance", "mean cosine", *of_source)


def features(a: Encoded, b: Encoded) -> Array64:
    """Return the features of each pair (n, f), in the order of `names`; a pair and its reverse have the same.

    Of each source of uncertainty: *total* is the logarithm of the sum of both total variances, *ratio* the size of the
    logarithm of their ratio (sentences that mean the same are about equally vague), and *product* the logarithm of the
    variance of the dot product, by the delta method.
    """
    lengths = np.log(np.maximum([a.words, b.words], 1))
    distance = distance_pairwise(a.joined, b.joined).astype(np.float64)
    columns = [_cosine(a.vectors, b.vectors), lengths.sum(axis=0), np.abs(lengths[0] - lengths[1])]
    columns += [distance, _cosine(a.joined.mean, b.joined.mean)]
    for source in a.parts:
        x, y = a.parts[source], b.parts[source]
        total_x, total_y = (np.maximum(part.total_variance, _FLOOR) for part in (x, y))
        product = (x.mean.astype(np.float64) ** 2 * y.variance + y.mean.astype(np.float64) ** 2 * x.variance).sum(-1)
        columns += [np.log(total_x + total_y), np.abs(np.log(total_x / total_y)), np.log(np.maximum(product, _FLOOR))]
    return np.stack(columns, axis=-1)


def _cosine(x: Array, y: Array) -> Array64:
    x_, y_ = (side.astype(np.float64) for side in (x, y))
    norms = np.linalg.norm(x_, axis=-1) * np.linalg.norm(y_, axis=-1)
    return np.asarray((x_ * y_).sum(axis=-1) / np.maximum(norms, _FLOOR))
