"""The page as people see it: a real Chromium, a real server, every tab from end to end."""

from __future__ import annotations

import csv
import re
from itertools import combinations, pairwise, product
from pathlib import Path

import browser as browsers
import pytest
from page_browser import DESKTOP, ON_PHONE, PHONE, TABS, answered, chromium, expect, open_tab, visit
from server_process import running

import sen2pro
from sen2pro.search import Index

pytestmark = pytest.mark.slow

STATIC = Path(sen2pro.__file__).parent / "server" / "static"
EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script> is a text."
KEY = "correct-horse-battery-staple"
FAQ = "To reset your password, open Settings.\nWe ship to all of Europe.\nOur office is in Lyon."
FIELDS = {
    "first": "First sentence", "second": "Second sentence", "sentences": "Sentences, one per line",
    "documents": "Documents, one per line", "question": "Question", "examples": "Examples, one per line",
    "texts": "Texts to classify",
}  # fmt: skip
BUTTONS = {"Map": "Draw the map"}
LONG = "\n".join(f"Document {i}: {'many words and more ' * 12}" for i in range(1000))  # many seconds of work


@pytest.fixture(scope="module")
def started():
    try:
        with chromium() as browser:
            yield browser
    except browsers.NoBrowser as error:
        if browsers.is_required():
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server(started, tmp_path_factory):
    with running(tmp_path_factory.mktemp("page"), "--page") as one:
        yield one


@pytest.fixture(scope="module")
def locked(started, shared_folder, tmp_path_factory):
    """A server with another model, which wants a key."""
    arguments = ("--page", "--model", shared_folder, "--samples", "2")
    with running(tmp_path_factory.mktemp("locked"), *arguments, environment={"SEN2PRO_API_KEYS": KEY}) as one:
        yield one


@pytest.fixture(scope="module")
def axe():
    try:
        return browsers.axe()
    except browsers.NoBrowser as error:
        if browsers.is_required():
            raise
        pytest.skip(str(error))


@pytest.fixture
def page(started, server):
    with visit(started, server) as opened:
        answered(opened, "Read")
        yield opened


def button(page, name):
    return page.get_by_role("button", name=name, exact=True).locator("visible=true")


def read(page, text):
    button(page, "Edit").click()
    page.get_by_label("Your text").fill(text)
    button(page, "Read").click()
    expect(page.locator(".sentence:not(.scored)")).to_have_count(0)
    answered(page, "Read")


def submit(page, name, **fields):
    """Fill the fields of a tab, named by the beginnings of their labels, and press its button."""
    for label, text in fields.items():
        page.get_by_label(FIELDS[label]).fill(text)
    button(page, BUTTONS.get(name, name)).click()


def downloaded(page, name="Download CSV"):
    with page.expect_download() as found:
        button(page, name).click()
    path = found.value.path()
    if not found.value.suggested_filename.endswith(".csv"):
        return path.read_bytes()
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def overlap(one, other):
    """Tell whether the letters of two labels meet; the upper and the lower fifth of their boxes have none."""
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    down = min(one["y"] + 0.8 * one["height"], other["y"] + 0.8 * other["height"])
    return across > 1 and down - max(one["y"] + 0.2 * one["height"], other["y"] + 0.2 * other["height"]) > 1


# Every tab from end to end.


def test_every_tab_opens_with_an_answered_example_and_answers_all_others(page):
    for name in TABS:
        open_tab(page, name)
        examples = page.locator(f"#{name.lower()}-panel .lead .chip")
        assert examples.count() >= 2
        for example in examples.all():
            example.click()
            answered(page, name)
            expect(page.locator("[role=alert]:not(:empty)")).to_have_count(0)
    assert page.locator("#model").inner_text() == "all-MiniLM-L6-v2"


