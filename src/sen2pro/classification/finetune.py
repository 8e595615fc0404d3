"""Fine-tune a classifier's encoder, and choose its head by sentences that the encoder was not trained on.

These are a validation set, or sentences held out; in the second case the encoder is then trained anew on all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification.choosing import Choice, Fold, choose
from sen2pro.classification.training import FineTuning, Part, Trainer
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show
from sen2pro.sampling.edits import edit

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

FEWEST_JUDGES, _JUDGES = 40, 200  # sentences by which an epoch is judged; with fewer, chance would decide
_UNJUDGED_EPOCHS, _UNJUDGED_C = 6, 0.01  # where nothing is chosen; set on the validation sets of AG News and IMDB
_CORPUS, _TEACHER = 256, 8  # sentences and samples from which one pass is learnt for the trained encoder


def fine_tuned(
    classifier: Sen2ProClassifier, every: Part, held_out: Part | None, choices: Mapping[str, Sequence[Any]], show: Show
) -> tuple[Sen2Pro, Gaussian, Choice]:
    """Return a fine-tuned copy of the encoder, its Gaussians of the sentences, and what was chosen among `choices`."""
    settings = classifier.finetune if isinstance(classifier.finetune, FineTuning) else FineTuning()
    classes, seed = int(every.labels.max()) + 1, classifier.seed
    train, judges = (every, held_out) if held_out else _split(every, settings.held_out, seed)
    model, one_pass = _own_copy(classifier)
    trainers = [Trainer(model, settings, seed)]
    judged = len(judges.texts) >= FEWEST_JUDGES
    if judged:
        some = _evenly(np.argsort(judges.labels, kind="stable"), _JUDGES)  # of each class
        epochs = trainers[0].run(train, judges.only(np.sort(some)), classes, show)
    else:  # these choose the temperature, and nothing else
        only = {name: options[:1] for name, options in choices.items()}
        choices = only if len(choices["c_values"]) == 1 else {**only, "c_values": (_UNJUDGED_C,)}
        epochs = settings.epochs or _UNJUDGED_EPOCHS
        trainers[0].repeat(train, epochs, show, falling=True)
    if one_pass and (held_out or len(every.texts) >= _CORPUS):  # for fewer, samples cost less than a head
        _learn_one_pass(model, [*train.texts, *judges.texts], show)
    gaussian, other = (model.encode(part.texts, show_progress_bar=show) for part in (train, judges))
    fold = Fold(gaussian, train.labels, other, judges.labels)
    choice = choose([fold], classes, **choices, seed=seed).choice
    if held_out is None:  # all is chosen: the same again, with every sentence
        model, _ = _own_copy(classifier)
        trainers.append(Trainer(model, settings, seed))
        trainers[1].repeat(every, epochs, show, falling=not judged)
        if one_pass:
            _learn_one_pass(model, every.texts, show)
        gaussian = model.encode(every.texts, show_progress_bar=show)
    classifier._checkpoints = [trainer.checkpoint for trainer in trainers if trainer.checkpoint is not None]
    return model, gaussian, choice


def _split(every: Part, share: float, seed: int) -> tuple[Part, Part]:
    """Return what to train on and what to judge by: some sentences of each class."""
    rng = np.random.default_rng(seed)
    out = np.zeros(len(every.labels), bool)
    for label in np.unique(every.labels):
        rows = rng.permutation(np.flatnonzero(every.labels == label))
        out[rows[: max(1, min(len(rows) - 1, round(share * len(rows))))]] = True
    return every.only(np.flatnonzero(~out)), every.only(np.flatnonzero(out))


def _evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64)]


def _own_copy(classifier: Sen2ProClassifier) -> tuple[Sen2Pro, bool]:
    """Return a model whose network may be changed, and whether it shall encode in one pass; the user's own stays."""
    given = classifier.model
    method = given.method if isinstance(given, Sen2Pro) else classifier.method
    if method == "shrinkage":
        raise Sen2ProError("method='shrinkage' cannot be fine-tuned; use 'auto' or 'sampling'")
    model = given
    if not isinstance(model, Sen2Pro):
        how = {name: getattr(classifier, name) for name in ("samples", "uncertainty", "seed")}
        model = Sen2Pro(str(given), **how)
    if model.whitening or model.encoder.truncate_dim:
        raise Sen2ProError("an encoder with a whitening or with cut dimensions cannot be fine-tuned")
    if model is given:
        own = {"model": copy.deepcopy(model.encoder.source), "tokenizer": model.encoder.tokenizer}
        model = Sen2Pro.from_settings(model.settings.changed(**own, method="sampling", head=None))
    return model, method != "sampling"


def _learn_one_pass(model: Sen2Pro, texts: list[str], show: Show) -> None:
    """Fit a head for one pass on the sentences at hand and edited copies of them; without enough, keep on sampling."""
    chosen = [texts[i] for i in _evenly(np.arange(len(texts)), _CORPUS)]
    corpus, vocabulary = dict.fromkeys(chosen), model.vocabulary
    for number in range(_CORPUS):
        if len(corpus) >= _CORPUS:
            break
        corpus |= dict.fromkeys(edit(model.encoder.seen(text), vocabulary, model.seed, number) for text in chosen)
    if len(corpus) >= _CORPUS:
        model.distill(list(corpus)[:_CORPUS], samples=_TEACHER, show_progress_bar=show, verbose=False)
