"""Specificity in one pass: a linear map of hidden states predicts how far an inserted word would move a sentence.

The map predicts the distance itself (the root of the mean squared move), not its logarithm: a fit to logarithms spends
itself on sentences that hardly move at all, and agrees less with people. A second column predicts how many names and
numbers a sentence holds. It learns that from capital letters and digits, and then finds names in lower case too. With
the map come the percentiles of the sentences it was fitted on, which turn a value into a score from 0 to 100.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sen2pro import __version__
from sen2pro.errors import Sen2ProError
from sen2pro.estimation.head import SHIPPED, TRANSFORMS, Linear, basis
from sen2pro.estimation.names import names_and_numbers
from sen2pro.estimation.ridge import Ridge
from sen2pro.io import documents, tensors
from sen2pro.io.atomic import check_path, replacing_folder, settled
from sen2pro.sampling.states import States
from sen2pro.signature import Signature
from sen2pro.validation import Array, Array64

CONFIG, TENSORS = "sen2pro_specificity.json", "sen2pro_specificity.safetensors"
_SPACE = ("model", "hash", "pooling", "whitening")  # another model must agree on all but the name
_PERCENT = np.linspace(0, 100, 101)
_TRANSFORM = "root"
_OLD_TRANSFORM = "log"  # of files written before 0.7.0, which do not name it
_NAMES = 0.5  # weight of the logarithm of 1 + names and numbers, beside that of the squared move
_MOST_LAYERS = 6  # below the last one: more cost the fit much time and give little
_BEYOND = 1.0  # how far a value may be above all of the corpus: a root near 0 has no meaningful logarithm
_KNOTS = np.log([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 160, 256])  # lengths in words, as logarithms


@dataclass(frozen=True, eq=False)
class SpecificityHead:
    """A fitted map from the states of one pass to a specificity, and the percentiles of the corpus."""

    space: dict[str, str]
    corpus: dict[str, Any]  # hash, size
    layers: tuple[int, ...]
    transform: str  # of the mean squared move, on whose scale the map predicts
    r2: float  # on that scale, each sentence left out of the fit
    terms: Array  # (b, 2): of the move, and of names and numbers; heads written before 0.7.0 have only the first
    states: Array  # (F, r)
    directions: Array  # (r, 2)
    low: Array  # (3,), bounds of lengths and norm
    high: Array
    quantiles: Array  # (101,), values of the corpus
    knots: Array  # (m,), logarithms of lengths
    centre: Array  # (m,), median value at each length
    spread: Array  # (m,), and its standard deviation
    residuals: Array  # (101,), values of the corpus in these units

    def value(self, states: States) -> Array64:
        """Return the specificity of each sentence, (n,): see `Specificity.value`."""
        predicted = self._predict(states)
        value = _minus_log(predicted[:, 0], self.transform) + _NAMES * predicted[:, 1:].sum(axis=1)
        return np.asarray(np.minimum(value, self.quantiles[-1] + _BEYOND))

    def sampled_value(self, states: States, moved: Array64) -> Array64:
        """Return the specificity of sentences whose mean squared move was measured."""
        return np.asarray(-np.log(np.maximum(moved, 1e-12)) + _NAMES * self._predict(states)[:, 1:].sum(axis=1))

    def _predict(self, states: States) -> Array64:
        return self._linear(states, np.clip(states.scalars(), self.low, self.high))

    @cached_property
    def _linear(self) -> Linear:
        return Linear(self.layers, self.terms, self.states, self.directions)

    def score(self, value: Array64) -> Array64:
        """Return which percentage of the corpus is less specific."""
        return np.interp(value, self.quantiles, _PERCENT)

    def at_length(self, value: Array64, words: Any) -> Array64:
        """Return which percentage of the sentences of the same length is less specific."""
        length = np.log(words)
        centre, spread = (np.interp(length, self.knots, each) for each in (self.centre, self.spread))
        return np.asarray(np.interp((value - centre) / spread, self.residuals, _PERCENT))

    def misfits(self, signature: Signature) -> list[str]:
        """Name what a model must have in common with the one that this was fitted for, and has not."""
        return [name for name in _SPACE[1:] if self.space[name] != getattr(signature, name)]

    def save(self, folder: str | Path) -> None:
        """Write the numbers as safetensors, and what they are as JSON next to them."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        config = {"space": self.space, "corpus": self.corpus, "layers": self.layers, "r2": self.r2}
        config |= {"transform": self.transform, "hash": _hash(arrays), "version": __version__}
        with replacing_folder(folder, CONFIG) as temporary:
            tensors.write(temporary / TENSORS, arrays)
            documents.write(temporary / CONFIG, config)

    @classmethod
    def load(cls, folder: str | Path) -> SpecificityHead:
        """Read what `save` wrote; a folder that somebody else wrote is checked before it is used."""
        folder, expected = check_path(folder), {name: tensors.Expected("F32", _ARRAYS[name]) for name in _ARRAYS}
        with settled(folder, shared=True):
            config, arrays = documents.read(folder / CONFIG, _CONFIG), tensors.read(folder / TENSORS, expected)
        _check(arrays, folder / TENSORS)
        if _hash(arrays) != config["hash"]:
            raise Sen2ProError(f"{folder / TENSORS} is damaged: its numbers do not have the hash that {CONFIG} says")
        parts: dict[str, Any] = {name: config[name] for name in ("space", "corpus", "r2")} | arrays
        return cls(**parts, layers=tuple(config["layers"]), transform=config.get("transform", _OLD_TRANSFORM))


