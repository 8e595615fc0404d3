"""Labelled sentences in the words that the tiny models know, Gaussians of two classes, settings of a model."""

import random

import numpy as np

from sen2pro import Gaussian

SPORT = ["the man plays the ball", "a woman runs in the park", "the dog runs slowly", "a man runs quickly"]
MONEY = ["the market fell today", "the price rose tomorrow", "the market rose and the price fell", "a big price today"]
TEXTS, LABELS = SPORT + MONEY, ["sport"] * 4 + ["money"] * 4
OWN = {"samples": 3, "seed": 7, "pooling": "cls", "dropout": 0.3, "combine": "unified", "normalize": False,
       "vocabulary": ["market", "rain"]}  # fmt: skip


def gaussians(n=30, k=6, seed=0, gap=3.0):
    """Return two classes that differ in the first dimension, and their labels."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    mean = draw.normal(size=(n, k))
    mean[:, 0] += gap * labels
    return Gaussian(mean, draw.uniform(0.1, 1, (n, k))), labels


SUBJECTS = ["the man", "a woman", "the dog", "a cat", "the big dog", "a small cat"]
VERBS = ["plays", "runs", "eats", "sees", "plays the guitar", "runs in the park"]
ENDS = ["today", "tomorrow", "quickly", "slowly", "in the house", "with the ball"]


def sentences(count, seed=0):
    """Return so many different sentences."""
    every = [f"{s} {v} {e}" for s in SUBJECTS for v in VERBS for e in ENDS]
    return random.Random(seed).sample(every, count)


# Texts of a help page, a query that one of them answers, and one that none does.
HELP = [
    "To reset your password, open Settings and choose Security.", "We ship to all of Europe within five days.",
    "Our office is in Lyon, near the station.", "Refunds take two weeks.", "The app runs on Android and iOS.",
]  # fmt: skip
KNOWN, UNKNOWN = "how do I reset my password?", "who won the world cup in 1998?"
