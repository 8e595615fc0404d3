"""One pass instead of thirty: a linear head that reads mean and variance off the states of a plain forward pass.

What it predicts is what sampling would give in the limit of many samples, separately for model and data uncertainty:
the shift of the mean away from the plain vector, and the variance of each dimension. `distill.py` fits it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, join_names
from sen2pro.estimation.shrinkage import Strength
from sen2pro.io import documents, tensors
from sen2pro.io.atomic import check_path, replacing_folder, settled
from sen2pro.sampling.states import States
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, Array64

if TYPE_CHECKING:
    from sen2pro.estimation.analytic import Correction
    from sen2pro.estimation.specificity import SpecificityHead

CONFIG, TENSORS = "sen2pro_head.json", "sen2pro_head.safetensors"
# What a head knows of the model it was fitted for; another one must agree on all but the name.
SPACE = ("model", "hash", "pooling", "geometry", "whitening", "dropout", "edits")
SHIPPED = Path(__file__).parents[1] / "heads"

# Of a variance that float32 holds; only text unlike any of the corpus comes near, and `coverage` says so.
_LARGEST_LOG = 80.0
_MOST_LAYERS = 16  # that a map reads
_LARGEST = 1e9  # R2, either way, that is worth printing
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # from a variance, and back to it
    "log": (np.log, lambda y: np.exp(np.minimum(y, _LARGEST_LOG))),
    "root": (np.sqrt, lambda y: np.maximum(y, 0.0) ** 2),
}


def basis(scalars: Array64) -> Array64:
    """Return the terms that a head fits without penalty: smooth functions of length and norm."""
    t, w, s = scalars.T
    terms = np.empty((len(scalars), 11))  # faster than np.stack for a single text
    for column, term in enumerate((1.0, t, t**2, t**3, np.exp(-t), w, w**2, np.exp(-w), s, s**2, s * t)):
        terms[:, column] = term
    return terms


@dataclass(frozen=True, eq=False)
class Linear:
    """basis @ terms + features @ states @ directions: (n, k)."""

    layers: tuple[int, ...] | None
    terms: Array  # (b, k)
    states: NDArray[Any]  # (F, r)
    directions: NDArray[Any]  # (r, k)
    transform: str = ""

    def in_half(self) -> Linear:
        """Return the same map with its two large tables in float16, which is half the size."""
        high, low = (
            np.abs(table).max(axis=axis, initial=1e-30) for table, axis in ((self.states, 0), (self.directions, 1))
        )
        balance = np.sqrt(low / high)  # both tables in the same range, far from what float16 cannot hold
        directions = (self.directions / balance[:, None]).astype(np.float16)
        return replace(self, states=(self.states * balance).astype(np.float16), directions=directions)

    def __call__(self, states: States, scalars: Array64) -> Array64:
        """Predict for n sentences."""
        result = basis(scalars) @ self.terms
        if self.layers is not None and self.states.shape[1]:
            features = states.features(self.layers)
            _check_width(features, self.states)
            first, second = self._tables
            result = result + features.astype(first.dtype) @ first @ second
        return np.asarray(result)

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Both tables, float32 at least: numpy would convert float16 anew in each product."""
        return _full(self.states), _full(self.directions)