def test_a_text_is_read_as_it_is_and_each_sentence_has_the_score_of_the_library(page, minilm):
    sentences = ["The bank raised its interest rate to 5 percent.", "Dr. Huber did it again.", "Was that all?"]
    text = f"{sentences[0]}  {sentences[1]}\n\n   * {sentences[2]}"
    read(page, text)
    assert page.locator("#read-text").text_content() == text
    found = page.locator(".sentence")
    assert found.all_text_contents() == [*sentences[:2], f"* {sentences[2]}"]
    scores = minilm.specificity([*sentences[:2], f"* {sentences[2]}"]).score
    for sentence, score in zip(found.all(), scores, strict=True):
        assert f"{round(score)} of 100" in sentence.get_attribute("aria-description")
    listed = [int(score) for score in page.locator("#read-side .vaguest .pill").all_inner_texts()]
    assert listed == sorted(round(score) for score in scores)
    shades = [sentence.evaluate("e => getComputedStyle(e).backgroundColor") for sentence in found.all()]
    assert len(set(shades)) == 3
    rows = downloaded(page)
    assert [float(row["score"]) for row in rows] == pytest.approx(scores.tolist(), abs=1e-2)


def test_a_click_or_enter_on_a_sentence_shows_the_words_that_carry_it(page, minilm):
    read(page, "A man is playing a guitar. It rains.")
    detail = page.locator("#read-detail")
    page.get_by_text("A man is playing a guitar.").first.click()
    explained = minilm.explain("A man is playing a guitar.")
    expect(detail.locator(".word small")).to_have_text(
        [re.compile(f"^{100 * share:.0f} %$") for share in explained.share]
    )
    page.keyboard.press("Escape")
    page.locator(".sentence").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(detail.locator(".word > span")).to_have_text(["It", "rains."])
    button(page, "Close").click()
    expect(detail).to_be_hidden()
    page.locator("#read-side .vaguest button").last.click()
    expect(detail).to_be_visible()


def test_a_pasted_or_dropped_text_is_read_at_once(page):
    for place, event in (
        ("body", "ClipboardEvent('paste', {clipboardData: data, bubbles: true})"),
        ("#read-text", "DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})"),
    ):
        data = f"const data = new DataTransfer(); data.setData('text/plain', 'It came to {place}.');"
        page.evaluate(f"() => {{ {data} document.querySelector('{place}').dispatchEvent(new {event}); }}")
        expect(page.locator(".sentence.scored")).to_have_text([f"It came to {place}."])


def test_sentences_are_found_where_readers_find_them(page):
    script = "async text => { const {findSentences} = await import('./static/sentences.js'); return findSentences(text)"
    for text, sentences in (
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Prof. A. B. Meier met Mr. Li. He left.", ["Prof. A. B. Meier met Mr. Li.", "He left."]),
        ("a line that a mail\nbreaks in the middle. Next.", ["a line that a mail\nbreaks in the middle.", "Next."]),
        ("Title\n\nText.", ["Title", "Text."]),
        ("---\n... 12.\n", []),
        ("Das ist ein Satz。これは文です。", ["Das ist ein Satz。", "これは文です。"]),
    ):
        found = page.evaluate(f"{script}.map(({{start, end}}) => text.slice(start, end)); }}", text)
        assert found == sentences


def test_compare_says_what_the_library_says_and_which_word_carries_it(page, minilm):
    open_tab(page, "Compare")
    first, second = "A man is playing a guitar.", "Someone makes music."
    submit(page, "Compare", first=first, second=second)
    answer = minilm.compare(first, second)
    shown = page.locator("#compare-answer")
    expect(shown.get_by_role("heading").first).to_have_text("Unlikely to be the same meaning")
    expect(shown.locator(".big")).to_have_text(f"{100 * answer.probability:.0f} %")
    expect(shown).to_contain_text(f"Similarity {answer.similarity:.1f} of 5, probably between {answer.low:.1f} and")
    expect(shown).to_contain_text("The second sentence is the vaguer one.")
    expect(page.get_by_role("img", name=f"Similarity {answer.similarity:.1f} of 5")).to_be_visible()
    explained = minilm.explain(first)
    words = shown.locator(".words").first.locator(".word")
    expect(words.locator("span")).to_have_text(list(explained.words))
    words.last.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("Without “guitar.” the meaning moves by")
    (row,) = downloaded(page)
    assert (row["first"], row["vaguer"]) == (first, "second")
    assert float(row["probability"]) == pytest.approx(answer.probability, abs=1e-4)


