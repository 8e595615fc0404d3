"""One pass instead of thirty: a linear head that reads mean and variance off the states of a plain forward pass.

It predicts what sampling would give in the limit of many samples, separately for model and data uncertainty: the shift
of the mean away from the plain vector, and the variance of each dimension. `distill.py` fits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.encoder.backend import States
from sen2pro.errors import HeadMissing, Sen2ProError, join_names, short_repr
from sen2pro.estimation import specificity
from sen2pro.estimation.linear import BASIS, PARTS, TRANSFORMS, Linear, basis, check_width, hash_of, in_single
from sen2pro.estimation.moments import samples_worth
from sen2pro.estimation.specificity import SHIPPED, Corpus, Space, SpecificityHead
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, replacing_folder, settled
from sen2pro.io.bundle import Config, Count, Expected, Positive
from sen2pro.sampling.sampler import Sampler
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, Array64

NAME = "sen2pro_head"
CONFIG, TENSORS = f"{NAME}.json", f"{NAME}.safetensors"
_MOST_PRINTED = 1e9  # R2, either way, that is worth printing
_COVERAGE = {  # the arrays of `Coverage`, and their axes
    "centre": "width", "scale": "width", "axes": "width q", "spread": "q", "low": "3", "high": "3", "distances": "held",
}  # fmt: skip
Layers = Annotated[tuple[Count, ...], msgspec.Meta(max_length=16)]
Quality = dict[Literal["model", "data"], dict[str, float | None]]
Transforms = dict[str, Literal["", "log", "root"]]
Worth = Annotated[float, msgspec.Meta(ge=0)]


class HeadSpace(Space, frozen=True, kw_only=True):
    """The settings of the model that a head was fitted for; another model must agree on all but the name."""

    geometry: str
    dropout: str
    edits: str


class Teacher(Config, frozen=True, kw_only=True):
    """The samples that a head was fitted to."""

    samples: str
    seed: int
    version: str = __version__
    prompt: str = ""


class Strength(Config, frozen=True, kw_only=True):
    """What heads up to 0.11 say of the worth of their predictions."""

    dof: Worth
    efficiency: Worth
    bias: float
    level: Worth
    level_noise: Worth


class HeadConfig(Config, frozen=True, kw_only=True, omit_defaults=True):
    """What is saved beside the numbers of a head."""

    space: HeadSpace
    corpus: Corpus
    teacher: Teacher
    quality: Quality
    rest: Positive  # of the coverage
    lengths: tuple[float, ...] = ()  # of the coverage
    layers: dict[str, Layers | None]
    transforms: Transforms
    worth: dict[str, Worth] = msgspec.field(default_factory=dict)
    strengths: dict[str, Strength] = msgspec.field(default_factory=dict)  # in heads up to 0.11, instead of `worth`
    hash: str


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
        features = np.concatenate([states.features(self.layers), states.scalars], axis=1)
        check_width(features, self.centre)
        z = (features - self.centre) / self.scale
        along = (z.astype(np.float32) @ self._axes).astype(np.float64)
        rest = np.maximum((z**2).sum(axis=1) - (along**2).sum(axis=1), 0) / self.rest**2
        return np.asarray((((along / self.spread) ** 2).sum(axis=1) + rest) / z.shape[1])

    @cached_property
    def _axes(self) -> NDArray[Any]:
        return in_single(self.axes)

    def place(self, states: States) -> Array64:
        """Return (n,) how far out each sentence is, among text of its length if `lengths` are known."""
        distance = self.distance(states)
        if not self.lengths:
            return distance
        terms = basis(np.clip(states.scalars, self.low, self.high))[:, : len(self.lengths) // 2]
        centre, width = np.split(np.array(self.lengths), 2)
        return np.asarray((np.log(np.maximum(distance, 1e-30)) - terms @ centre) * np.exp(-terms @ width))

    def __call__(self, states: States) -> Array:
        """Return the share of held-out text that was at least as far out; 0 beyond the lengths fitted on."""
        further = len(self.distances) - np.searchsorted(self.distances, self.place(states).astype(np.float32))
        share = (further + 1) / (len(self.distances) + 1)
        lengths = states.scalars[:, :2]
        inside = ((lengths >= self.low[:2] - 1e-6) & (lengths <= self.high[:2] + 1e-6)).all(axis=1)
        return np.asarray(np.where(inside, share, 0.0), np.float32)


def on_sphere(mean: Array64, variance: Array64) -> Array64:
    """Give means the length that samples of length 1 leave them: |mean|^2 + total variance = 1.

    >>> on_sphere(np.array([[2.0, 0.0]]), np.array([[0.3, 0.06]]))
    array([[0.8, 0. ]])
    """
    length = np.sqrt(np.maximum(1 - variance.sum(axis=-1, keepdims=True), 0.0))
    return np.asarray(mean * length / np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-12))


def _figure(value: float | None) -> str:
    """Print an R2; how far it is below 0 says little, since it is a share of what may be next to nothing."""
    return "unknown" if value is None or not abs(value) < _MOST_PRINTED else "below 0" if value < 0 else f"{value:.2f}"


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """A fitted head: predicts, knows what it was made for and from, and how far it can be trusted.

    Examples
    --------
    >>> from sen2pro import Sen2Pro
    >>> model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")  # with the head that comes along
    >>> model.head.quality["model"]["variance per dimension"] > 0.5  # R2 on sentences it was not fitted on
    True
    """

    config: HeadConfig
    arrays: Mapping[str, NDArray[Any]]
    specificity: SpecificityHead | None = None

    @property
    def quality(self) -> Quality:
        """R2 on held-out sentences by source; None or NaN: unknown, below 0: worse than a constant."""
        return self.config.quality

    @property
    def hash(self) -> str:
        """Eight hex digits over all numbers in it."""
        return self.config.hash

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of uncertainty that it predicts."""
        return tuple(source for source in SOURCES if f"{source}.live" in self.arrays)

    @property
    def uncertainty(self) -> str:
        """The same as a setting: `both`, `model` or `data`."""
        return "both" if len(self.sources) > 1 else self.sources[0]

    @property
    def dim(self) -> int:
        """The number of dimensions of the Gaussians that it predicts."""
        return len(self.arrays[f"{self.sources[0]}.live"])

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """The hidden states that it reads."""
        return tuple(sorted({i for layers in self.config.layers.values() for i in layers or ()}))

    @cached_property
    def maps(self) -> dict[str, Linear]:
        """The linear map of each source and kind: `model.shift`, `model.variance`, ..."""
        layers, transforms = self.config.layers, self.config.transforms
        return {
            name: Linear(
                layers[name], **{part: self.arrays[f"{name}.{part}"] for part in PARTS}, transform=transforms[name]
            )
            for name in transforms
        }  # fmt: skip

    @cached_property
    def coverage(self) -> Coverage:
        """Tells how well it knows sentences like some given ones."""
        arrays = {name: self.arrays[f"coverage.{name}"] for name in _COVERAGE}
        layers = self.config.layers["coverage"] or ()
        return Coverage(layers, rest=self.config.rest, lengths=self.config.lengths, **arrays)

    @property
    def worth(self) -> dict[str, float]:
        """By source, the number of samples whose variances are as good as the predicted ones."""
        old = {
            name: samples_worth(each.dof, each.efficiency, each.level) for name, each in self.config.strengths.items()
        }
        return {**old, **self.config.worth}

    def __str__(self) -> str:
        """Say which head this is, in a signature."""
        corpus, teacher = self.config.corpus, self.config.teacher
        made = f"{teacher.samples}, seed {teacher.seed}"
        return f"head {self.hash}, corpus {corpus.hash} of {corpus.size}, teacher {made}"

    def report(self) -> str:
        """Say how good the head is on sentences that it was not fitted on, in a few lines."""
        lines = [f"{self}", "R2 on held-out sentences, the noise of their own samples taken out:"]
        for source, shares in self.quality.items():
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in shares.items())
            lines.append(f"  {source:5s} {figures}; worth {self.worth[source]:.0f} samples")
        if "unknown" in {_figure(value) for shares in self.quality.values() for value in shares.values()}:
            lines.append(f"unknown: cannot be told from {self._corpus()}")
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
            "this head predicts variances worse than a constant would (R2 below 0 on held-out sentences: "
            f"{'; '.join(worse)}); fit a head on more sentences, or with more samples, than {self._corpus()}"
        )

    def _corpus(self) -> str:
        return f"{self.config.corpus.size} sentences with {self.config.teacher.samples} samples each"

    def predict(self, states: States, source: str) -> tuple[Array64, Array64]:
        """Return for each sentence the shift of its mean away from the plain vector, and its variance: (n, k) each."""
        return self.maps[f"{source}.shift"](states, self._scalars(states)), self.variance(states, source)

    def variance(self, states: States, source: str) -> Array64:
        """Return the variance of each sentence, (n, k)."""
        linear = self.maps[f"{source}.variance"]
        variance = TRANSFORMS[linear.transform][1](linear(states, self._scalars(states)))
        return np.where(self.arrays[f"{source}.live"], variance, 0.0)

    def _scalars(self, states: States) -> Array64:
        # A polynomial of the length is worth nothing beyond the lengths it was fitted on.
        return np.clip(states.scalars, self.coverage.low, self.coverage.high)

    def save(self, path: str | Path) -> None:
        """Write the numbers as safetensors and the settings as JSON, in place of a head that is there."""
        with replacing_folder(path, CONFIG) as temporary:
            bundle.save(temporary, NAME, self.config, self.arrays)
            if self.specificity is not None:
                self.specificity.save(temporary)

    @classmethod
    def load(cls, folder: str | Path) -> Head:
        """Read what `save` wrote; an untrusted folder is checked before it is used. An unchanged one is read once."""
        folder = check_path(folder)
        for name in (CONFIG, TENSORS):
            if not (folder / name).is_file():
                raise Sen2ProError(f"there is no head in {folder}: {name} is missing")
        files = CONFIG, TENSORS, specificity.CONFIG, specificity.TENSORS
        return _load(folder.resolve(), specificity.states_of(folder, *files))


