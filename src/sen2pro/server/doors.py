"""From the wire to a route and back: keys, limits, parsing, the answer in the right dialect, a line in the log.

A route is documented like any route of FastAPI, but runs as plain ASGI: FastAPI's own way to a handler, with its
dependencies and response models, takes as long as a fifth of the work on a short text.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from sen2pro.errors import Sen2ProError
from sen2pro.server import logs, problems
from sen2pro.server.batching import FAREWELLS
from sen2pro.server.bodies import check_amount
from sen2pro.server.logs import LOGGER, where
from sen2pro.server.problems import Dialect, Gone, Problem

if TYPE_CHECKING:
    from sen2pro.server.state import State

JSON = b"application/json"
_JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
_NUMBERS, _PREFIX = count(1), uuid4().hex[:8]
_INLINE = 256 << 10  # bytes of a body that is parsed at once in the event loop
_MOST_FAULTS = 100  # of a body; if there are more, they are not looked at one by one
_MORE, _PATIENCE = 256 << 10, 1.5  # bytes above the limit, and seconds, that a refused body is read on
_FAILED = "something went wrong in the server; its log says more"


@dataclass(slots=True)
class Call:
    """A call on its way: what it asks for, and what the log will say of it."""

    headers: Mapping[bytes, bytes]
    receive: Callable[[], Awaitable[Any]]
    began: float
    farewells: Any = None  # what is called when the connection is lost, where the server offers that
    body: Any = None
    texts: int = 0
    tokens: int = 0
    size: int = 0  # bytes of the body so far
    is_read: bool = False  # whether that is all of it
    is_lost: bool = False  # whether the client has gone

    def leave(self) -> None:
        """Note that the client has gone."""
        self.is_lost = True


@dataclass(slots=True)
class Answer:
    """What goes back: bytes, or something that JSON can say."""

    content: Any
    kind: bytes = JSON
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def encoded(self) -> bytes:
        """Return the body."""
        return self.content if isinstance(self.content, bytes) else dumps(self.content)


Handle = Callable[["State", Call], Awaitable[Answer]]


def dumps(content: Any) -> bytes:
    """Return JSON, also of numpy's arrays: float32 in as few digits as tell it from its neighbours."""
    return orjson.dumps(content, option=_JSON_OPTIONS)


@dataclass(frozen=True)
class Operation:
    """A route: where it is, what it takes and gives, and who speaks there.

    `is_open` routes need no key; `is_always` routes answer also while the server starts or stops.
    """

    method: str
    path: str
    handle: Handle
    summary: str
    answer: Any
    call: type[BaseModel] | None = None
    dialect: Dialect = problems.openai
    is_open: bool = False
    is_always: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)  # further kinds of content of the answer


