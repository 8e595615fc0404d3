"""One set of labelled texts, and every system of tables 1 and 7 on it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.classification.baselines import COPIES, augmented, logistic_regression, setfit, setfit_name
from sen2pro.classification.choosing import Choice
from sen2pro.classification.training import SCHEME
from sen2pro.errors import Sen2ProError, TruncationWarning
from sen2pro.gaussian import Gaussian
from sen2pro.metrics.probabilities import losses as losses_of
from sen2pro.metrics.statistics import Statistic, mean_of, mean_statistic, paired_bootstrap
from sen2pro.model import Sen2Pro
from sen2pro.paper.data import WHOLE_SETS, DataMissing, Labelled, read_classification, spread
from sen2pro.paper.lab import FULL, Lab, Shots
from sen2pro.paper.report import Line
from sen2pro.types import Array, Array64

OURS, PLAIN, POINT = "Sen2Pro", "plain vector", "plain vector, our head"
SEN2VEC, SETFIT, TUNED = "Sen2Vec, 15 copies", "SetFit", "Sen2Pro, fine-tuned"
ALONE = ", no validation set"  # after the name of a system
_MOST_COPIES = 50_000  # texts that Sen2Vec may be trained on: an hour of passes of long ones
_TRAINED_SHOTS = 16  # beyond, training the encoder takes hours without a GPU
_HELD_OUT = 200  # of each class, where a set has no validation part


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences with plain vectors, Gaussians of each source, and labels."""

    texts: list[str]
    vectors: Array
    parts: dict[str, Gaussian]
    labels: NDArray[np.int64]


class TooMany(Sen2ProError):
    """What a baseline would take too long for; the message is what a note says of it."""


def few(labels: NDArray[np.int64], names: Sequence[str], shots: Shots, seed: int) -> NDArray[np.int64]:
    """Return the rows of so many examples of each class, drawn by seed."""
    if shots == FULL:
        return np.arange(len(labels))
    rng, rows = np.random.default_rng(seed), []
    for number, name in enumerate(names):
        found = np.flatnonzero(labels == number)
        if len(found) < shots:
            raise Sen2ProError(f"{shots} shots, but class {name!r} has {len(found)} examples; ask for fewer")
        rows.append(rng.choice(found, shots, replace=False))
    return np.concatenate(rows)