@dataclass(frozen=True, eq=False)
class Coverage:
    """How far a sentence is from those a head was fitted on: a Gaussian of low rank, and how far out others were."""

    layers: tuple[int, ...]
    centre: Array  # (F,)
    scale: Array  # (F,)
    axes: NDArray[np.float16]  # (F, q)
    spread: Array  # (q,), standard deviation along the axes
    rest: float  # standard deviation of all that is left
    low: Array  # (3,), bounds of the scalars
    high: Array
    distances: Array  # sorted, of text that was not fitted on; given its length, if that is known
    lengths: tuple[float, ...] = ()  # centre and width of the logarithm of a distance by length; empty: not known

    def distance(self, states: States) -> Array64:
        """Return (n,) squared distances in standard deviations, per dimension."""
        features = np.concatenate([states.features(self.layers), states.scalars()], axis=1)
        _check_width(features, self.centre)
        z = (features - self.centre) / self.scale
        along = (z.astype(np.float32) @ self._full_axes).astype(np.float64)
        rest = np.maximum((z**2).sum(axis=1) - (along**2).sum(axis=1), 0) / self.rest**2
        return np.asarray((((along / self.spread) ** 2).sum(axis=1) + rest) / z.shape[1])

    @cached_property
    def _full_axes(self) -> NDArray[Any]:
        return _full(self.axes)

    def place(self, states: States) -> Array64:
        """Return (n,) how far out each sentence is, among text of its length if `lengths` are known."""
        distance = self.distance(states)
        if not self.lengths:
            return distance
        terms = basis(np.clip(states.scalars(), self.low, self.high))[:, : len(self.lengths) // 2]
        centre, width = np.split(np.array(self.lengths), 2)
        return np.asarray((np.log(np.maximum(distance, 1e-30)) - terms @ centre) * np.exp(-terms @ width))

    def __call__(self, states: States) -> Array:
        """Return the share of held-out text that was at least as far out; 0 beyond the lengths fitted on."""
        further = len(self.distances) - np.searchsorted(self.distances, self.place(states).astype(np.float32))
        share = (further + 1) / (len(self.distances) + 1)
        lengths = states.scalars()[:, :2]
        inside = ((lengths >= self.low[:2] - 1e-6) & (lengths <= self.high[:2] + 1e-6)).all(axis=1)
        return np.asarray(np.where(inside, share, 0.0), np.float32)


@dataclass(frozen=True)
class Passages:
    """How a head that was fitted on sentences goes on to longer text; the heads that 0.9 shipped have it.

    `low` and `high` bound the scalars of the sentences. With x, how far the logarithm of the number of words is above
    its bound, the variances are exp(a x + b x^2) times what the maps say. So nothing changes for sentences.
    """

    low: tuple[float, ...]  # (3,)
    high: tuple[float, ...]
    levels: dict[str, tuple[float, ...]]  # a and b of each source

    def beyond(self, scalars: Array64, longest: float) -> Array64:
        """Return (n, 2): x and its square, of scalars (n, 3); text longer than any known counts as the longest."""
        x = np.maximum(np.minimum(scalars[:, 1], longest) - self.high[1], 0)
        return np.stack([x, x**2], axis=1)


def _full(table: NDArray[Any]) -> NDArray[Any]:
    return table.astype(np.promote_types(table.dtype, np.float32), copy=False)


def _check_width(features: Array64, weights: NDArray[Any]) -> None:
    if features.shape[1] != len(weights):
        given = f"reads {len(weights)} numbers of a sentence, not the {features.shape[1]} that this network gives"
        raise Sen2ProError(f"this head was made for another network: it {given}")


def on_sphere(mean: Array64, variance: Array64) -> Array64:
    """Give means the length that samples of length 1 leave them: |mean|^2 + total variance = 1.

    >>> on_sphere(np.array([[2.0, 0.0]]), np.array([[0.3, 0.06]]))
    array([[0.8, 0. ]])
    """
    length = np.sqrt(np.maximum(1 - variance.sum(axis=-1, keepdims=True), 0.0))
    return np.asarray(mean * length / np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-12))


def _figure(value: float | None) -> str:
    """Print an R2; how far it is below 0 says little, since it is a share of what may be next to nothing."""
    return "unknown" if value is None or not abs(value) < _LARGEST else "below 0" if value < 0 else f"{value:.2f}"


