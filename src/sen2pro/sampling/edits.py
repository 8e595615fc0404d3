"""Data uncertainty: copies of a sentence, each changed by one word-level edit.

A text without spaces (Chinese, Japanese, Thai, ...) is one word to these edits, so its data uncertainty says little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sen2pro.encoder.backend import key

# Scripts that are written without spaces: Thai to Myanmar, Khmer, kana, Han.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
OPERATIONS = ("drop", "swap", "replace", "insert")
_OF_ONE_WORD = ("replace", "insert")


def edit(sentence: str, vocabulary: Sequence[str], seed: int, sample: int) -> str:
    """Return copy number `sample` of a sentence: one operation, drawn uniformly among those that apply.

    A one-word sentence cannot be dropped from or swapped, so that no copy is empty. The result depends on the
    arguments alone.

    >>> edit("the quick brown fox", ["word"], seed=0, sample=0)
    'quick the brown fox'
    """
    words = sentence.split()
    draw = _drawer(key("edit", seed, " ".join(words), sample))
    operations = OPERATIONS if len(words) > 1 else _OF_ONE_WORD
    operation = operations[draw(len(operations))]
    at = draw(len(words) + (operation == "insert"))
    if operation == "drop":
        del words[at]
    elif operation == "swap":
        other = (at + 1 + draw(len(words) - 1)) % len(words)
        words[at], words[other] = words[other], words[at]
    elif operation == "replace":
        words[at] = vocabulary[draw(len(vocabulary))]
    else:
        words.insert(at, vocabulary[draw(len(vocabulary))])
    return " ".join(words)


def insert_word(sentence: str, vocabulary: Sequence[str], seed: int, sample: int) -> str:
    """Return copy number `sample` of a sentence with one word of the vocabulary inserted somewhere.

    >>> insert_word("the quick brown fox", ["word"], seed=0, sample=0)
    'the word quick brown fox'
    """
    words = sentence.split()
    draw = _drawer(key("insert", seed, " ".join(words), sample))
    words.insert(draw(len(words) + 1), vocabulary[draw(len(vocabulary))])
    return " ".join(words)


def _drawer(number: int) -> Callable[[int], int]:
    """Return a function that draws from range(n): it spends a 128-bit number like the digits of a mixed radix."""

    def draw(n: int) -> int:
        nonlocal number
        number, digit = divmod(number, n)
        return digit

    return draw


def is_unspaced(sentence: str) -> bool:
    """Tell whether a text is one word to the edits because its script has no spaces."""
    return len(sentence.split()) == 1 and bool(_UNSPACED.search(sentence))
