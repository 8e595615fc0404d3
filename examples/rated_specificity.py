"""Learn people's ratings of specificity: ridge regression on the vector, the variances and the specificity score."""

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sen2pro import Sen2Pro

RATED = {  # from 1, vague, to 5, specific
    "It was nice.": 1.0, "We like it.": 1.0, "That is so good.": 1.5, "They did that again.": 1.2,
    "Somebody said something about it.": 1.3, "Things are going well these days.": 1.8,
    "A dog ran through the park.": 3.0, "My sister sings in a choir.": 3.2, "The shop opens in the morning.": 2.8,
    "Add 200 grams of flour to the butter.": 4.2, "The 7:40 train to Leeds left platform 3 late.": 5.0,
    "Mozart wrote his last three symphonies in Vienna in 1788.": 5.0,
}  # fmt: skip
NEW = ["It is fine.", "A cat slept on the sofa.", "The bank in Oslo raised its rate to 4.5 percent on Thursday."]

model = Sen2Pro("all-MiniLM-L6-v2", method="one-pass")


def features(texts: list[str]) -> np.ndarray:
    """Return what one pass says of each sentence: its vector, log-variances of each source, specificity, length."""
    variances = [np.log(part.variance + 1e-12) for part in model.encode_sources(texts).values()]
    totals = [part.sum(axis=1, keepdims=True) for part in variances]
    numbers = [model.specificity(texts).value, np.log([len(text.split()) for text in texts])]
    return np.concatenate([model.encode_plain(texts), *variances, *totals, np.stack(numbers, axis=1)], axis=1)


regression = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1, 10_000, 9)))
regression.fit(features([*RATED]), [*RATED.values()])
for text, rating in zip(NEW, regression.predict(features(NEW)), strict=True):
    print(f"{rating:.1f}  {text}")
