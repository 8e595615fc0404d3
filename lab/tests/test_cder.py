"""CDER: every distance is worked out by hand, beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sen2pro_lab.metrics import metric
from sen2pro_lab.metrics.cder import block_distance
from sen2pro_lab.paper.data import DataMissing, read_wmt_systems

TEXTS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        ("a b c d", "a b c d", 0),
        ("a x c d", "a b c d", 1),  # x replaced by b
        ("a b d", "a b c d", 1),  # c put in
        ("a b x c d", "a b c d", 1),  # after b a jump over x
        ("a b x y z c d", "a b c d", 1),  # one jump, however far
        ("", "a b c", 3),  # all put in
        ("x y z", "a b c", 3),  # all replaced
        ("x y", "a", 2),  # x replaced by a, then a jump over y to the end
        # A block moved: jump to a, keep a b c; jump back to d, keep d e f; jump to the end. An edit distance takes 6.
        ("d e f a b c", "a b c d e f", 3),
        # A block moved to the end: jump to a, keep a b c d (now at the end), put e in.
        ("e a b c d", "a b c d e", 2),
        # Words of the candidate may be read again: keep a b, jump back, keep a b.
        ("a b", "a b a b", 1),
    ],
)
def test_the_distance_counts_edits_and_jumps(candidate, reference, expected):
    assert block_distance(candidate.split(), reference.split()) == expected


def slow_distance(candidate, reference):
    """Shortest path over (place in candidate, place in reference), every step and every jump written out."""
    places = range(len(candidate) + 1)
    cost = {(i, 0): min(i, 1) for i in places}
    for j, word in enumerate(reference):
        for i in places:
            steps = [cost[i, j] + 1]
            if i:
                steps.append(cost[i - 1, j] + (candidate[i - 1] != word))
            cost[i, j + 1] = min(steps)
        for _ in places:  # steps over words of the candidate, and jumps, until nothing changes
            for i in places:
                cost[i, j + 1] = min(cost[i, j + 1], *(cost[k, j + 1] + (k != i) for k in places))
    return cost[len(candidate), len(reference)]


@given(TEXTS, TEXTS)
def test_the_distance_is_that_of_a_plain_search(candidate, reference):
    assert block_distance(candidate, reference) == slow_distance(candidate, reference)


@given(TEXTS, TEXTS)
def test_the_distance_is_never_more_than_the_edit_distance(candidate, reference):
    row = list(range(len(candidate) + 1))
    for j, word in enumerate(reference, 1):
        row, above = [j], row
        for i, other in enumerate(candidate, 1):
            row.append(min(row[-1] + 1, above[i] + 1, above[i - 1] + (other != word)))
    assert block_distance(candidate, reference) <= row[-1]


def test_the_corpus_is_weighted_by_length():
    # Distances 1 of 4 words and 1 of 1 word: 1 - 2/5, while the mean of the segments is (0.75 + 0) / 2.
    cder = metric("cder")
    pairs = (["a x c d", "x"], ["a b c d", "a"])
    assert cder.corpus(*pairs) == pytest.approx(0.6)
    np.testing.assert_allclose(cder.segments(*pairs), [0.75, 0.0])
    assert cder.higher_is_better


def test_a_blank_candidate_scores_0():
    assert metric("cder").segments(["", " "], ["a b", "c"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("pair", "published"), [("cs-en", 0.989), ("lv-en", 0.985)])
def test_wmt17_at_system_level_gives_the_published_correlation(pair, published):
    # The CDER row of the metrics task of WMT17, which the paper repeats.
    try:
        systems = read_wmt_systems(pair)
    except DataMissing as error:
        pytest.skip(str(error))
    scores = [metric("cder").corpus(output, systems.references) for output in systems.outputs.values()]
    human = [systems.human[name] for name in systems.outputs]
    assert np.corrcoef(scores, human)[0, 1] == pytest.approx(published, abs=0.001)
