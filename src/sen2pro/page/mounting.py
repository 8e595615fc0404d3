"""Put the page into an application."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from sen2pro.model import Sen2Pro
from sen2pro.page.calls import Calls
from sen2pro.page.gate import Gate, PageRoute
from sen2pro.page.limits import Limits
from sen2pro.page.visitors import Visitors

# gradio reads these when it is imported, and would count how often it is used.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"


def mount(app: FastAPI, model: Sen2Pro, limits: Limits, allow: Callable[[str | None], bool], *, is_local: bool) -> Gate:
    """Put the page at `/` of an application; return its door, to be closed when the server stops.

    `is_local` says that the page is for this machine alone, and that nothing but its address guards it.
    """
    import gradio as gr

    from sen2pro.page.blocks import build, look

    options: dict[str, Any] = {
        "footer_links": [], "run_history": False, "show_error": False, "ssr_mode": False, "enable_monitoring": False,
        "mcp_server": False, "pwa": False, "max_file_size": 1, **look(),
    }  # fmt: skip
    blocks = build(model, limits)
    gr.mount_gradio_app(app, blocks, "/", app_kwargs={"docs_url": None, "redoc_url": None}, **options)
    blocks.has_launched = True  # otherwise gradio checks no path; a page that is mounted is never launched
    mounted: Any = app.router.routes.pop()
    visitors = Visitors(blocks, limits.seconds)
    gate = Gate(mounted.app, Calls(blocks), visitors, allow, limits.body_bytes, is_local)
    app.router.routes.append(PageRoute("/", gate))
    return gate
