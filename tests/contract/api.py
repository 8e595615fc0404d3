"""All that these tests take from sen2pro: a name that moves is changed here and nowhere else."""

from sen2pro import Gaussian, Sen2Pro, distance, distance_pairwise, estimate
from sen2pro.calibration import MatchConfidence, SearchConfidence
from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.cli.app import app, main
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.gaussian import read
from sen2pro.search import Index, find_duplicates

__all__ = [
    "FineTuning", "Gaussian", "Index", "MatchConfidence", "SearchConfidence", "Sen2Pro", "Sen2ProClassifier",
    "Sen2ProError", "Sen2ProWarning", "app", "distance", "distance_pairwise", "estimate", "find_duplicates", "main",
    "plain_vectors", "read",
]  # fmt: skip


def plain_vectors(model, sentences):
    """Return what the encoder gives without sen2pro (n, k)."""
    return model.encode_plain(sentences)
