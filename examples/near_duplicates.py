"""Print the closest pairs of a file: python examples/near_duplicates.py [FILE] [HOW_MANY]."""

import sys
from pathlib import Path

import numpy as np

from sen2pro import Sen2Pro

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("reviews.txt")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
sentences = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")
gaussians = model.encode(sentences)
similarity = model.similarity(gaussians, gaussians)
first, second = np.triu_indices(len(sentences), k=1)  # every pair once
for i in similarity[first, second].argsort()[::-1][:count]:
    a, b = first[i], second[i]
    print(f"{similarity[a, b]:.1f}\n  {sentences[a]}\n  {sentences[b]}")