def test_a_map_of_200_sentences_is_zoomed_coloured_and_taken_away(page):
    open_tab(page, "Map")
    who = "A man,The bank,My neighbour,The train to Leeds,A tired dog,Some stuff,It,She,Rain,A thief".split(",")
    does = ("sleeps", "was cancelled", "reads the news", "costs a lot", "fell again")
    when = ("today", "on Monday", "in Rome", "for some reason")
    sentences = [f"{a} {b} {c}." for a, b, c in product(who, does, when)]
    submit(page, "Map", sentences="\n".join(sentences))
    expect(page.locator(".map .marks path")).to_have_count(200)
    rows = downloaded(page)
    assert [row["sentence"] for row in rows] == sentences
    assert all(row["group"] and not row["group"].startswith("group") for row in rows)
    shown = [int(score) for score in page.locator("#map-table .pill").all_inner_texts()]
    assert shown == sorted(round(float(row["score"])) for row in rows)
    page.get_by_label("specificity").check()
    expect(page.locator(".map .ellipses .by-score")).to_have_count(200)
    expect(page.get_by_label("Legend: orange is vague").locator("visible=true")).to_have_count(1)
    assert downloaded(page, "Download PNG").startswith(b"\x89PNG")

    def width():
        return float(page.locator(".map .ellipses ellipse").first.get_attribute("rx"))

    before = width()
    button(page, "Zoom in").click()
    assert width() == pytest.approx(1.4 * before)
    button(page, "Show all").click()
    assert width() == pytest.approx(before)
    page.locator(".map").click()
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        "before => document.querySelector('.map .ellipses ellipse').getAttribute('rx') > before", arg=before
    )


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_no_label_of_the_map_covers_another_and_groups_are_named(started, server, size):
    with visit(started, server, "Map", **(ON_PHONE if size == "phone" else {"viewport": DESKTOP})) as page:
        answered(page, "Map")
        names = [chip.rpartition(" (")[0] for chip in page.locator(".legend .chip").all_inner_texts()]
        assert len(names) > 1
        assert set(page.locator(".map .labels .name").all_text_contents()) <= set(names)
        boxes = [label.bounding_box() for label in page.locator(".map .labels text").all()]
        assert len(boxes) > 10
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
        hint = page.locator("#map-answer .about").inner_text()
        assert ("scroll" in hint) == (size == "desktop")


def test_the_map_is_read_with_the_keyboard_and_by_touching_it(started, server):
    with visit(started, server, "Map", **ON_PHONE) as page:
        answered(page, "Map")
        about = page.locator("#map-answer .about")
        page.get_by_role("application").focus()
        page.keyboard.press("ArrowRight")
        expect(about).to_contain_text("1. A street musician plays the guitar on the corner.")
        seen = set()
        for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown") * 3:
            page.keyboard.press(key)
            seen.add(about.inner_text())
        assert len(seen) > 4
        page.keyboard.press("Escape")
        expect(about).to_contain_text("Tap a dot")
        page.locator(".map .marks path").nth(19).tap()
        expect(about).to_contain_text("They played quite well.")


