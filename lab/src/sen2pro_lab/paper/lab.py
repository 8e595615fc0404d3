"""The encoders of the paper by name; one encoder and what was kept of it: what every table asks for Gaussians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.estimation.encoded import Encoded
from sen2pro.estimation.moments import combine, estimate
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL, WITHOUT_SAMPLES
from sen2pro.validation import SOURCES, Array, Array64, check_samples
from sen2pro_lab.metrics.base import to_unit
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.paper.numbers import NOTES
from sen2pro_lab.paper.store import Store

_CHUNK = 256  # sentences
_QUICK = 50
Shots = int | Literal["full"]
FULL: Literal["full"] = "full"
KINDS = {"m+d": ("model", "data"), "m": ("model",), "d": ("data",)}


class Preset(NamedTuple):
    """An encoder of the paper: hub id (None: no public one, give a folder), pooling, and what its rows are called."""

    title: str
    model: str | None
    pooling: str | None = None
    whitening: bool = False


PRESETS = {
    "bert-base": Preset("BERT-base", "bert-base-uncased", "first-last-avg"),
    "bert-large": Preset("BERT-large", "bert-large-uncased", "first-last-avg"),
    "bert-whitening": Preset("W-BERT", "bert-base-uncased", "first-last-avg", whitening=True),
    "bert-large-whitening": Preset("W-BERT, second row", "bert-large-uncased", "first-last-avg", whitening=True),
    "sbert-nli": Preset("Sentence-BERT", "sentence-transformers/bert-base-nli-mean-tokens"),
    "simcse-base": Preset("Sim-BERT", "princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
    "simcse-large": Preset("Sim-BERT large", "princeton-nlp/unsup-simcse-bert-large-uncased", "cls"),
    "consert-base": Preset("C-BERT", None, "mean"),
    "consert-large": Preset("C-BERT large", None, "mean"),
}


def resolve_preset(model: str, preset: str | None = None) -> tuple[str, Preset, str]:
    """Return the model to load, its settings, and the preset whose row of the paper stands beside it.

    >>> resolve_preset("simcse-base")[0]
    'princeton-nlp/unsup-simcse-bert-base-uncased'
    >>> resolve_preset("all-MiniLM-L6-v2")[2]  # not in the paper
    'bert-base'
    """
    if preset is None and model not in PRESETS:
        return model, Preset(model, model), "bert-base"
    name = one_of("preset", preset or model, PRESETS)
    source = PRESETS[name].model if model in PRESETS else model
    if source is None:
        raise Sen2ProError(f"{name} is not on the hub; give its folder: --preset {name} --model FOLDER")
    return source, PRESETS[name], name


@dataclass
class Lab:
    """Encodes for tables and figures."""

    model: str = DEFAULT_MODEL  # hub id, folder, or the name of one of the paper's encoders (`PRESETS`)
    preset: str | None = None  # which encoder of the paper a folder holds
    method: str = "sampling"
    samples: int | tuple[int, int] = 15
    seeds: int = 1  # scores are averaged over this number of seeds: 0, 1, ...
    limit: int | None = None  # items taken of a set (pairs, queries, segments), for a quick look
    shots: tuple[Shots, ...] = (10, 200)  # examples of each class, for T1 and T7; `full` is the whole training set
    classification_method: str | None = None  # of T1 and T7, which encode many texts: one pass where there is a head
    finetune: bool = False  # whether T1 has the fine-tuned classifier too: up to an hour a draw without a GPU
    setfit: bool = False  # and SetFit, which takes as long
    store: Store = field(default_factory=Store)
    settings: dict[str, Any] = field(default_factory=dict)  # other arguments of `Sen2Pro`
    models: dict[Any, Sen2Pro] = field(default_factory=dict, repr=False)  # loaded so far; shared by copies

    def __post_init__(self) -> None:
        counts = [("shots", shots) for shots in self.shots if shots != FULL]
        for name, value in (("seeds", self.seeds), ("limit", self.limit), *counts):
            if value is not None and value < 1:
                raise Sen2ProError(f"{name} must be at least 1, not {value}")
        self._source, self._preset, self.row = resolve_preset(self.model, self.preset)

    @property
    def quick(self) -> bool:
        """Whether it is a quick look: a limit below 50. Then samples are kept for all tables, and less is encoded."""
        return self.limit is not None and self.limit < _QUICK

    @property
    def items(self) -> int | None:
        """The limit where several systems answer each item: for a quick look a quarter of it, at least 3."""
        return max(3, self.limit // 4) if self.limit is not None and self.quick else self.limit

    def fewer_shots(self, shots: int) -> int:
        """Return how many examples of each class to take: for a quick look a fifth of the limit, at least 2."""
        return min(shots, max(2, (self.limit or 0) // 5)) if self.quick else shots

    @property
    def title(self) -> str:
        """What this encoder is called in a table."""
        return self._preset.title if self._preset.title != self._source else self.encoder().encoder.name

    def encoder(self, seed: int = 0, *, normalize: bool | None = None, corpus: Sequence[str] = ()) -> Sen2Pro:
        """Return the model for a seed, in its own geometry by default; the whitened rows fit on `corpus`."""
        whitened = self._preset.whitening
        if whitened and not corpus:
            raise Sen2ProError("a whitened encoder is fitted on the sentences of the set it is used for")
        fitted = tuple(corpus) if whitened else None
        key = (self._about, fitted, seed, normalize)
        if key not in self.models:
            changes: dict[str, Any] = {} if self.method in WITHOUT_SAMPLES else {"samples": self.samples}
            changes |= {"normalize": normalize, "pooling": self._preset.pooling, **self.settings}
            model = Sen2Pro(self._source, method=self.method, seed=seed, **changes)
            if whitened:  # of another set each time: only the last is kept
                model.fit_whitening(list(dict.fromkeys(corpus)))
                for other in [k for k in self.models if k[1] != fitted]:
                    del self.models[other]
            self.models[key] = model
        return self.models[key]

    @property
    def _about(self) -> tuple[str, ...]:
        """What tells the models of this lab from those of others."""
        return tuple(map(repr, (self._source, self._preset, self.method, self.samples, self.settings)))

    def vectors(self, sentences: Sequence[str]) -> Array:
        """Return the plain vectors (n, k) scaled to length 1: Sen2Vec, to be compared by its dot product."""
        return to_unit(self.store.vectors(self.encoder(normalize=False, corpus=sentences), sentences))

    def own_vectors(self, sentences: Sequence[str]) -> Array:
        """Return the plain vectors (n, k) as the encoder gives them, of length 1 only if it is made so."""
        model = self.encoder(normalize=False, corpus=sentences)
        vectors = self.store.vectors(model, sentences)
        return to_unit(vectors) if model.encoder.unit else vectors

    def samples_of(self, sentences: Sequence[str], seed: int = 0, *, normalize: bool = True) -> dict[str, Array]:
        """Return the samples (n, N, k) of each source, on the unit sphere or as they are; they are kept."""
        if self.method != "sampling":
            raise Sen2ProError(f"this needs the samples, which {self.method} does not give: --method sampling")
        raw = self.store.samples(self.encoder(seed, normalize=False, corpus=sentences), sentences)
        return {source: to_unit(samples) for source, samples in raw.items()} if normalize else raw

    def parts(
        self, sentences: Sequence[str], seed: int = 0, *, normalize: bool = True, keep_samples: bool = False
    ) -> dict[str, Gaussian]:
        """Return the Gaussians of model and data uncertainty; what is kept are they, or the samples."""
        sampling = self.method == "sampling"
        model = self.encoder(seed, normalize=normalize and not sampling, corpus=sentences)
        if not sampling:
            return self.store.parts(model, sentences)
        if not keep_samples and not self.quick:
            return self.store.moments(model, sentences, unit=normalize)
        samples = self.samples_of(sentences, seed, normalize=normalize)
        return {source: Gaussian(*moments(x), model.signature(source=source)) for source, x in samples.items()}

    def estimate(self, sentences: Sequence[str]) -> Encoded:
        """Return plain vectors and Gaussians of sentences, from what is kept."""
        parts = self.parts(sentences)
        words = np.array([len(text.split()) for text in sentences])
        return Encoded(self.vectors(sentences), parts, self.join(parts), words)

    def join(self, parts: Mapping[str, Gaussian], kind: str = "m+d", how: str = "individual") -> Gaussian:
        """Join the parts of an uncertainty: `m+d`, `m` or `d`."""
        sources = KINDS[kind]
        drawn = dict.fromkeys(SOURCES, 1) if self.method in WITHOUT_SAMPLES else check_samples(self.samples, SOURCES)
        estimates = [(parts[source].mean, parts[source].variance) for source in sources]
        return Gaussian(*combine(estimates, [drawn[source] for source in sources], how))

    def of_samples(self, samples: Mapping[str, Array]) -> Gaussian:
        """Return the Gaussians of samples (n, N, k) of each source."""
        return self.join({source: Gaussian(*moments(x)) for source, x in samples.items()})

    def result(
        self, id_: str, title: str, grids: list[Grid], verdict: str, notes: list[str], numbers: list[dict[str, Any]],
        **more: Any,
    ) -> Result:  # fmt: skip
        """Return a table or figure with its signature; the notes on the paper's own numbers come first."""
        more.setdefault("signature", self.signature())
        return Result(id_, title, grids, verdict, notes=[*NOTES.get(id_, ()), *notes], numbers=numbers, **more)

    def signature(self, **changes: str) -> str:
        """Return the settings of the run, except `changes`; the geometry is that of each similarity."""
        model = next((model for key, model in self.models.items() if key[0] == self._about), None)
        if model is None:
            return f"model:{self._source}"
        seeds = "no" if self.method in WITHOUT_SAMPLES else "0" if self.seeds == 1 else f"0-{self.seeds - 1}"
        run = replace(model.signature(), **{"geometry": "by similarity", "seed": seeds, **changes})
        return f"{run}|limit:{self.limit or 'no'}"


def moments(samples: Array) -> tuple[Array64, Array64]:
    """Return mean and variance (n, k) of samples (n, N, k), without a copy of all of them in float64."""
    chunks = [estimate(samples[start : start + _CHUNK]) for start in range(0, len(samples), _CHUNK)]
    return np.concatenate([mean for mean, _ in chunks]), np.concatenate([variance for _, variance in chunks])
