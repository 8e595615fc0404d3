"""How sure is an answer: probabilities that two sentences match, and thresholds that keep their promise."""

from sen2pro.confidence.base import NothingPromised
from sen2pro.confidence.compare import Comparison, compare
from sen2pro.confidence.features import Encoded, encode
from sen2pro.confidence.guarantee import Promise, Rule, promise
from sen2pro.confidence.match import MatchConfidence
from sen2pro.confidence.matches import Matches

__all__ = [
    "Comparison",
    "Encoded",
    "MatchConfidence",
    "Matches",
    "NothingPromised",
    "Promise",
    "Rule",
    "compare",
    "encode",
    "promise",
]
