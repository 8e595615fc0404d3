"""From sentences to finished vectors: every sample of every kind, or one plain pass, in a model's own geometry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sen2pro.checks import check_batch_size
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import Sen2ProWarning
from sen2pro.progress import Show, progress
from sen2pro.sampling.edits import is_unspaced
from sen2pro.sampling.passes import embed, samples
from sen2pro.sampling.states import States
from sen2pro.types import Array


class Map(Protocol):
    """A linear map of vectors: a whitening."""

    def apply(self, vectors: NDArray[Any]) -> Array:
        """Map vectors (..., k)."""


@dataclass
class Sampler:
    """Runs an encoder for a model: tokenizes, cuts, warns, counts, whitens, normalises.

    Parameters
    ----------
    encoder, seed
        What is run, and what makes it reproducible.
    words
        Gives the words that edits draw from; called only when they are needed.
    normalize, whitening
        The geometry of the finished vectors.
    """

    encoder: Encoder
    seed: int
    words: Callable[[], Sequence[str]]
    normalize: bool
    whitening: Map | None

    def draw(
        self, texts: list[str], prompt: str, counts: Mapping[str, int], batch_size: int | None, show: Show
    ) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Array]]:
        """Yield (source, sentence index, sample number, finished vectors) until each source has its count."""
        check_batch_size(batch_size)
        if "data" in counts and any(map(is_unspaced, texts)):
            warnings.warn(
                "some sentences have no spaces and count as one word each, so their data uncertainty means little; "
                "split them into words, or use uncertainty='model'",
                Sen2ProWarning,
                stacklevel=4,
            )
        tokens = self.encoder.tokens([prompt + text for text in texts], warn=True)
        limit = self.encoder.max_length
        texts = [
            text if len(ids) < limit else self.encoder.seen(text, prompt)
            for text, ids in zip(texts, tokens, strict=True)
        ]
        with progress(len(texts) * sum(counts.values()), show, threshold=256) as advance:
            for source, count in counts.items():
                runs = samples(
                    self.encoder,
                    texts,
                    tokens,
                    source,
                    count,
                    seed=self.seed,
                    vocabulary=self.words() if source == "data" else (),
                    prompt=prompt,
                    batch_size=batch_size,
                    advance=advance,
                )
                for index, number, vectors in runs:
                    yield source, index, number, self.finish(vectors)

    def plain(
        self,
        texts: list[str],
        prompt: str,
        *,
        layers: Sequence[int] = (),
        batch_size: int | None = None,
        show: Show = False,
        warn: bool = True,
    ) -> States:
        """Return what one deterministic pass says of the sentences; its vectors are not finished."""
        check_batch_size(batch_size)
        tokens = self.encoder.tokens([prompt + text for text in texts], warn=warn)
        with progress(len(texts), show, threshold=2048, unit="sentences") as advance:
            found = embed(self.encoder, tokens, prompt=prompt, batch_size=batch_size, layers=layers, advance=advance)
        dim = self.encoder.dim
        width = (found.shape[1] - dim) // max(len(layers), 1)
        averages = {layer: found[:, dim + i * width : dim + (i + 1) * width] for i, layer in enumerate(layers)}
        lengths = np.array([len(ids) for ids in tokens]), np.array([len(text.split()) for text in texts])
        return States(found[:, :dim], averages, *lengths)

    def finish(self, vectors: Array) -> Array:
        """Whiten, then normalise, as the settings say."""
        if self.whitening:
            vectors = self.whitening.apply(vectors)
        if self.normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return vectors
