"""Score candidate texts against references, with several metrics at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError
from sen2pro.metrics import Metric, metric, needs_model
from sen2pro.metrics.base import Scores, check_pairs

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

DEFAULT_METRICS = ("sen2pro", "sen2vec", "bleu", "chrf")


@dataclass(frozen=True, eq=False)
class Score:
    """What one metric says: of the whole corpus, of each pair (n,), and how it was measured."""

    metric: str
    corpus: float
    segments: Scores
    signature: str
    higher_is_better: bool


def score(
    candidates: Sequence[str],
    references: Sequence[str],
    *,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    model: Sen2Pro | str | None = None,
) -> list[Score]:
    """Score candidates against references, one reference each.

    Parameters
    ----------
    candidates, references
        Lists of texts of equal length, which stand in pairs.
    metrics
        Names (`sen2pro.metrics.METRICS`), or metrics with options of their own, as `Bleu(tokenize="intl")`.
    model
        For the metrics that encode: a `Sen2Pro`, or the name of an encoder. It is loaded only if a metric needs it, by
        default the default one.

    Returns
    -------
    list of Score
        One for each metric, in the order asked for.

    Examples
    --------
    >>> candidates = ["the cat sat on the mat", "it rains"]
    >>> references = ["the cat sat on a mat", "rain is falling"]
    >>> for found in score(candidates, references, metrics=("sen2vec", "cder")):
    ...     print(found.metric, round(found.corpus, 3), found.segments.round(3))
    sen2vec 0.878 [0.995 0.762]
    cder 0.556 [0.833 0.   ]
    """
    if isinstance(metrics, str) or not metrics:
        raise Sen2ProError(f"metrics must be a list of at least one name, not {metrics!r}")
    needed = [needs_model(kind) for kind in metrics if isinstance(kind, str)]  # also finds names that do not exist
    candidates, references = check_pairs(candidates, references)
    if any(needed) and (model is None or isinstance(model, str)):
        from sen2pro.model import Sen2Pro
        from sen2pro.settings import DEFAULT_MODEL

        model = Sen2Pro(model or DEFAULT_MODEL)
    loaded = None if isinstance(model, str) else model
    # All metrics are made before the first one runs: a package that is missing is said before the work.
    made = [metric(kind, model=loaded) if isinstance(kind, str) else kind for kind in metrics]
    return [_score(kind, candidates, references) for kind in made]


def _score(kind: Metric, candidates: Sequence[str], references: Sequence[str]) -> Score:
    corpus, segments = kind.both(candidates, references)
    return Score(kind.name, corpus, segments, kind.signature, kind.higher_is_better)
