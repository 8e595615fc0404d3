"""Candidates, references and human scores of the generation tasks, and how close Sen2Vec and Sen2Pro find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.paper.data import Response, Systems, read_dialogue, read_wmt_segments, spread
from sen2pro.paper.lab import Lab
from sen2pro.paper.systems import by_system
from sen2pro.paper.tables.readings import Reading
from sen2pro.types import Array, Array64

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


def sen2vec_scores(lab: Lab, texts: Texts) -> Array:
    """Return the cosine of plain vectors of each candidate with its reference."""
    sentences, left, right = distinct(texts)
    vectors = lab.vectors(sentences)
    return np.asarray((vectors[left] * vectors[right]).sum(axis=1))


def sen2pro_scores(lab: Lab, texts: Texts, reading: Reading, seed: int) -> Array:
    """Return the similarity of each candidate with its reference."""
    sentences, left, right = distinct(texts)
    joined = lab.join(lab.parts(sentences, seed, normalize=reading.normalize))
    return reading.pairwise(joined[left], joined[right])


def speaking(texts: Sequence[str]) -> list[str]:
    """Return texts that can be encoded: for an output of nothing, a full stop."""
    return [text if text.strip() else _BLANK for text in texts]


def distinct(texts: Texts) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the different texts, and where among them each candidate and each reference stands."""
    sides = [speaking(side) for side in (texts.candidates, texts.references)]
    index = {text: i for i, text in enumerate(dict.fromkeys(sides[0] + sides[1]))}
    left, right = (np.array([index[text] for text in side]) for side in sides)
    return list(index), left, right


def segments(pair: str, limit: int | None) -> Texts:
    """Read the segments of a language pair that have a human score each, or so many, evenly spread."""
    found = read_wmt_segments(pair)
    if limit:
        found = [found[i] for i in spread(len(found), limit)]
    texts = [s.hypothesis for s in found], [s.reference for s in found]
    return Texts([pair] * len(found), *texts, {}, np.array([s.human for s in found]))
