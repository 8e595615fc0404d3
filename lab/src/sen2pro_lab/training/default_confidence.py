"""Fit the numbers of `sen2pro compare` on pairs of several sources.

    SEN2PRO_DATA=FOLDER python -m sen2pro_lab.training.default_confidence

They are fitted on STS-12 to 15 and on the training part of STS-B, without any pair of STS-B's other parts. The licence
of SICK does not allow commercial use, so it fits nothing. A default must serve text from sources that it has not seen:
the width of the interval is set by leaving out one family of sources at a time, and contest C5 judges all of it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs
from scipy.optimize import curve_fit
from scipy.special import expit

from sen2pro import Sen2Pro
from sen2pro.calibration.comparison import HIGHEST_GRADE, PairCurves, pair_cosine
from sen2pro.calibration.defaults import FOLDER, NAME, defaults
from sen2pro.calibration.selection import logistic
from sen2pro.estimation.encoded import Encoded
from sen2pro.io import bundle
from sen2pro.validation import Array64
from sen2pro_lab.paper.catalogue import need
from sen2pro_lab.paper.files import Row, table

SAME, LEVEL = 4.0, 0.9  # of 5: the same meaning; of the intervals
TRAIN = ("sts12", "sts13", "sts14", "sts15", "stsb_train")
HELD_OUT = ("stsb_dev", "stsb_test")
_RIDGE = 1e-3
_EVEN = 0.75  # a cosine at which there are as many pairs of the same meaning as others
_EXTREME = 0.005  # the share of pairs beyond each end of the range of a feature


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of sentences: cosine, both data variances, words of both, grade from 0 to 5, family and year, each (n,)."""

    cosine: Array64
    variances: Array64  # (n, 2)
    words: Array64
    gold: Array64
    family: Array64
    year: Array64

    def __len__(self) -> int:
        return len(self.gold)

    def __getitem__(self, rows: Any) -> Pairs:
        return Pairs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @property
    def same(self) -> Array64:
        """Whether people call the two the same: a grade of at least 4."""
        return (self.gold >= SAME).astype(float)

    def terms(self, curves: PairCurves, *, cosine_alone: bool = False) -> Array64:
        """Return the columns that curves weigh, (n, 5), or those of the cosine alone, (n, 3)."""
        columns = curves.terms(self.cosine, self.variances.sum(axis=1), self.words)
        return columns[:, :3] if cosine_alone else columns


def read(
    estimate: Callable[[list[str]], Encoded], *names: str, without: Sequence[str] = HELD_OUT, limit: int | None = None
) -> Pairs:
    """Read and encode sets of pairs, each sentence once, without pairs of the sets `without` and second copies."""
    seen = {key for name in without for key, *_ in _rows(name)}
    rows = []
    for name in names:
        kept = [row for row in _rows(name) if row[0] not in seen]
        rows += kept[:: max(1, len(kept) // limit)] if limit else kept
        seen |= {row[0] for row in kept}
    numbers = {text: i for i, text in enumerate(dict.fromkeys(text for key, *_ in rows for text in key))}
    encoded = estimate(list(numbers))
    a, b = (encoded[[numbers[key[side]] for key, *_ in rows]] for side in (0, 1))
    variances = np.stack([side.parts["data"].total_variance for side in (a, b)], axis=1)
    gold, family, year = (np.array(column) for column in zip(*(row[1:] for row in rows), strict=True))
    return Pairs(
        pair_cosine(a.plain, b.plain), variances.astype(np.float64), (a.words + b.words).astype(float), gold, family,
        year,
    )  # fmt: skip


def _rows(name: str) -> Iterator[tuple[tuple[str, str], float, str, str]]:
    """Yield the two sentences in order of the alphabet, the grade from 0 to 5, the family and the year."""
    for row in table(need(f"sts/{name}.tsv"), "sentence1", "sentence2", "score"):
        first, second = sorted((row.text("sentence1"), row.text("sentence2")))
        grade = row.number("score")
        yield (first, second), (grade - 1) * 5 / 4 if name.startswith("sick") else grade, *_source(name, row)


def _source(name: str, row: Row) -> tuple[str, str]:
    if name.startswith("sick"):
        return "SICK", "SICK"
    family = row.fields.get("subtask") or row.fields["file"]
    year = f"20{name[3:]}" if name in TRAIN[:4] else row.fields["year"][:4]
    return family.removeprefix("surprise."), year


def fit(train: Pairs) -> PairCurves:
    """Fit curves to pairs; the interval holds nine in ten grades of families that are left out."""
    draft = _middle(train)
    errors = np.empty(len(train))
    for family in np.unique(train.family):
        held = train.family == family
        middle, *_ = _middle(train[~held]).grade(train[held].terms(draft))
        errors[held] = np.abs(train.gold[held] - middle)
    alike = np.log(train.variances[train.gold == HIGHEST_GRADE])
    return structs.replace(
        draft,
        half_width=round(_conformal(errors), 3),
        equally_vague=round(float(np.quantile(np.abs(alike[:, 0] - alike[:, 1]), LEVEL)), 3),
    )


def _middle(train: Pairs) -> PairCurves:
    """Fit the two curves alone."""
    ranges = [
        tuple(np.quantile(values, [_EXTREME, 1 - _EXTREME]).round(4).tolist())
        for values in (train.variances.sum(axis=1), train.words)
    ]
    draft = PairCurves((0.0,) * 5, (0.0,) * 5, 0.0, 0.0, ranges[0], ranges[1], 0.0)
    columns = train.terms(draft)
    return structs.replace(
        draft,
        same_meaning=tuple(logistic(columns[:, 1:], train.same, np.zeros(4), _RIDGE).round(4).tolist()),
        similarity=tuple(grade(columns, train.gold).round(4).tolist()),
    )


def grade(columns: Array64, gold: Array64) -> Array64:
    """Return the coefficients of the curve that is nearest to the grades."""

    def curve(at: Array64, *numbers: float) -> Array64:
        return np.asarray(HIGHEST_GRADE * expit(at @ np.array(numbers)))

    return np.asarray(curve_fit(curve, columns, gold, p0=(-2.0, 4.0, 0.1, *np.zeros(columns.shape[1] - 3)))[0])


def slope(train: Pairs) -> float:
    """Return how fast the log-odds rise with the cosine where they are about even, by a curve over it alone."""
    step = 1e-6
    empty = _middle(train)
    weights = logistic(train.terms(empty, cosine_alone=True)[:, 1:], train.same, np.zeros(2), _RIDGE)
    low, high = (empty.terms(_EVEN + side * step, 1.0, 1.0)[:3] @ weights for side in (-1, 1))
    return round(float((high - low) / (2 * step)), 4)


def _conformal(errors: Array64) -> float:
    """Return the conformal quantile of errors."""
    rank = int(np.ceil(LEVEL * (len(errors) + 1))) - 1
    return float(np.sort(errors)[min(rank, len(errors) - 1)])


def save_defaults(model: Sen2Pro, **changes: Any) -> None:
    """Replace `pairs` or `hits` of the numbers that ship, which are for one model."""
    signature = {name: getattr(model.signature(), name) for name in defaults().signature}
    bundle.save(FOLDER, NAME, structs.replace(defaults(), signature=signature, **changes))


def main() -> None:
    """Fit and write."""
    model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
    curves = structs.replace(
        fit(read(model.estimate, *TRAIN)), slope=slope(read(model.estimate, TRAIN[-1], without=()))
    )
    save_defaults(model, pairs=curves)
    print(curves)


if __name__ == "__main__":
    main()