@lru_cache(maxsize=8)
def _load(folder: Path, states: tuple[tuple[int, ...], ...]) -> Head:
    with settled(folder, shared=True):  # its files have fixed names, so none may be replaced meanwhile
        config, arrays = bundle.load(folder, NAME, HeadConfig, _expected)
        specific = SpecificityHead.load(folder) if (folder / specificity.CONFIG).is_file() else None
    for name in ("coverage.scale", "coverage.spread"):
        if not (arrays[name] > 0).all():
            raise Sen2ProError(f"{folder / TENSORS}: the numbers of {name!r} must be above 0")
    if hash_of(arrays, str(config.lengths or "")) != config.hash:
        raise Sen2ProError(f"the head in {folder} is damaged: its numbers do not have the hash that {CONFIG} says")
    return Head(config, arrays, specific)


def _expected(config: HeadConfig, place: str) -> dict[str, Expected]:
    """Return what the arrays of a head must be, from a configuration whose parts fit together."""
    names = [f"{source}.{kind}" for source in config.quality for kind in ("shift", "variance")]
    worth = set(config.worth or config.strengths)
    for key, found, wanted in (
        ("layers", set(config.layers), {"coverage", *names}), ("transforms", set(config.transforms), set(names)),
        ("worth", worth, set(config.quality)),
    ):  # fmt: skip
        if found != wanted or not names:
            raise Sen2ProError(f"{place}: {key!r} must have the keys {join_names(sorted(wanted))}")
    if config.layers["coverage"] is None or any(not config.transforms[name] for name in names if "variance" in name):
        raise Sen2ProError(f"{place}: the layers of 'coverage' or a transform of the variances are missing")
    if len(config.lengths) not in (0, 6) or not np.isfinite(config.lengths).all():
        raise Sen2ProError(f"{place}: 'lengths' must be 6 numbers, not {short_repr(config.lengths)}")
    expected = {f"coverage.{name}": Expected("F32", axes) for name, axes in _COVERAGE.items()}
    expected["coverage.axes"] = Expected("F16", _COVERAGE["axes"])
    for source in config.quality:
        expected[f"{source}.live"] = Expected("BOOL", "k")
        if config.strengths:
            expected[f"{source}.error"] = Expected("F32", "k")  # in heads up to 0.11; part of their hash
    for name in names:
        expected[f"{name}.terms"] = Expected("F32", f"{BASIS} k")
        expected[f"{name}.states"] = Expected("F16 or F32", f"{name}.features {name}.rank")
        expected[f"{name}.directions"] = Expected("F16 or F32", f"{name}.rank k")
    return expected


