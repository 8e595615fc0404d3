"""The page as people see it: a real Chromium, a real server, every tab from end to end."""

from __future__ import annotations

import csv
import os
import re
import time
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import browser as browsers
import pytest

if not browsers.is_required():
    pytest.importorskip("gradio", reason="the page's packages are not installed: pip install 'sen2pro[page]'")
import psutil
from playwright.sync_api import expect, sync_playwright
from server_process import running

from sen2pro.page import texts

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script> is a text."
WIDE, PHONE = {"width": 1180, "height": 900}, {"width": 390, "height": 800}
TABS = ("Compare", "Map", "Search", "Classify")
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"
LONG = "\n".join(f"Document {i}: {'many words and more ' * 12}" for i in range(1000))  # many seconds of work
KEY = "correct-horse-battery-staple"
expect.set_options(timeout=30_000)  # a busy machine takes its time


@pytest.fixture(scope="module")
def chromium():
    try:
        found = browsers.find()
    except browsers.NoBrowser as error:
        if browsers.is_required():
            raise
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.path, args=["--no-sandbox", "--disable-gpu", "--headless=new"],
            env={**os.environ, **found.environment},
        )  # fmt: skip
        yield started
        started.close()


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    with running(tmp_path_factory.mktemp("page"), "--page") as started:
        yield started


@pytest.fixture(scope="module")
def axe():
    try:
        return browsers.axe()
    except browsers.NoBrowser as error:
        if browsers.is_required():
            raise
        pytest.skip(str(error))


@contextmanager
def visit(chromium, server, *, viewport=WIDE, may_fail=False, **options):
    """Open the page as a new visitor; in the end nothing may have failed, and no request left the machine."""
    context = chromium.new_context(viewport=viewport, reduced_motion="reduce", **options)
    page = context.new_page()
    problems, addresses = [], []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    context.on("request", lambda request: addresses.append(request.url))
    page.goto(server.url)
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_visible()
    try:
        yield page
        hosts = {urlsplit(address).hostname for address in addresses if not address.startswith(("data:", "blob:"))}
        assert hosts == {"127.0.0.1"}
        assert may_fail or not problems, problems
    finally:
        context.close()


@pytest.fixture
def page(chromium, server):
    with visit(chromium, server) as opened:
        yield opened


def tab(page, name):
    page.get_by_role("tab", name=name, exact=True).click()
    expect(page.get_by_role("button", name="Draw the map" if name == "Map" else name, exact=True)).to_be_visible()


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def headline(page, tab_id):
    return page.locator(f"#{tab_id} h2").first


def downloaded(page, name):
    with page.expect_download() as found:
        page.get_by_role("link", name=name).click()
    path = found.value.path()
    return path.read_bytes() if not found.value.suggested_filename.endswith(".csv") else rows_of(path)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw(page, sentences):
    tab(page, "Map")
    page.get_by_label("Sentences, one a line").fill("\n".join(sentences))
    button(page, "Draw the map").click()
    expect(page.locator("#map-plot .scatterlayer path.point")).to_have_count(len(sentences))


def point_at(page, place):
    page.locator("#map-plot").scroll_into_view_if_needed()
    box = place.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def fill_tabs(page):
    """Have an example answered in every tab."""
    button(page, "one word differs").click()
    expect(page.locator(".s2p-shaded")).to_have_count(2)
    tab(page, "Map")
    button(page, "four topics").click()
    expect(page.locator("#map-plot .scatterlayer path.point")).to_have_count(16)
    tab(page, "Search")
    button(page, "a question with an answer").click()
    expect(page.locator(".s2p-hits li")).to_have_count(5)
    tab(page, "Classify")
    button(page, "sport, money, weather").click()
    expect(page.locator("#classify-classes section")).to_have_count(3)


# Every tab from end to end.


