from collections import Counter

import pytest
from conftest import build_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from sen2pro import Sen2Pro, Sen2ProWarning
from sen2pro.encoder.backend import whole_words
from sen2pro.encoder.encoder import Encoder
from sen2pro.sampling.edits import OPERATIONS, edit, is_unspaced

VOCABULARY = ["alpha", "beta", "gamma"]
words = st.lists(st.text("xyzäß", min_size=1, max_size=5), min_size=1, max_size=10)


def operation(before: list[str], after: list[str]) -> str:
    """Tell by the words which operation was applied (the words of the sentence are distinct)."""
    if len(after) == len(before) - 1:
        return "drop"
    if len(after) == len(before) + 1:
        return "insert"
    return "swap" if sorted(after) == sorted(before) else "replace"


def swapped(sentence, at, other):
    places = {at: other, other: at}
    return [sentence[places.get(i, i)] for i in range(len(sentence))]


@given(words, st.integers(0, 2**40), st.integers(0, 1000))
def test_an_edit_is_one_operation_and_never_empty(sentence, seed, sample):
    result = edit(" ".join(sentence), VOCABULARY, seed, sample)
    assert result == edit(" ".join(sentence), VOCABULARY, seed, sample)
    after = result.split()
    assert after
    n = len(sentence)
    possible = [[*sentence[:at], word, *sentence[at:]] for at in range(n + 1) for word in VOCABULARY]
    possible += [[*sentence[:at], word, *sentence[at + 1 :]] for at in range(n) for word in VOCABULARY]
    if n > 1:
        possible += [sentence[:at] + sentence[at + 1 :] for at in range(n)]
        possible += [swapped(sentence, at, other) for at in range(n) for other in range(n) if at != other]
    assert after in possible


def test_operations_places_and_words_are_drawn_uniformly():
    sentence = "one two three four five"
    edits = [edit(sentence, VOCABULARY, 0, sample).split() for sample in range(8000)]
    counts = Counter(operation(sentence.split(), e) for e in edits)
    # Each count is binomial(8000, 1/4): mean 2000, standard deviation 39.
    assert {name: abs(counts[name] - 2000) < 5 * 39 for name in OPERATIONS} == dict.fromkeys(OPERATIONS, True)
    dropped = Counter(next(w for w in sentence.split() if w not in e) for e in edits if len(e) == 4)
    assert min(dropped.values()) > 400 - 5 * 20
    inserted = Counter(w for e in edits for w in e if w in VOCABULARY)
    assert min(inserted.values()) / sum(inserted.values()) > 0.3
    places = Counter(next(i for i, w in enumerate(e) if w in VOCABULARY) for e in edits if len(e) == 6)
    assert sorted(places) == [0, 1, 2, 3, 4, 5]


def test_a_one_word_sentence_is_replaced_or_added_to():
    results = {edit("hello", ["word"], 0, sample) for sample in range(50)}
    assert results == {"word", "hello word", "word hello"}


def test_copies_differ_by_sample_sentence_and_seed():
    sentence = "the big dog runs in the park with a red ball"
    assert len({edit(sentence, VOCABULARY, 0, sample) for sample in range(50)}) > 30
    assert len({edit(sentence, VOCABULARY, seed, 0) for seed in range(50)}) > 30


def test_text_without_spaces_is_said_to_be_one_word(bert, tokenizer):
    assert is_unspaced("今天天气很好")
    assert is_unspaced("วันนี้อากาศดี")
    assert not is_unspaced("今天 天气 很 好")
    assert not is_unspaced("Hello")
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=2)
    with pytest.warns(Sen2ProWarning, match="no spaces"):
        model.encode("今天天气很好")


def test_whole_words_of_the_three_kinds_of_tokenizers():
    def decode(token):
        return token.replace("▁", " ").replace("Ġ", " ")

    assert whole_words(["the", "##ing", "word", "!", "a", "2", "[unused1]"], decode) == ["the", "word", "a", "2"]
    assert whole_words(["▁the", "ing", "▁word", "▁", "▁2"], decode) == ["the", "word", "2"]
    assert whole_words(["Ġthe", "ing", "Ġword", "Ġthe", "Ġ!"], decode) == ["the", "word"]


def test_the_real_vocabulary_has_words_and_nothing_else(minilm):
    vocabulary = set(minilm.vocabulary)
    assert {"guitar", "house", "running", "a", "1999"} <= vocabulary
    assert not vocabulary & {"[CLS]", "[PAD]", "[unused1]", "##ing", "!"}
    assert len(vocabulary) > 20_000


def test_a_vocabulary_of_ones_own_is_used(bert):
    tokenizer = build_tokenizer()
    own = Sen2Pro(bert, tokenizer=tokenizer, samples=2, vocabulary=["guitar"])
    assert own.vocabulary == ["guitar"]
    assert own.signature().edits != Sen2Pro(bert, tokenizer=tokenizer, samples=2).signature().edits
    assert "guitar" in Encoder(bert, tokenizer=tokenizer).vocabulary