def test_search_finds_an_answer_and_says_when_there_is_none(page):
    open_tab(page, "Search")
    submit(page, "Search", documents=FAQ, question="I forgot my password, what now?")
    heading = page.locator("#search-answer h2")
    expect(heading).to_have_text("To reset your password, open Settings.")
    expect(page.locator("#search-answer .verdict")).to_contain_text("% likely right")
    hits = downloaded(page)
    chances = [float(hit["probability"]) for hit in hits]
    assert (hits[0]["document"], chances) == ("1", sorted(chances, reverse=True))
    page.get_by_label("Question").fill("Who won the cup in 1998?")
    page.get_by_label("Question").press("Enter")
    expect(heading).to_have_text("No good match")


def test_documents_that_are_searched_in_parts_give_the_hits_of_one_index(page, minilm):
    open_tab(page, "Search")
    verbs = ("buys", "paints", "repairs", "forgets", "sells", "cleans")
    things = "a red car,the old door,two lamps,some bread,her bicycle,a wooden boat,the roof,an expensive violin"
    sentences = product(("My aunt", "The baker", "He"), verbs, things.split(","))
    documents = [f"{who} {verb} {thing}." for who, verb, thing in sentences]
    assert len(documents) > 2 * 64
    submit(page, "Search", documents="\n".join(documents), question="Who repairs a bike?")
    expect(page.locator("#search-answer .verdict")).to_contain_text("144 documents")
    rows = downloaded(page)
    expected = Index.build(minilm)
    expected.add(documents)
    hits = expected.search("Who repairs a bike?", k=5)
    assert [row["text"] for row in rows] == [hit.text for hit in hits]
    assert [float(row["probability"]) for row in rows] == pytest.approx([hit.probability for hit in hits], abs=1e-3)
    assert [documents[int(row["document"]) - 1] for row in rows] == [row["text"] for row in rows]


def test_classify_learns_from_a_dozen_lines_and_says_when_it_is_unsure(page):
    open_tab(page, "Classify")
    expect(page.locator("#classify-answer h2")).to_have_text(["sport", "weather", re.compile("^unsure, perhaps")])
    rows = downloaded(page)
    assert [(row["label"], row["likely"]) for row in rows][:2] == [("sport", "yes"), ("weather", "yes")]
    assert rows[2]["likely"] == "no"
    assert sum(float(rows[2][label]) for label in ("sport", "money", "weather")) == pytest.approx(1, abs=1e-3)


def test_another_model_has_all_but_scores_and_the_comparison_in_words(started, locked):
    with visit(started, locked, "Map", may_fail=True, http_credentials={"username": "", "password": KEY}) as page:
        answered(page, "Map")
        expect(page.locator(".map .marks path")).to_have_count(20)
        assert page.locator("#map-table .pill").count() == 0
        open_tab(page, "Compare")
        expect(page.locator("#compare-answer [role=alert]")).to_contain_text("default model only")
        open_tab(page, "Search")
        expect(page.locator("#search-answer")).to_contain_text("not calibrated")
        open_tab(page, "Classify")
        page.get_by_role("tab", name="Read").click()
        expect(page.locator("#read-side [role=alert]")).to_contain_text("specificity head")


# Files.


def test_a_file_is_opened_in_the_browser(page, tmp_path):
    open_tab(page, "Search")
    for name, content in (
        ("faq.csv", 'id,text\n1,"We ship, fast."\n2,"He said ""no""."\n'),
        ("faq.tsv", 'text\tid\n"We ship, fast."\t1\n"He said ""no""."\t2\n'),
        ("faq.jsonl", '{"sentence": "We ship, fast."}\n\n{"sentence": "He said \\"no\\"."}\n'),
        ("faq.txt", '\ufeffWe ship, fast.\r\nHe said "no".'),
    ):
        (tmp_path / name).write_bytes(content.encode())
        page.get_by_label(FIELDS["documents"]).fill("")
        page.locator("#search-panel input[type=file]").set_input_files(tmp_path / name)
        expect(page.get_by_label(FIELDS["documents"])).to_have_value('We ship, fast.\nHe said "no".')
    (tmp_path / "a.jsonl").write_text('{"label": "sport", "text": "She won."}\n{"label": 7, "text": "x"}\n')
    open_tab(page, "Classify")
    page.locator("#classify-panel input[type=file]").set_input_files(tmp_path / "a.jsonl")
    expect(page.get_by_label(FIELDS["examples"])).to_have_value("sport: She won.\n7: x")


