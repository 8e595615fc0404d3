"""A classifier for a handful of labels, with the methods of a scikit-learn estimator; and its file format."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike, NDArray

from sen2pro import __version__
from sen2pro.classification import saved as files
from sen2pro.classification.finetune import FineTuning, Part, fine_tuned
from sen2pro.classification.heads import (
    C_VALUES,
    FEATURES,
    HEADS,
    Choice,
    Fold,
    Options,
    Scaling,
    Weights,
    choose,
    folds,
    probabilities,
)
from sen2pro.classification.labels import (
    Sentences,
    check_classes,
    check_inputs,
    check_labels,
    check_validation,
    to_numbers,
)
from sen2pro.errors import HeadMissing, Sen2ProError, one_of, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, new_folder
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.settings import DEFAULT_MODEL, METHODS, WITHOUT_SAMPLES, Settings, check_method
from sen2pro.signature import Signature, check_comparable
from sen2pro.validation import Array64, Labels, check_whole

Answers = Sequence[object] | NDArray[np.generic]
Labelled = tuple[Sentences, Answers]
_CHUNK = 2048  # sentences whose features are in memory at once when predicting
_PARAMETERS = ("model", "method", "samples", "uncertainty", "features", "head", "C", "seed", "finetune")


class Sen2ProClassifier:
    """Classify sentences from a few labelled ones, with their distributions as features.

    A linear head is fitted on the Gaussians of a frozen encoder, in seconds. It is trained, and it predicts, on
    average over each sentence's distribution. Whatever is not given is chosen by cross-validation.

    After `fit`, `classes_` has the sorted labels, `choice_` the chosen settings with their log-loss and accuracy on
    rows not trained on, and `settings_` the settings in use (those of `set_params` count from the next fit on).

    It is a scikit-learn classifier by its methods: clones, pipelines and searches take it. It predicts without
    scikit-learn.

    Parameters
    ----------
    model
        Hub id or folder of the encoder, or a `Sen2Pro`, whose own settings then count.
    method, samples, uncertainty
        As for `Sen2Pro`; the method `auto` is one pass if the model has a head, else sampling.
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
        Train the encoder too: True, or the settings of the training (`FineTuning`). Minutes to hours.

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
    _cache: EncoderCache  # shared with all clones

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
        options, settings = _options(self.get_params()), self.get_params(deep=False)
        sentences = check_inputs(X)
        if not len(sentences):
            raise Sen2ProError("there are no sentences to learn from")
        labels = check_labels(y, len(sentences))
        classes = check_classes(labels, choose=validation is None)
        numbers, held_out = to_numbers(labels, classes), check_validation(validation, classes)
        encoder: Sen2Pro | None = None
        if self.finetune:
            encoder, gaussian, choice = self._fine_tuned(
                _part(sentences, numbers), held_out and _part(*held_out), options, show_progress_bar
            )
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
            choice = choose(judged, len(classes), options, self.seed).choice
        self.scaling_, self.weights_ = choice.fit(gaussian, numbers, len(classes), self.seed)
        self.classes_, self.choice_, self.settings_, self._encoder = classes, choice, settings, encoder
        self.signature_, self.n_features_in_ = gaussian.signature, gaussian.dim
        return self

    def _fine_tuned(
        self, every: Part, held_out: Part | None, options: Options, show: Show
    ) -> tuple[Sen2Pro, Gaussian, Choice]:
        """Train a copy of the encoder; it encodes in one pass unless sampling was asked for."""
        given, settings = self.model, self.finetune if isinstance(self.finetune, FineTuning) else FineTuning()
        how: dict[str, Any] = {"samples": self.samples, "uncertainty": self.uncertainty, "seed": self.seed}
        method, model = (given.method, given) if isinstance(given, Sen2Pro) else (self.method, Sen2Pro(given, **how))
        return fine_tuned(
            model, one_pass=method != "sampling", settings=settings, every=every, held_out=held_out, options=options,
            seed=self.seed, show=show,
        )  # fmt: skip

    def predict_proba(self, X: Sentences, *, show_progress_bar: Show = None) -> Array64:
        """Return the probability of each class (n, classes), averaged over the sentences' distributions."""
        self._check_fitted()
        sentences = check_inputs(X)
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
        self._check_fitted()
        sentences = check_inputs(X)
        if not len(sentences):
            raise Sen2ProError("there are no sentences to judge by")
        truth = to_numbers(check_labels(y, len(sentences)), self.classes_)
        right = self.predict_proba(sentences).argmax(axis=1) == truth
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    @property
    def encoder(self) -> Sen2Pro:
        """The model that encodes; loaded when it is first needed."""
        if not hasattr(self, "weights_"):
            _options(self.get_params())
            return self._load(self.get_params(deep=False))
        if self._encoder is None:
            self._encoder = self._load(self.settings_)
        return self._encoder

    def _load(self, settings: Mapping[str, Any]) -> Sen2Pro:
        """Return the encoder of these settings: the given one, that which was loaded last, or a new one."""
        cache: EncoderCache = self.__dict__.setdefault("_cache", EncoderCache())
        return cache.load(*(settings[name] for name in ("model", "method", "samples", "uncertainty", "seed")))

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

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(sentences, labels) first")

    def save(self, folder: str | Path) -> None:
        """Write the classifier to a new folder: some kilobytes per class, and the encoder if it was fine-tuned."""
        self._check_fitted()
        given, scaling, tuned = dict(self.settings_), self.scaling_, None
        model = given.pop("model")
        if isinstance(model, Sen2Pro):  # a fine-tuned encoder is saved, and its origin is not needed
            model = None if given["finetune"] else files.recipe(model)
        else:  # a folder must be found from anywhere
            is_folder = any((Path(model) / file).is_file() for file in ("config.json", "modules.json"))
            model = str(Path(model).resolve() if is_folder else model)
        learned = {**vars(scaling), **vars(self.weights_)}
        with new_folder(folder) as temporary:
            if given["finetune"]:
                self.encoder.save(temporary / files.ENCODER)
                tuned = files.digests_of(temporary / files.ENCODER)
            saved = files.SavedClassifier(
                format=files.FORMAT, version=__version__, model=model, settings=files.FitSettings(**given),
                classes=self.classes_.tolist(), choice=self.choice_, features=scaling.features,
                mean_scale=scaling.mean_scale, variance_scale=scaling.variance_scale, signature=self.signature_,
                encoder=tuned,
            )  # fmt: skip
            bundle.save(temporary, files.NAME, saved, {name: learned[name] for name in files.NUMBERS})

    @classmethod
    def load(cls, folder: str | Path, *, model: str | Path | Sen2Pro | None = None) -> Sen2ProClassifier:
        """Read a folder that `save` wrote. It may come from anyone: no code of it is run, nothing is fetched for it.

        `model` is the encoder that it was trained with: its name, its folder or a `Sen2Pro`. Leave it out for the
        default model, and for a fine-tuned encoder, which is in the folder. A folder may not choose where any other
        weights come from; the error names the model that you need.
        """
        path = check_path(folder)
        for name in (f"{files.NAME}.json", f"{files.NAME}.safetensors"):
            if not (path / name).is_file():
                raise Sen2ProError(f"there is no classifier in {path}: {name} is missing")
        try:
            saved, arrays = files.read(path)
            settings = structs.asdict(saved.settings)
            _options({**settings, "model": DEFAULT_MODEL})  # checks them
        except Sen2ProError as error:
            raise Sen2ProError(f"the classifier in {path} cannot be read: {error}; train it again") from None
        classifier = cls(files.model_of(saved, path, model), **settings)
        classifier.settings_ = classifier.get_params()
        classifier.classes_, classifier.choice_ = np.array(saved.classes), saved.choice
        classifier.weights_ = Weights(arrays["matrix"], arrays["bias"])
        classifier.scaling_ = Scaling(
            saved.features, arrays["mean_centre"], saved.mean_scale, arrays["variance_centre"], saved.variance_scale
        )
        classifier.n_features_in_, classifier.signature_ = len(arrays["mean_centre"]), saved.signature
        classifier._encoder = Sen2Pro.load(path / files.ENCODER) if saved.encoder else None
        return classifier

    # The methods by which scikit-learn knows an estimator.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; `deep` is for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **settings: Any) -> Sen2ProClassifier:
        """Change settings; they count from the next fit on."""
        for name, value in settings.items():
            setattr(self, one_of("setting", name, _PARAMETERS), value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        inputs = InputTags(two_d_array=False, string=True)
        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags(), input_tags=inputs)

    def __sklearn_clone__(self) -> Sen2ProClassifier:
        settings = self.get_params()
        clone = type(self)(settings.pop("model"), **copy.deepcopy(settings))
        clone._cache = self.__dict__.setdefault("_cache", EncoderCache())
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Sen2ProClassifier:
        copied, shared = type(self).__new__(type(self)), {"model", "settings_", "_encoder", "_cache"}
        for name, value in self.__dict__.items():
            copied.__dict__[name] = value if name in shared else copy.deepcopy(value, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        is_loaded_again = hasattr(self, "weights_") and not self.settings_["finetune"]
        return {**self.__dict__, "_encoder": None} if is_loaded_again else self.__dict__


def _options(given: Mapping[str, Any]) -> Options:
    """Check all settings, and return what there is to choose from."""
    model, C, finetune = given["model"], given["C"], given["finetune"]
    if model is None:
        raise Sen2ProError(
            "this classifier came from a folder, which may not choose where weights come from; to fit it again, "
            "name the model to start from: set_params(model=...)"
        )
    if not isinstance(model, (str, Path, Sen2Pro)):
        raise Sen2ProError(f"model is a name, a folder or a Sen2Pro, not {type(model).__name__}")
    check_whole("seed", given["seed"], 0)
    check_method(given["method"], ("auto", *METHODS))
    Settings(model, samples=given["samples"], uncertainty=given["uncertainty"], seed=given["seed"])  # checks them
    one_of("features", given["features"], ("auto", *FEATURES))
    one_of("head", given["head"], ("auto", *HEADS))
    real = isinstance(C, Real) and not isinstance(C, bool)
    if C is not None and not (real and 0 < float(C) < 1e300):
        raise Sen2ProError(f"C must be a number above 0, or None to have it chosen, not {short_repr(C)}")
    if not isinstance(finetune, (bool, FineTuning)):
        raise Sen2ProError(f"finetune is True, False or a FineTuning, not {short_repr(finetune)}")
    return Options(
        FEATURES if given["features"] == "auto" else (given["features"],),
        HEADS if given["head"] == "auto" else (given["head"],),
        C_VALUES if C is None else (float(C),),
    )


class EncoderCache:
    """The encoder that was loaded last.

    The clones of an estimator share it, since a copy for each fold would take its space again. Pickles leave it behind.
    """

    def __init__(self) -> None:
        self._last: tuple[str, Sen2Pro] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return EncoderCache, ()

    def load(
        self, model: str | Path | Sen2Pro, method: str = "auto", samples: int | tuple[int, int] | None = None,
        uncertainty: str = "both", seed: int = 0,
    ) -> Sen2Pro:  # fmt: skip
        """Load a model; the method `auto` is one pass if there is a head for it, else sampling."""
        if isinstance(model, Sen2Pro):
            return model
        about = str((model, method, samples, uncertainty, seed))
        if self._last is None or self._last[0] != about:
            self._last = about, _open(str(model), method, samples, uncertainty=uncertainty, seed=seed)
        return self._last[1]


def _open(model: str, method: str, samples: int | tuple[int, int] | None, **settings: Any) -> Sen2Pro:
    if method == "auto":
        with suppress(HeadMissing):
            return Sen2Pro(model, method="one-pass", **settings)
        method = "sampling"
    return Sen2Pro(model, method=method, samples=None if method in WITHOUT_SAMPLES else samples, **settings)


def _part(sentences: list[str] | Gaussian, labels: Labels) -> Part:
    if isinstance(sentences, Gaussian):
        raise Sen2ProError("to train the encoder it takes the sentences, not their Gaussians")
    return Part(sentences, labels)


def _encoded(sentences: list[str] | Gaussian, encoder: Sen2Pro | None, show: Show) -> Gaussian:
    if isinstance(sentences, Gaussian):
        return sentences
    assert encoder is not None
    return encoder.encode(sentences, show_progress_bar=show)
