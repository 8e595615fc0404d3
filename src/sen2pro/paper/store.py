"""What was drawn for a sentence, kept on disk: by signature and sentence, so that every table shares the work.

A sentence's samples depend on nothing but the sentence and the settings, so they can be kept one by one. Each signature
has an SQLite file, written a chunk at a time: a run that is killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.estimation.moments import estimate
from sen2pro.files.atomic import replacing
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.base import to_unit
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.sampling import SCHEME
from sen2pro.types import Array

_CHUNK = 4096  # forward passes between two writes: seconds of work
_AT_ONCE = 500  # sentences asked for in one query
_INDIFFERENT = ("model", "combine", "version")  # what a sentence's samples do not depend on


Draw = Callable[[list[str]], Array]  # sentences (n,) -> rows of each (n, rows, k)


def default_folder() -> Path:
    """Return where things are kept: $SEN2PRO_CACHE, or sen2pro in the user's cache folder."""
    chosen = os.environ.get("SEN2PRO_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sen2pro"


class Store:
    """Encodes each sentence once for all; the files are in `folder`, and `show` is as for `Sen2Pro.encode`."""

    def __init__(self, folder: str | Path | None = None, show: Show = None) -> None:
        self.folder, self.show = Path(folder) if folder else default_folder(), show
        if self.folder.exists() and not self.folder.is_dir():
            raise Sen2ProError(f"{self.folder} is no folder; name one for what is kept between runs")

    def vectors(self, model: Sen2Pro, sentences: Sequence[str]) -> Array:
        """Return the plain vectors (n, k)."""
        return self._get(model, "vector", 1, sentences, 1, lambda texts: model.sen2vec(texts)[:, None])[:, 0]

    def samples(self, model: Sen2Pro, sentences: Sequence[str]) -> dict[str, Array]:
        """Return the samples of each source of uncertainty, (n, N, k) each."""
        counts = [model.samples[source] for source in model.sources]

        def draw(texts: list[str]) -> Array:
            return model.sample(texts, show_progress_bar=False)

        found = self._get(model, "samples", sum(counts), sentences, sum(counts), draw)
        return dict(zip(model.sources, np.split(found, np.cumsum(counts)[:-1], axis=1), strict=True))

    def parts(self, model: Sen2Pro, sentences: Sequence[str]) -> dict[str, Gaussian]:
        """Return the Gaussians of each source as the model gives them (one-pass, shrinkage)."""
        if model.depends_on_batch:
            raise Sen2ProError("without a head, shrinkage depends on the batch and cannot be kept sentence by sentence")

        def draw(texts: list[str]) -> Array:
            parts = model.encode_sources(texts, show_progress_bar=False)
            return np.stack([v for part in parts.values() for v in (part.mean, part.variance)], axis=1)

        cost = 1 if model.method == "one-pass" else sum(model.samples[source] for source in model.sources)
        found = self._get(model, "moments", 2 * len(model.sources), sentences, cost, draw)
        return _gaussians(model, found)

    def moments(self, model: Sen2Pro, sentences: Sequence[str], *, unit: bool) -> dict[str, Gaussian]:
        """Return the Gaussians of each source from samples that are not kept, a quarter of their space.

        The model draws raw vectors; both geometries are estimated from the same samples.
        """
        counts = [model.samples[source] for source in model.sources]

        def draw(texts: list[str]) -> Array:
            raw = model.sample(texts, show_progress_bar=False)
            split = [np.split(x, np.cumsum(counts)[:-1], axis=1) for x in (raw, to_unit(raw))]
            return np.stack([v for both in split for x in both for v in estimate(x)], axis=1).astype(np.float32)

        rows = 2 * len(counts)
        found = self._get(model, "two moments", 2 * rows, sentences, sum(counts), draw)
        return _gaussians(model, found[:, rows:] if unit else found[:, :rows])

    def array(self, key: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what was kept under a key that says all it depends on; `make` makes it, the first time."""
        path = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.npy"
        if not path.is_file():
            found = make()
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, found)
        try:
            return np.asarray(np.load(path))
        except (ValueError, EOFError) as error:
            raise Sen2ProError(f"{path}: {error}; delete it, and what it kept is made again") from None

    def _get(self, model: Sen2Pro, kind: str, rows: int, sentences: Sequence[str], cost: int, draw: Draw) -> Array:
        """Return rows (n, rows, k) of the sentences, drawing those that are not there; `cost` is in passes of each."""
        distinct = list(dict.fromkeys(sentences))
        result = np.empty((len(distinct), rows, model.dim), np.float32)
        with self._open(model) as file:
            there = np.zeros(len(distinct), bool)
            for i, found in _read(file, kind, distinct, model.dim):
                result[i], there[i] = found, True
            missing = [distinct[i] for i in np.flatnonzero(~there)]
            places = np.flatnonzero(~there)
            step = max(1, _CHUNK // cost)
            show = self.show if missing else False
            with progress(len(missing), show, threshold=256 // cost, unit="sentences") as advance:
                for start in range(0, len(missing), step):
                    texts = missing[start : start + step]
                    drawn = draw(texts)
                    result[places[start : start + step]] = drawn
                    with file:
                        file.executemany(
                            "INSERT OR REPLACE INTO kept VALUES (?, ?, ?)",
                            ((kind, text, row.astype("<f4").tobytes()) for text, row in zip(texts, drawn, strict=True)),
                        )
                    advance(len(texts))
        index = {text: i for i, text in enumerate(distinct)}
        return result[[index[text] for text in sentences]]

    @contextmanager
    def _open(self, model: Sen2Pro) -> Iterator[sqlite3.Connection]:
        fields = {name: v for name, v in asdict(model.signature()).items() if name not in _INDIFFERENT}
        key = "|".join(f"{name}:{value}" for name, value in fields.items()) + f"|scheme:{SCHEME}"
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.sqlite"
        try:
            with closing(sqlite3.connect(path, timeout=60)) as file:
                with file:
                    file.execute(
                        "CREATE TABLE IF NOT EXISTS kept (kind TEXT, sentence TEXT, data BLOB, UNIQUE (kind, sentence))"
                    )
                    file.execute("CREATE TABLE IF NOT EXISTS about (signature TEXT UNIQUE)")
                    file.execute("INSERT OR IGNORE INTO about VALUES (?)", (key,))
                yield file
        except sqlite3.DatabaseError as error:
            raise Sen2ProError(f"{path}: {error}; delete it, and what it kept is drawn again") from None


def _read(file: sqlite3.Connection, kind: str, sentences: list[str], dim: int) -> Iterator[tuple[int, Array]]:
    index = {text: i for i, text in enumerate(sentences)}
    for start in range(0, len(sentences), _AT_ONCE):
        texts = sentences[start : start + _AT_ONCE]
        marks = ",".join("?" * len(texts))
        query = f"SELECT sentence, data FROM kept WHERE kind = ? AND sentence IN ({marks})"
        for text, data in file.execute(query, (kind, *texts)):
            yield index[text], np.frombuffer(data, "<f4").reshape(-1, dim)


def _gaussians(model: Sen2Pro, rows: Array) -> dict[str, Gaussian]:
    """Return the Gaussians whose mean and variance, source by source, stand in rows (n, 2 x sources, k)."""
    return {
        source: Gaussian(rows[:, 2 * i], rows[:, 2 * i + 1], model.signature(source=source))
        for i, source in enumerate(model.sources)
    }
