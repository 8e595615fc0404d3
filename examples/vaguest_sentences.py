"""Print the vaguest sentences of a file: python examples/vaguest_sentences.py [FILE] [HOW_MANY]."""

import sys
from pathlib import Path

from sen2pro import Sen2Pro

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("reviews.txt")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
sentences = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

# Only the effect of editing a word is asked for: it is what agrees with people's ratings of vagueness.
model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass", uncertainty="data")
variance = model.encode(sentences).total_variance
for i in variance.argsort()[::-1][:count]:
    print(f"{variance[i]:.2f}  {sentences[i]}")
