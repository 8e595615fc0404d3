"""The application: all routes put together, with one OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sen2pro import __version__
from sen2pro.server.auth import ApiKeys
from sen2pro.server.engine import Engine
from sen2pro.server.http_errors import RequestError, error_response
from sen2pro.server.routes import openai, own, tei
from sen2pro.server.routes import page as page_files
from sen2pro.server.service import Service
from sen2pro.server.serving import Serving

_ABOUT = (
    "Sentence embeddings, their distributions, and answers made from them. /v1/embeddings speaks the dialect of "
    "OpenAI; /embed, /similarity and /tokenize speak that of text-embeddings-inference."
)


def create_app(
    engine: Engine,
    serving: Serving | None = None,
    keys: ApiKeys | None = None,
    *,
    page: bool = False,
    on_ready: Callable[[], object] = lambda: None,
) -> FastAPI:
    """Return the application; its `state.service` has the parts that all routes share.

    With `page`, the page for people is at `/`. `on_ready` is called once the model has warmed up.

    Examples
    --------
    >>> from sen2pro import Sen2Pro
    >>> app = create_app(Engine(Sen2Pro(method="one-pass")))
    >>> sorted(app.openapi()["paths"])
    ['/', '/embed', '/health', '/info', '/metrics', '/similarity', '/tokenize', '/v1/classify', '/v1/compare', ...]
    """
    serving, keys = serving or Serving(), keys or ApiKeys([])
    service = Service(engine, serving, keys, on_ready)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.close()

    # FastAPI's own pages of the document load scripts from other servers, so only the document itself is served.
    app = FastAPI(
        title="sen2pro", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    if serving.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(serving.cors), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )  # fmt: skip
    hosts = serving.trusted_hosts(bool(len(keys)))
    if hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    for module in (openai, tei, own):
        app.include_router(module.router)
    if page:
        app.include_router(page_files.router)
    app.add_exception_handler(HTTPException, _unknown_route)
    return app


async def _unknown_route(request: Request, error: Exception) -> Response:
    """Return the error of a path or a method that no route takes."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        refused = RequestError("method", f"this route takes {allowed}; /openapi.json lists all routes")
    else:
        refused = RequestError("path", "there is no such route; /openapi.json lists all routes")
    response = error_response(refused, request.url.path)
    response.headers.update(error.headers or {})
    service: Service = request.app.state.service
    service.metrics.count_request("other", response.status_code, 0.0)
    return response
