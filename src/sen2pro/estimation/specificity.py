"""How specific a sentence is, as people see it, without a label.

A specific sentence stays where it is: a random word that is inserted hardly moves its meaning. A vague sentence moves
with the word. So the measure is how far the vector moves, on average, when one random word is inserted. Names and
numbers, which make a sentence specific to people, count beside it.

A head predicts both in one pass, by a linear map of hidden states. It predicts the distance itself (the root of the
mean squared move), not its logarithm: a fit to logarithms is spent on sentences that hardly move at all, and agrees
less with people. It learns names and numbers from capital letters and digits, and then finds names in lower case too.
With the map come the percentiles of the sentences it was fitted on, which turn a value into a score from 0 to 100.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sen2pro import __version__
from sen2pro.encoder.backend import States, Tokens
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.estimation.linear import BASIS, TRANSFORMS, Linear, Ridge, hash_of
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, replacing_folder, settled
from sen2pro.io.bundle import Config, Count, Expected
from sen2pro.progress import Show
from sen2pro.sampling.sampler import Sampler
from sen2pro.signature import Signature
from sen2pro.validation import Array, Array64, check_whole

NAME = "sen2pro_specificity"
CONFIG, TENSORS = f"{NAME}.json", f"{NAME}.safetensors"
DEFAULT_SAMPLES = 12
SHIPPED = Path(__file__).parents[1] / "heads"

_PERCENT = np.linspace(0, 100, 101)
_FORTH, _BACK = TRANSFORMS["root"]  # from the mean squared move, and back to it
_NAMES = 0.5  # weight of the logarithm of 1 + names and numbers, beside that of the squared move
_MOST_LAYERS = 6  # below the last one: more cost the fit much time and give little
_BEYOND = 1.0  # how far a value may be above all of the corpus: a root near 0 has no meaningful logarithm
_KNOTS = np.log([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 160, 256])  # lengths in words, as logarithms
_MARKS = "\"'([{)]}.,;:!?*-#"
_ENDS = ".!?:…"  # after one of these a word has a capital because of its place


@dataclass(frozen=True, eq=False)
class Specificity:
    """How specific sentences are: arrays (n,), or numbers for a single sentence. Greater is more specific.

    Attributes
    ----------
    score
        Percentile, 0 to 100: 52 means more specific than 52 % of English sentences.
    at_length
        The same among English sentences of the same length.
    value
        The measure itself: minus the logarithm of how far (squared distance) an inserted word moves the sentence. A
        head adds half the logarithm of 1 + the names and numbers that it sees in the sentence.
    """

    score: Any
    at_length: Any
    value: Any

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, row: int) -> Specificity:
        """Return the numbers of one sentence."""
        return Specificity(float(self.score[row]), float(self.at_length[row]), float(self.value[row]))


@dataclass(frozen=True, eq=False)
class Explanation:
    """What carries a sentence: each word, and how far the meaning moves without it (1 - cosine)."""

    words: tuple[str, ...]
    moves: Array64

    @property
    def share(self) -> Array64:
        """Each word's share of all moves; they add up to 1."""
        return self.moves / max(float(self.moves.sum()), 1e-30)

    def __str__(self) -> str:
        order = np.argsort(-self.moves, kind="stable")
        return ", ".join(f"{self.words[i]} {self.share[i]:.0%}" for i in order)


def without_each_word(words: Sequence[str]) -> list[str]:
    """Return the texts that `explain` takes: all words, and all but one; of a single word only itself.

    >>> without_each_word(["a", "red", "dog"])
    ['a red dog', 'red dog', 'a dog', 'a red']
    """
    others = range(len(words)) if len(words) > 1 else ()
    return [" ".join(words), *(" ".join([*words[:i], *words[i + 1 :]]) for i in others)]


def explain(words: Sequence[str], vectors: Array) -> Explanation:
    """Return how far the meaning moves without each word, from the plain vectors of `without_each_word`."""
    if len(words) == 1:
        return Explanation(tuple(words), np.ones(1))
    unit = vectors.astype(np.float64)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    return Explanation(tuple(words), np.maximum(1 - unit[1:] @ unit[0], 0))


def measure(
    sampler: Sampler, head: SpecificityHead | None, tokens: Tokens, samples: int | None = None,
    batch_size: int | None = None, show: Show = None,
) -> Specificity:  # fmt: skip
    """Return how specific texts are: see `Sen2Pro.specificity`."""
    moves = None
    if samples is not None:
        moves = sampler.measure_moves(tokens, check_whole("samples", samples, 1, 1000), batch_size, show)
    elif head is None:
        raise HeadMissing(
            f"there is no specificity head for {sampler.encoder.name}; fit one on a few thousand sentences with "
            f"distill, or pass samples={DEFAULT_SAMPLES} for values without percentiles"
        )
    if head is None or not len(tokens):
        none = np.full(len(tokens), np.nan)
        return Specificity(none, none, none if moves is None else _minus_log(moves))
    states = sampler.run_plain(tokens, head.layers, batch_size, show if moves is None else False)
    value = head.value(states) if moves is None else head.sampled_value(states, moves)
    return Specificity(head.score(value), head.at_length(value, tokens.words), value)


