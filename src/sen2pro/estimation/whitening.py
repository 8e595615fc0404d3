"""Whitening: a linear map, fitted on a corpus, after which vectors have zero mean and unit covariance."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, read_unchanged
from sen2pro.validation import Array, check_numbers, check_whole

WHITENING_FILE = "sen2pro_whitening.safetensors"
_HASH = "sen2pro.hash"


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> (x - mean) @ kernel, as in BERT-whitening (Su et al., 2021).

    Examples
    --------
    >>> vectors = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 5.0, 9.0] + 2.0
    >>> white = Whitening.fit(vectors).apply(vectors)
    >>> np.cov(white.T, bias=True).round(2) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    mean: Array  # (k,)
    kernel: Array  # (k, dim)

    @classmethod
    def fit(cls, vectors: NDArray[Any], dim: int | None = None) -> Whitening:
        """Fit on vectors (n, k) and keep the `dim` directions of greatest variance (all by default)."""
        data = check_numbers("vectors", vectors, np.float64)
        if data.ndim != 2 or len(data) < 2:
            raise Sen2ProError(f"whitening is fitted on at least two vectors (n, k), not on shape {data.shape}")
        if not data.shape[1] or (data == data[0]).all():
            raise Sen2ProError(f"these {len(data)} vectors are all the same; fit on vectors that differ")
        dim = data.shape[1] if dim is None else check_whole("dim", dim, 1, data.shape[1])
        if len(data) <= dim:
            few = f"{len(data)} vectors cannot fill {dim} directions; fit on more of them, or pass a smaller dim"
            warnings.warn(few, Sen2ProWarning, stacklevel=2)
        values, directions = np.linalg.eigh(np.cov(data.T, bias=True).reshape(data.shape[1], -1))
        values, directions = values[::-1][:dim], directions[:, ::-1][:, :dim]
        spread = float(np.sqrt(max(values[0], 0.0)))
        if not 1e-30 < spread < 1e30:  # beyond, float32 has no room for the map
            raise Sen2ProError(f"these vectors differ by about {spread:.0e}; scale them to numbers of ordinary size")
        # Directions in which the corpus does not vary (fewer vectors than dimensions) would be blown up to noise.
        scale = np.where(values > values[0] * 1e-9, 1 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
        return cls(data.mean(axis=0).astype(np.float32), (directions * scale).astype(np.float32))

    @property
    def dim(self) -> int:
        """The number of dimensions after whitening."""
        return int(self.kernel.shape[1])

    @property
    def hash(self) -> str:
        """Eight hex digits that stand for the map in a signature."""
        return hashlib.sha256(self.mean.tobytes() + self.kernel.tobytes()).hexdigest()[:8]

    def apply(self, vectors: NDArray[Any]) -> Array:
        """Whiten vectors (..., k)."""
        given = check_numbers("vectors", vectors)
        if given.shape[-1:] != self.mean.shape:
            width = given.shape[-1] if given.ndim else "a single number"
            raise Sen2ProError(f"this whitening takes vectors of {len(self.mean)} dimensions, not {width}")
        with np.errstate(over="ignore", invalid="ignore"):
            white = (given - self.mean) @ self.kernel
        return check_numbers("vectors, whitened,", white, np.float32)

    def save(self, path: str | Path) -> None:
        """Write to a safetensors file."""
        bundle.write_arrays(path, {"mean": self.mean, "kernel": self.kernel}, {_HASH: self.hash})

    @classmethod
    def load(cls, path: str | Path) -> Whitening:
        """Read what `save` wrote; a file that changed since then is refused."""
        return read_unchanged(check_path(path), partial(cls._load, Path(path)))

    @classmethod
    def _load(cls, path: Path) -> Whitening:
        expected = {"mean": bundle.Expected("F32", "k"), "kernel": bundle.Expected("F32", "k dim")}
        mean, kernel = bundle.read_arrays(path, expected).values()
        if not 1 <= kernel.shape[1] <= len(mean):
            raise Sen2ProError(f"{path} holds no whitening: a mean of shape {mean.shape}, a kernel of {kernel.shape}")
        whitening = cls(mean, kernel)
        kept = bundle.read_header(path).metadata.get(_HASH)
        if kept is None:
            old = f"{path} has no hash to tell damage by: it was written before sen2pro 0.5; save the whitening again"
            warnings.warn(old, Sen2ProWarning, stacklevel=4)
        elif kept != whitening.hash:
            raise Sen2ProError(f"{path} was changed or damaged since it was written; fit the whitening again")
        return whitening


def find_whitening(
    given: object, folder: Path | None, pooling: str | None, saved_pooling: str | None
) -> Whitening | None:
    """Return the whitening for a model: the given one, or the one saved in its folder, which fits one pooling."""
    if given is None and folder and (folder / WHITENING_FILE).is_file():
        if pooling != saved_pooling:
            raise Sen2ProError(
                f"the whitening saved with this model does not fit {pooling or 'its own'} pooling; leave the pooling "
                "as it was saved, or pass whitening=False"
            )
        return Whitening.load(folder / WHITENING_FILE)
    if isinstance(given, Whitening):
        return given
    if given is not None and given is not False:
        raise Sen2ProError("whitening is False or a fitted Whitening; to fit one: model.fit_whitening(corpus)")
    return None
