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

from typing import TYPE_CHECKING, Any

from sen2pro.errors import Sen2ProError, one_of
from sen2pro_lab.metrics.base import Metric
from sen2pro_lab.metrics.cder import Cder
from sen2pro_lab.metrics.embedding import BertScore, Sen2ProSimilarity, Sen2VecCosine
from sen2pro_lab.metrics.lexical import Bleu, BleuNltk, Chrf, Meteor, RougeL, Ter
from sen2pro_lab.metrics.words import COMPARISONS, WordVectors, has_glove

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

__all__ = ["METRICS", "Bleu", "Meteor", "Metric", "metric", "needs_model"]

_OF_MODEL: dict[str, Any] = {kind.name: kind for kind in (Sen2ProSimilarity, Sen2VecCosine, BertScore)}
_OF_TEXT: dict[str, Any] = {kind.name: kind for kind in (Bleu, BleuNltk, Chrf, Ter, Cder, RougeL, Meteor)}
METRICS = (*_OF_MODEL, *COMPARISONS, *_OF_TEXT)


def metric(name: str, *, model: Sen2Pro | None = None) -> Metric:
    """Return a metric by its name.

    Parameters
    ----------
    name
        One of `METRICS`.
    model
        Encodes the texts for `sen2pro`, `sen2vec` and `bertscore`. Also gives the word vectors of `greedy`, `average`
        and `extrema` if GloVe is not installed. The other metrics do not use it.
    """
    one_of("metric", name, METRICS)
    if name in _OF_MODEL and model is None:
        raise Sen2ProError(f"the metric {name!r} needs a model: metric({name!r}, model=Sen2Pro())")
    if name in COMPARISONS:
        return WordVectors(name, model)
    made: Metric = _OF_TEXT[name]() if name in _OF_TEXT else _OF_MODEL[name](model)
    return made


def needs_model(name: str) -> bool:
    """Tell whether a metric cannot do without a model.

    >>> needs_model("sen2pro"), needs_model("bleu")
    (True, False)
    """
    return one_of("metric", name, METRICS) in _OF_MODEL or (name in COMPARISONS and not has_glove())
