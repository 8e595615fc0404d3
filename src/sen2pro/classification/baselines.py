"""What the classifier is compared with: plain vectors with logistic regression, Sen2Vec as the paper has it, SetFit."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError
from sen2pro.sampling.edits import edit
from sen2pro.types import Array, Array64, Labels

COPIES = 15  # of each training sentence, as in the paper
PAIRS = 20  # alike, and as many different, of each training sentence for SetFit
C_VALUES = tuple(10.0**i for i in range(-4, 4))


def augmented(sentences: Sequence[str], vocabulary: Sequence[str], seed: int, copies: int = COPIES) -> list[str]:
    """Return each sentence with its edited copies after it: what the paper's Sen2Vec is trained on.

    >>> augmented(["a b", "c d"], ["x"], seed=0, copies=1)
    ['a b', 'a b x', 'c d', 'd']
    """
    return [text for s in sentences for text in (s, *(edit(s, vocabulary, seed, i) for i in range(copies)))]


def logistic_regression(
    vectors: Array, labels: Labels, validation: tuple[Array, Labels] | None = None, seed: int = 0
) -> Any:
    """Return scikit-learn's logistic regression on plain vectors, C by accuracy and then by log-loss.

    These are judged on the validation set, as in the paper, or by cross-validation.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    def fitted(C: float, rows: NDArray[np.int64]) -> Any:
        return LogisticRegression(C=C, max_iter=5000).fit(vectors[rows], labels[rows])

    every = np.arange(len(labels))
    if validation is not None:
        models = [fitted(C, every) for C in C_VALUES]
        return min(models, key=lambda model: _merit(model.predict_proba(validation[0]), validation[1]))
    number = min(5, int(np.bincount(labels).min()))
    folds = list(StratifiedKFold(number, shuffle=True, random_state=seed).split(vectors, labels))

    def merit(C: float) -> tuple[float, float]:
        found = np.empty((len(labels), int(labels.max()) + 1))
        for train, out in folds:
            found[out] = fitted(C, train).predict_proba(vectors[out])
        return _merit(found, labels)

    return fitted(min(C_VALUES, key=merit), every)


def _merit(probabilities: Array64, labels: Labels) -> tuple[float, float]:
    """Return what is to be small: the share of errors, then the log-loss."""
    own = np.maximum(probabilities[np.arange(len(labels)), labels], 1e-15)
    return float((probabilities.argmax(axis=1) != labels).mean()), float(-np.log(own).mean())


def setfit_name() -> str:
    """Return which SetFit there is, and how it is trained here."""
    if find_spec("setfit") is None:
        raise Sen2ProError("the comparison with SetFit needs it: pip install 'sen2pro[setfit]'")
    return f"setfit {version('setfit')}, {PAIRS} pairs"


def setfit(
    model: Any, sentences: Sequence[str], labels: Labels, test: Sequence[str], *, seed: int, steps: int = -1
) -> Array64:
    """Train SetFit on a copy of a SentenceTransformer and return its probabilities on the test sentences (n, classes).

    It trains the encoder on pairs of sentences: 20 alike and 20 different ones for each sentence, as in its paper (all
    pairs, its default now, are 18,000 for ten examples of 14 classes), or for so many steps. Minutes to an hour without
    a GPU.
    """
    setfit_name()  # says so where there is none
    import copy
    import tempfile

    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression

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
