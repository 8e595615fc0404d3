"""How sure is an answer: probabilities that two sentences match, and thresholds that keep their promise."""
