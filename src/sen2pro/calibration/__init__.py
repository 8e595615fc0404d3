"""How sure is an answer: that two sentences match, that a search is right; thresholds that keep their promise."""

from typing import TYPE_CHECKING

from sen2pro import importer

if TYPE_CHECKING:
    from sen2pro.calibration.base import NothingPromised
    from sen2pro.calibration.comparison import Comparison
    from sen2pro.calibration.features import Encoded, encode
    from sen2pro.calibration.guarantee import Promise, Rule, promise
    from sen2pro.calibration.hits import SearchConfidence
    from sen2pro.calibration.matches import Matches
    from sen2pro.calibration.pairs import MatchConfidence

# Imported on first use: scikit-learn takes a second, and `model.compare` does not need it.
_HOME = {
    "Comparison": "comparison", "Encoded": "features", "MatchConfidence": "pairs",
    "Matches": "matches", "NothingPromised": "base", "Promise": "guarantee", "Rule": "guarantee",
    "SearchConfidence": "hits", "encode": "features", "promise": "guarantee",
}  # fmt: skip

__all__ = [
    "Comparison", "Encoded", "MatchConfidence", "Matches", "NothingPromised", "Promise", "Rule",
    "SearchConfidence", "encode", "promise",
]  # fmt: skip

__getattr__, __dir__ = importer(__name__, _HOME)