class Door:
    """The ASGI application of one route."""

    def __init__(self, state: State, operation: Operation) -> None:
        self.state, self.operation = state, operation
        self._parser: TypeAdapter[Any] | None = TypeAdapter(operation.call) if operation.call else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call."""
        began = time.perf_counter()
        operation, state = self.operation, self.state
        call = Call(dict(scope["headers"]), receive, began, scope.get("extensions", {}).get(FAREWELLS))
        number = f"{_PREFIX}-{next(_NUMBERS)}"
        kind = None
        if call.farewells is not None:
            call.farewells.add(call.leave)
        try:
            answer = await self._answer(call)
            body = answer.encoded()
        except Gone:
            state.metrics.cancelled.inc()
            LOGGER.info({"event": "gone", "request": number, "route": operation.path})
            return
        except Problem as problem:
            kind, answer = problem.kind, told(problem, operation.dialect)
        except Exception as error:
            LOGGER.error({"event": "failed", "request": number, "route": operation.path, **where(error)})
            kind, answer = "failed", told(Problem("failed", _FAILED), operation.dialect)
        finally:
            state.let_go(call)
            if call.farewells is not None:
                call.farewells.discard(call.leave)
        if kind is not None:
            body = answer.encoded()
            if not call.is_read and b"expect" not in call.headers:
                await self._drop(call)
        headers = [
            (b"content-type", answer.kind), (b"content-length", str(len(body)).encode()),
            (b"x-request-id", number.encode()), *answer.headers,
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        seconds = time.perf_counter() - began
        state.metrics.answered(operation.path, answer.status, seconds, call.texts, call.tokens)
        if kind is not None:
            state.metrics.refused(operation.path, kind)
        if not operation.is_always:
            logs.write(
                {
                    "event": "call", "request": number, "route": operation.path, "status": answer.status, "kind": kind,
                    "texts": call.texts, "tokens": call.tokens, "milliseconds": round(1000 * seconds, 2),
                }
            )  # fmt: skip

    async def _answer(self, call: Call) -> Answer:
        operation, state = self.operation, self.state
        if not operation.is_open and not state.keys.allow(_text(call.headers.get(b"authorization"))):
            raise Problem("key", "give a valid API key: Authorization: Bearer ...")
        if not operation.is_always:
            state.check_ready()
        if self._parser is not None:
            body = await self._read(call)
            call.body = self._parse(body) if len(body) <= _INLINE else await state.in_time(call, self._parse, body)
        try:
            return await operation.handle(state, call)
        except Sen2ProError as error:
            # Only what is wrong with a text or an option is raised here: the work itself is done elsewhere.
            raise Problem("invalid", str(error)) from None

    async def _read(self, call: Call) -> bytes:
        """Read the body, and no more of it than is allowed, whatever its headers say."""
        most = self.state.serving.body_bytes
        kind = call.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind != JSON and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
            raise Problem("content", "send JSON, with the header Content-Type: application/json")
        if call.headers.get(b"content-encoding", b"identity") != b"identity":
            raise Problem("content", "send the body as it is, without Content-Encoding")
        said = call.headers.get(b"content-length", b"0")
        if len(said) > 15 or int(said) > most:  # the parser of HTTP lets only digits through
            raise Problem("large", f"the body may have {most} bytes")
        parts: list[bytes] = []
        while True:
            message = await call.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            call.is_read = not message.get("more_body", False)
            self.state.take_in(call, len(part))
            if call.size > most:
                raise Problem("large", f"the body may have {most} bytes")
            parts.append(part)
            if call.is_read:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _drop(self, call: Call) -> None:
        """Read the rest of a body, for a moment: a client that is cut off while it sends may not see its answer."""
        left = self.state.serving.body_bytes + _MORE

        async def read() -> None:
            nonlocal left
            while left > 0 and (message := await call.receive()).get("more_body", False):
                left -= len(message["body"])

        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(read(), _PATIENCE)

    def _parse(self, body: bytes) -> Any:
        assert self._parser is not None
        assert self.operation.call is not None
        if len(body) > _INLINE:
            check_amount(body, self.state.serving.texts)
        try:
            return self._parser.validate_json(body)
        except ValidationError as error:
            raise invalid(error, self.operation.call) from None


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def told(problem: Problem, dialect: Dialect) -> Answer:
    """Return the answer that tells of a problem; who was refused before the body was read is not listened to."""
    status, body = dialect(problem)
    headers = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.kind == "key":
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.kind in ("key", "large", "content", "stopping"):
        headers.append((b"connection", b"close"))
    return Answer(body, status=status, headers=headers)


def invalid(error: ValidationError, model: type[BaseModel]) -> Problem:
    """Return what is wrong with a body: the first thing, by its place; never what stands there."""
    if error.error_count() > _MOST_FAULTS:
        return Problem(
            "invalid", f"more than {_MOST_FAULTS} things are wrong; the fields are: {', '.join(model.model_fields)}"
        )
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    places = [str(place) for place in first["loc"]]
    if first["type"] == "json_invalid":
        return Problem(
            "invalid", f"the body is not JSON that can be read ({first['msg'].removeprefix('Invalid JSON: ')})"
        )
    if not places:
        return Problem("invalid", "the body must be a JSON object")
    name = places[0]
    if first["type"] == "missing":
        return Problem("invalid", f"'{'.'.join(places)}' is missing", name)
    if first["type"] == "extra_forbidden":
        return Problem("invalid", f"unknown field; the fields are: {', '.join(model.model_fields)}")
    known = model.model_fields.get(name)
    if known is not None and len(places) > 1 and known.description and "text" in known.description:
        return Problem("invalid", f"'{name}' must be {known.description}", name)
    message = first["msg"].replace("Input should be", "must be")
    return Problem("invalid", f"'{'.'.join(places)}' {message[:1].lower()}{message[1:]}", name)


class DoorRoute(APIRoute):
    """A route of FastAPI's, as far as its document goes; calls go straight to the door."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = endpoint.door


def documented(operation: Operation, door: Door) -> Any:
    """Return a function whose signature says what the route takes, for FastAPI to read; it is never called."""

    async def endpoint(body: Any = None) -> None:
        raise NotImplementedError

    parameter = Parameter("body", Parameter.POSITIONAL_OR_KEYWORD, annotation=operation.call)
    endpoint.__signature__ = Signature([parameter] if operation.call else [])  # type: ignore[attr-defined]
    endpoint.door = door  # type: ignore[attr-defined]
    endpoint.__name__ = operation.path.strip("/").replace("/", "_") or "root"
    return endpoint