def test_compare_says_what_the_library_says_and_which_word_carries_it(page, minilm):
    first, second = "A man is playing a guitar.", "Someone makes music."
    page.get_by_label("First sentence").fill(first)
    page.get_by_label("Second sentence").fill(second)
    button(page, "Compare").click()
    expect(page.locator(".s2p-shaded")).to_have_count(2)
    answer = minilm.compare(first, second)
    shown = page.locator("#compare-answer").inner_text()
    for sentence in str(answer).rstrip(".").split(". "):
        assert sentence in shown
    dial = page.get_by_role("img", name=f"similarity {answer.similarity:.1f} of 5")
    expect(dial).to_be_visible()
    explained = minilm.explain(first)
    words = page.locator(".s2p-shaded").first.locator(".s2p-word")
    assert words.locator("span").all_inner_texts() == list(explained.words)
    assert words.locator("small").all_inner_texts() == [f"{100 * share:.0f} %" for share in explained.share]
    assert "Without “guitar.”" in words.last.get_attribute("title")
    (row,) = downloaded(page, "Download CSV")
    assert (row["first"], row["vaguer"]) == (first, "second")
    assert float(row["probability"]) == pytest.approx(answer.probability, abs=1e-4)


def test_a_map_of_200_sentences_is_zoomed_hovered_coloured_and_taken_away(page):
    who = (
        "A man",
        "The bank",
        "My neighbour",
        "The train to Leeds",
        "A tired dog",
        "Some stuff",
        "It",
        "She",
        "Rain",
        "A thief",
    )
    does = ("sleeps", "was cancelled", "reads the news", "costs a lot", "fell again")
    sentences = [
        f"{a} {b} {c}." for a, b, c in product(who, does, ("today", "on Monday", "in Rome", "for some reason"))
    ]
    draw(page, sentences)
    point_at(page, page.locator("#map-plot .scatterlayer path.point").first)
    expect(page.locator("#map-plot .hovertext")).to_contain_text("nearest (cosine")
    expect(page.locator("#map-plot .legendtext").first).to_contain_text("group 1")
    page.get_by_label("uncertainty").check()
    expect(page.locator("#map-plot .legendtext").first).to_contain_text("specific: 0.")
    expect(page.locator("#map-plot .scatterlayer path.point")).to_have_count(200)
    rows = downloaded(page, "Download CSV")
    assert [row["sentence"] for row in rows] == sentences
    assert downloaded(page, "Download PNG").startswith(b"\x89PNG")
    page.get_by_text("All 200 sentences as a table").click()
    totals = page.locator("#map-table tbody tr td:nth-child(4)").all_inner_texts()
    assert len(totals) == 200
    assert [float(total) for total in totals] == sorted(map(float, totals), reverse=True)


def test_the_wheel_zooms_the_map(page):
    tab(page, "Map")
    button(page, "four topics").click()
    dots = page.locator("#map-plot .scatterlayer path.point")
    expect(dots).to_have_count(16)
    point_at(page, page.locator("#map-plot .nsewdrag").first)
    ends = "document.querySelector('#map-plot .js-plotly-plot').layout.xaxis.range"
    width = f"({ends}[1] - {ends}[0])"
    before = page.evaluate(width)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"before => {width} < 0.95 * before", arg=before)


def test_search_finds_an_answer_and_says_when_there_is_none(page):
    tab(page, "Search")
    page.get_by_label("Documents, one a line").fill(texts.FAQ)
    page.get_by_label("Question").fill("I forgot my login, what now?")
    button(page, "Search").click()
    expect(headline(page, "search-hits")).to_contain_text("To reset your password")
    expect(page.locator("#search-hits")).to_contain_text("% likely right")
    hits = downloaded(page, "Download CSV")
    assert hits[0]["document"] == "1"
    assert [float(hit["probability"]) for hit in hits] == sorted(
        (float(hit["probability"]) for hit in hits), reverse=True
    )
    page.get_by_label("Question").fill("Who won the cup in 1998?")
    page.get_by_label("Question").press("Enter")
    expect(headline(page, "search-hits")).to_have_text(re.compile(r"no good match \(best 0\.\d\d\)"))


def test_classify_learns_from_a_dozen_lines_and_says_when_it_is_unsure(page):
    tab(page, "Classify")
    page.get_by_label("Examples, one a line").fill(texts.NEWS)
    page.get_by_label("Texts to classify").fill(texts.NEWS_TRIED)
    button(page, "Classify").click()
    expect(page.locator("#classify-classes h2")).to_have_text(["sport", "weather", re.compile("unsure")])
    rows = downloaded(page, "Download CSV")
    assert [(row["label"], row["likely"]) for row in rows] == [("sport", "yes"), ("weather", "yes"), ("sport", "no")]
    assert sum(float(rows[2][label]) for label in ("sport", "money", "weather")) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", TABS)
