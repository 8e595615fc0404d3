"""The contests of search confidence: what each rival says of a list of hits, and how all of them are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sen2pro.calibration.hits import Hits, choose_both
from sen2pro.calibration.selection import Candidate, Table, better, fit
from sen2pro.gaussian import Gaussian
from sen2pro.validation import Array, Array64
from sen2pro_lab.metrics.abstention import auroc, calibration, nauc, risk_coverage_area, share_answered
from sen2pro_lab.metrics.bootstrap import Statistic, mean_of, mean_statistic, paired_bootstrap, value_of
from sen2pro_lab.metrics.comparisons import Board, Points
from sen2pro_lab.metrics.report import Grid

DRAWS = 15  # from the distribution of a query, as many as the paper's samples
DEPTH = 10  # hits
WITHOUT, WITH, CHOSEN = "ours, without the distribution", "ours, with the distribution", "ours, as chosen"
OURS = (WITHOUT, WITH, CHOSEN)
_LAMBDAS = (0.0, 0.5, 1.0, 2.0, 4.0)
_SMALLEST = 1e-3  # probability: isotonic regression says 0 and 1
_MEASURES: dict[str, Callable[[Array64, Array64], Statistic]] = {
    "AUROC": auroc, "nAUC": nauc, "risk-coverage area": risk_coverage_area, "answered at 95 %": share_answered,
    "calibration error": calibration,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Asked:
    """The hits of some queries: scores and more, which are right, and what drawing the query says of them.

    `examples` is the list before it was put together by intent. `noisy` is the agreement of the lists under white
    noise; `drawn_mean` and `drawn_sd` are of the first hit's score under draws of the query.
    """

    hits: Hits
    right: NDArray[np.bool_]
    noisy: Array64
    drawn_mean: Array64
    drawn_sd: Array64
    examples: Array64 | None = None

    def __getitem__(self, rows: NDArray[np.bool_]) -> Asked:
        examples = None if self.examples is None else self.examples[rows]
        noisy, mean, sd = (x[rows] for x in (self.noisy, self.drawn_mean, self.drawn_sd))
        return Asked(self.hits[rows], self.right[rows], noisy, mean, sd, examples)

    @property
    def y(self) -> Array64:
        """Whether the first hit is right."""
        return self.right[:, 0].astype(np.float64)


@dataclass
class Trial:
    """What each way says of the same answers: a confidence, and a probability where it gives one."""

    y: Array64
    confidence: dict[str, Array64] = field(default_factory=dict)
    probability: dict[str, Array64] = field(default_factory=dict)


def draws(query: Gaussian, score: Callable[[Array], Array], seed: int = 0) -> dict[str, Array64]:
    """Draw each query again, from its own distribution and with white noise of the same size on average.

    `score` gives the scores of every document for vectors of all queries (n, documents). Agreement is the share of the
    first hits that come up again.
    """
    rng, mean = np.random.default_rng(seed), query.mean.astype(np.float64)
    plain = score(mean.astype(np.float32))
    first, top = plain.argmax(axis=1)[:, None], _top(plain)
    white = np.full_like(query.variance, query.variance.mean(), np.float64)
    found: dict[str, Array64] = {}
    for name, variance in (("agreement", query.variance), ("noisy", white)):
        shares, ofs = np.zeros(len(mean)), []
        for _ in range(DRAWS):
            scores = score((mean + np.sqrt(variance) * rng.normal(size=mean.shape)).astype(np.float32))
            shares += np.take_along_axis(top, _hits(scores), axis=1).mean(axis=1) / DRAWS
            ofs.append(np.take_along_axis(scores, first, axis=1)[:, 0])
        found[name] = np.minimum(shares, 1)
        if name == "agreement":
            found |= {"drawn_mean": np.mean(ofs, axis=0), "drawn_sd": np.std(ofs, axis=0)}
    return found


def _hits(scores: Array) -> NDArray[np.int64]:
    """Return the first hits of each query (n, k), in any order."""
    return np.asarray(np.argpartition(-scores, min(DEPTH, scores.shape[1]) - 1, axis=1)[:, :DEPTH])


def _top(scores: Array) -> NDArray[np.bool_]:
    top = np.zeros(scores.shape, bool)
    np.put_along_axis(top, _hits(scores), True, axis=1)
    return top


def answer(fitting: Asked, judging: Asked) -> Trial:
    """Fit every way on some queries and ask it about others."""
    trial, y = Trial(judging.y), fitting.y
    without, with_ = choose_both(fitting.hits, y)
    best = without if with_ is None else better(without, with_, y, errors=1)
    for name, chosen in zip(OURS, (without, with_, best), strict=True):
        if chosen is not None:
            trial.probability[name] = expit(judging.hits.logits(chosen.fitted))
    trial.probability |= _calibrated(fitting.hits.scores[:, :1], y, judging.hits.scores[:, :1])
    trial.confidence |= trial.probability
    lists = {"": (fitting.hits.scores, judging.hits.scores)}
    if fitting.examples is not None and judging.examples is not None:
        lists[", by example"] = fitting.examples, judging.examples
    for title, (known, asked) in lists.items():
        trial.confidence |= {f"{name}{title}": value for name, value in _of_list(asked).items()}
        trial.confidence[f"ridge on the sorted scores{title}"] = _ridge(known, y, asked)
    if "votes" in judging.hits.extras:
        trial.confidence["votes"] = judging.hits.extras["votes"][:, 0]
    trial.confidence["DenseQPP"] = judging.noisy
    weight = max(_LAMBDAS, key=lambda x: value_of(auroc(fitting.drawn_mean - x * fitting.drawn_sd, y), len(y)))
    trial.confidence["mean minus lambda sd"] = judging.drawn_mean - weight * judging.drawn_sd
    return trial


def _of_list(scores: Array64) -> dict[str, Array64]:
    """Return the three confidences of mteb."""
    return {"max": scores[:, 0], "std": scores.std(axis=1), "diff1": scores[:, 0] - scores[:, 1]}


def _calibrated(known: Array64, y: Array64, asked: Array64) -> dict[str, Array64]:
    from sklearn.isotonic import IsotonicRegression

    isotonic = IsotonicRegression(y_min=_SMALLEST, y_max=1 - _SMALLEST, out_of_bounds="clip").fit(known[:, 0], y)
    score = Candidate("Platt", ("score",), (1e-3,))
    platt = expit(fit(score, Table(score.features, known), y, 1e-3).logits(Table(score.features, asked)))
    return {"Platt on the cosine": platt, "isotonic on the cosine": isotonic.predict(asked[:, 0])}


def _ridge(known: Array64, y: Array64, asked: Array64) -> Array64:
    from sklearn.linear_model import RidgeCV

    return np.asarray(RidgeCV(np.logspace(-4, 3, 15)).fit(known, y).predict(asked))


def loss(probability: Array64, right: Array64) -> Statistic:
    """Return the log-loss, as a function of how often each answer counts."""
    return mean_statistic(-np.log(np.maximum(np.where(right == 1, probability, 1 - probability), 1e-15)))


def measure(trials: Sequence[Trial], name: str, way: str) -> list[Statistic]:
    """Return a measure of a way in each trial."""
    measures = {**_MEASURES, "log-loss": loss}
    of = "probability" if name in ("log-loss", "calibration error") else "confidence"
    return [measures[name](getattr(trial, of)[way], trial.y) for trial in trials]


def judge(title: str, trials: Sequence[Trial]) -> tuple[Grid, Board, list[dict[str, object]]]:
    """Return the table of all ways, what ours gains over the others, and all numbers for JSON."""
    n = len(trials[0].y)
    names = ("AUROC", "nAUC", "log-loss", "calibration error", "risk-coverage area", "answered at 95 %")
    rows, numbers = [], []
    values: dict[str, dict[str, float]] = {}
    for way in trials[0].confidence:
        has = [x for x in names if way in trials[0].probability or x not in ("log-loss", "calibration error")]
        values[way] = {x: value_of(mean_of(measure(trials, x, way)), n) for x in has}
        cells = [f"{values[way][x]:.3f}" if x in has else "–" for x in names]
        more: dict[str, object] = {}
        if "calibration error" in has:
            zero = paired_bootstrap(measure(trials, "calibration error", way), lambda c: np.zeros(len(c)), n)
            half = (zero.high - zero.low) / 2  # around the value: resampling adds noise, and with it calibration error
            low, high = max(zero.value - half, 0), zero.value + half
            cells[3] += f" [{low:.3f}, {high:.3f}]"
            more = {"calibration_low": low, "calibration_high": high}
        rows.append([way, *cells])
        numbers.append({"set": title, "way": way, **values[way], **more})
    return Grid(["way", *names], rows, f"{title}: {n} queries"), _gains(title, trials, values), numbers


def _gains(title: str, trials: Sequence[Trial], values: Mapping[str, Mapping[str, float]]) -> Board:
    board = Board(["set", "measure", "ours", "against"])
    for name in ("AUROC", "nAUC", "log-loss"):
        smaller = name == "log-loss"
        rivals = {way: found[name] for way, found in values.items() if way not in OURS and name in found}
        rival = (min if smaller else max)(rivals, key=lambda way: rivals[way])
        for ours, other in ((WITH, WITHOUT), (WITHOUT, rival), (CHOSEN, rival)):
            if ours in values:
                points = partial(_points, trials, name, ours, other)
                board.add([title, name, ours.removeprefix("ours, "), other], points, smaller_is_better=smaller)
    return board


def _points(trials: Sequence[Trial], name: str, ours: str, other: str) -> Points:
    return Points(measure(trials, name, ours), measure(trials, name, other), len(trials[0].y))
