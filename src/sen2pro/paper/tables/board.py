"""The STS sets of a table with the scores of an encoder on them, each worked out once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sen2pro.gaussian import Gaussian
from sen2pro.metrics.statistics import Comparison, Statistic, Undefined, average_statistic, paired_bootstrap
from sen2pro.paper import sts
from sen2pro.paper.data import DataMissing, Pairs, read_sts
from sen2pro.paper.lab import Lab
from sen2pro.paper.numbers import TITLES
from sen2pro.paper.tables.readings import Reading
from sen2pro.types import Array


class Board:
    """Scores of pairs.

    Parameters
    ----------
    lab
        What encodes.
    names
        STS sets; those without data are left out, and `missing` says why.
    pooling
        Another pooling than the encoder's own.
    """

    def __init__(self, lab: Lab, names: Sequence[str], pooling: str | None = None) -> None:
        self.lab, self.pooling = lab, pooling
        self.sets: dict[str, Pairs] = {}
        self.missing: dict[str, str] = {}
        for name in names:
            try:
                pairs = read_sts(name)
            except DataMissing as error:
                self.missing[name] = str(error)
            else:
                self.sets[name] = pairs.head(lab.limit) if lab.limit else pairs
        if not self.sets:
            raise DataMissing(next(iter(self.missing.values()), "no STS set was asked for"))
        self._parts: dict[tuple[str, int, bool], dict[str, Gaussian]] = {}
        self._plain: dict[str, Array] = {}

    def defined(self) -> list[str]:
        """Return the sets with a correlation: some gold scores differ, and there are at least 3 pairs."""
        found = [name for name, pairs in self.sets.items() if len(pairs) > 2 and len(set(pairs.gold.tolist())) > 1]
        if not found:
            raise Undefined(f"no correlation: all gold scores of {', '.join(self.sets)} are equal, or too few")
        return found

    @property
    def notes(self) -> list[str]:
        """What is to be said about missing sets."""
        if not self.missing:
            return []
        names = ", ".join(TITLES[name] for name in self.missing)
        return [f"{names}: no data here; `sen2pro data list` says where it comes from."]

    def sentences(self, name: str) -> tuple[str, ...]:
        """Return the distinct sentences of a set."""
        return tuple(dict.fromkeys(self.sets[name].left + self.sets[name].right))

    def sides(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the left and right sentences of a set's pairs are among its distinct ones."""
        index = {sentence: i for i, sentence in enumerate(self.sentences(name))}
        pairs = self.sets[name]
        return np.array([index[s] for s in pairs.left]), np.array([index[s] for s in pairs.right])

    def plain(self, name: str) -> Array:
        """Return the cosine of the plain vectors of each pair: Sen2Vec."""
        if name not in self._plain:
            vectors = self.lab.vectors(self.sentences(name), self.pooling)
            left, right = self.sides(name)
            self._plain[name] = (vectors[left] * vectors[right]).sum(axis=1)
        return self._plain[name]

    def parts(self, name: str, seed: int, normalize: bool) -> dict[str, Gaussian]:
        """Return the Gaussians of model and data uncertainty of the distinct sentences of a set."""
        key = (name, seed, normalize)
        if key not in self._parts:
            self._parts[key] = self.lab.parts(
                self.sentences(name), seed, normalize=normalize, pooling=self.pooling, keep_samples=True
            )
        return self._parts[key]

    def scores(self, name: str, reading: Reading, seed: int = 0, kind: str = "m+d", how: str = "individual") -> Array:
        """Return the similarity of each pair of a set."""
        joined = self.lab.join(self.parts(name, seed, reading.normalize), kind, how)
        left, right = self.sides(name)
        return reading.pairwise(joined[left], joined[right])

    def plain_statistic(self, name: str, aggregation: str = "all") -> Statistic:
        """Return the correlation of the plain cosine with the gold scores."""
        return sts.statistic(self.plain(name), self.sets[name], aggregation)

    def statistics(
        self, name: str, reading: Reading, aggregation: str = "all", kind: str = "m+d", how: str = "individual"
    ) -> list[Statistic]:
        """Return the correlation of the similarity with the gold scores, for each seed."""
        return [
            sts.statistic(self.scores(name, reading, seed, kind, how), self.sets[name], aggregation)
            for seed in range(self.lab.seeds)
        ]

    def compare(
        self,
        name: str,
        ours: list[Statistic],
        baseline: Statistic,
        aggregation: str = "all",
    ) -> Comparison | str:
        """Return the comparison on one set, times 100, or why there is none."""
        pairs = self.sets[name]
        groups = None if aggregation == "all" else np.array(pairs.subtasks)
        try:
            return paired_bootstrap(ours, baseline, len(pairs), groups=groups).scaled(100)
        except Undefined as error:
            return str(error)

    def average(
        self, ours: dict[str, list[Statistic]], baseline: dict[str, Statistic], aggregation: str = "all"
    ) -> Comparison:
        """Return the comparison of averages over sets, times 100; pairs are drawn anew within each set or sub-task."""
        sizes = [len(self.sets[name]) for name in ours]
        ends = np.cumsum(sizes)
        places = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        seeds = zip(*ours.values(), strict=True)
        return paired_bootstrap(
            [average_statistic(parts, places) for parts in seeds],
            average_statistic([baseline[name] for name in ours], places),
            int(ends[-1]),
            groups=np.array(
                [
                    f"{name} {subtask if aggregation != 'all' else ''}"
                    for name in ours
                    for subtask in self.sets[name].subtasks
                ]
            ),
        ).scaled(100)
