"""BERTScore (Zhang et al. 2020) with the network of a Sen2Pro model."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from sen2pro.errors import Sen2ProError
from sen2pro.metrics.base import Metric, Scores, need, release

if TYPE_CHECKING:
    from sen2pro.model import Sen2Pro

_BATCH = 64  # bert-score's own


class BertScore(Metric):
    """F1 of BERTScore: every token with its nearest one in the other text, by the states of the last layer.

    The package bert-score does the work, on the network that the model has in memory. No idf weights, no rescaling.

    Parameters
    ----------
    model
        Whose network and tokenizer to use; neither samples nor pooling matter.
    """

    name: ClassVar[str] = "bertscore"
    takes_blank: ClassVar[bool] = False

    def __init__(self, model: Sen2Pro) -> None:
        self._score = need("bert_score.utils").bert_cos_score_idf
        self._encoder = model.encoder
        self._tokenizer: Any = copy(model.encoder.tokenizer)
        # bert-score cuts texts to this length, and fails where a tokenizer knows no limit and says 10^30
        self._tokenizer.model_max_length = model.encoder.max_length
        if self._tokenizer.pad_token_id is None:
            raise Sen2ProError(f"bertscore pads texts, and the tokenizer of {self._encoder.name} has no padding token")

    def _signature(self) -> str:
        encoder, versions = self._encoder, f"{release('bert-score')}|{release('transformers')}"
        return f"model:{encoder.name}|hash:{encoder.hash}|layer:last|f:1|idf:no|rescaled:no|{versions}"

    def _segments(self, candidates: list[str], references: list[str]) -> Scores:
        from sen2pro.encoder.dropout import mode

        weights: dict[int, float] = defaultdict(lambda: 1.0)
        weights.update(dict.fromkeys((self._tokenizer.cls_token_id, self._tokenizer.sep_token_id), 0.0))
        with mode(self._encoder.network, sampling=False):
            found = self._score(
                self._encoder.network,
                references,
                candidates,
                self._tokenizer,
                weights,
                batch_size=_BATCH,
                device=self._encoder.device,
            )
        scores: Scores = found[:, 2].double().numpy()
        return scores
