"""The whole page: its head, four tabs, and how it looks."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from sen2pro import __version__
from sen2pro.io.text import open_binary
from sen2pro.model import Sen2Pro
from sen2pro.page.classify import classify_tab
from sen2pro.page.compare import compare_tab
from sen2pro.page.job import AT_ONCE
from sen2pro.page.limits import Limits
from sen2pro.page.map import map_tab
from sen2pro.page.search import search_tab

_HERE = Path(__file__).parent
_TABS = {"Compare": compare_tab, "Map": map_tab, "Search": search_tab, "Classify": classify_tab}
_WAITING = 64  # events that may wait; one more is told to come back


def build(model: Sen2Pro, limits: Limits | None = None) -> Any:
    """Return the page as gradio's `Blocks`, which every visitor shares; what is a visitor's own is in its states."""
    limits = limits or Limits()
    with gr.Blocks(title="sen2pro", analytics_enabled=False) as blocks:
        gr.HTML(
            f"<header><h1>sen2pro</h1><p>A sentence is a distribution here: where it lies is its meaning, how wide it "
            f"is says how vague. The model is <b>{escape(model.encoder.name)}</b>.</p></header>"
        )
        with gr.Tabs():
            for name, tab in _TABS.items():
                with gr.Tab(name, id=name.lower()):
                    tab(model, limits)
        gr.HTML(
            f"<footer>sen2pro {__version__}. Texts go to the server that this page came from, and nowhere else. It "
            "keeps them in memory, up to an hour after you have gone, and never on its disk.</footer>"
        )
    blocks.state_session_capacity = limits.visitors
    blocks.queue(max_size=_WAITING, default_concurrency_limit=AT_ONCE, api_open=False)
    return blocks


def look() -> dict[str, Any]:
    """Return how the page looks, as gradio takes it: fonts of the system, our colours, our script."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    theme = gr.themes.Default(
        primary_hue="blue", neutral_hue="slate", font=fonts, font_mono=["ui-monospace", "Consolas", "monospace"]
    )
    return {
        "theme": theme, "css": _read("style.css"), "js": _read("page.js")
    }  # fmt: skip


def _read(name: str) -> str:
    with open_binary(_HERE / name) as file:
        return file.read().decode()
