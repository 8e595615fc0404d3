"""How sure is an answer: that two sentences match, that a search is right; thresholds that keep their promise."""

from typing import TYPE_CHECKING

from sen2pro import importer

if TYPE_CHECKING:
    from sen2pro.calibration.comparison import Comparison
    from sen2pro.calibration.confidence import NothingPromised
    from sen2pro.calibration.guarantee import Promise, Rule, promise
    from sen2pro.calibration.hits import SearchConfidence
    from sen2pro.calibration.pairs import MatchConfidence, Matches

_HOME = {
    "Comparison": "comparison", "MatchConfidence": "pairs", "Matches": "pairs", "NothingPromised": "confidence",
    "Promise": "guarantee", "Rule": "guarantee", "SearchConfidence": "hits", "promise": "guarantee",
}  # fmt: skip

__all__ = [
    "Comparison", "MatchConfidence", "Matches", "NothingPromised", "Promise", "Rule", "SearchConfidence", "promise",
]  # fmt: skip

__getattr__, __dir__ = importer(__name__, _HOME)