class Task:
    """One of the sets: what is encoded of it, and the probabilities of each system on its test part."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name, self.model = lab, name, lab.encoder()
        self.train, validation = _train_and_validation(name)
        self.names = self.train.names
        self.validation, self.test = (self._whole(part) for part in (validation, read_classification(name, "test")))
        self.cut = sum(cut(self.model, part.texts) for part in (self.validation, self.test))
        self.chosen: dict[tuple[Shots, int], Choice] = {}
        self._drawn: dict[tuple[Shots, int], Encoded] = {}

    def _whole(self, data: Labelled) -> Encoded:
        rows = np.arange(len(data.texts))
        if self.lab.limit:
            rows = np.array(spread(len(rows), self.lab.limit))
        return self._encoded([data.texts[i] for i in rows], data.labels[rows])

    def _encoded(self, texts: list[str], labels: NDArray[np.int64]) -> Encoded:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # said once, in a note
            return Encoded(texts, *self.lab.store.with_vectors(self.model, texts), labels)

    def drawn(self, shots: Shots, seed: int) -> Encoded:
        """Return the training sentences of a draw."""
        if (shots, seed) not in self._drawn:
            texts, labels = self._everything() if shots == FULL else (self.train.texts, self.train.labels)
            rows = few(labels, self.names, shots, seed)
            self._drawn[shots, seed] = self._encoded([texts[i] for i in rows], labels[rows])
        return self._drawn[shots, seed]

    def _everything(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        """Return the whole training set, but for what is in the others."""
        if self.name not in WHOLE_SETS:
            raise Sen2ProError("its whole training set is not here")
        whole, held_out = read_classification(self.name, "train_full"), {*self.validation.texts, *self.test.texts}
        rows = [i for i, text in enumerate(whole.texts) if text not in held_out]
        return [whole.texts[i] for i in rows], whole.labels[rows]

    def draws(self, shots: Shots) -> range:
        """Return the seeds of the draws; there is one way to take everything."""
        return range(1 if shots == FULL else self.lab.seeds)

    def runs(self, system: System, shots: Shots) -> list[Array64]:
        """Return the probabilities of a system for each draw."""
        return [system(self, shots, seed) for seed in self.draws(shots)]

    def sen2pro(self, shots: Shots, seed: int, kind: str = "m+d", features: str = "auto") -> Array64:
        """Return the probabilities of the classifier; everything is chosen on the validation set."""
        train = self.drawn(shots, seed)
        gaussians = [self.lab.join(part.parts, kind) for part in (train, self.validation, self.test)]
        classifier = self._fitted(gaussians, train.labels, features, seed)
        if (kind, features) == ("m+d", "auto"):
            self.chosen[shots, seed] = classifier.choice_
        return classifier.predict_proba(gaussians[2])

    def _fitted(
        self, gaussians: Sequence[Gaussian], labels: NDArray[np.int64], features: str, seed: int
    ) -> Sen2ProClassifier:
        """Return a classifier that is trained on the first Gaussians and chosen by the second."""
        classifier = Sen2ProClassifier(features=features, seed=seed)
        return classifier.fit(gaussians[0], labels, validation=(gaussians[1], self.validation.labels))

    def sen2pro_alone(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the classifier when everything is chosen by cross-validation."""
        train = self.drawn(shots, seed)
        classifier = Sen2ProClassifier(seed=seed).fit(self.lab.join(train.parts, "m+d"), train.labels)
        return classifier.predict_proba(self.lab.join(self.test.parts, "m+d"))

    def point(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the same classifier on plain vectors: Gaussians without a variance."""
        train = self.drawn(shots, seed)
        points = [Gaussian(p.vectors, np.zeros_like(p.vectors)) for p in (train, self.validation, self.test)]
        return self._fitted(points, train.labels, "mean", seed).predict_proba(points[2])

    def plain(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of logistic regression on plain vectors."""
        train = self.drawn(shots, seed)
        return self._logistic(train.vectors, train.labels)

    def plain_alone(self, shots: Shots, seed: int) -> Array64:
        """Return the same, its penalty chosen by cross-validation."""
        train = self.drawn(shots, seed)
        found = logistic_regression(train.vectors, train.labels, seed=seed)
        return np.asarray(found.predict_proba(self.test.vectors))

    def sen2vec(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the paper's baseline: the same, with edited copies of the training sentences."""
        train, encoder = self.drawn(shots, seed), self.model.encoder
        if len(train.texts) * (COPIES + 1) > _MOST_COPIES:
            raise TooMany(f"{SEN2VEC} would take the passes of {len(train.texts) * (COPIES + 1):,} texts")
        copies = augmented([encoder.seen(text) for text in train.texts], self.model.vocabulary, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            vectors = self.lab.store.vectors(self.model, copies)
        return self._logistic(vectors, np.repeat(train.labels, len(copies) // len(train.texts)))

    def setfit(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of SetFit."""

        def train(drawn: Encoded) -> Array64:
            return setfit(self.model.encoder.source, drawn.texts, drawn.labels, self.test.texts, seed=seed)

        return self._trained(SETFIT, setfit_name, shots, seed, train)

    def fine_tuned(self, shots: Shots, seed: int) -> Array64:
        """Return the probabilities of the classifier when its encoder is trained too."""
        return self._fine_tuned(shots, seed, (self.validation.texts, self.validation.labels))

    def fine_tuned_alone(self, shots: Shots, seed: int) -> Array64:
        """Return the same, where the classifier has nothing but the examples: it holds out some of them itself."""
        return self._fine_tuned(shots, seed, None)

    def _fine_tuned(self, shots: Shots, seed: int, validation: tuple[list[str], NDArray[np.int64]] | None) -> Array64:
        def train(drawn: Encoded) -> Array64:
            classifier = Sen2ProClassifier(self.model, seed=seed, finetune=FineTuning())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TruncationWarning)
                classifier.fit(drawn.texts, drawn.labels, validation=validation)
                return classifier.predict_proba(self.test.texts)

        how = f"{FineTuning()}, scheme {SCHEME}, {'with' if validation else 'without'} validation"
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

    def _logistic(self, vectors: Array, labels: NDArray[np.int64]) -> Array64:
        validation = self.validation.vectors, self.validation.labels
        return np.asarray(logistic_regression(vectors, labels, validation).predict_proba(self.test.vectors))

    def compare(self, ours: Sequence[Array64], baseline: Sequence[Array64], labels: list[str]) -> Line:
        """Compare accuracies over the same draws, in points, by resampling the test sentences."""

        def right(found: Array64) -> Statistic:
            return mean_statistic(found.argmax(axis=1) == self.test.labels)

        return self._compare(right, ours, baseline, labels, 100)

    def compare_losses(self, ours: Sequence[Array64], baseline: Sequence[Array64], labels: list[str]) -> Line:
        """Compare log-losses in the same way."""

        def loss(found: Array64) -> Statistic:
            return mean_statistic(losses_of(found, self.test.labels))

        return self._compare(loss, ours, baseline, labels, 1, smaller_is_better=True)

    def _compare(
        self,
        statistic: Callable[[Array64], Statistic],
        ours: Sequence[Array64],
        baseline: Sequence[Array64],
        labels: list[str],
        unit: float,
        *,
        smaller_is_better: bool = False,
    ) -> Line:
        theirs = mean_of([statistic(found) for found in baseline])
        found = paired_bootstrap(
            [statistic(one) for one in ours], theirs, len(self.test.labels), smaller_is_better=smaller_is_better
        )
        return Line(labels, None, found.scaled(unit))


System = Callable[[Task, Shots, int], Array64]  # a method of Task: the probabilities on its test part


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
        kept = np.setdiff1d(np.arange(len(train.labels)), out)
        return _only(train, kept), _only(train, out)


def _only(data: Labelled, rows: NDArray[np.int64]) -> Labelled:
    return Labelled(tuple(data.texts[i] for i in rows), data.labels[rows], data.names)


def cut(model: Sen2Pro, texts: Sequence[str]) -> int:
    """Return how many texts are longer than the model takes."""
    long = [text for text in texts if len(text) >= model.encoder.max_length]  # a token has at least one letter
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", TruncationWarning)
        model.encoder.tokens(long, warn=True)
    return sum(found.message.count for found in said if isinstance(found.message, TruncationWarning))
