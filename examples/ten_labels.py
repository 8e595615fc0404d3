"""Train a classifier on ten labelled sentences and apply it to a file: python examples/ten_labels.py [FILE]."""

import sys
from pathlib import Path

from sen2pro.classification import Sen2ProClassifier

LABELLED = {
    "food": ["The pasta was overcooked.", "Best pizza in town.", "Our table waited an hour for dessert."],
    "travel": [
        "The train was clean and on time.",
        "Our room had a view of the sea.",
        "Check-in took an hour.",
        "The airport bus is too small.",
    ],
    "electronics": ["The battery lasts a week.", "The screen cracked at once.", "The speaker is too quiet."],
}
path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("reviews.txt")
sentences = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

texts = [text for texts in LABELLED.values() for text in texts]
labels = [label for label, texts in LABELLED.items() for _ in texts]
classifier = Sen2ProClassifier().fit(texts, labels)
for sentence, row in zip(sentences, classifier.predict_proba(sentences), strict=True):
    print(f"{classifier.classes_[row.argmax()]:11}  {row.max():.2f}  {sentence}")