def test_a_file_that_cannot_be_used_is_told_in_place(page, tmp_path):
    open_tab(page, "Map")
    files = {
        "large.txt": (b"a" * ((2 << 20) + 1), "large.txt has 2,097,153 bytes; the limit is 2,097,152."),
        "a.csv": (b"<b>x</b>,y\n1,2\n", "a.csv has no column named text or sentence; it has <b>x</b>, y."),
        "a.jsonl": (b'{"text": "a"}\n[1', "Line 2 of a.jsonl is not a JSON object."),
        "<i>.txt": (b"a\0b", "<i>.txt is not a text file."),
    }
    for name, (content, said) in files.items():
        (tmp_path / name).write_bytes(content)
        page.locator("#map-panel input[type=file]").set_input_files(tmp_path / name)
        expect(page.locator("#map-answer [role=alert]")).to_have_text(said)


# Untrusted texts.


def test_a_text_of_a_visitor_is_never_html(page):
    read(page, EVIL)
    assert page.locator("#read-text").text_content() == EVIL
    page.locator(".sentence").first.click()
    expect(page.locator("#read-detail .word").first).to_have_text(re.compile("^<img"))
    open_tab(page, "Compare")
    submit(page, "Compare", first=EVIL, second=f"{EVIL} {EVIL}")
    expect(page.locator("#compare-answer .word").first).to_contain_text("<img")
    page.locator("#compare-answer .word").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("<img")
    open_tab(page, "Map")
    submit(page, "Map", sentences="\n".join(f"{EVIL} {i}" for i in range(8)))
    expect(page.locator("#map-table tbody tr")).to_have_count(8)
    page.locator("#map-table tbody tr").first.click()
    expect(page.locator("#map-answer .about")).to_contain_text("<img src=x")
    open_tab(page, "Search")
    submit(page, "Search", documents=f"{EVIL}\nanother", question=EVIL)
    expect(page.locator("#search-answer .hits li")).to_have_count(2)
    open_tab(page, "Classify")
    lines = [f"{label}: {EVIL} {i}" for i in range(3) for label in ("<script>1</script>", "b")]
    submit(page, "Classify", examples="\n".join(lines), texts=EVIL)
    expect(page.locator("#classify-answer .verdict")).to_have_count(1)
    expect(page.locator("#classify-answer .bars")).to_contain_text("<script>1</script>")
    assert EVIL in page.locator("#classify-answer").inner_text()
    assert page.title() == "sen2pro"
    assert page.locator("img[src='x'], main script, main b b").count() == 0


def test_the_page_is_small_and_no_script_of_it_writes_html_or_styles_as_text():
    for file in STATIC.glob("*.js"):
        found = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|cssText", file.read_text()
        )
        assert not found, (file.name, found)
    html = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=\"static/)|\sstyle=|\son\w+=|https?://", html)
    assert sum(len(file.read_text().splitlines()) for file in STATIC.glob("*.*")) <= 1500
    assert sum(len(file.read_bytes()) for file in STATIC.iterdir()) < 100_000


def test_formulas_are_neutralised_in_files(page):
    open_tab(page, "Classify")
    examples = "\n".join(f"{label}: text {i}" for i in range(3) for label in ("=1+1", "b"))
    submit(page, "Classify", examples=examples, texts='@SUM(A1)\n-2+3\n+1\nfine, "really"')
    expect(page.locator("#classify-answer .verdict")).to_have_count(4)
    rows = downloaded(page)
    assert [row["text"] for row in rows] == ["'@SUM(A1)", "'-2+3", "'+1", 'fine, "really"']
    assert "'=1+1" in rows[0]


