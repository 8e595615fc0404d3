"""What a search returns: the hits of a query, how likely each is right, and the answer or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from sen2pro.search.stores.protocol import Candidates, Value

_TEXT = 100  # letters of a hit that are printed


@dataclass(slots=True)  # not frozen: a hit that is cost three times as much to make, and there are many
class Hit:
    """A document that was found.

    `similarity` is what documents are ranked by: greater is closer. `probability` is that of a right hit, None where
    there are no probabilities.
    """

    id: str
    text: str
    similarity: float
    probability: float | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the hit as JSON."""
        return {
            "id": self.id, "text": self.text, "similarity": self.similarity, "probability": self.probability,
            "metadata": dict(self.metadata),
        }  # fmt: skip


@dataclass(frozen=True)
class Result(Sequence[Hit]):
    """The hits of one query, the nearest first.

    `threshold` is the least probability of an answer; None says that the first hit is always the answer, since nothing
    is calibrated.

    Examples
    --------
    >>> found = Result("capital of France?", (Hit("7", "Paris is the capital of France.", 0.83, 0.97),), 0.5)
    >>> found.answer.id, len(found)
    ('7', 1)
    >>> print(Result("who won?", (Hit("7", "Paris is the capital of France.", 0.11, 0.02),), 0.5))
    no good match (best 0.02)
    """

    query: str
    hits: tuple[Hit, ...]
    threshold: float | None = None

    @classmethod
    def of(
        cls, query: str, candidates: Candidates, probabilities: Sequence[float | None], k: int, threshold: float | None
    ) -> Result:
        """Return the first k candidates with their probabilities."""
        columns = zip(candidates.documents[:k], candidates.similarities, probabilities, strict=False)
        hits = (Hit(each.id, each.text, near, likely, dict(each.metadata)) for each, near, likely in columns)
        return cls(query, tuple(hits), threshold)

    @property
    def answer(self) -> Hit | None:
        """The first hit, or None if it is not likely enough to be right."""
        first = self.hits[0] if self.hits else None
        if first is None or self.threshold is None or first.probability is None:
            return first
        return first if first.probability >= self.threshold else None

    @property
    def probability(self) -> float | None:
        """How likely the first hit is right; None without a calibration, 0 without a hit."""
        return self.hits[0].probability if self.hits else 0.0

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __str__(self) -> str:
        if not self.hits:
            return "no good match (nothing was found)"
        first, answer = self.hits[0], self.answer
        if answer is None:
            return f"no good match (best {first.probability:.2f})"
        sure = f"similarity {answer.similarity:.2f}, not calibrated"
        if answer.probability is not None:
            sure = f"{100 * answer.probability:.0f} % likely right"
        text = answer.text if len(answer.text) <= _TEXT else f"{answer.text[: _TEXT - 3]}..."
        return f"{text} (id {answer.id}; {sure})"

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON: `answer` is the id of the answer, or null."""
        answer = self.answer
        return {
            "query": self.query, "answer": answer and answer.id, "probability": self.probability,
            "threshold": self.threshold, "hits": [hit.to_json() for hit in self.hits],
        }  # fmt: skip
