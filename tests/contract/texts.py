"""Fixed texts of `cases/texts.json`: sentences, documents with queries, labelled pairs, labelled sentences."""

from contract.golden import cases

_DATA = cases("texts")
MAN, PLAYS, MARKET, LONG, SENTENCES = (_DATA[name] for name in ("MAN", "PLAYS", "MARKET", "LONG", "SENTENCES"))
DOCUMENTS, METADATA, QUERIES, TEXTS = (_DATA[name] for name in ("DOCUMENTS", "METADATA", "QUERIES", "TEXTS"))

# The same said in two ways; neighbours are about similar things. None of the new pairs is among them.
_TWICE, NEW_PAIRS = _DATA["TWICE"], _DATA["NEW_PAIRS"]
FIRST = [first for first, _ in _TWICE] * 2
SECOND = [second for _, second in _TWICE] + [_TWICE[place ^ 1][1] for place in range(len(_TWICE))]
MATCHES = [1] * len(_TWICE) + [0] * len(_TWICE)

LABELLED, LABELS = [], []
for label in ("sport", "money", "food"):
    LABELLED += _DATA[label.upper()]
    LABELS += [label] * len(_DATA[label.upper()])
UNLABELLED = _DATA["UNLABELLED"]
