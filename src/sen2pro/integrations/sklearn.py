"""scikit-learn: texts become columns of numbers, for any model that learns from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from sen2pro.classification.classifier import EncoderCache
from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL
from sen2pro.validation import Array, as_list, check_batch_size, check_sentences

FEATURES = ("plain", "mean", "mean+variance")


class Sen2ProVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turn texts into vectors. Nothing is learned from them, so `fit` only checks.

    Parameters
    ----------
    model
        Hub id or folder of the encoder, or a `Sen2Pro`, whose own settings then count.
    features
        `plain` vectors, as `Sen2Pro.encode_plain` gives them; the `mean` of each text's Gaussian; or `mean+variance`,
        side by side. Gaussians come in one pass if the model has a head, else by sampling.
    batch_size
        Forward passes done at once, by default what fits. It changes speed and memory, not the result.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> texts = ["She won the final set.", "Their striker scored twice.", "Shares fell on Monday.", "Profits rose."]
    >>> pipeline = make_pipeline(Sen2ProVectorizer(), LogisticRegression())
    >>> pipeline.fit(texts, ["sport", "sport", "money", "money"]).predict(["The goalkeeper was injured."]).tolist()
    ['sport']
    >>> pipeline[0].get_feature_names_out()[:2].tolist()
    ['plain0', 'plain1']
    """

    _cache: EncoderCache  # shared with all clones

    def __init__(
        self, model: str | Path | Sen2Pro = DEFAULT_MODEL, *, features: str = "plain", batch_size: int | None = None
    ) -> None:
        self.model, self.features, self.batch_size = model, features, batch_size

    def fit(self, X: Any, y: Any = None) -> Sen2ProVectorizer:
        """Check texts and settings, and load the model; returns itself."""
        texts = _texts(X)
        if not texts:
            raise Sen2ProError("there are no texts to fit on")
        self._encoder()
        return self

    def transform(self, X: Any) -> Array:
        """Return a row of numbers for each text: (n, k), or (n, 2k) with variances. No `fit` is needed before."""
        texts, encoder = _texts(X), self._encoder()
        if self.features == "plain":
            return encoder.encode_plain(texts, batch_size=self.batch_size)
        g = encoder.encode(texts, batch_size=self.batch_size)
        return g.mean if self.features == "mean" else np.concatenate([g.mean, g.variance], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns: `plain0`, ... or `mean0`, ... and `variance0`, ..."""
        dim = self._encoder().dim
        return np.array([f"{kind}{i}" for kind in self.features.split("+") for i in range(dim)], dtype=object)

    def _encoder(self) -> Sen2Pro:
        one_of("features", self.features, FEATURES)
        check_batch_size(self.batch_size)
        if not isinstance(self.model, (str, Path, Sen2Pro)):
            raise Sen2ProError(f"model is a hub id, a folder or a Sen2Pro, not {short_repr(self.model)}")
        cache: EncoderCache = self.__dict__.setdefault("_cache", EncoderCache())
        return cache.load(self.model)

    def __sklearn_clone__(self) -> Sen2ProVectorizer:
        clone = type(self)(self.model, features=self.features, batch_size=self.batch_size)
        clone._cache = self.__dict__.setdefault("_cache", EncoderCache())
        if hasattr(self, "_sklearn_output_config"):
            clone._sklearn_output_config = dict(self._sklearn_output_config)
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.requires_fit, tags.transformer_tags.preserves_dtype = False, []  # vectors are float32, whatever texts are
        return tags


def _texts(X: Any) -> list[str]:
    """Return a list of texts, of an array or a column of a table as well."""
    if isinstance(X, str):
        raise Sen2ProError("give a list of texts, not a single text")
    return check_sentences(as_list(X, "a list of texts"))