_ARRAYS = {  # name -> number of dimensions
    each.name: 2 if each.name in ("terms", "states", "directions") else 1
    for each in fields(SpecificityHead)
    if each.type == "Array"
}
_CONFIG = documents.record(
    {
        "space": documents.record(dict.fromkeys(_SPACE, documents.TEXT)),
        "corpus": documents.record({"hash": documents.TEXT, "size": documents.COUNT}),
        "layers": documents.list_of(documents.COUNT),
        "r2": documents.ANY_NUMBER,
        "hash": documents.TEXT,
        "version": documents.TEXT,
    },
    {"transform": documents.one_of_texts(*TRANSFORMS)},
)


def _check(arrays: dict[str, Any], path: Path) -> None:
    """Refuse numbers that cannot be multiplied with each other, or that are no percentiles."""
    rank, knots = arrays["states"].shape[1], len(arrays["knots"])
    columns = 2 if arrays["terms"].shape[1] == 2 else 1
    shapes: dict[str, tuple[int, ...]] = {
        "terms": (basis(np.zeros((1, 3))).shape[1], columns), "directions": (rank, columns), "low": (3,), "high": (3,),
        "quantiles": (101,), "residuals": (101,), "centre": (knots,), "spread": (knots,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise Sen2ProError(f"{path}: {name!r} must have shape {list(shape)}, not {list(arrays[name].shape)}")
    rising = all((np.diff(arrays[name]) >= 0).all() for name in ("quantiles", "residuals", "knots"))
    if not (rising and knots and (arrays["spread"] > 0).all()):
        raise Sen2ProError(f"{path}: percentiles and lengths must rise, and every spread must be above 0")


def _hash(arrays: dict[str, Any]) -> str:
    content = b"".join(name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))
    return hashlib.sha256(content).hexdigest()[:8]


def shipped(signature: Signature) -> SpecificityHead | None:
    """Return the one that comes with the package for this model, if there is one."""
    for path in sorted(SHIPPED.glob(f"*/{CONFIG}")):
        head = SpecificityHead.load(path.parent)
        if not head.misfits(signature):
            return head
    return None


def fit_specificity(signature: Signature, texts: list[str], states: States, moved: Array64) -> SpecificityHead:
    """Fit on n sentences: what one pass says of them, and how far inserted words moved each, (n,)."""
    below = sorted(states.layers)
    spaced = np.linspace(0, len(below) - 1, min(len(below), _MOST_LAYERS)).round().astype(int)
    layers = tuple(below[i] for i in spaced)
    scalars = states.scalars()
    target = TRANSFORMS[_TRANSFORM][0](np.maximum(moved, 1e-12))[:, None]
    names = np.log1p([names_and_numbers(text) for text in texts])[:, None]
    ridge = Ridge(states, layers, slice(None))
    (move, predicted), (other, named) = ridge.fit(target), ridge.fit(names)
    # Each sentence was left out of its own fit; none may hold its place better than the best that was seen.
    value = np.minimum(_minus_log(predicted[:, 0], _TRANSFORM), -np.log(max(moved.min(), 1e-12))) + _NAMES * named[:, 0]
    knots, centre, spread = _by_length(np.log(states.words), value)
    residuals = (value - np.interp(np.log(states.words), knots, centre)) / np.interp(
        np.log(states.words), knots, spread
    )
    arrays = {
        "terms": np.hstack([move.terms, other.terms]), "states": np.hstack([move.states, other.states]),
        "directions": _diagonal(move.directions, other.directions),
        "low": scalars.min(axis=0), "high": scalars.max(axis=0), "quantiles": np.percentile(value, _PERCENT),
        "knots": knots, "centre": centre, "spread": spread, "residuals": np.percentile(residuals, _PERCENT),
    }  # fmt: skip
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return SpecificityHead(
        space={name: getattr(signature, name) for name in _SPACE},
        corpus={"hash": digest[:8], "size": len(texts)},
        layers=layers,
        transform=_TRANSFORM,
        r2=float(1 - ((predicted - target) ** 2).mean() / target.var()),
        **{name: np.asarray(array, np.float32) for name, array in arrays.items()},
    )


def _diagonal(first: Array, second: Array) -> Array64:
    """Return the block matrix of two matrices that do not meet."""
    upper = np.hstack([first, np.zeros((len(first), second.shape[1]))])
    return np.vstack([upper, np.hstack([np.zeros((len(second), first.shape[1])), second])])


def _minus_log(predicted: Array64, transform: str) -> Array64:
    """Return minus the logarithm of the mean squared move, which was predicted on another scale."""
    return np.asarray(-np.log(np.maximum(TRANSFORMS[transform][1](predicted), 1e-30)))


def _by_length(length: Array64, value: Array64) -> tuple[Array64, Array64, Array64]:
    """Return lengths, and median and standard deviation of the values of the sentences nearest to each."""
    knots = _KNOTS[(length.min() <= _KNOTS) & (length.max() >= _KNOTS)]
    knots = knots if len(knots) else length[:1]
    near = [value[np.argsort(np.abs(length - knot), kind="stable")[: max(50, len(value) // 15)]] for knot in knots]
    return knots, np.array([np.median(each) for each in near]), np.array([max(each.std(), 1e-6) for each in near])
