"""What was drawn for a sentence, kept on disk for all tables: a file for each signature, with a row for each sentence.

It is written a chunk at a time, so a killed run resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.estimation.moments import estimate
from sen2pro.gaussian import Gaussian
from sen2pro.io.atomic import replacing
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.sampling import SCHEME
from sen2pro.validation import Array
from sen2pro_lab.metrics.base import to_unit

_CHUNK = 4096  # forward passes between two writes: seconds of work
_AT_ONCE = 500  # sentences asked for in one query
_INDIFFERENT = ("model", "combine", "version")  # what a sentence's samples do not depend on
Draw = Callable[[list[str]], Array]  # sentences (n,) -> rows of each (n, rows, k)


class Store:
    """Encodes each sentence once, and keeps the result in a folder.

    The folder is by default $SEN2PRO_CACHE, or sen2pro in the user's cache folder; `show` is as for `Sen2Pro.encode`.
    """

    def __init__(self, folder: str | Path | None = None, show: Show = None) -> None:
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sen2pro")
        self.folder, self.show = Path(folder or os.environ.get("SEN2PRO_CACHE") or usual), show
        if self.folder.exists() and not self.folder.is_dir():
            raise Sen2ProError(f"{self.folder} is not a folder; name a folder for what is kept between runs")

    def vectors(self, model: Sen2Pro, sentences: Sequence[str]) -> Array:
        """Return the plain vectors (n, k)."""
        return self._get(model, "vector", 1, sentences, 1, lambda texts: model.encode_plain(texts)[:, None])[:, 0]

    def samples(self, model: Sen2Pro, sentences: Sequence[str]) -> dict[str, Array]:
        """Return the samples of each source of uncertainty, (n, N, k) each."""
        count = sum(model.samples[source] for source in model.sources)
        draw = partial(model.sample, show_progress_bar=False)
        return _by_source(model, self._get(model, "samples", count, sentences, count, draw))

    def parts(self, model: Sen2Pro, sentences: Sequence[str]) -> dict[str, Gaussian]:
        """Return the Gaussians of each source as the model gives them, in one pass for instance."""

        def draw(texts: list[str]) -> Array:
            parts = model.encode_sources(texts, show_progress_bar=False)
            return np.stack([v for part in parts.values() for v in (part.mean, part.variance)], axis=1)

        cost = model.passes
        return _gaussians(model, self._get(model, "moments", 2 * len(model.sources), sentences, cost, draw))

    def moments(self, model: Sen2Pro, sentences: Sequence[str], *, unit: bool) -> dict[str, Gaussian]:
        """Return the Gaussians of each source from samples that are not kept, a quarter of their space.

        The model draws raw vectors; both geometries are estimated from the same samples.
        """

        def draw(texts: list[str]) -> Array:
            raw = model.sample(texts, show_progress_bar=False)
            both = [x for drawn in (raw, to_unit(raw)) for x in _by_source(model, drawn).values()]
            return np.stack([v for x in both for v in estimate(x)], axis=1).astype(np.float32)

        rows, cost = 2 * len(model.sources), sum(model.samples[source] for source in model.sources)
        kept = self._get(model, "two moments", 2 * rows, sentences, cost, draw)
        return _gaussians(model, kept[:, rows:] if unit else kept[:, :rows])

    def array(self, key: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what was kept under a key that says all it depends on; `make` makes it, the first time."""
        path = self._path(key, "npy")
        if not path.is_file():
            made = make()
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, made)
        try:
            return np.asarray(np.load(path))
        except (ValueError, EOFError) as error:
            raise Sen2ProError(f"{path}: {error}; delete it, and what it kept is made again") from None

    def _get(self, model: Sen2Pro, kind: str, rows: int, sentences: Sequence[str], cost: int, draw: Draw) -> Array:
        """Return rows (n, rows, k) of the sentences, drawing those that are not there; `cost` is in passes of each."""
        index = {text: i for i, text in enumerate(dict.fromkeys(sentences))}
        result = np.empty((len(index), rows, model.dim), np.float32)
        with self._open(model) as file:
            missing = dict(index)
            for texts in _chunks(list(index), _AT_ONCE):
                marks = ",".join("?" * len(texts))
                query = f"SELECT sentence, data FROM kept WHERE kind = ? AND sentence IN ({marks})"
                for text, data in file.execute(query, (kind, *texts)):
                    result[missing.pop(text)] = np.frombuffer(data, "<f4").reshape(rows, model.dim)
            show = self.show if missing else False
            with progress(len(missing), show, threshold=256 // cost, unit="sentences") as advance:
                for texts in _chunks(list(missing), max(1, _CHUNK // cost)):
                    drawn = draw(texts)
                    result[[index[text] for text in texts]] = drawn
                    lines = [(kind, text, row.astype("<f4").tobytes()) for text, row in zip(texts, drawn, strict=True)]
                    with file:
                        file.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", lines)
                    advance(len(texts))
        return result[[index[text] for text in sentences]]

    def _path(self, key: str, suffix: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.{suffix}"

    @contextmanager
    def _open(self, model: Sen2Pro) -> Iterator[sqlite3.Connection]:
        fields = {name: v for name, v in asdict(model.signature()).items() if name not in _INDIFFERENT}
        key = "|".join(f"{name}:{value}" for name, value in fields.items()) + f"|scheme:{SCHEME}"
        path = self._path(key, "sqlite")
        columns = "kind TEXT, sentence TEXT, data BLOB, UNIQUE (kind, sentence)"
        try:
            with closing(sqlite3.connect(path, timeout=60)) as file:
                with file:
                    file.execute(f"CREATE TABLE IF NOT EXISTS kept ({columns})")
                    file.execute("CREATE TABLE IF NOT EXISTS about (signature TEXT UNIQUE)")
                    file.execute("INSERT OR IGNORE INTO about VALUES (?)", (key,))
                yield file
        except sqlite3.DatabaseError as error:
            raise Sen2ProError(f"{path}: {error}; delete it, and what it kept is drawn again") from None


def _chunks(texts: list[str], size: int) -> Iterator[list[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))


def _by_source(model: Sen2Pro, samples: Array) -> dict[str, Array]:
    ends = np.cumsum([model.samples[source] for source in model.sources])
    return dict(zip(model.sources, np.split(samples, ends[:-1], axis=1), strict=True))


def _gaussians(model: Sen2Pro, rows: Array) -> dict[str, Gaussian]:
    """Return the Gaussians whose mean and variance, source by source, stand in rows (n, 2 x sources, k)."""
    pairs = zip(model.sources, np.split(rows, len(model.sources), axis=1), strict=True)
    return {source: Gaussian(pair[:, 0], pair[:, 1], model.signature(source=source)) for source, pair in pairs}