def misfits(space: HeadSpace, signature: Signature) -> list[str]:
    """Name the settings in which a model differs from the one that a head was fitted for."""
    unused = {"data": "dropout", "model": "edits"}.get(signature.uncertainty)  # one kind alone needs only its own
    pairs = {
        name: (getattr(space, name), getattr(signature, name))
        for name in space.__struct_fields__
        if name not in ("model", unused)
    }
    return [f"{name} {ours!r} against {theirs!r}" for name, (ours, theirs) in pairs.items() if ours != theirs]


@cache
def _shipped_spaces() -> dict[Path, HeadSpace]:
    paths = [path.parent for path in sorted(SHIPPED.glob(f"*/{CONFIG}"))]
    return {path: bundle.convert(bundle.read_json(path / CONFIG)["space"], HeadSpace, str(path)) for path in paths}


def shipped(signature: Signature) -> Head | None:
    """Return the head that comes with the package for this model and geometry, if there is one."""
    fitting = (path for path, space in _shipped_spaces().items() if not misfits(space, signature))
    return next((Head.load(path) for path in fitting), None)


def find_head(sampler: Sampler, signature: Signature, given: object = None) -> Head:
    """Return the head for a model: the given one, the one in its folder, or one that comes with the package."""
    if given is not None and not isinstance(given, (Head, str, Path)):
        raise Sen2ProError(f"head is a fitted Head or the folder of one, not {short_repr(given)}")
    encoder = sampler.encoder
    if given is None and encoder.folder and (encoder.folder / CONFIG).is_file():
        given = encoder.folder
    head = Head.load(given) if isinstance(given, (str, Path)) else given or shipped(signature)
    if head is None:
        raise HeadMissing(
            f"there is no head for {encoder.name} with these settings; fit one on a few thousand sentences: "
            "Sen2Pro(...).distill(corpus), or sen2pro distill"
        )
    missing = [f"no {source} uncertainty" for source in sampler.settings.sources if source not in head.sources]
    reasons = misfits(head.config.space, signature) or missing
    if not reasons and (head.dim != sampler.dim or max(head.layers, default=-1) >= encoder.depth):
        reasons = [f"it was made for another network, with {head.dim} dimensions"]
    if reasons:
        raise HeadMissing(f"the head does not fit this model: {'; '.join(reasons)}; fit one for it with distill")
    return head
