"""Classification from a handful of labels, with a sentence's distribution as its features."""

from sen2pro.calibration.report import Scores, evaluate
from sen2pro.classification.classifier import Sen2ProClassifier
from sen2pro.classification.finetune import FineTuning

__all__ = ["FineTuning", "Scores", "Sen2ProClassifier", "evaluate"]
