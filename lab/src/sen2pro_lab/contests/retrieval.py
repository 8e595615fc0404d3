"""Contest C4: whether the first hit of a search is right, where half of the queries have no answer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.hits import SearchConfidence, check_hits
from sen2pro.calibration.selection import folds
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.validation import Array
from sen2pro_lab.contests.rivals import DEPTH, WITH, WITHOUT, Asked, Trial, answer, draws, judge
from sen2pro_lab.metrics.comparisons import Line
from sen2pro_lab.metrics.report import Result
from sen2pro_lab.metrics.sts import spread
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.catalogue import DataMissing
from sen2pro_lab.paper.files import objects, table
from sen2pro_lab.paper.lab import Lab

SEEDS = 3  # of which half of the queries loses its answers
LEAST = 60  # queries at any limit: with fewer, there is nothing to fit
_PROMISED = (0.9, 0.95)  # precisions
FIRST = ("xquad", "cranfield", "cisi")


class Collection(NamedTuple):
    """Documents, queries, and which document answers which query (queries, documents)."""

    documents: tuple[str, ...]
    queries: tuple[str, ...]
    relevant: NDArray[np.bool_]


def sets(ending: str, others: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the sets in the folder `confidence` that have a file NAME_ending, and those of the others."""
    base = catalogue.folder()
    found = sorted((base / "confidence").glob(f"*_{ending}*")) if base else []
    names = dict.fromkeys(path.name.split(f"_{ending}")[0] for path in found)
    wanted = [name for name in names if all(catalogue.locate(f"confidence/{name}_{other}") for other in others)]
    if not wanted:
        files = ", ".join(f"NAME_{each}" for each in (ending, *others))
        raise DataMissing(f"there is no set in the folder confidence of the evaluation data; its files are {files}")
    return sorted(wanted, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def read_collection(name: str) -> Collection:
    """Read a collection. Any grade above 0 counts as relevant: Cranfield's strongest grade is 1."""
    parts = []
    for part in ("docs", "queries"):
        path = catalogue.locate(f"confidence/{name}_{part}.jsonl")
        rows = list(objects(path)) if path else []
        parts.append({row.text("id"): row.text("text") for row in rows})
    documents, queries = parts
    columns = {key: number for number, key in enumerate(documents)}
    places = {key: number for number, key in enumerate(queries)}
    relevant = np.zeros((len(queries), len(documents)), bool)
    path = catalogue.locate(f"confidence/{name}_qrels.tsv")
    for row in table(path, "query", "doc", "grade") if path else ():
        query, document = row.text("query"), row.text("doc")
        if query in places and document in columns and row.number("grade") > 0:
            relevant[places[query], columns[document]] = True
    kept = relevant.any(axis=1)  # the others could not be answered before anything is removed
    if not kept.any() or len(documents) <= DEPTH:
        raise Sen2ProError(f"{name}: no query has a relevant document, or there are at most {DEPTH} documents")
    texts = np.array(list(queries.values()), object)[kept]
    return Collection(tuple(documents.values()), tuple(texts), relevant[kept])


def asked(lab: Lab, name: str, seed: int) -> Asked:
    """Rank the documents for each query after the relevant ones of a random half of the queries were removed."""
    documents, queries, relevant = read_collection(name)
    if lab.limit:
        rows = spread(len(queries), max(lab.limit, LEAST))
        queries, relevant = tuple(queries[i] for i in rows), relevant[rows]
        few = spread(len(documents), max(10 * lab.limit, 2 * LEAST))
        kept = sorted({*few, *np.flatnonzero(relevant.any(axis=0)).tolist()})
        documents, relevant = tuple(documents[i] for i in kept), relevant[:, kept]
    n = len(queries)
    loses = np.random.default_rng(seed).permutation(n) < n // 2
    removed = relevant & loses[:, None]  # for its own query alone: others may still find the document
    of_documents = lab.vectors(documents)

    def score(vectors: Array) -> Array:
        return np.where(removed, -np.inf, vectors @ of_documents.T)

    scores = score(lab.vectors(queries))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    parts, of_hits = lab.parts(queries), lab.parts(documents)
    first = order[:, 0]
    totals = [side[source].total_variance for side in (parts, of_hits) for source in ("model", "data")]
    variances = np.stack([*totals[:2], *(total[first] for total in totals[2:])], axis=1)
    drawn = draws(lab.join(parts), score, seed)
    hits = check_hits(
        np.take_along_axis(scores, order, axis=1), lengths=[len(query.split()) for query in queries],
        variances=np.maximum(variances, 1e-12), agreement=drawn.pop("agreement"),
    )  # fmt: skip
    right = np.take_along_axis(relevant & ~removed, order, axis=1)
    return Asked(hits, right, **drawn)


def cross_fitted(queries: Asked) -> Trial:
    """Ask about each fifth of the queries what was fitted on the other four."""
    whole = Trial(queries.y)
    for held in folds(queries.y):
        part = answer(queries[~held], queries[held])
        for target, found in ((whole.confidence, part.confidence), (whole.probability, part.probability)):
            for way, values in found.items():
                target.setdefault(way, np.empty(len(whole.y)))[held] = values
    return whole


def promised(fitting: Asked, judging: Asked | None = None) -> str:
    """Say how many queries our rule answers at a promised precision, and how many of these answers are right.

    Without other queries to judge, each fifth is judged by what was fitted on the other four.
    """
    parts = [(fitting, judging)] if judging is not None else []
    parts = parts or [(fitting[~held], fitting[held]) for held in folds(fitting.y)]
    y = np.concatenate([asked.y for _, asked in parts])
    found = [_answered(*part) for part in parts]
    told = []
    for precision in _PROMISED:
        answered = np.concatenate([each[precision][0] for each in found])
        seen = f"{100 * answered.mean():.1f} % answered"
        reason = found[-1][precision][1]
        seen += f", {100 * y[answered].mean():.1f} % of them right" if answered.any() else f" ({reason})"
        told.append(f"at a promised precision of {100 * precision:g} % {seen}")
    return "; ".join(told)


def _answered(fitting: Asked, judging: Asked) -> dict[float, tuple[NDArray[np.bool_], str]]:
    """Tell for each promised precision which queries our rule answers, and why it answers none."""
    confidence = SearchConfidence().fit(fitting.hits.scores, fitting.right, votes=fitting.hits.extras.get("votes"))
    sure = confidence.probability(judging.hits.scores, votes=judging.hits.extras.get("votes"))
    found = {}
    for precision in _PROMISED:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", Sen2ProWarning)
            rule = confidence.abstain(precision)
        if rule is None:
            found[precision] = np.zeros(len(sure), bool), str(told[-1].message)
        else:
            found[precision] = rule.accepts(sure), ""
    return found


def c4(lab: Lab) -> Result:
    """Contest C4: retrieval with the answers removed for half of the queries."""
    grids, numbers, notes, verdicts = [], [], [], []
    for name in sets("qrels.tsv", ("docs.jsonl", "queries.jsonl")):
        runs = [asked(lab, name, seed) for seed in range(SEEDS)]
        if min(min(run.y.sum(), len(run.y) - run.y.sum()) for run in runs) < 10:
            notes.append(f"{name}: left out, fewer than 10 queries have a first hit that is right, or wrong.")
            continue
        grid, board, found = judge(name, [cross_fitted(run) for run in runs])
        grids += [grid, board.grid("–", f"{name}: what ours gains, times 100")]
        numbers += [*found, *board.numbers()]
        share = np.mean([run.y.mean() for run in runs])
        notes.append(f"{name}: the first hit is right for {100 * share:.1f} % of the queries; {promised(runs[0])}.")
        verdicts += [f"{name}: {board_verdicts(board.lines)}"]
    if not grids:
        raise Sen2ProError("; ".join(notes))
    notes += [
        f"Half of the queries, drawn with {SEEDS} seeds, lose their relevant documents. Each fifth of the queries is "
        "judged by what was fitted on the other four. "
        "Values are means over the seeds; intervals resample queries.",
        "`answered at 95 %` is the largest share of queries (the surest) that is 95 % right; known only afterwards.",
    ]
    title = "is the first hit right, where half of the queries have no answer?"
    return Result("C4", title, grids, "; ".join(verdicts), lab.signature(), notes, numbers)


def board_verdicts(lines: Sequence[Line]) -> str:
    """Say what the distribution adds, and how ours stands against the best rival."""
    return ", ".join(
        f"{line.labels[1]} {line.labels[2]} against {line.labels[3].removeprefix('ours, ')} {line.ours.verdict}"
        for line in lines
        if line.ours is not None and f"ours, {line.labels[2]}" in (WITH, WITHOUT)
    )
