"""Fine-tune a classifier: train the encoder, choose by sentences that it was not trained on, and fit the head.

A validation set, or a part of the sentences that is held out, says what is best; in the second case the encoder is then
trained anew on all of them. A head is fitted on its Gaussians, and one that gives these in one pass.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification.choosing import Choice, Fold, choose
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Weights, fit
from sen2pro.classification.training import FineTuning, Part, Trainer
from sen2pro.errors import Sen2ProError
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.sampling.edits import edit
from sen2pro.types import Labels

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FEWEST_JUDGES, _JUDGES = 40, 200  # sentences by which an epoch is judged; with fewer, chance would decide
_UNJUDGED_EPOCHS, _UNJUDGED_C = 6, 0.01  # where nothing is chosen; set on the validation sets of AG News and IMDB
_CORPUS, _TEACHER = 256, 8  # sentences and samples from which one pass is learnt for the trained encoder


def fine_tuned(
    classifier: Sen2ProClassifier,
    texts: list[str],
    numbers: Labels,
    held_out: tuple[list[str], Labels] | None,
    classes: int,
    choices: Mapping[str, Sequence[Any]],
    show: Show,
) -> tuple[Sen2Pro, Scaling, Weights, Choice]:
    """Return a fine-tuned copy of the encoder, and the head for it; `choices` is what there is to choose from."""
    settings = classifier.finetune if isinstance(classifier.finetune, FineTuning) else FineTuning()
    every = Part(texts, numbers)
    train, judges = _split(every, settings.held_out, classifier.seed) if held_out is None else (every, Part(*held_out))
    model, one_pass = _own_copy(classifier)
    trainers = [Trainer(model, settings, classifier.seed)]
    judged = len(judges.texts) >= FEWEST_JUDGES
    if judged:
        epochs = trainers[0].run(train, judges.only(_some(judges)), classes, show)
    else:
        epochs, choices = settings.epochs or _UNJUDGED_EPOCHS, _simple(choices)
        trainers[0].repeat(train, epochs, show, falling=True)
    if one_pass and (held_out is not None or len(texts) >= _CORPUS):  # for fewer, samples cost less than a head
        _learn_one_pass(model, [*train.texts, *judges.texts], show)
    gaussian, other = (model.encode(part.texts, show_progress_bar=show) for part in (train, judges))
    parts = [Fold(gaussian, train.labels, other, judges.labels)]
    choice = choose(parts, classes, **choices, seed=classifier.seed).choice
    if held_out is None:  # all is chosen: the same again, with every sentence
        model, _ = _own_copy(classifier)
        trainers.append(Trainer(model, settings, classifier.seed))
        trainers[1].repeat(every, epochs, show, falling=not judged)
        if one_pass:
            _learn_one_pass(model, every.texts, show)
        gaussian = model.encode(every.texts, show_progress_bar=show)
    scaling = Scaling.fit(gaussian, choice.features)
    weights = fit(scaling(gaussian), numbers, classes, choice.head, choice.C, seed=classifier.seed)
    classifier._checkpoints = [trainer.checkpoint for trainer in trainers if trainer.checkpoint is not None]
    return model, scaling, weights.cooled(choice.temperature), choice


def _simple(choices: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Fix every option but the temperature when validation data is scarce."""
    only = {name: options[:1] for name, options in choices.items()}
    return only if len(choices["c_values"]) == 1 else {**only, "c_values": (_UNJUDGED_C,)}


def _split(every: Part, share: float, seed: int) -> tuple[Part, Part]:
    """Return what to train on and what to judge by: some sentences of each class."""
    rng = np.random.default_rng(seed)
    out = np.zeros(len(every.labels), bool)
    for label in np.unique(every.labels):
        rows = rng.permutation(np.flatnonzero(every.labels == label))
        out[rows[: max(1, min(len(rows) - 1, round(share * len(rows))))]] = True
    return every.only(np.flatnonzero(~out)), every.only(np.flatnonzero(out))


def _some(part: Part) -> NDArray[np.int64]:
    """Return the rows by which epochs are judged: all, or some of each class."""
    order = np.argsort(part.labels, kind="stable")
    return np.asarray(np.sort(order[_evenly(len(order), _JUDGES)]))


def _evenly(total: int, most: int) -> NDArray[np.int64]:
    return np.linspace(0, total - 1, min(total, most)).astype(np.int64)


def _own_copy(classifier: Sen2ProClassifier) -> tuple[Sen2Pro, bool]:
    """Return a model whose network may be changed, and whether it shall encode in one pass; the user's own stays."""
    given = classifier.model
    method = given.method if isinstance(given, Sen2Pro) else classifier.method
    if method == "shrinkage":
        raise Sen2ProError("method='shrinkage' cannot be fine-tuned; use 'auto' or 'sampling'")
    loaded = given if isinstance(given, Sen2Pro) else _loaded(classifier)
    if loaded.whitening or loaded.encoder.truncate_dim:
        raise Sen2ProError("an encoder with a whitening or with cut dimensions cannot be fine-tuned")
    return _copied(loaded) if loaded is given else loaded, method != "sampling"


def _loaded(classifier: Sen2ProClassifier) -> Sen2Pro:
    return Sen2Pro(
        str(classifier.model), samples=classifier.samples, uncertainty=classifier.uncertainty, seed=classifier.seed
    )


def _copied(given: Sen2Pro) -> Sen2Pro:
    """Return the same model with a network of its own, which samples."""
    own = {"model": copy.deepcopy(given.encoder.source), "tokenizer": given.encoder.tokenizer}
    return Sen2Pro.from_settings(given.settings.changed(**own, method="sampling", head=None))


def _learn_one_pass(model: Sen2Pro, texts: list[str], show: Show) -> None:
    """Fit a head for one pass on the sentences at hand and edited copies of them; without enough, keep on sampling."""
    chosen = [texts[i] for i in _evenly(len(texts), _CORPUS)]
    corpus = dict.fromkeys(chosen)
    vocabulary = model.vocabulary
    for number in range(_CORPUS):
        if len(corpus) >= _CORPUS:
            break
        corpus.update(dict.fromkeys(edit(model.encoder.seen(text), vocabulary, model.seed, number) for text in chosen))
    if len(corpus) >= _CORPUS:
        model.distill(list(corpus)[:_CORPUS], samples=_TEACHER, show_progress_bar=show, verbose=False)
