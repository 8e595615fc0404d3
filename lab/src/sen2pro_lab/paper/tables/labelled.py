"""One set of labelled texts, and every system of tables 1 and 7 on it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.classification.finetune import SCHEME
from sen2pro.classification.heads import TEMPERATURES, Choice
from sen2pro.errors import Sen2ProError, TruncationWarning
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.validation import Array, Array64, Labels
from sen2pro_lab.metrics.bootstrap import mean_statistic
from sen2pro_lab.metrics.comparisons import Points
from sen2pro_lab.metrics.sts import spread
from sen2pro_lab.paper.baselines import COPIES, augmented, logistic_regression, losses, setfit, setfit_name
from sen2pro_lab.paper.catalogue import WHOLE_SETS, DataMissing
from sen2pro_lab.paper.data import Labelled, read_classification
from sen2pro_lab.paper.lab import FULL, Lab, Shots
from sen2pro_lab.paper.tables.pairs import certain

OURS, PLAIN, POINT = "Sen2Pro", "plain vector", "plain vector, our head"
SEN2VEC, SETFIT, TUNED = "Sen2Vec, 15 copies", "SetFit", "Sen2Pro, fine-tuned"
TEMPERED = "plain vector, C = 1, one temperature"
ALONE = ", no validation set"  # after the name of a system
_MOST_COPIES = 50_000  # texts that Sen2Vec may be trained on: an hour of passes of long ones
_TRAINED_SHOTS = 16  # beyond, training the encoder takes hours without a GPU
_HELD_OUT = 200  # of each class, where a set has no validation part


class Encoded(NamedTuple):
    """Sentences with plain vectors, Gaussians of each source, and labels."""

    texts: Sequence[str]
    vectors: Array
    parts: dict[str, Gaussian]
    labels: Labels


@contextmanager
def truncating() -> Iterator[None]:
    """Let texts be cut without a warning: a note says it once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        yield


class TooMany(Sen2ProError):
    """What a baseline would take too long for; the message is what a note says of it."""


def few(labels: Labels, names: Sequence[str], shots: int, seed: int) -> Labels:
    """Return the rows of a number of examples of each class, drawn by seed."""
    rng, rows = np.random.default_rng(seed), []
    for number, name in enumerate(names):
        members = np.flatnonzero(labels == number)
        if len(members) < shots:
            raise Sen2ProError(f"{shots} shots, but class {name!r} has {len(members)} examples; ask for fewer")
        rows.append(rng.choice(members, shots, replace=False))
    return np.concatenate(rows)


