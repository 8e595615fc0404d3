"""Contest C3: whether the intent of the nearest example is right, for requests in scope and out of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sen2pro.calibration.hits import check_hits
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array
from sen2pro_lab.contests.intent_router import by_intent, votes
from sen2pro_lab.contests.retrieval import LEAST, board_verdicts, promised, sets
from sen2pro_lab.contests.rivals import DEPTH, Asked, answer, draws, judge
from sen2pro_lab.metrics.report import Result
from sen2pro_lab.metrics.sts import spread
from sen2pro_lab.paper import catalogue
from sen2pro_lab.paper.files import objects
from sen2pro_lab.paper.lab import Lab

SEEDS = 3  # of which examples are the index
SHOTS = 10  # examples of each intent
OUT_OF_SCOPE = "oos"


class Requests(NamedTuple):
    """Requests and the intent of each."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def take(self, rows: list[int]) -> Requests:
        """Return the requests at some places."""
        return Requests(tuple(self.texts[i] for i in rows), tuple(self.labels[i] for i in rows))


def read_requests(name: str, split: str) -> Requests:
    """Read one part of a set of intents."""
    path = catalogue.locate(f"confidence/{name}_{split}.jsonl")
    rows = list(objects(path)) if path else []
    if not rows:
        raise Sen2ProError(f"{name}_{split}.jsonl has no rows")
    return Requests(tuple(row.text("text") for row in rows), tuple(row.text("label") for row in rows))


def index(requests: Requests, shots: int, seed: int) -> Requests:
    """Draw examples of each intent, none of them out of scope."""
    rng, rows = np.random.default_rng(seed), []
    labels = np.array(requests.labels)
    for label in sorted({*requests.labels} - {OUT_OF_SCOPE}):
        rows += rng.permutation(np.flatnonzero(labels == label))[:shots].tolist()
    return requests.take(rows)


def asked(lab: Lab, examples: Requests, requests: Requests) -> Asked:
    """Rank the intents for each request, by the nearest example of each."""
    names, numbers = np.unique(examples.labels, return_inverse=True)
    of_examples = lab.vectors(examples.texts)

    def similar(vectors: Array) -> Array:
        return np.asarray(vectors @ of_examples.T)

    similarities = similar(lab.vectors(requests.texts))
    scores, intents = by_intent(similarities, numbers)
    parts, of_hits = lab.parts(requests.texts), lab.parts(examples.texts)
    nearest = similarities.argmax(axis=1)
    totals = [side[source].total_variance for side in (parts, of_hits) for source in ("model", "data")]
    variances = np.stack([*totals[:2], *(total[nearest] for total in totals[2:])], axis=1)
    drawn = draws(lab.join(parts), similar)
    lengths = [len(text.split()) for text in requests.texts]
    voted = votes(similarities, numbers, intents[:, 0], np.bincount(numbers)[intents[:, 0]])
    variances = np.maximum(variances, 1e-12)
    hits = check_hits(scores, lengths=lengths, votes=voted, variances=variances, agreement=drawn.pop("agreement"))
    right: NDArray[np.bool_] = names[intents] == np.array(requests.labels)[:, None]
    return Asked(hits, right, **drawn, examples=-np.sort(-similarities.astype(np.float64), axis=1)[:, :DEPTH])


def c3(lab: Lab) -> Result:
    """Contest C3: intents, with requests that have none."""
    grids, numbers, notes, verdicts = [], [], [], []
    for name in sets("train.jsonl", ("val.jsonl", "test.jsonl")):
        train, fitting, judging = (read_requests(name, split) for split in ("train", "val", "test"))
        if lab.limit:
            fitting, judging = (x.take(list(spread(len(x.texts), max(lab.limit, LEAST)))) for x in (fitting, judging))
        drawn = [index(train, lab.fewer_shots(SHOTS), seed) for seed in range(SEEDS)]
        runs = [(asked(lab, examples, fitting), asked(lab, examples, judging)) for examples in drawn]
        if min(min(run.y.sum(), len(run.y) - run.y.sum()) for pair in runs for run in pair) < 10:
            notes.append(f"{name}: left out, the nearest example is right, or wrong, for fewer than 10 requests.")
            continue
        grid, board, found = judge(name, [answer(*pair) for pair in runs])
        grids += [grid, board.grid("–", f"{name}: what ours gains, times 100")]
        numbers += [*found, *board.numbers()]
        verdicts.append(f"{name}: {board_verdicts(board.lines)}")
        outside = [100 * np.mean([label == OUT_OF_SCOPE for label in x.labels]) for x in (fitting, judging)]
        right = [100 * np.mean([pair[i].y.mean() for pair in runs]) for i in (0, 1)]
        notes.append(
            f"{name}: the nearest intent is right for {right[1]:.1f} % of the test ({right[0]:.1f} % of "
            f"validation); {outside[1]:.1f} % ({outside[0]:.1f} %) are out of scope. {promised(*runs[0])}."
        )
        notes.append(
            "A promise is for requests like those it was fitted on: with more of them out of scope, as in this test, "
            "it breaks, and every probability is too high."
        )
    if not grids:
        raise Sen2ProError("; ".join(notes))
    notes.append(
        f"{SHOTS} examples of each intent, drawn with {SEEDS} seeds, are the index; the validation part fits, the test "
        "part judges. Lists are by intent (its nearest example); `by example` are rivals on the list of examples. "
        "Votes are the share of the ten nearest examples that have the intent of the nearest."
    )
    title = "is the intent of the nearest example right, in scope and out?"
    return Result("C3", title, grids, "; ".join(verdicts), lab.signature(), notes, numbers)
