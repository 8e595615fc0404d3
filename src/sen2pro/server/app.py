"""The application: all routes put together, with one OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from sen2pro import __version__
from sen2pro.server import openai_routes, own_routes, problems, schemas, tei_routes
from sen2pro.server.doors import Door, DoorRoute, Operation, documented, told
from sen2pro.server.engine import Engine
from sen2pro.server.keys import Keys
from sen2pro.server.problems import Problem
from sen2pro.server.serving import Serving
from sen2pro.server.state import State

_ABOUT = (
    "Sentence embeddings, their distributions, and the answers made from them. /v1/embeddings is as OpenAI has it, "
    "/embed, /similarity and /tokenize are as text-embeddings-inference has them."
)
_TAGS: dict[problems.Dialect, str] = {problems.openai: "v1", problems.tei: "text-embeddings-inference"}
_SHOWN = {  # an example of each problem, for the document
    "invalid": "'input' is missing", "key": "give a valid API key: Authorization: Bearer ...",
    "large": "a call may have 2048 texts, not 3000", "busy": "the queue is full; try again later",
    "stopping": "the server is stopping; try again later", "late": "there was no answer in time",
}  # fmt: skip


class Application(FastAPI):
    """FastAPI's application, but a call of a known route goes straight to its door.

    FastAPI's own way there has five layers, which take as long as a fiftieth of the work on a short text. All other
    calls take it, and all calls if there is middleware or the application is mounted in another.
    """

    def build_middleware_stack(self) -> Any:
        """Put the short way in front of FastAPI's layers; FastAPI asks for this once, at the first call."""
        layers = super().build_middleware_stack()
        if self.user_middleware:
            return layers
        routes = [route for route in self.router.routes if isinstance(route, DoorRoute)]
        doors = {(method, route.path): route.app for route in routes for method in route.methods or ()}

        async def straight(scope: Any, receive: Any, send: Any) -> None:
            door = None if scope.get("root_path") else doors.get((scope.get("method"), scope.get("path")))
            await (layers if door is None else door)(scope, receive, send)

        return straight


def create_app(
    engine: Engine, serving: Serving | None = None, keys: Keys | None = None, *, page: bool = False
) -> Application:
    """Return the application; its `state.server` is the `State` that all routes share.

    With `page`, the page for people is at `/`. It uses the same model.

    Examples
    --------
    >>> from sen2pro import Sen2Pro
    >>> app = create_app(Engine(Sen2Pro(method="one-pass")))
    >>> sorted(app.openapi()["paths"])
    ['/', '/embed', '/health', '/info', '/metrics', '/similarity', '/tokenize', '/v1/classify', '/v1/compare', ...]
    """
    state = State(engine, serving or Serving(), keys or Keys([]))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await state.start()
        try:
            yield
        finally:
            state.close()

    # The pages that FastAPI makes of its document load scripts from other servers; the document itself is here.
    app = Application(
        title="sen2pro", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan,
        openapi_url="/openapi.json",
    )  # fmt: skip
    app.state.server = state
    app.router.route_class = DoorRoute
    app.router.redirect_slashes = False
    if state.serving.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(state.serving.cors), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )  # fmt: skip
    for operation in (*openai_routes.OPERATIONS, *tei_routes.OPERATIONS, *own_routes.OPERATIONS):
        _add(app, state, operation)
    app.add_exception_handler(HTTPException, _unknown)
    if page:
        from sen2pro.page.limits import Limits
        from sen2pro.page.mounting import mount

        limits = Limits().within(state.serving.characters, state.serving.body_bytes)
        is_local = state.serving.is_local and not len(state.keys)
        state.farewells.append(mount(app, engine.model, limits, state.keys.allow, is_local=is_local).close)
    return app


def _add(app: FastAPI, state: State, operation: Operation) -> None:
    problem: Any = schemas.OpenAIProblem if operation.dialect is problems.openai else schemas.TeiProblem
    responses: dict[int | str, Any] = {200: {"description": operation.summary, "model": operation.answer}}
    if operation.answer is None:
        responses[200].pop("model")
    if operation.more:
        responses[200]["content"] = dict(operation.more)
    for kind, message in _SHOWN.items():
        if kind == "stopping" or (kind == "key" and not operation.is_open) or operation.call is not None:
            status, body = operation.dialect(Problem(kind, message))
            content = {"application/json": {"example": body}}
            responses.setdefault(status, {"description": message, "model": problem, "content": content})
    app.router.add_api_route(
        operation.path, documented(operation, Door(state, operation)), methods=[operation.method],
        summary=operation.summary, responses=responses, response_model=None, tags=[_TAGS[operation.dialect]],
    )  # fmt: skip


async def _unknown(request: Request, error: Any) -> Response:
    """Answer what no route takes."""
    path = request.url.path
    if error.status_code == 405:
        problem = Problem("method", "this route takes another method")
    else:
        problem = Problem("path", "there is no such route; /openapi.json names all of them")
    answer = told(problem, problems.dialect_of(path))
    request.app.state.server.metrics.answered("other", answer.status, 0.0)
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return Response(answer.encoded(), answer.status, media_type="application/json", headers=headers)
