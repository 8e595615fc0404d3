"""Learn people's ratings of specificity from examples, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sen2pro.errors import Sen2ProError
from sen2pro.model import Sen2Pro
from sen2pro.settings import DEFAULT_MODEL
from sen2pro.validation import Array64, check_numbers, check_sentences

_PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_WIDTHS = (0.5, 1.0)
_AT_LEAST = 20  # ratings
_MOST = 6000  # sentences that the kernel is made of: its matrix has the square of that


class SpecificityRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Predict ratings of how specific a sentence is, from rated examples.

    Kernel ridge regression on the plain vector, the variances of both kinds of uncertainty, the length, and the
    specificity of one pass. Width and penalty are chosen by the error of each example left out of the fit.

    Parameters
    ----------
    model
        Hub id, folder, or a `Sen2Pro` with a head; a name is loaded with `method="one-pass"`.

    Examples
    --------
    >>> vague = ["It is fine.", "They did it.", "That is so good.", "We like this.", "It was nice."] * 2
    >>> exact = ["The 7:40 train to Leeds left platform 3 late.", "Add 200 grams of flour to the butter."] * 5
    >>> regressor = SpecificityRegressor().fit([*vague, *exact], [1.0] * 10 + [5.0] * 10)
    >>> low, high = regressor.predict(["It is okay.", "The bank in Oslo raised its rate to 4.5 percent."])
    >>> bool(low < high)
    True
    """

    def __init__(self, model: str | Path | Sen2Pro = DEFAULT_MODEL) -> None:
        self.model = model

    def fit(self, X: Sequence[str], y: Any) -> SpecificityRegressor:
        """Learn from sentences and their ratings; greater is more specific."""
        texts = check_sentences(X)
        ratings = check_numbers("ratings", y, np.float64, axes=("row",))
        if ratings.shape != (len(texts),):
            raise Sen2ProError(f"{len(texts)} sentences but ratings of shape {ratings.shape}; give one for each")
        if len(texts) < _AT_LEAST:
            raise Sen2ProError(f"learn from at least {_AT_LEAST} rated sentences, not {len(texts)}")
        if len(texts) > _MOST:
            raise Sen2ProError(f"learn from at most {_MOST} rated sentences, not {len(texts)}; draw some at random")
        self.encoder_ = self.model if isinstance(self.model, Sen2Pro) else Sen2Pro(self.model, method="one-pass")
        groups = self._features(texts)
        self.scales_ = [(group.mean(axis=0), group.std(axis=0) + 1e-9) for group in groups]
        self.examples_ = self._scaled(groups)
        self.centre_ = float(ratings.mean())
        distances = _squares(self.examples_, self.examples_)
        unit, best = float(np.median(distances)) or 1.0, np.inf
        for width in _WIDTHS:
            values, vectors = np.linalg.eigh(np.exp(-width * distances / unit))
            values = np.maximum(values, 0)
            inner = vectors.T @ (ratings - self.centre_)
            for penalty in _PENALTIES:
                shrink = values / (values + penalty)
                leverage = (vectors**2) @ shrink
                error = np.mean(((ratings - self.centre_ - vectors @ (shrink * inner)) / (1 - leverage)) ** 2)
                if error < best:
                    best, self.width_, self.penalty_ = float(error), width / unit, penalty
                    self.weights_ = vectors @ (inner / (values + penalty))
        self.n_features_in_ = self.examples_.shape[1]
        return self

    def predict(self, X: Sequence[str]) -> Array64:
        """Return the rating to be expected of each sentence, (n,)."""
        check_is_fitted(self, "weights_")
        texts = check_sentences(X)
        if not texts:
            return np.empty(0)
        kernel = np.exp(-self.width_ * _squares(self._scaled(self._features(texts)), self.examples_))
        return np.asarray(kernel @ self.weights_ + self.centre_)

    def _features(self, texts: list[str]) -> list[Array64]:
        """Return groups of features, all read off one pass; the last group holds single numbers."""
        model = self.encoder_
        head, single = model.head, model.find_specificity_head()
        if head is None or single is None:
            raise Sen2ProError(f"{model.encoder.name} has no head to read the variances from; fit one with distill")
        layers = sorted({*head.layers, *single.layers})
        states = model.sampler.run_plain(model.tokenize(texts), layers)
        variances = [head.predict(states, source)[1] for source in head.sources]
        logs = [np.log(np.maximum(each, 1e-12)) for each in variances]
        totals = [np.log(np.maximum(each.sum(axis=1), 1e-12)) for each in variances]
        numbers = np.column_stack([*totals, single.value(states), np.log(states.tokens), np.log(states.words)])
        return [model.sampler.directions(states.vectors), *logs, numbers]

    def _scaled(self, groups: list[Array64]) -> Array64:
        """Give each group of features the same weight, and each single number as much as a twentieth of one."""
        scaled = [(group - mean) / sd for group, (mean, sd) in zip(groups, self.scales_, strict=True)]
        wide = [group / np.sqrt(group.shape[1]) * np.sqrt(20) for group in scaled[:-1]]
        return np.concatenate([*wide, scaled[-1]], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        return tags


def _squares(a: Array64, b: Array64) -> Array64:
    """Return all squared distances, (n, m)."""
    return np.asarray(np.maximum((a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T, 0))
