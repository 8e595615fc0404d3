"""Score candidate texts against references, with several metrics at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array64
from sen2pro_lab.metrics import Metric, metric, needs_model
from sen2pro_lab.metrics.base import check_pairs

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

DEFAULT_METRICS = ("sen2pro", "sen2vec", "bleu", "chrf")


@dataclass(frozen=True, eq=False)
class Score:
    """What one metric says: of the whole corpus, of each pair (n,), and how it was measured."""

    metric: str
    corpus: float
    segments: Array64
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
        Lists of texts of equal length: each candidate stands at the place of its reference.
    metrics
        Names (`sen2pro_lab.metrics.METRICS`), or metrics with options of their own, as `Bleu(tokenize="intl")`.
    model
        A `Sen2Pro`, or the name of an encoder, which is loaded only if a metric needs it. By default the default model.

    Returns
    -------
    list of Score
        One for each metric, in the order asked for.

    Examples
    --------
    >>> candidates = ["the cat sat on the mat", "it rains"]
    >>> references = ["the cat sat on a mat", "rain is falling"]
    >>> for one in score(candidates, references, metrics=("sen2vec", "cder")):
    ...     print(one.metric, round(one.corpus, 3), one.segments.round(3))
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
    # All metrics are made before the first one runs: a missing package is an error before the work.
    made = [metric(kind, model=loaded) if isinstance(kind, str) else kind for kind in metrics]
    return [Score(one.name, *one.both(candidates, references), one.signature, one.higher_is_better) for one in made]
