"""Metrics that encode the texts: cosine of plain vectors, similarity of Gaussians, BERTScore (Zhang et al. 2020)."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array, Array64, Labels
from sen2pro_lab.metrics.base import Metric, cosine, release

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro


class _ModelMetric(Metric):
    """A comparison of what a model makes of each text; the different texts of a call are encoded together, once."""

    takes_blank = False

    def __init__(self, model: Sen2Pro) -> None:
        self._model = model
        self.signature = str(model.signature(model.encoder.prompt(None, None)))

    def _segments(self, candidates: list[str], references: list[str]) -> Any:
        place = {text: i for i, text in enumerate(dict.fromkeys([*candidates, *references]))}
        a, b = (np.array([place[text] for text in texts], np.int64) for texts in (candidates, references))
        return self._compared(list(place), a, b)

    def _compared(self, texts: list[str], a: Labels, b: Labels) -> Any:
        """Compare the texts at the places `a` with those at the places `b`."""
        raise NotImplementedError


class Sen2VecCosine(_ModelMetric):
    """Cosine of the plain vectors of one pass, `Sen2Pro.encode_plain`."""

    name = "sen2vec"

    def _compared(self, texts: list[str], a: Labels, b: Labels) -> Array64:
        vectors = self._model.encode_plain(texts)
        return cosine(vectors[a], vectors[b])


class Sen2ProSimilarity(_ModelMetric):
    """`Sen2Pro.similarity_pairwise`, minus the distance of the two Gaussians (Eq. 6): 0 for the same text."""

    name = "sen2pro"

    def _compared(self, texts: list[str], a: Labels, b: Labels) -> Array:
        gaussians = self._model.encode(texts)
        return self._model.similarity_pairwise(gaussians[a], gaussians[b])


class BertScore(Metric):
    """F1 of BERTScore: every token with its nearest one in the other text, by the states of the last layer.

    The package bert-score does the work with the model's network and tokenizer. No idf weights, no rescaling; samples
    and pooling do not matter.
    """

    name = "bertscore"
    takes_blank = False

    def __init__(self, model: Sen2Pro) -> None:
        self._score = import_module("bert_score.utils").bert_cos_score_idf
        self._encoder = model.encoder
        self._tokenizer: Any = copy(model.encoder.transformers.source_tokenizer)
        # bert-score cuts texts to this length, and fails where a tokenizer knows no limit and says 10^30
        self._tokenizer.model_max_length = model.encoder.max_length
        if self._tokenizer.pad_token_id is None:
            raise Sen2ProError(f"bertscore pads texts, and the tokenizer of {self._encoder.name} has no padding token")
        about = f"model:{self._encoder.name}|hash:{self._encoder.hash}|layer:last|f:1|idf:no|rescaled:no"
        self.signature = f"{about}|{release('bert-score')}|{release('transformers')}"

    def _segments(self, candidates: list[str], references: list[str]) -> Any:
        from sen2pro.encoder.dropout import mode

        network, tokenizer = self._encoder.transformers.network, self._tokenizer
        weights = defaultdict(lambda: 1.0, {tokenizer.cls_token_id: 0.0, tokenizer.sep_token_id: 0.0})
        with mode(network, sampling=False):
            scores = self._score(network, references, candidates, tokenizer, weights, device=self._encoder.device)
        return scores[:, 2].double().numpy()
