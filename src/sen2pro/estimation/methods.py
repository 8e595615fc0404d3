"""The two methods, from tokens to `Encoded`: `Sampling` is the paper's, `OnePass` predicts what it would give."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import structs

from sen2pro import __version__
from sen2pro.encoder.backend import Tokens
from sen2pro.encoder.encoder import Encoder
from sen2pro.encoder.find import source_of_files
from sen2pro.errors import HeadMissing, Sen2ProError, one_of, short_repr
from sen2pro.estimation.encoded import Encoded
from sen2pro.estimation.head import Head, find_head, on_sphere
from sen2pro.estimation.moments import Moments, combine
from sen2pro.estimation.whitening import WHITENING_FILE, find_whitening
from sen2pro.gaussian import Gaussian
from sen2pro.io import bundle
from sen2pro.io.atomic import new_folder
from sen2pro.progress import Show
from sen2pro.sampling.edits import OPERATIONS
from sen2pro.sampling.sampler import Sampler
from sen2pro.settings import SAVED, SavedModel, Settings
from sen2pro.signature import Signature
from sen2pro.validation import SOURCES, Array, Array64, check_text

Estimates = Mapping[str, tuple[Array64, Array64]]  # the mean and the variance of each source


class Method(Protocol):
    """A way to encode texts."""

    @property
    def sampler(self) -> Sampler:
        """Runs the encoder."""

    @property
    def head(self) -> Head | None:
        """The head in use, or one that was given for answers in one pass."""

    @property
    def estimator(self) -> str:
        """How the variances are estimated, as a signature says it."""

    def estimate(
        self, tokens: Tokens, batch_size: int | None = None, show: Show = None, *, plain: bool = False
    ) -> Encoded:
        """Encode texts; with `plain`, plain vectors come too, if they are not part of the method."""


def open_method(settings: Settings, saved: SavedModel | None) -> Method:
    """Load a model and, where it is needed, its head."""
    sampler = open_sampler(settings, saved)
    sampling = Sampling(sampler)
    if settings.head is None and settings.draws:
        return sampling
    head = find_head(sampler, describe(sampling), settings.head)
    return Sampling(sampler, head) if settings.draws else OnePass(sampler, head)


def in_one_pass(method: Method) -> OnePass | None:
    """Return the method `OnePass` on the same network; None if there is no head for it."""
    if isinstance(method, OnePass):
        return method
    try:
        head = method.head or find_head(method.sampler, describe(method))
    except HeadMissing:
        return None
    return OnePass(method.sampler.changed(method="one-pass"), head)


def open_sampler(settings: Settings, saved: SavedModel | None) -> Sampler:
    """Load a model; its name, and the hash of its weights, are those it was saved with, if it was."""
    encoder = Encoder(settings)
    if saved is not None:
        encoder.name = saved.name
        if saved.hash not in (None, encoder.hash):
            raise Sen2ProError(
                f"the weights in {settings.model} were changed or damaged since the model was saved. If you changed "
                f"them yourself, take the keys 'hash' and 'digest' out of {SAVED}"
            )
    if settings.normalize is None:
        settings = settings.changed(normalize=encoder.unit)
    whitening = find_whitening(settings.whitening, encoder.folder, encoder.pooling, saved.pooling if saved else None)
    sampler = Sampler(encoder, settings, whitening)
    if "model" in settings.sources:
        sampler.check_dropout()
    return sampler


Packed = tuple[Settings, SavedModel, Mapping[str, bytes] | None]
"""The content of a pickled model: settings, name and hash of the weights, and the weights if no folder has them."""


def _saved(sampler: Sampler) -> SavedModel:
    return SavedModel(name=sampler.encoder.name, hash=sampler.encoder.hash, **sampler.settings.to_json())


def save(method: Method, folder: str | Path) -> None:
    """Write the encoder, the settings, the whitening and the head to a new folder."""
    sampler = method.sampler
    with new_folder(folder) as temporary:
        sampler.encoder.transformers.save(temporary)
        if sampler.whitening:
            sampler.whitening.save(temporary / WHITENING_FILE)
        if method.head:
            method.head.save(temporary)
        bundle.save(temporary, Path(SAVED).stem, _saved(sampler))


def pack(method: Method) -> Packed:
    """Return what `unpack` makes the same method of: the name of a folder if its weights are unchanged, else all."""
    sampler, saved = method.sampler, _saved(method.sampler)
    settings = sampler.settings.changed(head=method.head, whitening=sampler.whitening or False)
    if isinstance(settings.model, (str, Path)) and sampler.encoder.is_as_loaded:
        return settings, saved, None
    saved = structs.replace(saved, hash=None)
    return settings.changed(model=None, tokenizer=None), saved, sampler.encoder.transformers.to_files()


def unpack(settings: Settings, saved: SavedModel, files: Mapping[str, bytes] | None) -> Method:
    """Load what `pack` returned."""
    if files is not None:
        source, tokenizer = source_of_files(settings, files)
        settings = settings.changed(model=source, tokenizer=tokenizer)
    return open_method(settings, saved)


def describe(method: Method, prompt: str = "", source: str | None = None) -> Signature:
    """Return the signature of the Gaussians of a method, or of one source of them."""
    sampler, settings = method.sampler, method.sampler.settings
    encoder, whitening = sampler.encoder, sampler.whitening
    sources = (one_of("source", source, SOURCES),) if source is not None else settings.sources
    check_text("prompt", prompt)
    rates = sorted({site.rate for site in encoder.sites}) if "model" in sources else []
    words = settings.vocabulary
    own = "" if words is None else "+vocabulary " + hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
    return Signature(
        model=encoder.name,
        hash=encoder.hash,
        pooling=encoder.pooling_name,
        geometry="unit" if sampler.normalize else "raw",
        whitening=whitening.hash if whitening else "no",
        uncertainty=source or settings.uncertainty,
        samples="+".join(str(settings.counts[name]) for name in sources) if settings.draws else "0",
        dropout=",".join(f"{rate:g}" for rate in rates) or "no",
        max_length=str(encoder.max_length),
        precision=encoder.precision,
        edits=",".join(OPERATIONS) + own if "data" in sources else "no",
        prompt=prompt or "no",
        seed=str(settings.seed) if settings.draws else "no",
        combine=settings.combine if len(sources) > 1 else "no",
        estimator=method.estimator,
        version=__version__,
    )


def join(method: Method, parts: Mapping[str, Gaussian]) -> Gaussian:
    """Join the Gaussians of each source into one batch."""
    settings = method.sampler.settings
    if not isinstance(parts, Mapping) or set(parts) != set(settings.sources):
        given = list(parts) if isinstance(parts, Mapping) else parts
        wanted = " and ".join(settings.sources)
        raise Sen2ProError(f"this model joins {wanted}, as encode_sources gives them, not {short_repr(given)}")
    first = parts[settings.sources[0]]
    prompt = first.signature.prompt if first.signature and first.signature.prompt != "no" else ""
    estimates = [(parts[name].mean, parts[name].variance) for name in settings.sources]
    counts = [settings.counts[name] for name in settings.sources]
    return Gaussian(*combine(estimates, counts, settings.combine), describe(method, prompt), first.coverage)


def _encoded(
    method: Method, tokens: Tokens, estimates: Estimates, vectors: Array | None, coverage: Array | None = None
) -> Encoded:
    parts = {
        name: Gaussian(mean, variance, describe(method, tokens.prompt, name), coverage)
        for name, (mean, variance) in estimates.items()
    }
    return Encoded(vectors, parts, join(method, parts), tokens.words)


@dataclass(frozen=True)
class Sampling:
    """The paper's method: N passes for each source of uncertainty (Eq. 1 and 2), then their moments (Eq. 4)."""

    sampler: Sampler
    head: Head | None = None
    estimator: str = "diagonal"

    def estimate(
        self, tokens: Tokens, batch_size: int | None = None, show: Show = None, *, plain: bool = False
    ) -> Encoded:
        """Sample each text; the plain vectors take a pass of their own."""
        settings = self.sampler.settings
        counts = {source: settings.counts[source] for source in settings.sources}
        moments = {source: Moments(len(tokens), self.sampler.dim) for source in counts}
        for source, index, _, vectors in self.sampler.draw(tokens, counts, batch_size, show):
            moments[source].update(index, vectors)
        estimates = {source: (each.mean, each.variance) for source, each in moments.items()}
        finished = self.sampler.vectors(tokens) if plain else None
        return _encoded(self, tokens, estimates, finished)


