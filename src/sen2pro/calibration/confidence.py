"""The base of both confidences: their labelled examples, split in two, and the state that is saved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from sen2pro import __version__
from sen2pro.calibration.guarantee import Rule, promise
from sen2pro.calibration.report import Report
from sen2pro.calibration.selection import Mask
from sen2pro.errors import Sen2ProError, Sen2ProWarning, short_repr
from sen2pro.io import bundle
from sen2pro.io.atomic import check_path, new_folder
from sen2pro.io.bundle import Config, Count
from sen2pro.validation import Array64, as_list, check_seed, parse_fraction

FORMAT = 2
FEWEST = 20  # labelled examples
_FEWEST_OF_A_KIND = 4  # so that each half has two
Bit = Annotated[int, Meta(ge=0, le=1)]
Probability = Annotated[float, Meta(ge=0, le=1)]


class NothingPromised(Sen2ProWarning):
    """No threshold can keep the promise; `labels_needed` would probably do (None: no number of them)."""

    def __init__(self, reason: str, labels_needed: int | None) -> None:
        self.labels_needed = labels_needed
        super().__init__(reason)


class Examples(Config, frozen=True):
    """Probabilities and labels of some examples, and the rows of those that the head does not know."""

    scores: tuple[Probability, ...]
    labels: tuple[Bit, ...]
    uncovered: tuple[Count, ...] = ()

    @classmethod
    def of(cls, scores: Array64, labels: Array64, uncovered: Mask | None = None) -> Examples:
        """Return the examples of some arrays (n,)."""
        rows = () if uncovered is None else tuple(np.flatnonzero(uncovered).tolist())
        return cls(scores=tuple(scores.tolist()), labels=tuple(labels.astype(int).tolist()), uncovered=rows)

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.labels):
            raise ValueError("there must be one label for each score")
        if any(row >= len(self.labels) for row in self.uncovered):
            raise ValueError(f"uncovered must hold numbers of rows below {len(self.labels)}")

    def arrays(self, *, covered: bool = False) -> tuple[Array64, Array64]:
        """Return scores and labels (n,), of all examples or of those that the head knows."""
        keep = np.ones(len(self.labels), bool)
        keep[list(self.uncovered)] = not covered
        return np.array(self.scores, np.float64)[keep], np.array(self.labels, np.float64)[keep]


class State(Config, frozen=True):
    """All that a confidence has learned: the content of its file.

    `planning` are the examples that fitted it, with their probabilities out of fold, and `testing` those held out.
    """

    format: int
    version: str
    held_out: float
    seed: int
    planning: Examples
    testing: Examples
    report: Report | None


Kept = TypeVar("Kept", bound=State)
Own = TypeVar("Own", bound="Confidence[Any]")


class Confidence(Generic[Kept]):
    """A probability that is learned from labelled examples.

    They are split in two: one part chooses and fits. The other part chose nothing and tests promises.
    """

    FILE: ClassVar[str]
    KIND: ClassVar[type[State]]
    _state: Kept | None = None

    def __init__(self, held_out: float = 0.5, seed: int = 0) -> None:
        self.held_out = held_out
        self.seed = seed

    @property
    def state(self) -> Kept:
        """All that it has learned."""
        if self._state is None:
            raise Sen2ProError(f"this {type(self).__name__} is not fitted yet; call fit with labelled examples first")
        return self._state

    def report(self) -> Report:
        """Return how good the probabilities are, with the distribution and without; it prints as a table."""
        found = self.state.report
        assert found is not None
        return found

    def save(self, folder: str | Path) -> None:
        """Write all that it has learned, with the report, to a folder that must be new or empty."""
        self.report()
        with new_folder(check_path(folder)) as temporary:
            bundle.save(temporary, self.FILE, self.state)

    @classmethod
    def _read(cls: type[Own], folder: str | Path) -> Own:
        """Return the confidence in a folder, which may be from anyone: all of it is checked."""
        path = check_path(folder) / f"{cls.FILE}.json"
        if not path.is_file():
            raise Sen2ProError(f"{path.parent} does not contain a {cls.__name__}: {path.name} is missing")
        _check_format(bundle.read_json(path), str(path))
        return cls._of(bundle.load(path.parent, cls.FILE, cls.KIND)[0])

    @classmethod
    def _of(cls: type[Own], state: State) -> Own:
        found = cls(held_out=state.held_out, seed=state.seed)
        found._state = state
        return found

    def _check_settings(self) -> tuple[int, float]:
        """Return the seed, and the share of the labels that tests promises."""
        part = parse_fraction(self.held_out)
        if part is None or part > 0.9:
            raise Sen2ProError(f"held_out must be a share from 0 to 0.9, not {short_repr(self.held_out)}")
        return check_seed(self.seed), part

    def _common(self, planning: Examples, testing: Examples, report: Report | None) -> dict[str, Any]:
        """Return the fields that every state has."""
        return {
            "format": FORMAT, "version": __version__, "held_out": float(self.held_out), "seed": int(self.seed),
            "planning": planning, "testing": testing, "report": report,
        }  # fmt: skip

    def _rule(
        self, precision: float | None, recall: float | None = None, false_matches: float | None = None, *,
        certainty: float, covered: bool = False,
    ) -> Rule | None:  # fmt: skip
        """Return a rule that keeps a promise (see `promise`), or None with a warning that says why there is none."""
        if not self.state.testing.labels:
            raise Sen2ProError("all labels were used for fitting (held_out=0), so none can test a promise")
        testing, planning = (part.arrays(covered=covered) for part in (self.state.testing, self.state.planning))
        if not len(testing[1]) or not len(planning[1]):
            raise Sen2ProError(
                "the head knows too few of the labelled pairs to promise anything for text that it knows; label pairs "
                "of such text, or pass uncovered=True"
            )
        found = promise(
            *testing, precision=precision, recall=recall, false_matches=false_matches, certainty=certainty,
            planned_by=planning,
        )  # fmt: skip
        if found.rule is None:
            warnings.warn(NothingPromised(found.reason, found.labels_needed), stacklevel=3)
        return found.rule


def convert(content: object, kind: type[Kept], place: str) -> Kept:
    """Return the state of a JSON object from an untrusted file; an error names its place."""
    if isinstance(content, Mapping):
        _check_format(content, place)
    return bundle.convert(content, kind, place)


def _check_format(content: Mapping[str, object], place: str) -> None:
    if content.get("format") != FORMAT:
        raise Sen2ProError(f"{place} was saved by another version of sen2pro; fit the confidence again and save it")


def check_kinds(y: Array64, things: str, kinds: tuple[str, str], useful: int) -> None:
    """Raise unless there are enough labels of both kinds (n,); `kinds` names those of 0 and of 1."""
    n, yes = len(y), int(y.sum())
    if n < FEWEST:
        raise Sen2ProError(
            f"{n} labelled {things} are too few: it takes at least {FEWEST}, and {useful} for a useful fit"
        )
    if min(yes, n - yes) < _FEWEST_OF_A_KIND:
        raise Sen2ProError(
            f"the labels say {kinds[1]} for {yes} {things} and {kinds[0]} for {n - yes}; it takes at least "
            f"{_FEWEST_OF_A_KIND} of each kind"
        )


def match_labels(labels: object, match_from: float | None) -> Array64:
    """Return 1 for each pair that is a match, else 0, (n,): grades are a match from `match_from` on."""
    values = np.asarray(as_list(labels, "a list of labels"))
    if values.ndim != 1:
        raise Sen2ProError(f"labels must be a list of numbers, not of shape {values.shape}")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise Sen2ProError(f"labels must be numbers: 1 for a match and 0 for none, not {short_repr(values[0].item())}")
    if match_from is not None:
        if not isinstance(match_from, Real) or not np.isfinite(match_from):
            raise Sen2ProError(f"match_from must be a number, not {short_repr(match_from)}")
        y = (values >= match_from).astype(np.float64)
    else:
        kinds = np.unique(values)
        if not np.isin(kinds, (0, 1)).all():
            raise Sen2ProError(
                f"labels must be 1 (a match) and 0, but there are {len(kinds)} kinds: {short_repr(kinds.tolist())}. "
                "If they are grades, say from which grade on they are a match, for instance match_from=4"
            )
        y = values.astype(np.float64)
    check_kinds(y, "pairs", ("no match", "match"), useful=50)
    return y


def held_out(y: Array64, groups: NDArray[np.int64], part: float, seed: int) -> Mask:
    """Return a mask of the held-out examples (n,): this share of both kinds. A group of equal examples stays together.

    >>> held_out(np.array([0.0, 0, 1, 1, 1]), np.array([0, 1, 2, 2, 3]), 0.5, seed=1).tolist()
    [True, False, True, True, False]
    """
    held, rng = np.zeros(len(y), bool), np.random.default_rng(seed)
    first_label = np.zeros(int(groups.max()) + 1)
    first_label[groups[::-1]] = y[::-1]
    for kind in (0, 1):
        members = rng.permutation(np.unique(groups[first_label[groups] == kind]))
        held |= np.isin(groups, members[: round(part * len(members))])
    return held