@dataclass(frozen=True, eq=False)
class Head:
    """A fitted head: predicts, knows what it was made for and from, and how far it can be trusted.

    Examples
    --------
    >>> from sen2pro import Sen2Pro
    >>> model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")  # with the head that comes along
    >>> model.head.quality["model"]["variance per dimension"] > 0.5  # R2 on sentences it was not fitted on
    True
    """

    space: dict[str, str]
    corpus: dict[str, Any]  # hash, size
    teacher: dict[str, Any]  # samples, seed, prompt, version
    quality: dict[str, dict[str, float]]  # R2 on held-out sentences; NaN: unknown, below 0: worse than a constant
    shifts: dict[str, Linear]
    variances: dict[str, Linear]
    errors: dict[str, Array]  # variance of the shift's error, (k,)
    live: dict[str, NDArray[np.bool_]]  # dimensions that vary at all, (k,)
    strengths: dict[str, Strength]
    coverage: Coverage
    specificity: SpecificityHead | None = None
    passages: Passages | None = None
    correction: Correction | None = None  # of propagated variances

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of uncertainty that it predicts."""
        return tuple(self.variances)

    @property
    def dim(self) -> int:
        """The number of dimensions of the Gaussians that it predicts."""
        return len(next(iter(self.live.values())))

    @property
    def layers(self) -> tuple[int, ...]:
        """The hidden states that it reads."""
        maps: list[Linear | Coverage] = [*self.shifts.values(), *self.variances.values(), self.coverage]
        maps += [self.correction.linear] if self.correction else []
        return tuple(sorted({i for linear in maps for i in linear.layers or ()}))

    @cached_property
    def hash(self) -> str:
        """Eight hex digits over all numbers in it."""
        digest = hashlib.sha256()
        for name, array in sorted(self._tensors().items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        for part in (self.coverage.lengths, self.passages):
            digest.update(str(part).encode() if part else b"")
        return digest.hexdigest()[:8]

    def __str__(self) -> str:
        """Say which head this is, in a signature."""
        teacher = f"{self.teacher['samples']}, seed {self.teacher['seed']}"
        return f"head {self.hash}, corpus {self.corpus['hash']} of {self.corpus['size']}, teacher {teacher}"

    def report(self) -> str:
        """Say how good the head is on sentences that it was not fitted on, in a few lines."""
        lines = [f"{self}", "R2 on held-out sentences, the noise of their own samples taken out:"]
        for source, shares in self.quality.items():
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in shares.items())
            lines.append(f"  {source:5s} {figures}; worth {self.strengths[source].samples:.0f} samples")
        if self.correction is not None:
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in self.correction.quality.items())
            lines.append(f"  model, by the method analytic: {figures}")
        if "unknown" in {_figure(value) for shares in self.quality.values() for value in shares.values()}:
            lines.append(f"unknown: cannot be told from {self._taught()}")
        return "\n".join([*lines, *([self.flaw] if self.flaw else [])])

    @property
    def flaw(self) -> str:
        """What is wrong with a head that is worse than a constant, and what to do; empty for any other.

        A constant gives all sentences the average variances of the corpus. A head is worse if its error on the held-out
        sentences is larger, in the variance per dimension or in the total variance of any source: an R2 below 0.
        """
        figures = [(source, name, r2) for source, shares in self.quality.items() for name, r2 in shares.items()]
        worse = [
            f"{source}: {name}" for source, name, r2 in figures if "variance" in name and r2 is not None and r2 < 0
        ]
        if not worse:
            return ""
        return (
            "this head is worse than a constant: the same variances for every sentence would be nearer to those of "
            f"many samples ({'; '.join(worse)}); fit a head on more sentences, or more samples, than {self._taught()}"
        )

    def _taught(self) -> str:
        return f"{self.corpus['size']} sentences with {self.teacher['samples']} samples each"

    def predict(self, states: States, source: str) -> tuple[Array64, Array64]:
        """Return for each sentence the shift of its mean away from the plain vector, and its variance: (n, k) each."""
        # A polynomial of the length is worth nothing beyond the lengths it was fitted on.
        bounds, scalars = self.passages or self.coverage, states.scalars()
        clipped, linear = np.clip(scalars, bounds.low, bounds.high), self.variances[source]
        variance = TRANSFORMS[linear.transform][1](linear(states, clipped))
        if self.passages:
            level = self.passages.beyond(scalars, float(self.coverage.high[1])) @ self.passages.levels[source]
            variance = variance * np.exp(level)[:, None]
        return self.shifts[source](states, clipped), np.where(self.live[source], variance, 0.0)

    def correct(self, states: States, spread: Array64) -> Array64:
        """Return propagated variances (n, k) with the correction that was fitted to samples."""
        assert self.correction is not None
        scalars = np.clip(states.scalars(), self.coverage.low, self.coverage.high)
        return np.where(self.live["model"], self.correction(states, scalars, spread), 0.0)

    def save(self, folder: str | Path) -> None:
        """Write the numbers as safetensors and the settings as JSON, in place of a head that is there."""
        from sen2pro.estimation import analytic

        maps = self._maps()
        config = {
            **{name: getattr(self, name) for name in _PLAIN},
            "hash": self.hash,
            "strengths": {source: asdict(strength) for source, strength in self.strengths.items()},
            "rest": self.coverage.rest,
            **({"lengths": self.coverage.lengths} if self.coverage.lengths else {}),
            **({"passages": asdict(self.passages)} if self.passages else {}),
            "layers": {"coverage": self.coverage.layers, **{name: linear.layers for name, linear in maps.items()}},
            "transforms": {name: linear.transform for name, linear in maps.items()},
        }
        correction = re.compile("|".join(map(re.escape, (analytic.CONFIG, analytic.TENSORS))))
        with replacing_folder(folder, CONFIG, correction) as temporary:
            tensors.write(temporary / TENSORS, self._tensors())
            documents.write(temporary / CONFIG, config)
            if self.specificity is not None:
                self.specificity.save(temporary)
            if self.correction is not None:
                self.correction.save(temporary, self.hash)

    @classmethod
    def load(cls, folder: str | Path) -> Head:
        """Read what `save` wrote; a folder that somebody else wrote is checked before it is used."""
        with settled(check_path(folder), shared=True):  # its files have fixed names, so none may be replaced meanwhile
            return cls._load(Path(folder))

    @classmethod
    def _load(cls, folder: Path) -> Head:
        for name in (CONFIG, TENSORS):
            if not (folder / name).is_file():
                raise Sen2ProError(f"there is no head in {folder}: {name} is missing")
        from sen2pro.estimation import analytic, specificity

        config = documents.read(folder / CONFIG, _check_config)
        numbers = tensors.read(folder / TENSORS, _expected(config))
        for name in ("coverage.scale", "coverage.spread"):
            if not (numbers[name] > 0).all():
                raise Sen2ProError(f"{folder / TENSORS}: the numbers of {name!r} must be above 0")

        def linear(name: str) -> Linear:
            layers = config["layers"][name]
            arrays = {part: numbers[f"{name}.{part}"] for part in _PARTS}
            return Linear(None if layers is None else tuple(layers), **arrays, transform=config["transforms"][name])

        sources, read = list(config["strengths"]), tuple(config["layers"]["coverage"])
        bounds = {name: numbers[f"coverage.{name}"] for name in _COVERAGE}
        head = cls(
            **{name: config[name] for name in _PLAIN},
            shifts={source: linear(f"{source}.shift") for source in sources},
            variances={source: linear(f"{source}.variance") for source in sources},
            errors={source: numbers[f"{source}.error"] for source in sources},
            live={source: numbers[f"{source}.live"] for source in sources},
            strengths={source: Strength(**config["strengths"][source]) for source in sources},
            coverage=Coverage(layers=read, rest=config["rest"], lengths=tuple(config.get("lengths", ())), **bounds),
            specificity=specificity.SpecificityHead.load(folder) if (folder / specificity.CONFIG).is_file() else None,
            passages=_passages(config.get("passages")),
        )
        if head.hash != config["hash"]:
            raise Sen2ProError(f"the head in {folder} is damaged: its numbers do not have the hash that {CONFIG} says")
        if not (folder / analytic.CONFIG).is_file():
            return head
        correction = analytic.Correction.load(folder, head.hash)
        if correction.linear.terms.shape[1] != head.dim:
            raise Sen2ProError(f"{folder / analytic.TENSORS} has other dimensions than the head in its folder")
        return replace(head, correction=correction)

    def _maps(self) -> dict[str, Linear]:
        kinds = {"shift": self.shifts, "variance": self.variances}
        return {f"{source}.{kind}": maps[source] for source in self.sources for kind, maps in kinds.items()}

    def _tensors(self) -> dict[str, Any]:
        return {
            **{f"coverage.{name}": getattr(self.coverage, name) for name in _COVERAGE},
            **{f"{name}.{part}": getattr(linear, part) for name, linear in self._maps().items() for part in _PARTS},
            **{f"{source}.error": self.errors[source] for source in self.sources},
            **{f"{source}.live": self.live[source] for source in self.sources},
        }


def few_layers(value: Any, place: str) -> None:
    """Check that a document has a list of layers that is not longer than a fit makes it."""
    documents.list_of(documents.COUNT)(value, place)
    if len(value) > _MOST_LAYERS:
        raise Sen2ProError(f"{place} must have at most {_MOST_LAYERS} layers, not {len(value)}")


_PLAIN = ("space", "corpus", "teacher", "quality")  # what is kept as it is
_COVERAGE = {  # its arrays, and their axes
    "centre": "width", "scale": "width", "axes": "width q", "spread": "q", "low": "3", "high": "3", "distances": "held",
}  # fmt: skip
_PARTS = ("terms", "states", "directions")
_BASIS = basis(np.zeros((1, 3))).shape[1]
_TEXT, _NULL, _ANY_NUMBER, _mapping = documents.TEXT, documents.NULL, documents.ANY_NUMBER, documents.mapping
_CONFIG = documents.record(
    {
        "space": documents.record(dict.fromkeys(SPACE, _TEXT)),
        "corpus": documents.record({"hash": _TEXT, "size": documents.COUNT}),
        "teacher": documents.record({"samples": _TEXT, "seed": documents.WHOLE, "version": _TEXT}, {"prompt": _TEXT}),
        "quality": _mapping(_mapping(documents.either(_NULL, _ANY_NUMBER))),  # null where it cannot be known
        "hash": _TEXT,
        "strengths": _mapping(documents.record({field.name: _ANY_NUMBER for field in fields(Strength)})),
        "rest": documents.NUMBER,
        "layers": _mapping(documents.either(_NULL, few_layers)),
        "transforms": _mapping(documents.one_of_texts("", *TRANSFORMS)),
    },
    {
        "lengths": documents.list_of(_ANY_NUMBER, 6),
        "passages": documents.record(
            {
                "low": documents.list_of(_ANY_NUMBER, 3),
                "high": documents.list_of(_ANY_NUMBER, 3),
                "levels": _mapping(documents.list_of(_ANY_NUMBER, 2)),
            }
        ),
    },
)


def _passages(config: Mapping[str, Any] | None) -> Passages | None:
    if config is None:
        return None
    levels = {source: tuple(level) for source, level in config["levels"].items()}
    return Passages(tuple(config["low"]), tuple(config["high"]), levels)


def _names(config: Mapping[str, Any]) -> list[str]:
    return [f"{source}.{kind}" for source in config["strengths"] for kind in ("shift", "variance")]


def _check_config(config: Any, place: str) -> None:
    _CONFIG(config, place)
    sources, names = set(config["strengths"]), _names(config)
    if not sources or not sources <= set(SOURCES):
        raise Sen2ProError(
            f"{place}: 'strengths' must be of {' or '.join(SOURCES)}, not of {join_names(sorted(sources))}"
        )
    for key, wanted in (("layers", {"coverage", *names}), ("transforms", set(names)), ("quality", sources)):
        if set(config[key]) != wanted:
            raise Sen2ProError(f"{place}: {key!r} must have the keys {join_names(sorted(wanted))}")
    if "passages" in config and set(config["passages"]["levels"]) != sources:
        raise Sen2ProError(f"{place}: the levels of 'passages' must have the keys {join_names(sorted(sources))}")
    if config["layers"]["coverage"] is None or any(not config["transforms"][n] for n in names if "variance" in n):
        raise Sen2ProError(f"{place}: the layers of 'coverage' or a transform of the variances are missing")
    strengths = [Strength(**strength) for strength in config["strengths"].values()]
    if config["rest"] <= 0 or any(not min(s.dof, s.efficiency, s.level, s.level_noise) >= 0 for s in strengths):
        raise Sen2ProError(f"{place}: 'rest' must be above 0, and no number of 'strengths' below 0")


def _expected(config: Mapping[str, Any]) -> dict[str, tensors.Expected]:
    """Return what the tensors of a head must be, from what its configuration says."""
    expected = {f"{source}.live": ("BOOL", "k") for source in config["strengths"]}
    expected |= {f"{source}.error": ("F32", "k") for source in config["strengths"]}
    expected |= {f"coverage.{name}": ("F32", axes) for name, axes in _COVERAGE.items()}
    expected["coverage.axes"] = ("F16", _COVERAGE["axes"])
    for name in _names(config):
        expected[f"{name}.terms"] = ("F32", f"{_BASIS} k")
        expected[f"{name}.states"] = ("F16 or F32", f"{name}.features {name}.rank")
        expected[f"{name}.directions"] = ("F16 or F32", f"{name}.rank k")
    return {name: tensors.Expected(*each) for name, each in expected.items()}


def misfits(space: Mapping[str, str], signature: Signature) -> list[str]:
    """Name the settings in which a model differs from the one that a head was fitted for."""
    unused = {"data": "dropout", "model": "edits"}.get(signature.uncertainty)  # one kind alone needs only its own
    wanted = {name: getattr(signature, name) for name in SPACE if name not in ("model", unused)}
    return [f"{name} {space[name]!r} against {value!r}" for name, value in wanted.items() if space[name] != value]


def shipped(signature: Signature) -> Head | None:
    """Return the head that comes with the package for this model and geometry, if there is one."""
    for path in sorted(SHIPPED.glob(f"*/{CONFIG}")):
        if not misfits(documents.load(path)["space"], signature):
            return Head.load(path.parent)
    return None
