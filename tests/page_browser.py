"""What the tests and the pictures of the page share: a real Chromium, and the page opened in it as a new visitor."""

from __future__ import annotations

import os
from contextlib import contextmanager
from urllib.parse import urlsplit

import browser as browsers
from playwright.sync_api import expect, sync_playwright

TABS = ("Read", "Compare", "Map", "Search", "Classify")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ON_PHONE = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
# What each tab shows once its example is answered.
ANSWERS = {
    "Read": "#read-side .vaguest li", "Compare": "#compare-answer .word", "Map": "#map-table tbody tr",
    "Search": "#search-answer .hits li", "Classify": "#classify-answer .verdict",
}  # fmt: skip
expect.set_options(timeout=30_000)  # a busy machine takes its time


@contextmanager
def chromium():
    """Start a browser; `NoBrowser` says that there is none."""
    found = browsers.find()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.path, args=["--no-sandbox", "--disable-gpu", "--headless=new"],
            env={**os.environ, **found.environment},
        )  # fmt: skip
        try:
            yield started
        finally:
            started.close()


@contextmanager
def visit(started, server, tab="Read", *, viewport=DESKTOP, may_fail=False, **options):
    """Open the page as a new visitor. In the end nothing may have failed, and no request may have left the machine."""
    context = started.new_context(viewport=viewport, reduced_motion="reduce", **options)
    page = context.new_page()
    problems, addresses = [], []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    context.on("request", lambda request: addresses.append(request.url))
    page.goto(f"{server.url}/#{tab.lower()}")
    try:
        yield page
        hosts = {urlsplit(address).hostname for address in addresses if not address.startswith(("data:", "blob:"))}
        assert hosts == {"127.0.0.1"}
        assert may_fail or not problems, problems
    finally:
        context.close()


def answered(page, name):
    """Wait until the example of a tab is answered, and return what is shown."""
    found = page.locator(ANSWERS[name])
    expect(found.first).to_be_visible()
    expect(page.locator(f"#{name.lower()}-panel .primary")).to_be_enabled()
    return found


def open_tab(page, name):
    """Go to a tab, and wait for the answer of its example."""
    page.get_by_role("tab", name=name, exact=True).click()
    return answered(page, name)
