"""From sentences to finished vectors: every sample of every kind, or one plain pass, in a model's own geometry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.encoder.dropout import Tokens
from sen2pro.encoder.encoder import Encoder
from sen2pro.errors import Sen2ProWarning
from sen2pro.progress import Show, progress
from sen2pro.sampling.edits import edit, insert_word, is_unspaced
from sen2pro.sampling.passes import embed
from sen2pro.sampling.states import States
from sen2pro.validation import Array, Array64, check_batch_size

_WINDOW = 1024  # passes prepared and sorted by length together: bounds the memory, whatever n and N
_CHUNK = 256  # sentences whose copies with an inserted word are in memory at once


@dataclass
class Sampler:
    """Runs an encoder for a model: tokenizes, cuts, warns, counts, whitens, normalises."""

    encoder: Encoder
    seed: int
    words: Callable[[], Sequence[str]]  # that edits draw from; called only when they are needed
    normalize: bool
    whitening: Any  # a `Whitening`, or None

    def draw(
        self, texts: list[str], prompt: str, counts: Mapping[str, int], batch_size: int | None, show: Show
    ) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Array]]:
        """Yield (source, sentence index (r,), sample number (r,), vectors (r, k)) until each source has its count.

        The source is `model` (the sentence under dropout) or `data` (edited copies, without dropout). The samples of a
        sentence stand together.
        """
        check_batch_size(batch_size)
        if "data" in counts and any(map(is_unspaced, texts)):
            warnings.warn(
                "some sentences have no spaces and count as one word each, so their data uncertainty means little; "
                "split them into words, or use uncertainty='model'",
                Sen2ProWarning,
                stacklevel=5,
            )
        tokens = self.encoder.tokens([prompt + text for text in texts], warn=True)
        lengths = [len(ids) for ids in tokens]
        whole = [length < self.encoder.max_length for length in lengths]
        texts = [text if whole[i] else self.encoder.seen(text, prompt) for i, text in enumerate(texts)]
        with progress(len(texts) * sum(counts.values()), show, threshold=256) as advance:
            for source, count in counts.items():
                words = self.words() if source == "data" else ()
                rows = ((i, s) for i in sorted(range(len(texts)), key=lengths.__getitem__) for s in range(count))
                while window := list(islice(rows, _WINDOW)):
                    index, number = np.array(window).T
                    if source == "model":
                        passes, samples = [tokens[i] for i in index], number.tolist()
                    else:
                        copies = [prompt + edit(texts[i], words, self.seed, s) for i, s in window]
                        passes, samples = self.encoder.tokens(copies), None
                    vectors = embed(self.encoder, passes, samples, self.seed, prompt, batch_size, advance)
                    yield source, index, number, self.finish(vectors)

    def plain(
        self, texts: list[str], prompt: str, *, layers: Sequence[int] = (), batch_size: int | None = None,
        show: Show = False, warn: bool = True, tokens: list[Tokens] | None = None, spread: bool = False,
    ) -> States:  # fmt: skip
        """Return what one deterministic pass says of the sentences; its vectors are not finished.

        `tokens` are what `Encoder.tokens` gives for the sentences with their prompt, for who has them already. With
        `spread`, the variance of the vectors under dropout is propagated through the network beside the pass.
        """
        check_batch_size(batch_size)
        if tokens is None:
            tokens = self.encoder.tokens([prompt + text for text in texts], warn=warn)
        with progress(len(texts), show, threshold=2048, unit="sentences") as advance:
            columns = embed(
                self.encoder,
                tokens,
                prompt=prompt,
                batch_size=batch_size,
                layers=layers,
                advance=advance,
                spread=spread,
            )
        dim = self.encoder.dim
        variances, columns = (columns[:, -dim:], columns[:, :-dim]) if spread else (None, columns)
        width = (columns.shape[1] - dim) // max(len(layers), 1)
        averages = {layer: columns[:, dim + i * width : dim + (i + 1) * width] for i, layer in enumerate(layers)}
        lengths = np.array([len(ids) for ids in tokens]), np.array([len(text.split()) for text in texts])
        return States(columns[:, :dim], averages, *lengths, variances)

    def moved(
        self, texts: list[str], prompt: str, count: int, batch_size: int | None = None, show: Show = False
    ) -> Array64:
        """Return how far an inserted word moves each sentence: mean squared distance on the sphere."""
        check_batch_size(batch_size)
        result, words = np.empty(len(texts)), self.words()
        every = self.encoder.tokens([prompt + text for text in texts], warn=True)
        with progress(len(texts) * count, show, threshold=256) as advance:
            for start in range(0, len(texts), _CHUNK):
                part, tokens = texts[start : start + _CHUNK], every[start : start + _CHUNK]
                whole = [len(ids) < self.encoder.max_length for ids in tokens]
                seen = [text if whole[i] else self.encoder.seen(text, prompt) for i, text in enumerate(part)]
                copies = [prompt + insert_word(text, words, self.seed, s) for text in seen for s in range(count)]
                plain = embed(self.encoder, tokens, prompt=prompt, batch_size=batch_size)
                passes = self.encoder.tokens(copies)
                edited = embed(self.encoder, passes, prompt=prompt, batch_size=batch_size, advance=advance)
                moves = self.directions(edited).reshape(len(part), count, -1) - self.directions(plain)[:, None]
                result[start : start + len(part)] = (moves**2).sum(axis=2).mean(axis=1)
        return result

    def spread(self, states: States) -> Array64:
        """Return propagated variances as `finish` leaves them, to first order: (n, k)."""
        assert states.spread is not None
        variance, vectors = states.spread.astype(np.float64), states.vectors
        if self.whitening:
            variance, vectors = variance @ self.whitening.kernel.astype(np.float64) ** 2, self.whitening.apply(vectors)
        if not self.normalize:
            return variance
        squares = vectors.astype(np.float64) ** 2
        length = np.maximum(squares.sum(axis=1, keepdims=True), 1e-24)
        along = squares / length  # scaling to length 1 takes away what points along the vector
        left = variance * (1 - 2 * along) + along * (along * variance).sum(axis=1, keepdims=True)
        return np.asarray(np.maximum(left, 0.0) / length)

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
