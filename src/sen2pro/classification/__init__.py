"""Classification from a handful of labels, with a sentence's distribution as its features."""

from sen2pro.classification.classifier import Sen2ProClassifier
from sen2pro.classification.training import FineTuning
from sen2pro.confidence.measures import Scores, evaluate

__all__ = ["FineTuning", "Scores", "Sen2ProClassifier", "evaluate"]
