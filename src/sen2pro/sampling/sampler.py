"""From texts to finished vectors: every sample of every kind, or one plain pass, in a model's own geometry."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.backend import Keys, States, Tokens
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.progress import Show, progress
from sen2pro.sampling.edits import edit, insert_word, is_unspaced
from sen2pro.sampling.passes import run_passes
from sen2pro.settings import Settings
from sen2pro.validation import Array, Array64, check_batch_size

_WINDOW = 1024  # passes prepared and sorted by length together: bounds the memory, whatever n and N
_CHUNK = 256  # sentences whose copies with an inserted word are in memory at once
Draws = Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Array]]


class LinearMap(Protocol):
    """A map that vectors go through before they are normalised: a `Whitening`."""

    @property
    def dim(self) -> int:
        """The number of dimensions after the map."""

    @property
    def hash(self) -> str:
        """Stands for the map in a signature."""

    def apply(self, vectors: NDArray[Any]) -> Array:
        """Map vectors (..., k)."""

    def save(self, path: str | Path) -> None:
        """Write it to disk."""


@dataclass
class Sampler:
    """Run an encoder for a model: cut, edit, count, whiten, normalise."""

    encoder: Encoder
    settings: Settings
    whitening: LinearMap | None = None

    @property
    def normalize(self) -> bool:
        """Whether every vector is scaled to length 1."""
        return self.encoder.unit if self.settings.normalize is None else self.settings.normalize

    @property
    def dim(self) -> int:
        """The number of dimensions of a finished vector."""
        return self.whitening.dim if self.whitening else self.encoder.dim

    @property
    def words(self) -> Sequence[str]:
        """The words that edits draw from."""
        words = self.settings.vocabulary or self.encoder.vocabulary
        if not words:
            raise Sen2ProError("this tokenizer has no whole words to edit with; pass vocabulary=[...]")
        return words

    def changed(self, **changes: Any) -> Sampler:
        """Return a sampler of the same network with other settings."""
        return replace(self, settings=self.settings.changed(**changes))

    def check_dropout(self) -> None:
        """Refuse a network without dropout, whose samples would be the same; warn about one trained without it."""
        if not any(site.rate for site in self.encoder.sites):
            raise Sen2ProError(
                "dropout is 0 in this model, so every sample would be the same; pass dropout=0.1 (a rate it was not "
                "trained with) or uncertainty='data'"
            )
        if not self.encoder.trained_with_dropout:
            rough = f"this model was not trained with dropout; its variances at a rate of {self.encoder.rate} are rough"
            warnings.warn(rough, Sen2ProWarning, stacklevel=4)

    def draw(self, tokens: Tokens, counts: Mapping[str, int], batch_size: int | None, show: Show) -> Draws:
        """Yield (source, sentence index (r,), sample number (r,), vectors (r, k)) until each source has its count.

        The source is `model` (the sentence under dropout) or `data` (edited copies, without dropout). The samples of a
        sentence follow each other.
        """
        check_batch_size(batch_size)
        if "data" in counts and any(map(is_unspaced, tokens.texts)):
            warnings.warn(
                "some sentences have no spaces and count as one word each, so their data uncertainty means little; "
                "split them into words, or use uncertainty='model'",
                Sen2ProWarning,
                stacklevel=5,
            )
        order, seed = np.argsort(tokens.lengths, kind="stable").tolist(), self.settings.seed
        with progress(len(tokens) * sum(counts.values()), show, threshold=256) as advance:
            for source, count in counts.items():
                words = self.words if source == "data" else ()
                rows = ((i, s) for i in order for s in range(count))
                while window := list(islice(rows, _WINDOW)):
                    index, number = np.array(window).T
                    if source == "model":
                        passes, keys = tokens.rows(index), Keys(seed, number.tolist())
                    else:
                        copies = [edit(tokens.seen[i], words, seed, s) for i, s in window]
                        passes, keys = self.encoder.tokenize(copies, tokens.prompt), None
                    states = run_passes(self.encoder, passes, keys, (), batch_size, advance)
                    yield source, index, number, self.finish(states.vectors)

    def draw_all(self, tokens: Tokens, batch_size: int | None = None, show: Show = False) -> Array:
        """Return all samples, those of the first source first: (n, N, k)."""
        counts = {source: self.settings.counts[source] for source in self.settings.sources}
        result = np.empty((len(tokens), sum(counts.values()), self.dim), np.float32)
        first = next(iter(counts))
        for source, index, number, vectors in self.draw(tokens, counts, batch_size, show):
            result[index, number + (0 if source == first else counts[first])] = vectors
        return result

    def run_plain(
        self, tokens: Tokens, layers: Sequence[int] = (), batch_size: int | None = None, show: Show = False
    ) -> States:
        """Return the states of one deterministic pass; its vectors are not finished."""
        check_batch_size(batch_size)
        with progress(len(tokens), show, threshold=2048, unit="sentences") as advance:
            return run_passes(self.encoder, tokens, None, layers, batch_size, advance)

    def vectors(self, tokens: Tokens, batch_size: int | None = None, show: Show = False) -> Array:
        """Return the finished vectors of one deterministic pass, (n, k)."""
        return self.finish(self.run_plain(tokens, (), batch_size, show).vectors)

    def measure_moves(self, tokens: Tokens, count: int, batch_size: int | None = None, show: Show = False) -> Array64:
        """Return how far an inserted word moves each sentence: mean squared distance on the sphere."""
        check_batch_size(batch_size)
        result, words, prompt = np.empty(len(tokens)), self.words, tokens.prompt
        with progress(len(tokens) * count, show, threshold=256) as advance:
            for start in range(0, len(tokens), _CHUNK):
                part = tokens.rows(range(start, min(start + _CHUNK, len(tokens))))
                copies = [insert_word(text, words, self.settings.seed, s) for text in part.seen for s in range(count)]
                plain = self.directions(run_passes(self.encoder, part, batch_size=batch_size).vectors)
                passes = self.encoder.tokenize(copies, prompt)
                edited = run_passes(self.encoder, passes, batch_size=batch_size, advance=advance)
                moves = self.directions(edited.vectors).reshape(len(part), count, -1) - plain[:, None]
                result[start : start + len(part)] = (moves**2).sum(axis=2).mean(axis=1)
        return result

    def directions(self, vectors: Array) -> Array64:
        """Return finished vectors scaled to length 1, whatever the geometry."""
        finished = self.finish(vectors).astype(np.float64)
        return np.asarray(finished / np.maximum(np.linalg.norm(finished, axis=-1, keepdims=True), 1e-12))

    def finish(self, vectors: Array, *, normalize: bool | None = None) -> Array:
        """Whiten, then normalise, as the settings or the argument say."""
        if self.whitening:
            vectors = self.whitening.apply(vectors)
        if self.normalize if normalize is None else normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return vectors
