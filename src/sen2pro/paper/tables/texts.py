"""Candidates, references and human scores of the generation tasks: dialogue and translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sen2pro.metrics.statistics import by_system
from sen2pro.paper.data import Response, Systems, read_dialogue, read_wmt_segments, spread
from sen2pro.types import Array64

_BLANK = "."  # what is encoded for an output of nothing


@dataclass
class Texts:
    """Candidates with their references and human scores, of several systems."""

    systems: list[str]
    candidates: list[str]
    references: list[str]
    human: dict[str, float]  # of each system
    single: Array64 | None = None  # of each candidate, where there are such

    def rows(self, system: str) -> list[int]:
        """Return which candidates are a system's."""
        return [i for i, name in enumerate(self.systems) if name == system]


def dialogue(name: str, limit: int | None) -> Texts:
    """Read a dialogue set, or the first items of it."""
    responses: Sequence[Response] = read_dialogue(name)
    if limit:
        items = sorted({r.item for r in responses})[:limit]
        responses = [r for r in responses if r.item in set(items)]
    systems = [r.system for r in responses]
    human = np.array([r.human for r in responses])
    texts = [r.response for r in responses], [r.reference for r in responses]
    return Texts(systems, *texts, by_system(systems, human), human)


def translation(found: Systems, limit: int | None) -> Texts:
    """Return the outputs of all systems, or so many segments of each, evenly spread."""
    count = len(found.references)
    chosen = range(count) if not limit else spread(count, limit)
    systems = [system for system in found.outputs for _ in chosen]
    candidates = [found.outputs[system][i] for system in found.outputs for i in chosen]
    return Texts(systems, candidates, [found.references[i] for _ in found.outputs for i in chosen], found.human)


def speaking(texts: Sequence[str]) -> list[str]:
    """Return texts that can be encoded: for an output of nothing, a full stop."""
    return [text if text.strip() else _BLANK for text in texts]


def segments(pair: str, limit: int | None) -> Texts:
    """Read the segments of a language pair that have a human score each, or so many, evenly spread."""
    found = read_wmt_segments(pair)
    if limit:
        found = [found[i] for i in spread(len(found), limit)]
    texts = [s.hypothesis for s in found], [s.reference for s in found]
    return Texts([pair] * len(found), *texts, {}, np.array([s.human for s in found]))