@dataclass(frozen=True)
class OnePass:
    """One plain pass, from which a head predicts the mean and the variance that many samples would have."""

    sampler: Sampler
    head: Head

    @property
    def estimator(self) -> str:
        """The method and its head, as a signature says it."""
        return f"one-pass ({self.head})"

    def totals(self, tokens: Tokens) -> tuple[Array, dict[str, Array64], Array]:
        """Return plain vectors (n, k), total variances (n,) of all sources that the head knows, and coverage (n,).

        Means take more than half the time beside the pass, so an answer without them does not make them.
        """
        states = self.sampler.run_plain(tokens, self.head.layers)
        if not len(tokens):
            return states.vectors, {name: np.empty(0) for name in self.head.sources}, np.empty(0, np.float32)
        totals = {name: self.head.variance(states, name).sum(axis=1) for name in self.head.sources}
        return self.sampler.finish(states.vectors), totals, self.head.coverage(states)

    def estimate(
        self, tokens: Tokens, batch_size: int | None = None, show: Show = None, *, plain: bool = False
    ) -> Encoded:
        """Run one pass; it gives the plain vectors too."""
        sampler, head = self.sampler, self.head
        states = sampler.run_plain(tokens, head.layers, batch_size, show)
        vectors = sampler.finish(states.vectors)
        estimates = {}
        for source in sampler.settings.sources:
            if not len(tokens):
                estimates[source] = np.empty((0, sampler.dim)), np.empty((0, sampler.dim))
                continue
            shift, variance = head.predict(states, source)
            mean = vectors + shift
            estimates[source] = on_sphere(mean, variance) if sampler.normalize else mean, variance
        return _encoded(self, tokens, estimates, vectors, head.coverage(states) if len(tokens) else None)