def test_nothing_of_a_visitor_is_kept_in_the_browser(page):
    for name in TABS:
        open_tab(page, name)
    kept = "[localStorage.length, sessionStorage.length, document.cookie]"
    assert page.evaluate(kept) == [0, 0, ""]
    page.get_by_label("Switch between light and dark").click()
    assert page.evaluate("Object.keys(localStorage)") == ["sen2pro-theme"]


# Long work, and servers that are not there.


def test_long_work_shows_how_far_it_is_and_can_be_stopped(page):
    open_tab(page, "Search")
    submit(page, "Search", documents=LONG, question="What is it?")
    expect(page.locator("#search-panel .progress")).to_contain_text(re.compile(r"^[1-9]\d* of 1,000 documents"))
    expect(page.locator("#search-panel .primary")).to_be_disabled()
    button(page, "Stop").click()
    expect(page.locator("#search-answer")).to_have_text("Stopped. Your texts are still here.")
    expect(button(page, "Stop")).to_have_count(0)
    submit(page, "Search", documents=FAQ)  # it is not held up
    expect(page.locator("#search-answer .hits li")).to_have_count(3)


def test_a_wrong_input_is_told_in_place(page):
    for name, fields, said in (
        ("Map", {"sentences": "only one"}, "Give at least 2 sentences, one per line."),
        ("Map", {"sentences": "a\n" * 301}, "There are 301 sentences; the limit is 300."),
        ("Search", {"question": " "}, "The question is empty. Write something, or choose an example."),
        ("Search", {"question": "a", "documents": "a\n" + "x" * 1001}, "Number 2 of the documents has 1,001"),
        ("Classify", {"examples": "no label"}, "Line 1 is not of the form label: text"),
        ("Compare", {"first": ""}, "The first sentence is empty."),
    ):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(page.locator(f"#{name.lower()}-panel .primary")).to_be_enabled()
        submit(page, name, **fields)
        expect(page.locator(f"#{name.lower()}-answer [role=alert]")).to_contain_text(said)


def test_the_words_of_the_server_are_shown_when_it_refuses_or_starts(started, server):
    def refuse(route, status, message):
        route.fulfill(status=status, json={"error": {"message": message}})

    with visit(started, server, "Compare", may_fail=True) as page:
        answered(page, "Compare")
        page.route("**/v1/compare", lambda route: refuse(route, 400, "no <b>more</b>"))
        page.route("**/v1/explain", lambda route: refuse(route, 503, "starting"))
        button(page, "Compare").click()
        expect(page.locator("#compare-answer [role=alert]")).to_have_text("No <b>more</b>.")
        expect(page.locator("#banner")).to_have_text("The server is loading its model. This takes a few seconds.")
        page.unroute_all()
        expect(page.locator("#compare-answer .words")).to_have_count(2)
        expect(page.locator("#banner")).to_be_empty()


def test_a_server_that_dies_is_told_and_so_is_one_that_is_back(started, tmp_path):
    with running(tmp_path / "first", "--page") as server, visit(started, server, "Compare", may_fail=True) as page:
        answered(page, "Compare")
        page.get_by_label("First sentence").fill("It rains.")
        server.process.kill()
        server.process.wait()
        button(page, "Compare").click()
        expect(page.locator("#banner")).to_contain_text("The server does not answer. Your texts are still here.")
        assert page.get_by_label("First sentence").input_value() == "It rains."
        with running(tmp_path / "second", "--page", "--port", server.port):
            expect(page.locator("#banner")).to_have_text("The server is back.")
            button(page, "Compare").click()
            expect(page.locator("#compare-answer .word").first).to_have_text(re.compile("^It"))


# ApiKeys.