class Space(Config, frozen=True, kw_only=True):
    """The model that a head was fitted for; another model must agree on all but the name."""

    model: str
    hash: str
    pooling: str
    whitening: str

    @classmethod
    def of(cls, signature: Signature) -> Any:
        """Return what a signature says of the model."""
        return cls(**{name: getattr(signature, name) for name in cls.__struct_fields__})


class Corpus(Config, frozen=True, kw_only=True):
    """The sentences that a head was fitted on."""

    hash: str
    size: Count

    @classmethod
    def of(cls, texts: Sequence[str]) -> Corpus:
        """Return the size and the hash of a list of sentences."""
        return cls(hash=hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8], size=len(texts))


class SpecificityConfig(Config, frozen=True, kw_only=True):
    """What is saved beside the numbers of a head."""

    space: Space
    corpus: Corpus
    layers: tuple[Count, ...]
    r2: float  # on the scale of the transform, each sentence left out of the fit
    hash: str
    version: str = __version__
    transform: Literal["root"]  # of the mean squared move


@dataclass(frozen=True, eq=False)
class SpecificityHead:
    """A fitted map from the states of one pass to a specificity, and the percentiles of the corpus."""

    config: SpecificityConfig
    terms: Array  # (b, 2): of the move, and of names and numbers
    states: Array  # (F, r)
    directions: Array  # (r, 2)
    low: Array  # (3,), bounds of lengths and norm
    high: Array
    quantiles: Array  # (101,), values of the corpus
    knots: Array  # (m,), logarithms of lengths
    centre: Array  # (m,), median value at each length
    spread: Array  # (m,), and its standard deviation
    residuals: Array  # (101,), values of the corpus in these units

    @property
    def layers(self) -> tuple[int, ...]:
        """The hidden states that it reads."""
        return self.config.layers

    def value(self, states: States) -> Array64:
        """Return the specificity of each sentence, (n,): see `Specificity.value`."""
        predicted = self._predict(states)
        value = _minus_log(_BACK(predicted[:, 0]), 1e-30) + _NAMES * predicted[:, 1]
        return np.asarray(np.minimum(value, self.quantiles[-1] + _BEYOND))

    def sampled_value(self, states: States, moved: Array64) -> Array64:
        """Return the specificity of sentences whose mean squared move was measured."""
        return np.asarray(_minus_log(moved) + _NAMES * self._predict(states)[:, 1])

    def _predict(self, states: States) -> Array64:
        return self._linear(states, np.clip(states.scalars, self.low, self.high))

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

    def misfits(self, signature: Signature, depth: int) -> list[str]:
        """Name what a model must have in common with the one that this was fitted for, and has not."""
        space = self.config.space
        names = [name for name in ("hash", "pooling", "whitening") if getattr(space, name) != getattr(signature, name)]
        return names or (["layers"] if max(self.layers, default=-1) >= depth else [])

    def save(self, folder: str | Path) -> None:
        """Write the numbers as safetensors, and what they are as JSON next to them."""
        with replacing_folder(folder, CONFIG) as temporary:
            bundle.save(temporary, NAME, self.config, {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def load(cls, folder: str | Path) -> SpecificityHead:
        """Read what `save` wrote; an untrusted folder is checked before it is used."""
        folder = check_path(folder)
        return _load(folder.resolve(), states_of(folder, CONFIG, TENSORS))


_ARRAYS = {
    "terms": Expected("F32", f"{BASIS} 2"), "states": Expected("F32", "features rank"),
    "directions": Expected("F32", "rank 2"), "low": Expected("F32", "3"), "high": Expected("F32", "3"),
    "quantiles": Expected("F32", "101"), "knots": Expected("F32", "knots"), "centre": Expected("F32", "knots"),
    "spread": Expected("F32", "knots"), "residuals": Expected("F32", "101"),
}  # fmt: skip


def states_of(folder: Path, *names: str) -> tuple[tuple[int, ...], ...]:
    """Return what changes when one of these files of a folder does."""
    found = ((folder / name).stat() if (folder / name).is_file() else None for name in names)
    return tuple(() if each is None else (each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


@lru_cache(maxsize=8)
def _load(folder: Path, states: tuple[tuple[int, ...], ...]) -> SpecificityHead:
    with settled(folder, shared=True):  # its files have fixed names, so none may be replaced meanwhile
        config, arrays = bundle.load(folder, NAME, SpecificityConfig, _ARRAYS)
    path = folder / TENSORS
    rising = all((np.diff(arrays[name]) >= 0).all() for name in ("quantiles", "residuals", "knots"))
    if not (rising and len(arrays["knots"]) and (arrays["spread"] > 0).all()):
        raise Sen2ProError(f"{path}: percentiles and lengths must rise, and every spread must be above 0")
    if hash_of(arrays) != config.hash:
        raise Sen2ProError(f"{path} is damaged: its numbers do not have the hash that {CONFIG} says")
    return SpecificityHead(config, **arrays)


@cache
def shipped() -> tuple[SpecificityHead, ...]:
    """Return the heads that come with the package; they are read once."""
    return tuple(SpecificityHead.load(path.parent) for path in sorted(SHIPPED.glob(f"*/{CONFIG}")))


def find(signature: Signature, encoder: Encoder, fitted: SpecificityHead | None) -> SpecificityHead | None:
    """Return the specificity head of a model: the fitted one, the one in its folder, or one of the package."""
    if fitted is None and encoder.folder and (encoder.folder / CONFIG).is_file():
        fitted = SpecificityHead.load(encoder.folder)
    if fitted is None:
        return next((head for head in shipped() if not head.misfits(signature, encoder.depth)), None)
    if misfits := fitted.misfits(signature, encoder.depth):
        raise Sen2ProError(f"the specificity head was fitted for another model: {', '.join(misfits)} differ")
    return fitted


def fit_specificity(signature: Signature, texts: list[str], states: States, moved: Array64) -> SpecificityHead:
    """Fit on n sentences: what one pass says of them, and how far inserted words moved each, (n,)."""
    from scipy.linalg import block_diag  # slow to import

    below = sorted(states.layers)
    spaced = np.linspace(0, len(below) - 1, min(len(below), _MOST_LAYERS)).round().astype(int)
    layers = tuple(below[i] for i in spaced)
    scalars = states.scalars
    target = _FORTH(np.maximum(moved, 1e-12))[:, None]
    names = np.log1p([names_and_numbers(text) for text in texts])[:, None]
    ridge = Ridge(states, layers, slice(None))
    (move, predicted), (other, named) = ridge.fit(target), ridge.fit(names)
    # Each sentence was left out of the fit that predicts it; no value may exceed the best that was measured.
    value = np.minimum(_minus_log(_BACK(predicted[:, 0]), 1e-30), _minus_log(moved.min())) + _NAMES * named[:, 0]
    lengths = np.log(states.words)
    knots, centre, spread = _by_length(lengths, value)
    residuals = (value - np.interp(lengths, knots, centre)) / np.interp(lengths, knots, spread)
    arrays = {
        "terms": np.hstack([move.terms, other.terms]), "states": np.hstack([move.states, other.states]),
        "directions": block_diag(move.directions, other.directions),
        "low": scalars.min(axis=0), "high": scalars.max(axis=0), "quantiles": np.percentile(value, _PERCENT),
        "knots": knots, "centre": centre, "spread": spread, "residuals": np.percentile(residuals, _PERCENT),
    }  # fmt: skip
    singles = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    config = SpecificityConfig(
        space=Space.of(signature), corpus=Corpus.of(texts), layers=layers, hash=hash_of(singles),
        transform="root", r2=float(1 - ((predicted - target) ** 2).mean() / target.var()),
    )  # fmt: skip
    return SpecificityHead(config, **singles)


def _minus_log(moved: Any, floor: float = 1e-12) -> Array64:
    return np.asarray(-np.log(np.maximum(moved, floor)))


def _by_length(length: Array64, value: Array64) -> tuple[Array64, Array64, Array64]:
    """Return lengths, and median and standard deviation of the values of the sentences nearest to each."""
    knots = _KNOTS[(length.min() <= _KNOTS) & (length.max() >= _KNOTS)]
    knots = knots if len(knots) else length[:1]
    near = [value[np.argsort(np.abs(length - knot), kind="stable")[: max(50, len(value) // 15)]] for knot in knots]
    return knots, np.array([np.median(each) for each in near]), np.array([max(each.std(), 1e-6) for each in near])


def names_and_numbers(text: str) -> int:
    """Return how many words are numbers, or have a capital that is not due to their place.

    A text mostly in capitals counts as one without names.

    >>> names_and_numbers("The 7:40 train to Leeds was late. It often is, says Ann.")
    3
    >>> names_and_numbers("I'VE HAD IT"), names_and_numbers("Well, I'm fine.")
    (0, 0)
    """
    letters = [letter for letter in text if letter.isalpha()]
    shouted = sum(map(str.isupper, letters)) > len(letters) / 2
    count, first = 0, True
    for word in text.split():
        core = word.strip(_MARKS)
        named = core[:1].isupper() and len(core) > 1 and not (first or shouted or core.startswith("I'"))
        count += named or any(map(str.isdigit, word))
        if core or word[-1] in _ENDS:
            first = word[-1] in _ENDS
    return count
