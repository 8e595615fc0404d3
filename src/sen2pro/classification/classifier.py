"""A classifier for a handful of labels, in scikit-learn's manner."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sen2pro.classification import saving
from sen2pro.classification.checkpoints import Checkpoint
from sen2pro.classification.choosing import C_VALUES, Fold, choose, folds
from sen2pro.classification.heads import FEATURES, HEADS, probabilities
from sen2pro.classification.labels import check_classes, check_labels, to_numbers
from sen2pro.classification.training import FineTuning, Part, fine_tuned
from sen2pro.errors import HeadMissing, Sen2ProError, one_of, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.io.atomic import check_path
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.settings import DEFAULT_MODEL, METHODS, WITHOUT_SAMPLES, Settings, check_method
from sen2pro.signature import Signature, check_comparable
from sen2pro.validation import Array64, Labels, as_list, check_sentences, check_whole

Sentences = Sequence[str] | Gaussian
Answers = Sequence[Any] | NDArray[Any]
Labelled = tuple[Sentences, Answers]
_CHUNK = 2048  # sentences whose features are in memory at once when predicting


class Sen2ProClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify sentences from a few labelled ones, with their distributions as features.

    A linear head is fitted on the Gaussians of a frozen encoder, in seconds. It is trained, and it predicts, on
    average over each sentence's distribution. Whatever is not given is chosen by cross-validation.

    After `fit`, `classes_` has the sorted labels, `choice_` what was chosen, with its log-loss and accuracy on rows not
    trained on, and `settings_` the settings in use (those of `set_params` count from the next fit on).

    Parameters
    ----------
    model
        Hub id or folder of the encoder, or a `Sen2Pro`, whose own settings then count.
    method, samples, uncertainty
        As for `Sen2Pro`; the method `auto` is one pass where the model has a head, else sampling.
    features
        `mean`, or the paper's concatenation `mean+variance`; `auto` takes the simplest that is as good as the best.
    head
        `expected` (the loss is averaged over the distribution in closed form) or `sampled` (over reparameterised
        samples, mean + std * eps); `auto` takes the first unless the other is better.
    C
        Inverse strength of regularisation, as for scikit-learn's `LogisticRegression`; None takes the best.
    seed
        Makes the result reproducible.
    finetune
        Train the encoder too: True, or a `FineTuning` that says how. Minutes to hours.

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

    _encoder: Sen2Pro | None  # with which it was fitted, once it is loaded
    _cache: dict[str, Sen2Pro]  # the encoder that was loaded last, shared with all clones
    _checkpoints: list[Checkpoint]  # of the training that is not saved yet

    def __init__(
        self,
        model: str | Path | Sen2Pro = DEFAULT_MODEL,
        *,
        method: str = "auto",
        samples: int | tuple[int, int] | None = None,
        uncertainty: str = "both",
        features: str = "auto",
        head: str = "auto",
        C: float | None = None,
        seed: int = 0,
        finetune: bool | FineTuning = False,
    ) -> None:
        self.model, self.method, self.samples, self.uncertainty = model, method, samples, uncertainty
        self.features, self.head, self.C, self.seed, self.finetune = features, head, C, seed, finetune

    def fit(
        self, X: Sentences, y: Answers, *, validation: Labelled | None = None, show_progress_bar: Show = None
    ) -> Sen2ProClassifier:
        """Learn from sentences (or their Gaussians) and their labels: texts, whole numbers or truth values.

        `validation` has further sentences and labels to choose by. Without them, settings are chosen by
        cross-validation, or to train the encoder, on a part of X. The progress bar is that of `Sen2Pro.encode`.
        """
        choices, settings = self._checked_settings(), self.get_params(deep=False)
        sentences = _checked(X)
        if not len(sentences):
            raise Sen2ProError("there are no sentences to learn from")
        labels = check_labels(y, len(sentences))
        classes = check_classes(labels, choose=validation is None)
        numbers, held_out = to_numbers(labels, classes), _checked_validation(validation, classes)
        encoder: Sen2Pro | None = None
        if self.finetune:
            parts = _part(sentences, numbers), held_out and _part(*held_out)
            encoder, gaussian, choice = fine_tuned(self, *parts, choices, show_progress_bar)
        else:
            if isinstance(sentences, list) or (held_out and isinstance(held_out[0], list)):
                encoder = self._load(settings)
            gaussian = _encoded(sentences, encoder, show_progress_bar)
            if held_out is None:
                judged = folds(gaussian, numbers, self.seed)
            else:
                other = _encoded(held_out[0], encoder, show_progress_bar)
                self._check_fits(other, gaussian.dim, gaussian.signature, "the validation set")
                judged = [Fold(gaussian, numbers, other, held_out[1])]
            choice = choose(judged, len(classes), **choices, seed=self.seed).choice
        self.scaling_, self.weights_ = choice.fit(gaussian, numbers, len(classes), self.seed)
        self.classes_, self.choice_, self.settings_, self._encoder = classes, choice, settings, encoder
        self.signature_, self.n_features_in_ = gaussian.signature, gaussian.dim
        return self

    def _checked_settings(self) -> dict[str, Sequence[Any]]:
        """Check all settings, and return what there is to choose from."""
        if self.model is None:
            raise Sen2ProError(
                "this classifier came from a folder, which may not choose where weights come from; to fit it again, "
                "name the model to start from: set_params(model=...)"
            )
        if not isinstance(self.model, (str, Path, Sen2Pro)):
            raise Sen2ProError(f"model is a name, a folder or a Sen2Pro, not {type(self.model).__name__}")
        check_whole("seed", self.seed, 0)
        Settings(self.model, samples=self.samples, uncertainty=self.uncertainty, seed=self.seed)  # checks them
        check_method(self.method, ("auto", *METHODS))
        one_of("features", self.features, ("auto", *FEATURES))
        one_of("head", self.head, ("auto", *HEADS))
        real = isinstance(self.C, Real) and not isinstance(self.C, bool)
        if self.C is not None and not (real and 0 < float(self.C) < 1e300):
            raise Sen2ProError(f"C must be a number above 0, or None to have it chosen, not {short_repr(self.C)}")
        if not isinstance(self.finetune, (bool, FineTuning)):
            raise Sen2ProError(f"finetune is True, False or a FineTuning, not {short_repr(self.finetune)}")
        return {
            "features": FEATURES if self.features == "auto" else (self.features,),
            "heads": HEADS if self.head == "auto" else (self.head,),
            "c_values": C_VALUES if self.C is None else (float(self.C),),
        }

    def predict_proba(self, X: Sentences, *, show_progress_bar: Show = None) -> Array64:
        """Return the probability of each class (n, classes), averaged over the sentences' distributions."""
        check_is_fitted(self, "weights_")
        sentences = _checked(X)
        encoder = None if isinstance(sentences, Gaussian) else self.encoder
        gaussian = _encoded(sentences, encoder, show_progress_bar)
        self._check_fits(gaussian, self.n_features_in_, self.signature_, "X")
        chunks = (gaussian[start : start + _CHUNK] for start in range(0, max(1, len(gaussian)), _CHUNK))
        return np.concatenate([probabilities(self.scaling_(chunk), self.weights_) for chunk in chunks])

    def predict(self, X: Sentences, *, show_progress_bar: Show = None) -> NDArray[Any]:
        """Return the most probable class of each sentence (n,)."""
        best = self.predict_proba(X, show_progress_bar=show_progress_bar).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Sentences, y: Answers, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of sentences whose class is predicted; a label that was never trained on is an error."""
        check_is_fitted(self, "weights_")
        sentences = _checked(X)
        if not len(sentences):
            raise Sen2ProError("there are no sentences to judge by")
        truth = to_numbers(check_labels(y, len(sentences)), self.classes_)
        right = self.predict_proba(sentences).argmax(axis=1) == truth
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    @property
    def encoder(self) -> Sen2Pro:
        """The model that encodes; loaded when it is first needed."""
        if not hasattr(self, "weights_"):
            self._checked_settings()
            return self._load(self.get_params(deep=False))
        if self._encoder is None:
            self._encoder = self._load(self.settings_)
        return self._encoder

    def _load(self, settings: Mapping[str, Any]) -> Sen2Pro:
        """Return the encoder of these settings: the given one, that which was loaded last, or a new one."""
        how = [settings[name] for name in ("model", "method", "samples", "uncertainty", "seed")]
        if isinstance(how[0], Sen2Pro):
            return load_encoder(*how)
        cache: dict[str, Sen2Pro] = self.__dict__.setdefault("_cache", {})
        if str(how) not in cache:
            encoder = load_encoder(*how)
            cache.clear()
            cache[str(how)] = encoder
        return cache[str(how)]

    def _check_fits(self, gaussian: Gaussian, dim: int, trained: Signature | None, what: str) -> None:
        if gaussian.dim != dim:
            raise Sen2ProError(
                f"{what} has {gaussian.dim} features, but {type(self).__name__} is expecting {dim} features as input: "
                f"it was trained on Gaussians of {dim} dimensions"
            )
        try:
            check_comparable(trained, gaussian.signature)
        except Sen2ProError as error:
            raise Sen2ProError(f"{what} does not fit the classifier: {error}, or fit again") from None

    def save(self, folder: str | Path) -> None:
        """Write the classifier to a new folder: some kilobytes a class, and the encoder if it was fine-tuned.

        Checkpoints of its training are deleted once it is saved.
        """
        check_is_fitted(self, "weights_")
        saving.save(self, Path(folder))
        for checkpoint in self.__dict__.pop("_checkpoints", []):
            checkpoint.delete()

    @classmethod
    def load(cls, folder: str | Path, *, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
        """Read what `save` wrote. The folder may come from anyone: no code of it is run, and nothing is fetched for it.

        `model` is the encoder that it was trained with: its name, its folder or a `Sen2Pro`. Leave it out for the
        default model, and for a fine-tuned encoder, which is in the folder. A folder may not choose where any other
        weights come from; the error names the model that you need.
        """
        return saving.load(cls, check_path(folder), model)

    def __sklearn_clone__(self) -> Sen2ProClassifier:
        settings = self.get_params(deep=False)
        clone = type(self)(settings.pop("model"), **copy.deepcopy(settings))
        # The encoder is shared: it does not change, and copying it would take its space once for each fold.
        clone._cache = self.__dict__.setdefault("_cache", {})
        return clone

    def __copy__(self) -> Sen2ProClassifier:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Sen2ProClassifier:
        copied = copy.copy(self)
        own = self.__dict__.keys() - {"model", "settings_", "_encoder", "_cache", "_checkpoints"}
        copied.__dict__ |= {name: copy.deepcopy(self.__dict__[name], memo) for name in own}
        return copied

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_cache", None)
        state.pop("_checkpoints", None)
        if "weights_" in state and not self.settings_["finetune"]:
            state["_encoder"] = None  # it is loaded again when it is needed
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        return tags


def load_encoder(
    model: str | Path | Sen2Pro, method: str, samples: int | tuple[int, int] | None, uncertainty: str, seed: int
) -> Sen2Pro:
    """Load a model; the method `auto` is one pass where there is a head for it, else sampling."""
    if not isinstance(model, Sen2Pro):
        settings: dict[str, Any] = {"uncertainty": uncertainty, "seed": seed}
        if method == "auto":
            with suppress(HeadMissing):
                return Sen2Pro(str(model), method="one-pass", **settings)
            method = "sampling"
        number = None if method in WITHOUT_SAMPLES else samples
        model = Sen2Pro(str(model), method=method, samples=number, **settings)
    return model


def _checked(X: Any) -> list[str] | Gaussian:
    """Return a list of sentences, also from an array or a column of a table, or the batch of Gaussians."""
    if isinstance(X, Gaussian):
        if len(X.shape) != 2:
            raise Sen2ProError(f"give a batch of Gaussians (n, k), not a single one of shape {X.shape}")
        return X
    if isinstance(X, str):
        raise Sen2ProError("give a list of sentences or a batch of Gaussians, not a single text")
    texts = as_list(X, "a list of sentences or a batch of Gaussians")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise Sen2ProError(
                f"sentence {row} is not a text but {type(text).__name__}: {short_repr(text)}; give texts, or a batch "
                "of Gaussians itself: not its means, and not a list of them (Gaussian.concatenate makes one batch)"
            )
    return check_sentences(texts)


def _checked_validation(validation: Any, classes: NDArray[Any]) -> tuple[list[str] | Gaussian, Labels] | None:
    """Return further sentences and the numbers of their classes."""
    if validation is None:
        return None
    if not isinstance(validation, (tuple, list)) or len(validation) != 2 or isinstance(validation[0], str):
        raise Sen2ProError(f"validation is a pair (sentences, labels), not {short_repr(validation)}")
    sentences = _checked(validation[0])
    if not len(sentences):
        raise Sen2ProError("there are no sentences in the validation set; leave it out to choose by cross-validation")
    return sentences, to_numbers(check_labels(validation[1], len(sentences)), classes, "validation label")


def _part(sentences: list[str] | Gaussian, labels: Labels) -> Part:
    if isinstance(sentences, Gaussian):
        raise Sen2ProError("to train the encoder it takes the sentences, not their Gaussians")
    return Part(sentences, labels)


def _encoded(sentences: list[str] | Gaussian, encoder: Sen2Pro | None, show: Show) -> Gaussian:
    if isinstance(sentences, Gaussian):
        return sentences
    assert encoder is not None
    return encoder.encode(sentences, show_progress_bar=show)
