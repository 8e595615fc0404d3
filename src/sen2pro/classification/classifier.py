"""A classifier for a handful of labels, in scikit-learn's manner."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sen2pro.classification import saving
from sen2pro.classification.choosing import PENALTIES, Choice, Part, choose, folds
from sen2pro.classification.features import FEATURES, Scaling
from sen2pro.classification.finetune import FineTuning, fine_tuned
from sen2pro.classification.heads import HEADS, Weights, fit, probabilities
from sen2pro.classification.labels import check_classes, check_labels, to_numbers
from sen2pro.classification.loading import load_encoder
from sen2pro.errors import Sen2ProError, one_of
from sen2pro.gaussian import Array64, Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.resolve import DEFAULT_MODEL
from sen2pro.signature import Signature, check_comparable

Sentences = Sequence[str] | Gaussian
Answers = Sequence[Any] | NDArray[Any]


class Sen2ProClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify sentences from a few labelled ones, with their distributions as features.

    A linear head is fitted on the Gaussians of a frozen encoder, in seconds. It is trained, and it predicts, on
    average over each sentence's distribution. Whatever is not given is chosen by cross-validation.

    Parameters
    ----------
    model
        Hub id or folder of the encoder, or a `Sen2Pro`, whose own settings then count.
    method
        `one-pass`, `sampling` or `shrinkage` as for `Sen2Pro`; `auto` is one pass where the model has a head, else
        sampling.
    samples, uncertainty
        As for `Sen2Pro`.
    features
        `mean`, or the paper's concatenation `mean+variance`; `auto` takes the better.
    head
        `expected` (the loss is averaged over the distribution in closed form) or `sampled` (over reparameterised
        samples, mean + std * eps); `auto` takes the better.
    C
        Inverse strength of regularisation, as for scikit-learn's `LogisticRegression`; None takes the best.
    seed
        Makes the result reproducible.
    finetune
        Train the encoder too, with the gradient through reparameterised samples: True, or a `FineTuning` that says how.
        Minutes to hours; the encoder is then sampled.

    Attributes
    ----------
    classes_
        The labels, sorted.
    choice_
        What was chosen, with its log-loss on rows that were not trained on.
    n_features_in_
        Dimensions of a Gaussian.

    Examples
    --------
    >>> texts = ["The match ended in a draw.", "She won the final set.", "Their striker scored twice.",
    ...     "Shares fell on Monday.", "The bank raised its rates.", "Profits rose this quarter."]
    >>> classifier = Sen2ProClassifier().fit(texts, ["sport"] * 3 + ["money"] * 3)
    >>> classifier.predict(["The goalkeeper was injured.", "Investors sold their stocks."]).tolist()
    ['sport', 'money']
    >>> classifier.predict_proba(["The goalkeeper was injured."]).shape
    (1, 2)
    """

    classes_: NDArray[Any]
    choice_: Choice
    scaling_: Scaling
    weights_: Weights
    signature_: Signature | None
    n_features_in_: int
    _loaded: Sen2Pro

    def __init__(
        self,
        model: str | Path | Sen2Pro = DEFAULT_MODEL,
        *,
        method: str = "auto",
        samples: int | tuple[int, int] = 15,
        uncertainty: str = "both",
        features: str = "auto",
        head: str = "auto",
        C: float | None = None,
        seed: int = 0,
        finetune: bool | FineTuning = False,
    ) -> None:
        self.model = model
        self.method = method
        self.samples = samples
        self.uncertainty = uncertainty
        self.features = features
        self.head = head
        self.C = C
        self.seed = seed
        self.finetune = finetune

    def fit(
        self,
        X: Sentences,
        y: Answers,
        *,
        validation: tuple[Sentences, Answers] | None = None,
        show_progress_bar: Show = None,
    ) -> Sen2ProClassifier:
        """Learn from sentences (or their Gaussians) and their labels.

        Parameters
        ----------
        X, y
            Sentences and labels (texts, whole numbers or truth values), as many of each.
        validation
            Further sentences and labels to choose by, in place of cross-validation.
        show_progress_bar
            As for `Sen2Pro.encode`.
        """
        names = self._checked_settings()
        labels = check_labels(y, _count(X))
        self.classes_ = check_classes(labels, choose=validation is None)
        numbers = to_numbers(labels, self.classes_)
        self.__dict__.pop("_loaded", None)
        if self.finetune:
            if isinstance(X, Gaussian) or (validation is not None and isinstance(validation[0], Gaussian)):
                raise Sen2ProError("to train the encoder it takes the sentences, not their Gaussians")
            held_out = None
            if validation is not None:
                held = _sentences(validation[0])
                held_out = held, to_numbers(check_labels(validation[1], len(held)), self.classes_, "validation label")
            self._loaded, self.scaling_, self.weights_, self.choice_ = fine_tuned(
                self, _sentences(X), numbers, held_out, len(self.classes_), show_progress_bar
            )
            self.signature_ = self._loaded.signature()
            self.n_features_in_ = self._loaded.dim
            return self
        gaussian = self._gaussian(X, show_progress_bar)
        self.signature_, self.n_features_in_ = gaussian.signature, gaussian.dim
        parts = self._parts(gaussian, numbers, validation, show_progress_bar)
        self.choice_ = choose(parts, len(self.classes_), **names, seed=self.seed)
        self.scaling_ = Scaling.fit(gaussian, self.choice_.features)
        found = fit(
            self.scaling_(gaussian), numbers, len(self.classes_), self.choice_.head, self.choice_.C, seed=self.seed
        )
        self.weights_ = found.scaled(self.choice_.temperature)
        return self

    def _checked_settings(self) -> dict[str, Sequence[Any]]:
        """Return what there is to choose from."""
        one_of("features", self.features, ("auto", *FEATURES))
        one_of("head", self.head, ("auto", *HEADS))
        if self.C is not None and not (isinstance(self.C, (int, float)) and self.C > 0):
            raise Sen2ProError(f"C must be a number above 0, or None to have it chosen, not {self.C!r}")
        return {
            "features": FEATURES if self.features == "auto" else (self.features,),
            "heads": HEADS if self.head == "auto" else (self.head,),
            "penalties": PENALTIES if self.C is None else (float(self.C),),
        }

    def _parts(
        self,
        gaussian: Gaussian,
        numbers: NDArray[np.int64],
        validation: tuple[Sentences, Answers] | None,
        show: Show,
    ) -> list[Part]:
        if validation is None:
            return folds(gaussian, numbers, self.seed)
        X, y = validation
        held_out = to_numbers(check_labels(y, _count(X)), self.classes_, "validation label")
        other = self._gaussian(X, show)
        check_comparable(gaussian.signature, other.signature)
        return [Part(gaussian, numbers, other, held_out)]

    def predict_proba(self, X: Sentences, *, show_progress_bar: Show = None) -> Array64:
        """Return the probability of each class (n, classes), averaged over the sentences' distributions."""
        check_is_fitted(self, "weights_")
        gaussian = self._gaussian(X, show_progress_bar)
        if gaussian.dim != self.n_features_in_:
            raise Sen2ProError(
                f"trained on Gaussians of {self.n_features_in_} dimensions, but these have {gaussian.dim}"
            )
        check_comparable(self.signature_, gaussian.signature)
        return probabilities(self.scaling_(gaussian), self.weights_)

    def predict(self, X: Sentences, *, show_progress_bar: Show = None) -> NDArray[Any]:
        """Return the most probable class of each sentence (n,)."""
        found = self.predict_proba(X, show_progress_bar=show_progress_bar)
        return np.asarray(self.classes_[found.argmax(axis=1)])

    @property
    def encoder(self) -> Sen2Pro:
        """The model that encodes; loaded when it is first needed."""
        if isinstance(self.model, Sen2Pro) and not self.finetune:
            return self.model
        if "_loaded" not in self.__dict__:
            if self.finetune and hasattr(self, "weights_"):
                raise Sen2ProError("the fine-tuned encoder does not travel in a pickle; use save and load")
            self._loaded = load_encoder(self.model, self.method, self.samples, self.uncertainty, self.seed)
        return self._loaded

    def _gaussian(self, X: Sentences, show: Show) -> Gaussian:
        """Return the Gaussians of sentences; ready-made ones as they are."""
        if not isinstance(X, Gaussian):
            return self.encoder.encode(_sentences(X), show_progress_bar=show)
        if len(X.shape) != 2:
            raise Sen2ProError(f"give a batch of Gaussians (n, k), not a single one of shape {X.shape}")
        return X

    def save(self, folder: str | Path) -> None:
        """Write the classifier to a new folder: a few hundred kilobytes, and the encoder if it was fine-tuned."""
        check_is_fitted(self, "weights_")
        saving.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
        """Read what `save` wrote; `model` says where the encoder is, if it is no longer where it was."""
        return saving.load(cls, Path(folder), model)

    def __sklearn_clone__(self) -> Sen2ProClassifier:
        # The encoder is shared: it does not change, and copying it would take its space once for each fold.
        settings = self.get_params(deep=False)
        shared = {name: value if name == "model" else copy.deepcopy(value) for name, value in settings.items()}
        clone = type(self)(**shared)
        if "_loaded" in self.__dict__ and not self.finetune:
            clone._loaded = self._loaded
        return clone

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_loaded", None)
        if isinstance(self.model, Sen2Pro):
            state.update(saving.reference(self.model))
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        return tags


def _sentences(X: Any) -> list[str]:
    """Return a list of sentences, from an array or a column of a table as well."""
    if isinstance(X, str):
        raise Sen2ProError("give a list of sentences, not one text")
    return list(X.tolist() if hasattr(X, "tolist") else X)


def _count(X: Any) -> int:
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise Sen2ProError(f"give a list of sentences or a batch of Gaussians, not {type(X).__name__}")
    return X.shape[0] if isinstance(X, Gaussian) else len(X)