class Task:
    """One of the sets: what is encoded of it, and the probabilities of each system on its test part."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name, self.model = lab, name, lab.encoder()
        self.train, validation = _train_and_validation(name)
        self.validation, self.test = (
            self._encoded(part.take(spread(len(part.texts), lab.limit or len(part.texts))))
            for part in (validation, read_classification(name, "test"))
        )
        self.cut = sum(cut(self.model, part.texts) for part in (self.validation, self.test))
        self.chosen: dict[tuple[Shots, int], Choice] = {}
        self._drawn: dict[tuple[Shots, int], Encoded] = {}

    def _encoded(self, data: Labelled) -> Encoded:
        texts, store = list(data.texts), self.lab.store
        with truncating():
            return Encoded(texts, store.vectors(self.model, texts), store.parts(self.model, texts), data.labels)

    def drawn(self, shots: Shots, seed: int) -> Encoded:
        """Return the training sentences of a draw."""
        if (shots, seed) not in self._drawn:
            data, held_out = self.train, {*self.validation.texts, *self.test.texts}
            if shots != FULL:
                rows = few(data.labels, data.names, shots, seed).tolist()
            elif self.name not in WHOLE_SETS:
                raise Sen2ProError("its whole training set is not here")
            else:
                data = read_classification(self.name, "train_full")
                rows = [i for i, text in enumerate(data.texts) if text not in held_out]
            self._drawn[shots, seed] = self._encoded(data.take(rows))
        return self._drawn[shots, seed]

    def draws(self, shots: Shots) -> range:
        """Return the seeds of the draws; there is one way to take everything."""
        return range(1 if shots == FULL else self.lab.seeds)

    def runs(self, system: System, shots: Shots) -> list[Array64]:
        """Return the probabilities of a system for each draw."""
        return [system(self, shots, seed) for seed in self.draws(shots)]

    def sen2pro(
        self, shots: Shots, seed: int, kind: str | None = "m+d", features: str = "auto", validate: bool = True
    ) -> Array64:
        """Return the probabilities of the classifier; all is chosen on the validation set, or by cross-validation.

        Without a kind of uncertainty it sees the plain vectors: Gaussians without a variance.
        """
        train, *others = (
            (self.lab.join(part.parts, kind) if kind else certain(part.vectors), part.labels)
            for part in (self.drawn(shots, seed), self.validation, self.test)
        )
        classifier = Sen2ProClassifier(features=features, seed=seed)
        classifier.fit(*train, validation=others[0] if validate else None)
        if (kind, features, validate) == ("m+d", "auto", True):
            self.chosen[shots, seed] = classifier.choice_
        return classifier.predict_proba(others[1][0])

    def plain(self, shots: Shots, seed: int, validate: bool = True) -> Array64:
        """Return the probabilities of logistic regression on plain vectors, its penalty chosen in the same way."""
        train = self.drawn(shots, seed)
        return self._logistic(train.vectors, train.labels, seed, validate)

    def sen2vec(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the paper's baseline: the same, with edited copies of the training sentences."""
        train, encoder = self.drawn(shots, seed), self.model.encoder
        if len(train.texts) * (COPIES + 1) > _MOST_COPIES:
            raise TooMany(f"{SEN2VEC} would take the passes of {len(train.texts) * (COPIES + 1):,} texts")
        copies = augmented(list(encoder.tokenize(train.texts).seen), self.model.vocabulary, seed)
        with truncating():
            vectors = self.lab.store.vectors(self.model, copies)
        return self._logistic(vectors, np.repeat(train.labels, len(copies) // len(train.texts)), seed)

    def _logistic(self, vectors: Array, labels: Labels, seed: int, validate: bool = True) -> Array64:
        validation = (self.validation.vectors, self.validation.labels) if validate else None
        return np.asarray(logistic_regression(vectors, labels, validation, seed).predict_proba(self.test.vectors))

    def tempered(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of logistic regression with C = 1, at the temperature with the least log-loss."""
        from sklearn.linear_model import LogisticRegression

        train = self.drawn(shots, seed)
        fitted = LogisticRegression(max_iter=5000).fit(train.vectors, train.labels)
        known, asked = (fitted.predict_proba(part.vectors) for part in (self.validation, self.test))
        best = min(TEMPERATURES, key=lambda t: losses(at_temperature(known, t), self.validation.labels).mean())
        return at_temperature(asked, best)

    def setfit(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of SetFit."""

        def train(drawn: Encoded) -> Array64:
            return setfit(self.model.encoder.source, drawn.texts, drawn.labels, self.test.texts, seed=seed)

        return self._trained(SETFIT, setfit_name, shots, seed, train)

    def fine_tuned(self, shots: Shots, seed: int, validate: bool = True) -> Array64:
        """Return the probabilities of the classifier when its encoder is trained too.

        Without a validation set it has nothing but the examples, and holds out some of them itself.
        """

        def train(drawn: Encoded) -> Array64:
            validation = (self.validation.texts, self.validation.labels) if validate else None
            classifier = Sen2ProClassifier(self.model, seed=seed, finetune=FineTuning())
            with truncating():
                classifier.fit(drawn.texts, drawn.labels, validation=validation)
                return classifier.predict_proba(self.test.texts)

        how = f"{FineTuning()}, scheme {SCHEME}, {'with' if validate else 'without'} validation"
        return self._trained(TUNED, lambda: how, shots, seed, train)

    def _trained(
        self, what: str, name: Callable[[], str], shots: Shots, seed: int, train: Callable[[Encoded], Array64]
    ) -> Array64:
        """Return the probabilities of a system that trains the encoder; they are kept, since they take so long."""
        if not is_few(shots):
            raise TooMany(f"{what} is run with up to {_TRAINED_SHOTS} examples of each class")
        drawn = self.drawn(shots, seed)
        parts = [[part.texts, part.labels.tolist()] for part in (drawn, self.validation, self.test)]
        about = json.dumps([name(), str(self.model.signature()), parts, seed])
        return self.lab.store.array(about, lambda: train(drawn))

    def points(self, ours: Sequence[Array64], baseline: Sequence[Array64], *, loss: bool = False) -> Points:
        """Return what is right of the test sentences, or their log-loss, for the same draws."""
        truth = self.test.labels
        mine, theirs = (
            [losses(p, truth) if loss else p.argmax(axis=1) == truth for p in runs] for runs in (ours, baseline)
        )
        return Points.of(mean_statistic, mine, theirs, len(truth))


System = Callable[[Task, Shots, int], Array64]  # a method of Task: the probabilities on its test part


def at_temperature(probabilities: Array64, temperature: float) -> Array64:
    """Return the probabilities (n, classes) when their logits are divided by a temperature.

    >>> at_temperature(np.array([[0.8, 0.2]]), 0.5).round(4)  # 0.8^2 : 0.2^2
    array([[0.9412, 0.0588]])
    """
    return np.asarray(softmax(np.log(np.maximum(probabilities, 1e-300)) / temperature, axis=1))


def is_few(shots: Shots) -> bool:
    """Tell whether there are few enough examples to train the encoder, and to do without a validation set."""
    return shots != FULL and shots <= _TRAINED_SHOTS


def _train_and_validation(name: str) -> tuple[Labelled, Labelled]:
    """Return what examples are drawn from and what is chosen by; on the hub, the second is a part of the first."""
    train = read_classification(name, "train")
    try:
        return train, read_classification(name, "val")
    except DataMissing:
        most = min(_HELD_OUT, int(np.bincount(train.labels).min()) // 2)
        out = few(train.labels, train.names, most, seed=0)
        return train.take(np.setdiff1d(np.arange(len(train.labels)), out)), train.take(out)


def cut(model: Sen2Pro, texts: Sequence[str]) -> int:
    """Return how many texts are longer than the model takes."""
    long = [text for text in texts if len(text) >= model.encoder.max_length]  # a token has at least one letter
    return sum(model.encoder.tokenize(long).is_cut)
