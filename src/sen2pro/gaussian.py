"""The distribution of a sentence: a Gaussian with a diagonal covariance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sen2pro.errors import Sen2ProError, short_repr
from sen2pro.io import gaussians
from sen2pro.io.atomic import check_path, read_unchanged
from sen2pro.signature import Signature, merged
from sen2pro.validation import Array, Array64, as_list, check_numbers, check_seed, check_whole, place

FAR = 0.01  # a coverage below which a prediction is not to be trusted
_MOST_DRAWN = 1 << 32  # numbers that `sample` makes at once: 16 GB


def floored(variance: NDArray[Any]) -> Array64:
    """Return variances that can be divided by: at least one millionth of the Gaussian's average variance.

    Some dimensions of real encoders never vary (three of 384 in all-MiniLM-L6-v2), and few samples can agree by chance.
    """
    variance = variance.astype(np.float64)
    floor = np.maximum(1e-6 * variance.mean(axis=-1, keepdims=True), 1e-30)
    return np.asarray(np.maximum(variance, floor))


def is_far(gaussian: gaussians.GaussianLike) -> NDArray[np.bool_]:
    """Tell which sentences () or (n,) are unlike all that the head was fitted on; without a head, none."""
    coverage = np.ones(gaussian.mean.shape[:-1]) if gaussian.coverage is None else gaussian.coverage
    return np.asarray(coverage < FAR)


class Gaussian:
    """One diagonal Gaussian (k,) or a batch of them (n, k); immutable.

    Parameters
    ----------
    mean, variance
        Arrays of one shape, (k,) or (n, k). Kept as read-only float32.
    signature
        How the Gaussians were made. Comparing Gaussians made with different settings is an error.
    coverage
        How well a head knows sentences like these, () or (n,).
    copy
        False takes float32 arrays as they are, and makes them read-only: half the memory for large ones.

    Examples
    --------
    >>> g = Gaussian(mean=[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], variance=[[1.0, 1.0], [4.0, 4.0], [9.0, 9.0]])
    >>> len(g), g.dim
    (3, 2)
    >>> g[1].std
    array([2., 2.], dtype=float32)
    >>> len(Gaussian.concatenate([g[:1], g[1:]]))
    3
    """

    __slots__ = ("coverage", "mean", "signature", "variance")

    mean: Array
    """The mean, (k,) or (n, k)."""
    variance: Array
    """The variance of each dimension, (k,) or (n, k)."""
    signature: Signature | None
    """How these Gaussians were made, or None for hand-made ones."""
    coverage: Array | None
    """How well a head knows sentences like these, () or (n,); None if no head was used.

    The share of held-out sentences of the head's corpus that were at least as far out: 0.5 is an ordinary sentence,
    below 0.01 do not trust the prediction (sample it instead), 0 is a length that the head has never seen.
    """

    def __init__(
        self, mean: ArrayLike, variance: ArrayLike, signature: Signature | None = None,
        coverage: ArrayLike | None = None, *, copy: bool = True,
    ) -> None:  # fmt: skip
        mean_ = check_numbers("mean", mean, np.float32, copy=copy)
        variance_ = check_numbers("variance", variance, np.float32, copy=copy)
        if mean_.shape != variance_.shape or mean_.ndim not in (1, 2):
            raise Sen2ProError(
                f"mean and variance must have one shape, (k,) or (n, k), but are {mean_.shape} and {variance_.shape}"
            )
        if not mean_.shape[-1]:
            raise Sen2ProError(f"a Gaussian has at least one dimension, but mean and variance are {mean_.shape}")
        if (variance_ < 0).any():
            index = np.unravel_index(int(np.argmax(variance_ < 0)), variance_.shape)
            raise Sen2ProError(f"a variance cannot be negative, but {place(index)} is {variance_[index]}")
        if not isinstance(signature, Signature | None):
            raise Sen2ProError(f"signature must be a Signature or None, not {type(signature).__name__}")
        if coverage is not None:
            coverage = check_numbers("coverage", coverage, np.float32, axes=["row"], copy=True)
            if coverage.shape != mean_.shape[:-1]:
                raise Sen2ProError(f"coverage must have shape {mean_.shape[:-1]}, not {coverage.shape}")
        kept = {"mean": mean_, "variance": variance_, "coverage": coverage, "signature": signature}
        for name, value in kept.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Gaussian is immutable; make a new one instead of setting {name!r}")

    def __reduce__(self) -> tuple[type[Gaussian], tuple[Any, ...]]:
        return Gaussian, (self.mean, self.variance, self.signature, self.coverage)

    @property
    def std(self) -> Array:
        """The standard deviation of each dimension, (k,) or (n, k)."""
        return np.sqrt(self.variance)

    @property
    def shape(self) -> tuple[int, ...]:
        """(k,) for one Gaussian, (n, k) for a batch."""
        return self.mean.shape

    @property
    def dim(self) -> int:
        """The number of dimensions k."""
        return int(self.mean.shape[-1])

    @property
    def total_variance(self) -> Array64:
        """The trace of the covariance, () or (n,): how uncertain a sentence is, in one number."""
        return np.asarray(self.variance.sum(axis=-1, dtype=np.float64))

    @property
    def entropy(self) -> Array64:
        """Differential entropy in nats, () or (n,); dimensions that never vary count with a floor.

        >>> Gaussian(mean=[0.0], variance=[1.0]).entropy.round(4)  # 0.5 log(2 pi e)
        np.float64(1.4189)
        """
        return np.asarray(0.5 * np.log(2 * np.pi * np.e * floored(self.variance)).sum(axis=-1))[()]

    def log_prob(self, x: ArrayLike) -> Array64:
        """Log-density at `x`, which has the shape of the mean or broadcasts with it: (..., k) gives (...).

        >>> Gaussian(mean=[0.0], variance=[1.0]).log_prob([0.0]).round(4)  # -0.5 log(2 pi)
        np.float64(-0.9189)
        """
        point = check_numbers("x", x, np.float64)
        if point.ndim == 0 or point.shape[-1] != self.dim:
            raise Sen2ProError(f"x has shape {point.shape}, but its last dimension must be {self.dim}")
        try:
            np.broadcast_shapes(point.shape, self.shape)
        except ValueError:
            raise Sen2ProError(f"x of shape {point.shape} does not fit Gaussians of shape {self.shape}") from None
        variance = floored(self.variance)
        terms = np.log(2 * np.pi * variance) + (point - self.mean) ** 2 / variance
        return np.asarray(-0.5 * terms.sum(axis=-1))[()]

    def sample(self, n: int = 1, seed: int = 0) -> Array:
        """Draw `n` points from each Gaussian: (n, k) from one, (len(self), n, k) from a batch."""
        most = _MOST_DRAWN // max(1, self.mean.size)
        shape = (*self.shape[:-1], check_whole("n", n, 0, most), self.dim)
        if check_seed(seed) < 0:
            raise Sen2ProError(f"seed must be a whole number of at least 0, not {seed}")
        noise = np.random.default_rng(int(seed)).standard_normal(shape, dtype=np.float32)
        return np.asarray(self.mean[..., None, :] + self.std[..., None, :] * noise)

    def __len__(self) -> int:
        if self.mean.ndim == 1:
            raise TypeError("a single Gaussian has no length; use .dim for its number of dimensions")
        return len(self.mean)

    def __getitem__(self, index: Any) -> Gaussian:
        if self.mean.ndim == 1:
            raise TypeError("a single Gaussian cannot be indexed")
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # x[rows, ...], which is how scikit-learn picks rows
        if isinstance(index, tuple):
            raise TypeError("a Gaussian is indexed by sentence only; use .mean and .variance to select dimensions")
        try:
            fits = isinstance(index, slice) or np.ndim(index) <= 1  # truth values of two axes pick numbers
            mean = self.mean[index]
        except IndexError:  # which says which number is out of range
            raise
        except Exception:  # whatever numpy says to a list that is ragged, or an object that is not an index
            fits, mean = False, self.mean
        if not fits or mean.ndim > 2:
            allowed = "a number, a slice, or a list of numbers or truth values"
            raise TypeError(f"a Gaussian is indexed by {allowed}, not {short_repr(index)}")
        coverage = None if self.coverage is None else self.coverage[index]
        return Gaussian(mean, self.variance[index], self.signature, coverage)

    def __iter__(self) -> Iterator[Gaussian]:
        return (self[i] for i in range(len(self)))

    @staticmethod
    def concatenate(parts: Sequence[Gaussian]) -> Gaussian:
        """Join batches (and single Gaussians) into one batch; different settings raise an error that names them."""
        parts = as_list(parts, "a list of Gaussians")
        if not parts:
            raise Sen2ProError("nothing to concatenate: the list is empty")
        for i, part in enumerate(parts):
            if not isinstance(part, Gaussian):
                raise Sen2ProError(
                    f"give a list of Gaussians, but number {i} is {type(part).__name__}: {short_repr(part)}"
                )
        signature = parts[0].signature
        for part in parts[1:]:
            signature = merged(signature, part.signature)
            if part.dim != parts[0].dim:
                raise Sen2ProError(f"cannot concatenate Gaussians of {parts[0].dim} and {part.dim} dimensions")
        coverages = [part.coverage for part in parts if part.coverage is not None]
        return Gaussian(
            np.concatenate([np.atleast_2d(p.mean) for p in parts]),
            np.concatenate([np.atleast_2d(p.variance) for p in parts]),
            signature,
            np.concatenate([np.atleast_1d(c) for c in coverages]) if len(coverages) == len(parts) else None,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gaussian) or self.signature != other.signature:
            return False
        pairs: Any = (self.mean, other.mean), (self.variance, other.variance), (self.coverage, other.coverage)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]  # like the arrays it holds

    def __repr__(self) -> str:
        made = f"{self.signature.model}, {self.signature.uncertainty}" if self.signature else "by hand"
        return f"Gaussian(shape={self.shape}, made: {made})"

    def save(
        self, path: str | Path, *, ids: Sequence[str] | None = None, texts: Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> None:  # fmt: skip
        """Write to a `.parquet` or `.safetensors` file; ids and texts go into columns of a Parquet file."""
        with gaussians.GaussianWriter(path, overwrite=overwrite) as writer:
            writer.write(self, ids=ids, texts=texts)

    @staticmethod
    def load(path: str | Path, *, verify: bool = True) -> Gaussian:
        """Read what `save` or `sen2pro encode` wrote; `sen2pro.gaussian.read` also gives the ids and texts.

        `verify` compares the content with the digest in the file: less than a tenth of the time that reading takes.
        """
        return read(path, verify=verify).gaussian


class Stored(NamedTuple):
    """The content of a file: the Gaussians and, where they were kept, their ids and texts."""

    gaussian: Gaussian
    ids: list[str] | None
    texts: list[str] | None

    def find(self, id: str) -> Gaussian:
        """Return the Gaussian with this id; an id of several rows is an error.

        >>> g = Gaussian([[0.0], [1.0]], [[1.0], [1.0]])
        >>> Stored(g, ["a", "b"], None).find("b").mean
        array([1.], dtype=float32)
        """
        if self.ids is None:
            raise Sen2ProError("no ids were kept in this file; write it with ids=...")
        rows = [row for row, each in enumerate(self.ids) if each == id]
        if not rows:
            raise Sen2ProError(f"there is no id {id!r} among {len(self.ids)}")
        if len(rows) > 1:
            raise Sen2ProError(f"the id {id!r} is in {len(rows)} rows, for instance {rows[0]} and {rows[1]}")
        return self.gaussian[rows[0]]


def read(path: str | Path, *, verify: bool = True) -> Stored:
    """Read Gaussians, ids and texts from a file that `Gaussian.save` or `sen2pro encode` wrote, or a folder of shards.

    Types, shapes and sizes are checked before anything is read. Rows without a value, and numbers that are not finite,
    are refused. `verify` compares the content with its digest; a file without one, of a version before 0.5, is read
    with a warning.
    """
    path = check_path(path)

    def content() -> Stored:
        batch = gaussians.read(path, verify=verify)
        try:
            gaussian = Gaussian(batch.mean, batch.variance, batch.signature, batch.coverage, copy=False)
        except Sen2ProError as error:
            raise Sen2ProError(f"{path}: {error}") from None
        return Stored(gaussian, batch.ids, batch.texts)

    return read_unchanged(path, content)
