"""What the page calculates and writes, without a browser: inputs, the map, HTML around the texts of strangers."""

from __future__ import annotations

import base64
import csv
import json
import re
from html.parser import HTMLParser
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sen2pro import Gaussian
from sen2pro.calibration.comparison import Comparison
from sen2pro.errors import Sen2ProError
from sen2pro.page import drawing, fragments, inputs
from sen2pro.page.limits import Limits
from sen2pro.page.mapping import ellipse, find_groups, make_map, neighbours, outline, project
from sen2pro.page.work import build_index, encode
from sen2pro.search import Hit, Result
from sen2pro.specificity.measure import Explanation

LIMITS = Limits()
EVIL = "<img src=x onerror=\"alert('1')\"><script>alert(2)</script> & 'quoted' \"twice\""
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


def gaussians(count, dimensions=5, seed=0):
    random = np.random.default_rng(seed)
    return Gaussian(random.normal(size=(count, dimensions)), random.uniform(0.1, 1, size=(count, dimensions)))


class Tags(HTMLParser):
    """The tags and attributes of a piece of HTML, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text, self.attributes = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


def file_of(html, name):
    """Return what a link of this name holds."""
    held = re.search(rf'download="{name}" href="data:[^,]*,([^"]*)"', html)
    return base64.b64decode(held[1])


def table_of(html, name):
    return list(csv.DictReader(StringIO(file_of(html, name).decode())))


# What is pasted.


def test_lines_are_sentences_and_blank_ones_are_passed_over():
    assert inputs.sentences(" a  b \r\n\n\t\nc", "sentences", 5, LIMITS) == ["a b", "c"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There are no sentences yet"), (" \n\t", "There are no sentences yet"), ("one", "at least 2 sentences"),
        ("a\nb\nc\nd", "These are 4 sentences, and 3 are the most"),
        ("a\n" + "b" * 1001, "Line 2 has 1,001 characters"),
    ],
)  # fmt: skip
def test_wrong_sentences_are_told_with_what_to_do(text, said):
    with pytest.raises(Sen2ProError, match=said):
        inputs.sentences(text, "sentences", 3, LIMITS, least=2)


def test_a_label_ends_at_the_first_colon():
    assert inputs.labelled("a: b: c\n\nd:e", LIMITS) == (["b: c", "e"], ["a", "d"])


def test_csv_is_read_by_its_header_in_any_order():
    assert inputs.labelled('"sentence",page,Label\nx,1,a'.replace("Label", "label"), LIMITS) == (["x"], ["a"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There are no examples yet"), ("sport She won.", "Line 1 is not of the form label: text"),
        ("a: b\n: c", "Line 2 is not"), ("label,text\na", "line 2: 1 field"), ("a" * 61 + ": b", "label of example 1"),
        ("\n".join(f"{i}: b" for i in range(21)), "There are 21 labels, and 20 are the most"),
        ("\n".join("a: b" for _ in range(201)), "These are 201 examples, and 200 are the most"),
        ("a: " + "b" * 1001, "Example 1 has 1,001 characters"),
    ],
)  # fmt: skip
def test_wrong_examples_are_told_with_what_to_do(text, said):
    with pytest.raises(Sen2ProError, match=said):
        inputs.labelled(text, LIMITS)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.txt", "one\n\ntwo\n", "one\ntwo"), ("a.csv", "id,text\n1,one\n2,two\n", "one\ntwo"),
        ("a.TSV", "text\tid\none\t1\n", "one"), ("a.jsonl", '{"text": "one\\ntwo"}\n', "one two"),
    ],
)  # fmt: skip
def test_a_file_that_was_opened_in_the_browser_becomes_lines(name, content, found):
    assert inputs.opened(name, content) == found


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "x,y\n1,2\n", "which column holds the sentences"), ("a.jsonl", "{", "a.jsonl, line 1"),
        ("a.parquet", "PAR1", "Parquet"), ("a.png", "\x89PNG\0\0", "is this a text file"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_told_by_its_name(name, content, said):
    with pytest.raises(Sen2ProError, match=said):
        inputs.opened(name, content)


def test_labels_of_a_table_become_lines_that_can_be_read_again():
    lines = inputs.opened("a.csv", "label,text\nsport,She won.\nmoney,Shares fell.\n", with_labels=True)
    assert inputs.labelled(lines, LIMITS) == (["She won.", "Shares fell."], ["sport", "money"])


def test_limits_are_never_above_those_of_the_server():
    assert Limits().within(10, 2048) == Limits(characters=10, body_bytes=2048)
    assert Limits().within(10**9, 10**9) == Limits()


# The map.


def test_a_covariance_in_the_plane_is_the_one_of_samples_in_the_plane():
    gaussian = gaussians(6)
    points, covariances = project(gaussian)
    centre = gaussian.mean.mean(axis=0)
    axes = np.linalg.lstsq(gaussian.mean - centre, points, rcond=None)[0]  # (k, 2), from what was done to the means
    samples = (gaussian[2].sample(200_000, seed=1) - centre) @ axes
    assert np.allclose(samples.mean(axis=0), points[2], atol=0.01)
    assert np.allclose(np.cov(samples.T), covariances[2], atol=0.02)


def test_the_plane_keeps_the_most_of_the_distances_between_means():
    gaussian = gaussians(9, 7)
    kept = project(gaussian)[0].var(axis=0).sum()
    values = np.linalg.eigvalsh(np.cov(gaussian.mean.T, bias=True))
    assert kept == pytest.approx(values[-2:].sum(), rel=1e-5)  # by principal components


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0, np.pi))
def test_the_outline_has_the_width_height_and_angle_of_the_ellipse(a, b, turn):
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    covariance = rotation @ np.diag([a**2, b**2]) @ rotation.T
    corners = outline(np.zeros(2), covariance, deviations=1, steps=720)
    width, height, angle = ellipse(covariance, deviations=1)
    far = np.linalg.norm(corners, axis=1)
    assert (2 * far.min(), 2 * far.max()) == pytest.approx((width, height), rel=1e-3)
    inside = np.einsum("ni,ij,nj->n", corners, np.linalg.inv(covariance), corners)
    assert inside == pytest.approx(np.ones(721))  # each corner is one deviation away
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    assert along @ covariance @ along == pytest.approx((width / 2) ** 2, rel=1e-6)


def test_the_nearest_is_another_one_with_the_greatest_cosine():
    vectors = gaussians(8).mean.astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest, cosines = neighbours(vectors)
    for i in range(8):
        others = [j for j in range(8) if j != i]
        assert cosines[i] == pytest.approx(max(vectors[i] @ vectors[j] for j in others))
        assert nearest[i] in others


def test_groups_are_found_and_numbered_in_the_order_of_the_sentences():
    random = np.random.default_rng(0)
    centres = np.eye(6)[[3, 0, 5]]
    order = [0] * 6 + [1] * 7 + [2] * 5
    assert find_groups(centres[order] + 0.05 * random.normal(size=(18, 6))).tolist() == order


@pytest.mark.parametrize("count", [2, 3, 5, 6, 7])
def test_a_map_of_few_or_equal_sentences_is_drawn(count):
    for gaussian in (gaussians(count), Gaussian(np.ones((count, 4)), np.ones((count, 4)))):
        drawn = make_map(["same"] * count, gaussian)
        assert np.isfinite(drawn.points).all()
        assert all(json.loads(drawing.figure(drawn, colour))["data"] for colour in drawing.COLOURS)


def test_one_sentence_is_no_map():
    with pytest.raises(Sen2ProError, match="at least 2 sentences"):
        make_map(["a"], gaussians(1))


@pytest.mark.parametrize("colour", drawing.COLOURS)
def test_a_figure_has_each_sentence_once_with_its_text_and_its_ellipse(colour):
    texts = [f"sentence {i} {EVIL}" for i in range(30)]
    drawn = make_map(texts, gaussians(30))
    figure = json.loads(drawing.figure(drawn, colour))
    dots = [trace for trace in figure["data"] if trace["mode"].startswith("markers")]
    found = sorted(number for trace in dots for number in map(int, trace["text"]))
    assert found == list(range(1, 31))
    said = [text for trace in dots for text in trace["hovertext"]]
    assert all(set(re.findall("<[^>]*>", text)) <= {"<b>", "</b>", "<br>"} for text in said)
    corners = [x for trace in figure["data"] if trace["mode"] == "lines" for x in trace["x"]]
    assert corners.count(None) == 30


def test_the_most_uncertain_sentences_have_the_last_level():
    assert drawing.level(np.arange(12)[::-1]).tolist() == [5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]


def test_equal_uncertainty_has_one_level_and_the_ends_have_the_first_and_the_last():
    assert drawing.level(np.ones(6)).tolist() == [0] * 6
    assert drawing.level(np.array([0.3, 0.9, 0.9, 0.9])).tolist() == [0, 5, 5, 5]
    assert drawing.level(np.array([0.1, 0.9])).tolist() == [0, 5]
    assert drawing.level(np.array([0.5, 0.5 + 1e-7])).tolist() == [0, 0]  # one sentence in two batches
    assert sorted(drawing.level(np.arange(200.0)).tolist()) == drawing.level(np.arange(200.0)).tolist()


def test_a_picture_is_a_png_file():
    drawn = make_map([EVIL, "$\\frac{", "c"], gaussians(3))
    assert drawing.png(drawn).startswith(b"\x89PNG\r\n")


# HTML. Texts of strangers must stay texts.


def every_fragment(text):
    comparison = Comparison(0.5, 2.5, 1.0, 4.0, "first", 0.5)
    drawn = make_map([text, text, "c"], gaussians(3))
    result = Result(text, (Hit("0", text, 0.9, 0.8), Hit("1", text, 0.2, None)), 0.5)
    return [
        fragments.message(text), fragments.note(text), fragments.progress(1, 2, text),
        fragments.comparison(comparison, text, text),
        fragments.shaded(text, Explanation((text, "b"), np.array([0.3, 0.1]))),
        fragments.map_table(drawn, b""), fragments.hits(result, 2),
        fragments.classes([text], [text, "b"], [[0.6, 0.4]], [False]),
        fragments.download(text, "a.csv", "text/csv", text.encode()),
    ]  # fmt: skip


HARMLESS = [Tags(html) for html in every_fragment("harmless")]


@settings(max_examples=50, deadline=None)
@given(TEXTS.map(lambda text: EVIL + text))
def test_no_text_adds_a_tag_or_an_attribute(text):
    for html, plain in zip(every_fragment(text), HARMLESS, strict=True):
        tags = Tags(html)
        assert tags.found == plain.found
        assert tags.attributes == plain.attributes


def test_a_text_is_shown_as_it_was_written():
    assert EVIL in Tags(fragments.message(EVIL)).text


def test_the_answer_is_the_library_s_own_sentence():
    answer = Comparison(0.85, 4.4, 3.1, 5.0, None, 0.9)
    said = Tags(fragments.comparison(answer, "a", "b")).text
    for part in str(answer).rstrip(".").split(". "):
        assert part in said


@pytest.mark.parametrize("ends", [(0.0, 0.0, 0.0), (5.0, 5.0, 5.0), (2.5, 0.0, 5.0)])
def test_the_dial_is_drawn_up_to_both_ends(ends):
    middle, low, high = ends
    svg = fragments.dial(Comparison(0.5, middle, low, high, None, 1.0))
    assert f"similarity {middle:.1f} of 5, probably between {low:.1f} and {high:.1f}" in svg
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", " ".join(re.findall(r' d="([^"]*)"', svg)))]
    assert all(0 <= number <= 240 for number in numbers)


def test_a_word_has_its_number_for_those_who_see_no_shade():
    html = fragments.shaded("First", Explanation(("big", "dog"), np.array([0.1, 0.3])))
    assert Tags(html).text == "Firstbig25 % dog75 %"
    assert "Without “dog” the sentence moves by 0.30 (1 − cosine): 75% of all moves" in html


def test_no_good_match_is_said_in_the_words_of_the_library():
    html = fragments.hits(Result("q", (Hit("0", "a", 0.1, 0.04),), 0.5), 1)
    assert "no good match (best 0.04)" in Tags(html).text


def test_unsure_is_said_where_no_label_is_likely():
    html = fragments.classes(["x"], ["a", "b"], [[0.45, 0.55]], [False])
    assert "unsure (perhaps b)" in Tags(html).text


def test_files_hold_what_is_shown():
    rows = table_of(fragments.classes([EVIL], ["a", "b"], [[0.25, 0.75]], [True]), "classes.csv")
    assert rows == [{"text": EVIL, "label": "b", "likely": "yes", "a": "0.25", "b": "0.75"}]
    drawn = make_map([EVIL, "b", "c"], gaussians(3))
    html = fragments.map_table(drawn, b"picture")
    assert [row["sentence"] for row in table_of(html, "map.csv")] == [EVIL, "b", "c"]
    assert [int(row["nearest"]) - 1 for row in table_of(html, "map.csv")] == drawn.nearest.tolist()
    assert file_of(html, "map.png") == b"picture"
    hits = table_of(fragments.hits(Result(EVIL, (Hit("3", "d", 0.5, 0.25),), 0.5), 9), "hits.csv")
    assert hits == [{"question": EVIL, "document": "4", "text": "d", "probability": "0.25", "similarity": "0.5"}]


@pytest.mark.parametrize("text", ['=HYPERLINK("http://evil.example","a")', "+1", "-1", "@SUM(A1)", "\tx"])
def test_a_text_in_a_file_is_no_formula(text):
    (row,) = table_of(fragments.classes([text], [text, "b"], [[0.25, 0.75]], [True]), "classes.csv")
    assert row["text"] == f"'{text}"
    assert row[f"'{text}"] == "0.25"
    (row,) = table_of(fragments.comparison(Comparison(0.5, 2.5, -1.0, 4.0, None, 0.5), text, "a-b"), "comparison.csv")
    assert (row["first"], row["second"], row["low"]) == (f"'{text}", "a-b", "-1.0")  # numbers stay numbers


# Work in parts.


def finish(steps):
    told = []
    while True:
        try:
            told.append(next(steps))
        except StopIteration as end:
            return told, end.value


def test_encoding_in_parts_gives_what_encoding_at_once_gives(tiny):
    texts = ["the dog runs", "a man plays guitar", "the market fell"] * 12
    told, found = finish(encode(tiny, texts))
    assert told == [(0, 36), (16, 36), (32, 36), (36, 36)]
    assert np.allclose(found.mean, tiny.encode(texts).mean, atol=1e-5)


def test_an_index_built_in_parts_has_the_number_of_each_document_as_its_id(tiny):
    pytest.importorskip("faiss")
    texts = [f"the dog runs {word}" for word in "abcdefghijklmnopqrst"]
    told, index = finish(build_index(tiny, texts))
    assert told[-1] == (20, 20)
    assert [document.text for document in index.get(["0", "19"])] == [texts[0], texts[19]]
