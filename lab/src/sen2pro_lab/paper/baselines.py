"""What the classifier is compared with: logistic regression on plain vectors, the paper's Sen2Vec, and SetFit."""

import copy
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from sen2pro.sampling.edits import edit
from sen2pro.validation import Array, Array64, Labels

COPIES = 15  # of each training sentence, as in the paper
PAIRS = 20  # alike, and as many different, of each training sentence for SetFit
C_VALUES = tuple(10.0**i for i in range(-4, 4))


def augmented(sentences: Sequence[str], vocabulary: Sequence[str], seed: int, copies: int = COPIES) -> list[str]:
    """Return each sentence with its edited copies after it: the training set of the paper's Sen2Vec.

    >>> augmented(["a b", "c d"], ["x"], seed=0, copies=1)
    ['a b', 'a b x', 'c d', 'd']
    """
    return [text for s in sentences for text in (s, *(edit(s, vocabulary, seed, i) for i in range(copies)))]


def logistic_regression(
    vectors: Array, labels: Labels, validation: tuple[Array, Labels] | None = None, seed: int = 0
) -> Any:
    """Return scikit-learn's logistic regression on plain vectors, with the C of the best accuracy, then log-loss.

    Both are measured on the validation set, as in the paper, or by cross-validation.
    """
    models = [LogisticRegression(C=C, max_iter=5000) for C in C_VALUES]
    if validation is None:
        truth, number = labels, min(5, int(np.bincount(labels).min()))
        folds = StratifiedKFold(number, shuffle=True, random_state=seed)
        predicted = [cross_val_predict(each, vectors, labels, cv=folds, method="predict_proba") for each in models]
    else:
        truth = validation[1]
        predicted = [each.fit(vectors, labels).predict_proba(validation[0]) for each in models]
    merits = [(-float((p.argmax(axis=1) == truth).mean()), float(losses(p, truth).mean())) for p in predicted]
    return models[merits.index(min(merits))].fit(vectors, labels)


def losses(probabilities: Array64, truth: Labels) -> Array64:
    """Return -log p(true class) of each row (n,), in nats.

    >>> losses(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0])).round(4).tolist()
    [0.6931, 1.3863]
    """
    return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(truth)), truth], 1e-15)))


def setfit_name() -> str:
    """Return the version of SetFit, and how it is trained here."""
    return f"setfit {version('setfit')}, {PAIRS} pairs"


def setfit(
    model: Any, sentences: Sequence[str], labels: Labels, test: Sequence[str], *, seed: int, steps: int = -1
) -> Array64:
    """Train SetFit on a copy of a SentenceTransformer and return its probabilities on the test sentences (n, classes).

    It sees 20 pairs of one class and 20 of different classes for each sentence, as in its paper, or as many as fit into
    `steps`. (Its default is now all pairs: 18,000 for ten examples of 14 classes.) Minutes to an hour without a GPU.
    """
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=SetFitModel(copy.deepcopy(model), LogisticRegression(max_iter=5000)),
            args=TrainingArguments(
                output_dir=folder, batch_size=16, num_epochs=1, num_iterations=PAIRS, max_steps=steps, seed=seed,
                report_to="none", save_strategy="no", logging_strategy="no", show_progress_bar=False,
            ),
            train_dataset=Dataset.from_dict({"text": list(sentences), "label": labels.tolist()}),
        )  # fmt: skip
        trainer.train()
    return np.asarray(trainer.model.predict_proba(list(test), as_numpy=True), np.float64)