def test_every_example_has_an_answer(page, name):
    tab(page, name)
    places = {"Compare": "compare-words", "Map": "map-table", "Search": "search-hits", "Classify": "classify-classes"}
    place = page.locator(f"#{places[name]}")
    for number in range(page.locator(".s2p-examples:visible button").count()):
        before = place.inner_text()
        page.locator(".s2p-examples:visible button").nth(number).click()
        expect(place).not_to_have_text(before or "")
        expect(place).not_to_be_empty()
        expect(page.locator("[role=alert]:visible")).to_have_count(0)
        expect(page.locator(".s2p-buttons:visible button.primary")).to_be_enabled()


def test_a_file_is_opened_in_the_browser(page, tmp_path):
    (tmp_path / "faq.csv").write_text("id,text\n1,We ship to Europe.\n2,The office is in Lyon.\n", encoding="utf-8")
    tab(page, "Search")
    page.locator(".s2p-opener:visible input[type=file]").set_input_files(tmp_path / "faq.csv")
    expect(page.get_by_label("Documents, one a line")).to_have_value("We ship to Europe.\nThe office is in Lyon.")
    expect(page.locator(".s2p-note:visible")).to_contain_text("2 lines of faq.csv")


def test_a_file_that_is_too_large_or_no_text_is_told_in_place(page, tmp_path):
    (tmp_path / "large.txt").write_bytes(b"a" * (2 << 20))
    (tmp_path / "a.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    tab(page, "Map")
    for name, said in (("large.txt", "large.txt cannot be opened: it has 2,097,152 bytes"), ("a.csv", "which column")):
        page.locator(".s2p-opener:visible input[type=file]").set_input_files(tmp_path / name)
        expect(page.locator(".s2p-error:visible")).to_contain_text(said)


def test_another_model_has_all_but_the_comparison_in_words(chromium, shared_folder, tmp_path):
    with running(tmp_path / "tiny", "--page", "--model", shared_folder, "--samples", "2") as server:
        with visit(chromium, server) as page:
            button(page, "the same").click()
            expect(page.locator(".s2p-shaded")).to_have_count(2)
            expect(page.locator("#compare-answer")).to_contain_text("comes with the default model only")
            draw(page, ["the dog runs", "a man plays guitar", "the market fell"])
            tab(page, "Search")
            button(page, "a question with an answer").click()
            expect(page.locator("#search-hits")).to_contain_text("not calibrated")
            tab(page, "Classify")
            button(page, "sport, money, weather").click()
            expect(page.locator("#classify-classes section")).to_have_count(3)


# What goes wrong is told in place.


def test_wrong_input_is_told_in_place_and_an_old_answer_goes(page):
    button(page, "the same").click()
    expect(page.locator(".s2p-shaded")).to_have_count(2)
    page.get_by_label("Second sentence").fill("   ")
    button(page, "Compare").click()
    expect(page.get_by_role("alert")).to_have_text(
        "The second sentence is empty. Write something, or choose an example."
    )
    expect(page.locator("#compare-answer h2")).to_have_count(0)
    tab(page, "Map")
    page.get_by_label("Sentences, one a line").fill("\n".join(f"Sentence {i}." for i in range(201)))
    button(page, "Draw the map").click()
    expect(page.get_by_role("alert")).to_contain_text("These are 201 sentences, and 200 are the most")
    tab(page, "Search")
    button(page, "Search").click()
    expect(page.get_by_role("alert")).to_contain_text("There are no documents yet")
    tab(page, "Classify")
    page.get_by_label("Examples, one a line").fill("only: one\nlabel without a colon")
    button(page, "Classify").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 2 is not of the form label: text")


def test_texts_with_tags_stay_texts(page):
    page.get_by_label("First sentence").fill(EVIL)
    page.get_by_label("Second sentence").fill(EVIL)
    button(page, "Compare").click()
    expect(page.locator(".s2p-shaded")).to_have_count(2)
    draw(page, [f"{EVIL} {i}" for i in range(8)])
    point_at(page, page.locator("#map-plot .scatterlayer path.point").first)
    expect(page.locator("#map-plot .hovertext")).to_contain_text("<img src=x")
    tab(page, "Search")
    page.get_by_label("Documents, one a line").fill(f"{EVIL}\nanother")
    page.get_by_label("Question").fill(EVIL)
    button(page, "Search").click()
    expect(page.locator(".s2p-hits li")).to_have_count(2)
    tab(page, "Classify")
    page.get_by_label("Examples, one a line").fill(
        "\n".join(f"{label}: {EVIL} {i}" for i in range(3) for label in ("<b>a</b>", "b"))
    )
    page.get_by_label("Texts to classify").fill(EVIL)
    button(page, "Classify").click()
    expect(page.locator("#classify-classes section")).to_have_count(1)
    assert page.title() == "sen2pro"
    assert page.locator("img[src='x']").count() == 0
    assert EVIL in page.locator("#classify-classes").inner_text()


def test_long_work_shows_how_far_it_is_and_can_be_stopped(page):
    tab(page, "Search")
    page.get_by_label("Documents, one a line").fill(LONG)
    page.get_by_label("Question").fill("What is it?")
    expect(button(page, "Stop")).to_be_disabled()
    button(page, "Search").click()
    expect(page.locator(".s2p-progress")).to_contain_text(re.compile(r"^[1-9]\d* of 1,000 documents"))
    expect(button(page, "Search")).to_be_disabled()
    button(page, "Stop").click()
    expect(page.locator(".s2p-status:visible").first).to_contain_text("Stopped.")
    expect(button(page, "Search")).to_be_enabled()
    expect(page.locator(".s2p-hits")).to_have_count(0)
    page.get_by_label("Documents, one a line").fill(texts.FAQ)
    button(page, "Search").click()  # the next one is not held up
    expect(page.locator(".s2p-hits li")).to_have_count(5)


def test_work_of_a_visitor_who_has_gone_ends(chromium, server):
    process = psutil.Process(server.process.pid)
    with visit(chromium, server) as page:
        tab(page, "Search")
        page.get_by_label("Documents, one a line").fill(LONG)
        page.get_by_label("Question").fill("What is it?")
        button(page, "Search").click()
        expect(page.locator(".s2p-progress")).to_contain_text(re.compile(r"^[1-9]\d* of 1,000 documents"))
    left = before = process.cpu_times().user
    while True:
        time.sleep(0.5)
        now = process.cpu_times().user
        assert now - left < 5  # seconds of work; all of it takes several times as many
        if now - before < 0.1:
            break
        before = now


def test_a_refused_call_is_told(chromium, server):
    with visit(chromium, server, may_fail=True) as page:
        page.route("**/queue/join*", lambda route: route.fulfill(status=500, json={"detail": "No more."}))
        button(page, "the same").click()
        expect(page.locator(".s2p-lost")).to_contain_text(
            "The server refused this (500). No more. Your texts are still here."
        )
        page.unroute("**/queue/join*")
        button(page, "the same").click()
        expect(page.locator(".s2p-shaded")).to_have_count(2)
        expect(page.locator(".s2p-lost")).to_be_hidden()


def test_a_server_that_dies_is_told_and_so_is_one_that_is_back(chromium, tmp_path):
    with running(tmp_path / "first", "--page") as server:
        with visit(chromium, server, may_fail=True) as page:
            page.get_by_label("First sentence").fill("It rains.")
            server.process.kill()
            server.process.wait()
            expect(page.get_by_role("alert").first).to_contain_text("The server does not answer.")
            assert page.get_by_label("First sentence").input_value() == "It rains."
            with running(tmp_path / "second", "--page", "--port", server.port):
                expect(page.get_by_role("alert").first).to_contain_text("The server is there again.")


# For everybody.


def test_compare_is_used_with_the_keyboard_alone(page):
    def tab_to(name):
        for _ in range(40):
            page.keyboard.press("Tab")
            if (
                page.evaluate(
                    "document.activeElement.closest('label')?.innerText || document.activeElement.innerText || ''"
                ).strip()
                == name
            ):
                return
        raise AssertionError(f"the tab key does not lead to {name}")

    tab_to("First sentence")
    page.keyboard.type("It rains.")
    tab_to("Second sentence")
    page.keyboard.type("It is raining.")
    tab_to("Compare")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # one sees where one is
    page.keyboard.press("Enter")
    expect(headline(page, "compare-answer")).to_contain_text("likely the same meaning")
    page.get_by_label("Second sentence").focus()
    page.get_by_label("Second sentence").fill("I like tea.")
    page.keyboard.press("Enter")
    expect(headline(page, "compare-answer")).to_contain_text("(unlikely)")
    page.get_by_role("tab", name="Map").focus()
    page.keyboard.press("Enter")
    expect(button(page, "Draw the map")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(chromium, server, axe, scheme):
    """No serious or critical finding of axe-core, in either colour scheme, in any tab, with and without answers."""
    with visit(chromium, server, color_scheme=scheme) as page:
        page.evaluate(axe)

        def check():
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            grave = [
                (each["id"], each["nodes"][0]["html"][:200])
                for each in found
                if each["impact"] in ("serious", "critical")
            ]
            assert not grave, grave

        check()
        button(page, "Compare").click()  # without sentences: a message
        expect(page.get_by_role("alert")).to_be_visible()
        check()
        fill_tabs(page)
        for name in TABS:
            tab(page, name)
            check()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
        assert (brightness > 128) == (scheme == "light")


def test_on_a_phone_nothing_is_wider_than_the_screen(chromium, server):
    with visit(chromium, server, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        fill_tabs(page)
        for name in TABS:
            tab(page, name)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
            wide = page.evaluate(
                "[...document.querySelectorAll('button, textarea, h2, .s2p-answer')].filter(e => e.offsetParent && "
                "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
            )
            assert not wide, (name, wide)


def test_on_a_phone_a_word_without_end_is_seen_whole(chromium, server):
    with visit(chromium, server, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.get_by_label("First sentence").fill("x" * 900)
        page.get_by_label("Second sentence").fill("It " + "y" * 300)
        button(page, "Compare").click()
        expect(page.locator(".s2p-shaded")).to_have_count(2)
        for word in page.locator(".s2p-word > span").all():
            assert word.evaluate("e => e.getBoundingClientRect().right") <= PHONE["width"]
            assert word.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_words_run_as_their_language_does(page):
    page.get_by_label("First sentence").fill("הכלב הגדול ישן על הספה")
    page.get_by_label("Second sentence").fill("The big dog sleeps.")
    button(page, "Compare").click()
    expect(page.locator(".s2p-shaded")).to_have_count(2)
    places = [
        [word.bounding_box()["x"] for word in page.locator(".s2p-shaded").nth(number).locator(".s2p-word").all()]
        for number in (0, 1)
    ]
    assert places[0] == sorted(places[0], reverse=True)
    assert places[1] == sorted(places[1])


# Of others.


def test_what_one_visitor_pastes_does_not_reach_another(chromium, server, page):
    tab(page, "Search")
    button(page, "a question with an answer").click()
    expect(page.locator(".s2p-hits li")).to_have_count(5)
    tab(page, "Map")
    button(page, "four topics").click()
    expect(page.locator("#map-plot .scatterlayer path.point")).to_have_count(16)
    with visit(chromium, server) as other:
        tab(other, "Search")
        other.get_by_label("Documents, one a line").fill("Only this one.")
        other.get_by_label("Question").fill("How do I reset my password?")
        button(other, "Search").click()
        expect(other.locator(".s2p-hits li")).to_have_count(1)
        tab(other, "Map")
        other.get_by_label("uncertainty").check()  # draws the visitor's own map again: there is none
        other.wait_for_timeout(1000)
        expect(other.locator("#map-plot .scatterlayer path.point")).to_have_count(0)


def test_with_keys_the_browser_asks_for_one(chromium, tmp_path):
    with running(tmp_path / "locked", "--page", environment={"SEN2PRO_API_KEYS": KEY}) as server:
        stranger = chromium.new_context().new_page()
        assert stranger.goto(server.url).status == 401
        stranger.context.close()
        with visit(chromium, server, http_credentials={"username": "anybody", "password": KEY}) as page:
            button(page, "the same").click()
            expect(page.locator(".s2p-shaded")).to_have_count(2)


@pytest.mark.skipif("SEN2PRO_SCREENSHOTS" not in os.environ, reason="SEN2PRO_SCREENSHOTS=1 makes the docs' pictures")
@pytest.mark.parametrize(("scheme", "names"), [("light", ("Compare", "Search")), ("dark", ("Map", "Classify"))])
def test_pictures_for_the_documentation(chromium, server, scheme, names):
    PICTURES.mkdir(exist_ok=True)
    with visit(chromium, server, color_scheme=scheme) as page:
        fill_tabs(page)
        for name in names:
            tab(page, name)
            page.wait_for_timeout(500)
            path = PICTURES / f"page-{name.lower()}.png"
            page.screenshot(path=path, full_page=True)
            assert path.stat().st_size < 150_000
