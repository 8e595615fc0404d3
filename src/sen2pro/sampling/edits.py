"""Data uncertainty: copies of a sentence, each changed by one word-level edit.

Words are what white space separates. A text without spaces (Chinese, Japanese, Thai, ...) is one word to these
edits: it can only be replaced whole or get a word before or after it, so its data uncertainty says little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sen2pro.encoder.keys import key

Words = list[str]

# Scripts that are written without spaces: Thai to Myanmar, Khmer, kana, Han.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def drop(words: Words, at: int) -> Words:
    """Leave out the word at a place.

    >>> drop(["a", "b", "c"], 1)
    ['a', 'c']
    """
    return words[:at] + words[at + 1 :]


def swap(words: Words, at: int, other: int) -> Words:
    """Exchange two words.

    >>> swap(["a", "b", "c"], 0, 2)
    ['c', 'b', 'a']
    """
    result = list(words)
    result[at], result[other] = words[other], words[at]
    return result


def replace(words: Words, at: int, word: str) -> Words:
    """Put another word at a place.

    >>> replace(["a", "b", "c"], 1, "x")
    ['a', 'x', 'c']
    """
    return [*words[:at], word, *words[at + 1 :]]


def insert(words: Words, at: int, word: str) -> Words:
    """Put one more word before a place; `at == len(words)` is the end.

    >>> insert(["a", "b"], 2, "x")
    ['a', 'b', 'x']
    """
    return [*words[:at], word, *words[at:]]


OPERATIONS: tuple[str, ...] = ("drop", "swap", "replace", "insert")


def edit(sentence: str, vocabulary: Sequence[str], seed: int, sample: int) -> str:
    """Return copy number `sample` of a sentence: one operation, drawn uniformly among those that apply.

    A one-word sentence cannot be dropped from or swapped, so that no copy is empty. The result depends on the
    arguments alone.

    >>> edit("the quick brown fox", ["word"], seed=0, sample=0)
    'quick the brown fox'
    """
    words = sentence.split()
    draw = _drawer(key("edit", seed, " ".join(words), sample))
    operation = OPERATIONS[draw(4)] if len(words) > 1 else OPERATIONS[2 + draw(2)]
    if operation == "drop":
        words = drop(words, draw(len(words)))
    elif operation == "swap":
        at = draw(len(words))
        words = swap(words, at, (at + 1 + draw(len(words) - 1)) % len(words))
    elif operation == "replace":
        words = replace(words, draw(len(words)), vocabulary[draw(len(vocabulary))])
    else:
        words = insert(words, draw(len(words) + 1), vocabulary[draw(len(vocabulary))])
    return " ".join(words)


def _drawer(number: int) -> Callable[[int], int]:
    """Return a function draw(n) in range(n) that spends a 128-bit number like the digits of a mixed radix."""

    def draw(n: int) -> int:
        nonlocal number
        number, digit = divmod(number, n)
        return digit

    return draw


def is_unspaced(sentence: str) -> bool:
    """Tell whether a text is one word to the edits because its script has no spaces."""
    return len(sentence.split()) == 1 and bool(_UNSPACED.search(sentence))
