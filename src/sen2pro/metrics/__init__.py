"""Metrics of text against references, all with one face: `Metric`.

>>> METRICS
('sen2pro', 'sen2vec', 'bertscore', 'greedy', 'average', 'extrema', 'bleu', 'bleu-nltk', 'chrf', 'ter', 'cder',
 'rouge-l', 'meteor')
>>> cder = metric("cder")
>>> cder.corpus(["a small dog runs"], ["a big dog runs"])
0.75
>>> cder.higher_is_better
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError, one_of
from sen2pro.metrics.base import Metric
from sen2pro.metrics.bertscore import BertScore
from sen2pro.metrics.cder import Cder
from sen2pro.metrics.embedding import Sen2ProSimilarity, Sen2VecCosine
from sen2pro.metrics.lexical import Bleu, BleuNltk, Chrf, Meteor, RougeL, Ter
from sen2pro.metrics.words import Average, Extrema, Greedy, has_glove

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

__all__ = ["METRICS", "Bleu", "Meteor", "Metric", "metric", "needs_model"]

_OF_MODEL: dict[str, Callable[[Sen2Pro], Metric]] = {
    kind.name: kind for kind in (Sen2ProSimilarity, Sen2VecCosine, BertScore)
}
_OF_VECTORS: dict[str, Callable[[Sen2Pro | None], Metric]] = {kind.name: kind for kind in (Greedy, Average, Extrema)}
_OF_TEXT: dict[str, Callable[[], Metric]] = {
    kind.name: kind for kind in (Bleu, BleuNltk, Chrf, Ter, Cder, RougeL, Meteor)
}
METRICS = (*_OF_MODEL, *_OF_VECTORS, *_OF_TEXT)


def metric(name: str, *, model: Sen2Pro | None = None) -> Metric:
    """Return a metric by its name.

    Parameters
    ----------
    name
        One of `METRICS`.
    model
        What `sen2pro`, `sen2vec` and `bertscore` encode with, and `greedy`, `average` and `extrema` where GloVe is not
        installed; the others do not look at it.
    """
    one_of("metric", name, METRICS)
    if name in _OF_TEXT:
        return _OF_TEXT[name]()
    if name in _OF_VECTORS:
        return _OF_VECTORS[name](model)
    if model is None:
        raise Sen2ProError(f"the metric {name!r} needs a model: metric({name!r}, model=Sen2Pro())")
    return _OF_MODEL[name](model)


def needs_model(name: str) -> bool:
    """Tell whether a metric cannot do without a model.

    >>> needs_model("sen2pro"), needs_model("bleu")
    (True, False)
    """
    return one_of("metric", name, METRICS) in _OF_MODEL or (name in _OF_VECTORS and not has_glove())
