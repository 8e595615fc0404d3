"""Check the sentences and the labels that a user gives; an error names the row, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sen2pro.errors import Sen2ProError, join_names, short_repr
from sen2pro.gaussian import Gaussian
from sen2pro.validation import Labels, as_array, as_list, check_sentences, check_text

Sentences = Sequence[str] | Gaussian
_KINDS = ("text", "whole number", "truth value")
_LARGEST, _LARGEST_FLOAT = 2**63 - 1, 2**53  # up to which an int64 and a float hold every whole number


def check_labels(labels: object, rows: int) -> NDArray[np.generic]:
    """Return labels as an array (rows,) of texts, whole numbers or truth values, none missing, all of one kind.

    >>> check_labels(["a", None], 2)
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: row 1 has no label (None); give one, or leave the row out
    """
    listed = _as_list(labels)
    if len(listed) != rows:
        raise Sen2ProError(f"{rows} sentences but {len(listed)} labels; they must stand in pairs")
    kinds = [_kind(label) for label in listed]
    # An array would change what is larger, or ends in NUL: two labels might become the same.
    largest = _LARGEST_FLOAT if any(isinstance(label, float) for label in listed) else _LARGEST
    for row, (label, kind) in enumerate(zip(listed, kinds, strict=True)):
        if _is_missing(label):
            raise Sen2ProError(f"row {row} has no label ({label!r}); give one, or leave the row out")
        if kind != kinds[0]:
            raise Sen2ProError(
                f"labels of mixed types: row 0 has {kinds[0]} {short_repr(listed[0])}, row {row} has {kind} "
                f"{short_repr(label)}; turn all into texts or all into whole numbers"
            )
        if kind not in _KINDS:
            raise Sen2ProError(
                f"Unknown label type: row {row} has a {kind} as its label ({short_repr(label)}); labels are texts, "
                "whole numbers or truth values"
            )
        if kind == "text" and "\0" in check_text(f"the label of row {row}", label):
            raise Sen2ProError(f"the label of row {row} holds a NUL character: {short_repr(label)}; take it out")
        if isinstance(label, (int, float)) and not -largest <= label <= largest:
            raise Sen2ProError(f"the label of row {row} is too large a number: {short_repr(label)}; give it as a text")
    return np.array(listed)


def _as_list(labels: object) -> list[object]:
    if labels is None:
        raise Sen2ProError("it requires y to be passed, but the target y is None: give a label for each sentence")
    if isinstance(labels, (str, bytes)) or not (hasattr(labels, "__len__") or hasattr(labels, "__array__")):
        raise Sen2ProError(f"give a list of labels, one for each sentence, not {type(labels).__name__}")
    if isinstance(labels, (list, tuple)):
        listed = list(labels)
    else:
        array = as_array("labels", labels)
        if array.shape[1:] == (1,):
            from sklearn.exceptions import DataConversionWarning

            warning = "A column-vector y was passed when a 1d array was expected: its only column is taken"
            warnings.warn(warning, DataConversionWarning, stacklevel=4)
            array = array.ravel()
        if array.ndim != 1:
            raise Sen2ProError(f"labels must be a list with one label for each sentence, not of shape {array.shape}")
        listed = array.tolist()
    return [label.item() if isinstance(label, np.generic) else label for label in listed]


def _is_missing(label: object) -> bool:
    if label is None or isinstance(label, str):
        return not (label and label.strip())
    try:
        return bool(label != label)  # a number that is none
    except TypeError:  # pandas' NA will not say
        return True
    except Exception:  # an array or whatever else cannot be compared, which is no label, but not a missing one
        return False


def _kind(label: object) -> str:
    if isinstance(label, bool):
        return "truth value"
    # 1.0 and 2.0 are what a table makes of whole numbers
    whole = isinstance(label, int) or (isinstance(label, float) and label.is_integer())
    return "text" if isinstance(label, str) else "whole number" if whole else type(label).__name__


def check_classes(labels: NDArray[np.generic], *, choose: bool) -> NDArray[np.generic]:
    """Return the classes in order: at least two, and where something is to be chosen, two examples of each."""
    classes: NDArray[np.generic]
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise Sen2ProError(f"all {len(labels)} labels are {classes.tolist()[0]!r}: one class; it takes at least two")
    if choose and counts.min() == 1:
        raise Sen2ProError(
            f"class {classes.tolist()[counts.argmin()]!r} has one example; settings are chosen by cross-validation, "
            "which takes at least 2 of each class: add one, leave the class out, or pass validation=..."
        )
    return classes


def to_numbers(labels: NDArray[np.generic], classes: NDArray[np.generic], what: str = "label") -> Labels:
    """Return where each label stands among the classes; the error for an unknown label names its row.

    >>> to_numbers(np.array(["b", "a"]), np.array(["a", "b"]))
    array([1, 0])
    """
    known = {label: i for i, label in enumerate(classes.tolist())}
    for row, label in enumerate(labels.tolist()):
        if label not in known:
            raise Sen2ProError(
                f"{what} {label!r} of row {row} was never seen in training; the classes are: {join_names(list(known))}"
                ". Leave the row out, or train on examples of that class too"
            )
    return np.array([known[label] for label in labels.tolist()], np.int64)


def check_inputs(X: object) -> list[str] | Gaussian:
    """Return the batch of Gaussians, or a list of sentences: from a list, an array or a column of a table."""
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


def check_validation(validation: object, classes: NDArray[np.generic]) -> tuple[list[str] | Gaussian, Labels] | None:
    """Return further sentences and the numbers of their classes."""
    if validation is None:
        return None
    if not isinstance(validation, (tuple, list)) or len(validation) != 2 or isinstance(validation[0], str):
        raise Sen2ProError(f"validation is a pair (sentences, labels), not {short_repr(validation)}")
    sentences = check_inputs(validation[0])
    if not len(sentences):
        raise Sen2ProError("there are no sentences in the validation set; leave it out to choose by cross-validation")
    return sentences, to_numbers(check_labels(validation[1], len(sentences)), classes, "validation label")