def test_the_page_asks_for_a_key_and_forgets_it_with_the_tab(started, server):
    def check(route):
        allowed = route.request.headers.get("authorization") == f"Bearer {KEY}"
        route.continue_() if allowed else route.fulfill(status=401, json={"error": {"message": "give an API key"}})

    with visit(started, server, may_fail=True) as page:
        page.route("**/v1/*", check)
        page.reload()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This server needs a key")
        page.get_by_label("API key").fill("a-wrong-key-of-16-letters")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("did not accept this key")
        page.get_by_label("API key").fill(KEY)
        button(page, "Continue").click()
        answered(page, "Read")
        assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 1]
        open_tab(page, "Search")


# For everybody.


def test_the_page_is_used_with_the_keyboard_alone(page):
    def tab_to(name):
        for _ in range(40):
            page.keyboard.press("Tab")
            label = "document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText || ''"
            if page.evaluate(label).strip() == name:
                return
        raise AssertionError(f"the tab key does not lead to {name}")

    page.get_by_role("tab", name="Read").focus()
    page.keyboard.press("ArrowRight")
    answered(page, "Compare")
    tab_to("First sentence")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"  # one sees where one is
    page.keyboard.press("Control+A")
    page.keyboard.type("It rains.")
    tab_to("Second sentence")
    page.keyboard.press("Control+A")
    page.keyboard.type("I like tea.")
    page.keyboard.press("Enter")
    expect(page.locator("#compare-answer h2")).to_have_text("Unlikely to be the same meaning")
    tab_to("Compare")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(started, server, axe, scheme):
    """No serious or critical finding of axe-core, in either colour scheme, in any tab, with answers and with errors."""
    with visit(started, server, color_scheme=scheme) as page:
        page.evaluate(axe)

        def check(where):
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            grave = [(each["id"], node["html"][:200], node["failureSummary"][:300]) for each in found
                     for node in each["nodes"] if each["impact"] in ("serious", "critical")]  # fmt: skip
            assert not grave, (where, grave)

        for name in TABS:
            open_tab(page, name)
            if name == "Read":
                expect(page.locator("#read-detail .word").first).to_be_visible()
            page.wait_for_timeout(300)
            check(name)
        page.get_by_label("Examples, one per line").fill("")
        button(page, "Classify").click()
        expect(page.locator("#classify-answer [role=alert]")).to_be_visible()
        check("an error")
        page.get_by_role("tab", name="Map").click()
        page.get_by_label("specificity").check()
        check("colours")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
        assert (brightness > 128) == (scheme == "light")
        page.get_by_label("Switch between light and dark").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_on_a_phone_nothing_is_wider_than_the_screen_and_bars_are_there(started, server):
    wide = (
        "[...document.querySelectorAll('button, textarea, h2, .card, td')].filter(e => e.offsetParent && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    with visit(started, server, **ON_PHONE) as page:
        for name in TABS:
            open_tab(page, name)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
            assert not page.evaluate(wide), name
            for bar in page.locator(f"#{name.lower()}-panel .meter").all():
                assert bar.bounding_box()["width"] > 60


def test_on_a_phone_a_word_without_end_is_seen_whole(started, server):
    with visit(started, server, "Compare", **ON_PHONE) as page:
        answered(page, "Compare")
        submit(page, "Compare", first="x" * 900, second="It " + "y" * 300)
        expect(page.locator("#compare-answer .word")).to_have_count(3)
        for word in page.locator(".word > span").all():
            assert word.evaluate("e => e.getBoundingClientRect().right") <= PHONE["width"]
            assert word.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_words_run_as_their_language_does(page):
    open_tab(page, "Compare")
    submit(page, "Compare", first="הכלב הגדול ישן על הספה", second="The big dog sleeps.")
    expect(page.locator("#compare-answer .word")).to_have_count(9)
    lines = page.locator("#compare-answer .words")
    hebrew, english = ([word.bounding_box()["x"] for word in line.locator(".word").all()] for line in lines.all())
    assert all(one > other for one, other in pairwise(hebrew))
    assert all(one < other for one, other in pairwise(english))
