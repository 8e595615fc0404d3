"""Put the page into an application."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from sen2pro.model import Sen2Pro
from sen2pro.page.gate import Gate, PageRoute
from sen2pro.page.limits import Limits

# gradio reads these when it is imported, and would count how often it is used.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"


def mount(app: FastAPI, model: Sen2Pro, limits: Limits, allow: Callable[[str | None], bool]) -> Gate:
    """Put the page at `/` of an application; return its door, to be closed when the server stops."""
    import gradio as gr

    from sen2pro.page.blocks import build, look

    options: dict[str, Any] = {
        "footer_links": [], "run_history": False, "show_error": False, "ssr_mode": False, "enable_monitoring": False,
        "mcp_server": False, "pwa": False, "max_file_size": 1, **look(),
    }  # fmt: skip
    gr.mount_gradio_app(app, build(model, limits), "/", app_kwargs={"docs_url": None, "redoc_url": None}, **options)
    mounted: Any = app.router.routes.pop()
    gate = Gate(mounted.app, allow, limits.body_bytes)
    app.router.routes.append(PageRoute("/", gate))
    return gate
