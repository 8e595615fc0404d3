"""Give a request the intent of its nearest example, or none where a precision of 80 % cannot be promised."""

import numpy as np

from sen2pro import Sen2Pro
from sen2pro.calibration import SearchConfidence

INTENTS = {
    "music": ("play some {}", "jazz rock blues techno soul pop folk metal classical reggae dance country"),
    "weather": ("what is the weather in {}", "london paris rome berlin madrid oslo tokyo cairo lima delhi dublin kyiv"),
    "alarm": ("set an alarm for {}", "one two three four five six seven eight nine ten eleven noon"),
    "dinner": ("order a {} for dinner", "pizza burger salad soup curry steak sandwich burrito kebab pie taco stew"),
}
examples = [(form.format(word), name) for name, (form, words) in INTENTS.items() for word in words.split()]
texts, names = [text for text, _ in examples], np.array([name for _, name in examples])
outside = [f"how do I {a} my {b}" for a in ("renew", "fix", "sell", "clean", "return")
           for b in ["passport", "bike", "carpet", "phone", "camera", "ring", "lamp", "coat", "watch"]]  # fmt: skip


def ranked(similarities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the intents, the best first, and their names; the nearest example of an intent counts."""
    scores = np.stack([similarities[:, names == name].max(axis=1) for name in INTENTS], axis=1)
    order = np.argsort(-scores, axis=1)
    return np.take_along_axis(scores, order, axis=1), np.array([*INTENTS])[order]


model = Sen2Pro("all-MiniLM-L6-v2")
vectors = model.encode_plain(texts)
among = vectors @ vectors.T
np.fill_diagonal(among, -1)  # every example asks the others; texts without an intent ask all of them
known, found = ranked(np.concatenate([among, model.encode_plain(outside) @ vectors.T]))
truth = np.concatenate([names, np.full(len(outside), "none")])
confidence = SearchConfidence().fit(known, found == truth[:, None])
rule = confidence.abstain(precision=0.8)

requests = ["play some disco", "order a lasagna for dinner", "who won the match"]
scores, intents = ranked(model.encode_plain(requests) @ vectors.T)
sure = rule.accepts(confidence.probability(scores)) if rule else np.zeros(len(requests), bool)
for request, intent, yes in zip(requests, intents[:, 0], sure, strict=True):
    print(f"{intent if yes else '-':8} {request}")
