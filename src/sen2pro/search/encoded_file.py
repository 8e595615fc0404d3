"""A Parquet file of `sen2pro encode`, or a folder of shards, a batch at a time: memory does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sen2pro.checks import SOURCES
from sen2pro.errors import Sen2ProError
from sen2pro.files.gaussians import Piece, outline, stream
from sen2pro.files.text import check_path
from sen2pro.search.encoding import Encoded
from sen2pro.signature import Signature


class EncodedFile:
    """The rows of a file, checked against its digest before the first of them is used."""

    def __init__(self, path: str | Path) -> None:
        self._path = check_path(path)
        if self._path.suffix.lower() != ".parquet" and not self._path.is_dir():
            raise Sen2ProError(f"{self._path}: only a Parquet file keeps ids and texts; write one with sen2pro encode")
        found = outline(self._path)
        self.signature: Signature | None = found.signature
        self._rows = found.rows

    def __len__(self) -> int:
        return self._rows

    def batches(self, size: int) -> Iterator[tuple[Encoded, list[str] | None, list[str] | None]]:
        """Yield batches as they are encoded, with ids and texts where the file has them."""
        for _ in stream(self._path, size):
            pass  # a first pass: at its end the digest is compared
        for piece in stream(self._path, size, verify=False):
            yield self._encoded(piece), piece.ids, piece.texts

    def _encoded(self, piece: Piece) -> Encoded:
        n = len(piece.gaussian)
        words = [len(text.split()) for text in piece.texts] if piece.texts is not None else [0] * n
        columns = [piece.totals.get(f"{source}_variance", np.zeros(n)) for source in SOURCES]
        return Encoded(None, piece.gaussian, np.stack([*columns, words], axis=1).astype(np.float32))
