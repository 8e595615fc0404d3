"""How specific a sentence is, as people see it, without a label.

A specific sentence holds its place: a stray word that is put into it hardly moves its meaning. A vague one goes with
the word. So the measure is how far the vector moves, on average, when one random word is inserted. Names and numbers,
which make a sentence specific to people, count beside it.
"""

from sen2pro.specificity.measure import Explanation, Specificity

__all__ = ["Explanation", "Specificity"]
