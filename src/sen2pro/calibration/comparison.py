"""Two sentences compared, as an answer that a person can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sen2pro.calibration.defaults import HIGHEST_GRADE, defaults
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.estimation.head import Head
from sen2pro.model import Sen2Pro
from sen2pro.validation import SOURCES, check_sentences

_LIKELY, _UNLIKELY = 0.7, 0.3
_INDISTINCT = 1 - 1e-6  # a cosine of sentences that the network reads as one and the same


def verdict_of(probability: float) -> str:
    """Return `likely` from 70 % on, `unlikely` up to 30 %, else `unsure`.

    >>> verdict_of(0.7), verdict_of(0.5), verdict_of(0.3)
    ('likely', 'unsure', 'unlikely')
    """
    return "likely" if probability >= _LIKELY else "unlikely" if probability <= _UNLIKELY else "unsure"


@dataclass(frozen=True)
class Comparison:
    """How two sentences compare.

    `probability` is that of the same meaning: people would give them at least 4 of 5. `similarity` is the grade to be
    expected, from 0 to 5, and `low` to `high` its 90 % interval. `vaguer` is the sentence that says less, or None if
    the difference is no larger than between two sentences that mean the same. `coverage` is how well the head knows
    such text (see `Gaussian.coverage`), the lower of both. `variances` are the total
    variances of the first and of the second sentence, for each source (`model` and `data`).
    """

    probability: float
    similarity: float
    low: float
    high: float
    vaguer: Literal["first", "second"] | None
    coverage: float
    variances: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`likely` from 70 % on, `unlikely` up to 30 %, else `unsure`."""
        return verdict_of(self.probability)

    def __str__(self) -> str:
        vaguer = (
            f" The {self.vaguer} sentence is the vaguer one." if self.vaguer else " Both are about equally specific."
        )
        return (
            f"{100 * self.probability:.0f} % likely the same meaning ({self.verdict}). "
            f"Similarity {self.similarity:.1f} of {HIGHEST_GRADE:.0f}, "
            f"probably between {self.low:.1f} and {self.high:.1f}.{vaguer}"
        )


def compare(model: Sen2Pro, a: str, b: str) -> Comparison:
    """Compare two sentences, with the numbers that ship for the default model; it takes one pass.

    >>> print(compare(Sen2Pro(method="one-pass"), "A man is playing a guitar.", "Someone makes music."))
    3 % likely the same meaning (unlikely). Similarity 1.9 of 5, probably between 0.6 and 3.3. The second sentence is
    the vaguer one.
    """
    return compare_pairs(model, [a], [b])[0]


def compare_pairs(model: Sen2Pro, first: Sequence[str], second: Sequence[str]) -> list[Comparison]:
    """Compare each sentence of `first` with its partner in `second`; all of them take one pass together.

    >>> pairs = compare_pairs(Sen2Pro(method="one-pass"), ["It rains.", "It rains."], ["It rains.", "I like tea."])
    >>> [pair.verdict for pair in pairs]
    ['likely', 'unlikely']
    """
    texts, count = check_sentences([*first, *second]), len(first)
    if len(texts) != 2 * count:
        raise Sen2ProError(f"pairs take two lists of one length, not of {count} and {len(texts) - count}")
    head = comparing_head(model)
    if not texts:
        return []
    states = model.sampler.plain(texts, model.encoder.prompt(None, None), layers=head.layers)
    vectors = model.sampler.finish(states.vectors).astype(np.float64)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    totals = {name: head.predict(states, name)[1].sum(axis=1) for name in SOURCES if name in head.sources}
    coverage = head.coverage(states)
    return [
        _compared(
            float(vectors[i] @ vectors[count + i]),
            {name: (float(total[i]), float(total[count + i])) for name, total in totals.items()},
            float(min(coverage[i], coverage[count + i])),
        )
        for i in range(count)
    ]


def comparing_head(model: Sen2Pro) -> Head:
    """Return the head that a comparison needs; a model that no numbers ship for is refused."""
    head = model.head or model.find_head()
    misfits = defaults().misfits(model.signature()) or ([] if head else ["no head for one pass"])
    if head is None or misfits:
        raise HeadMissing(
            f"a comparison in words comes with the default model only, and this one has {'; '.join(misfits)}. For "
            "your own model, learn from labelled pairs: sen2pro.MatchConfidence().fit(model, first, second, "
            "labels)"
        )
    return head


def _compared(cosine: float, variances: dict[str, tuple[float, float]], coverage: float) -> Comparison:
    default = defaults().pairs
    difference = float(np.log(variances["data"][0]) - np.log(variances["data"][1]))
    vaguer: Literal["first", "second"] | None = None
    if abs(difference) > default.equally_vague:
        vaguer = "first" if difference > 0 else "second"
    if cosine > _INDISTINCT:
        return Comparison(1.0, HIGHEST_GRADE, HIGHEST_GRADE, HIGHEST_GRADE, None, coverage, variances)
    middle, low, high = (float(end) for end in default.grade(cosine))
    return Comparison(float(default.probability(cosine)), middle, low, high, vaguer, coverage, variances)
