"""Count the names and numbers of a text, by its capital letters and digits: what a specific sentence is full of."""

from __future__ import annotations

_MARKS = "\"'([{)]}.,;:!?*-#"
_ENDS = ".!?:…"  # after one of these a word has a capital because of its place


def names_and_numbers(text: str) -> int:
    """Return how many words are numbers, or have a capital that is not due to their place.

    Text mostly in capitals has no names that could be told.

    >>> names_and_numbers("The 7:40 train to Leeds was late. It often is, says Ann.")
    3
    >>> names_and_numbers("I'VE HAD IT"), names_and_numbers("Well, I'm fine.")
    (0, 0)
    """
    letters = [letter for letter in text if letter.isalpha()]
    shouted = sum(map(str.isupper, letters)) > len(letters) / 2
    count, first = 0, True
    for word in text.split():
        core = word.strip(_MARKS)
        named = core[:1].isupper() and len(core) > 1 and not (first or shouted or core.startswith("I'"))
        count += named or any(map(str.isdigit, word))
        if core or word[-1] in _ENDS:
            first = word[-1] in _ENDS
    return count
