"""A request on its way to a route: key, limits, body, deadline; and the line in the log when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from inspect import signature
from itertools import count
from typing import TypeVar, get_type_hints
from uuid import uuid4

import anyio
import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from sen2pro.errors import Sen2ProError
from sen2pro.server.batching import BatchJob, late, wait_for_results
from sen2pro.server.bodies import check_amount
from sen2pro.server.engine import Text
from sen2pro.server.http_errors import ClientGone, RequestError, error_response, json_response
from sen2pro.server.observability import LOGGER, error_summary
from sen2pro.server.service import Service, Thread

Unit = TypeVar("Unit")
Result = TypeVar("Result")
_NUMBERS, _PREFIX = count(1), uuid4().hex[:8]
_INLINE = 256 << 10  # bytes of a body that is too small to be checked in a thread
_MOST_FIELDS = 100  # of a body; pydantic would make an error of each that it does not know
_MORE, _PATIENCE = 256 << 10, 1.5  # bytes above the limit, and seconds, for which a refused body is still read
_WITHOUT_KEY = {"/health"}
_FAILED = "an internal error occurred; the server's log has details"


class ApiRequest(Request):
    """A request with its deadline, its body (read within limits), and its numbers of texts and tokens."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self.began = time.perf_counter()
        self.service: Service = request.app.state.service
        self.text_count = self.token_count = self.size = 0
        self.is_read = request.method != "POST"
        self._content, self._parsed = b"", None

    def time_left(self) -> float:
        """Return the seconds until the deadline; raise `late` when it has passed."""
        left = self.began + self.service.serving.time_limit - time.perf_counter()
        if left <= 0:
            raise late()
        return left

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of tokens, as OpenAI names them."""
        return {"prompt_tokens": self.token_count, "total_tokens": self.token_count}

    async def body(self) -> bytes:
        """Return the body that `load` has read."""
        return self._content

    async def json(self) -> object:
        """Return the JSON that `load` has parsed."""
        return self._parsed

    async def load(self) -> None:
        """Read and parse the body: no more of it than is allowed, whatever its headers say, until the deadline."""
        most = self.service.serving.body_bytes
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise RequestError("content", "send JSON, with the header Content-Type: application/json")
        if self.headers.get("content-encoding", "identity") != "identity":
            raise RequestError("content", "send the body as it is, without Content-Encoding")
        declared = self.headers.get("content-length", "0")
        if len(declared) > 15 or int(declared) > most:  # the HTTP parser accepts only digits
            raise RequestError("large", f"the body may have {most} bytes")
        parts: list[bytes] = []
        try:
            with anyio.fail_after(self.time_left()):
                async for part in self.stream():
                    self._track_bytes(len(part))
                    parts.append(part)
        except TimeoutError:
            raise RequestError("slow", "the body did not arrive in time") from None
        except ClientDisconnect:
            raise ClientGone from None
        self.is_read = True
        self._content = b"".join(parts)
        if len(self._content) > _INLINE:
            await self.run_in_thread(partial(check_amount, self._content, self.service.serving.texts))
        try:
            self._parsed = orjson.loads(self._content)
        except orjson.JSONDecodeError as error:
            message = f"the body is not valid JSON ({error.msg}, character {error.pos})"
            raise RequestError("invalid", message) from None
        if isinstance(self._parsed, dict) and len(self._parsed) > _MOST_FIELDS:
            raise RequestError("invalid", f"the body has more than {_MOST_FIELDS} fields")

    def _track_bytes(self, size: int) -> None:
        self.size += size
        self.service.bytes_in_flight += size
        if self.service.bytes_in_flight > self.service.most_bytes_in_flight:
            message = "the server holds too many bytes of other requests; try again later"
            raise RequestError("busy", message, retry_after=1)
        if self.size > self.service.serving.body_bytes:
            raise RequestError("large", f"the body may have {self.service.serving.body_bytes} bytes")

    def release_bytes(self) -> None:
        """Count the body no more."""
        self.service.bytes_in_flight -= self.size
        self.size = 0

    async def drain(self) -> None:
        """Read on for a moment: a client that is cut off while it sends may never see the error response."""
        left = self.service.serving.body_bytes + _MORE

        with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
            with anyio.fail_after(_PATIENCE):
                while left > 0 and (message := await self.receive()).get("more_body", False):
                    left -= len(message["body"])

    async def disconnected(self) -> None:
        """Wait until the client closes its connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def run(self, job: BatchJob[Unit, Result], units: Sequence[Unit], weights: Sequence[int]) -> list[Result]:
        """Have a worker run a job on units, and return the results; a weight is the cost of a unit in tokens."""
        left = self.time_left()
        batcher = self.service.searcher if job.own_worker else self.service.batcher
        return await wait_for_results(batcher, batcher.submit(job, units, weights), self.disconnected(), left)

    async def run_texts(
        self, job: BatchJob[Text, Result], texts: Sequence[Text], passes: int = 1, more: int = 0
    ) -> list[Result]:
        """Have a worker run a job on texts; `more` is the cost of each beside its passes, in tokens."""
        return await self.run(job, texts, [passes * text.weight + more for text in texts])

    async def run_in_thread(self, function: Callable[[], Result], thread: Thread = "tokens") -> Result:
        """Run a part of the work beside the event loop, unless the client is gone or the deadline has passed."""
        left = self.time_left()
        if await self.is_disconnected():
            raise ClientGone
        try:
            with anyio.fail_after(left):
                return await self.service.run_in_thread(function, thread)
        except TimeoutError:
            raise late() from None


def data_response(request: ApiRequest, data: object, **more: object) -> Response:
    """Return a response of our own routes: the data, the name of the model, and the usage."""
    return json_response({"data": data, **more, "model": request.service.name, "usage": request.usage})


class ApiRoute(APIRoute):
    """A route with keys and limits, whose errors have the dialect of its path."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
        """Return the handler: FastAPI's own between our checks and our metrics."""
        handle = super().get_route_handler()
        has_body = "body" in signature(self.endpoint).parameters
        needs_key = self.path not in _WITHOUT_KEY

        async def checked(request: ApiRequest) -> Response:
            service = request.service
            if needs_key and not service.keys.allow(request.headers.get("authorization")):
                raise RequestError("key", "give a valid API key: Authorization: Bearer ...")
            if has_body:
                service.check_ready()
                await request.load()
            return await handle(request)

        async def answered(plain: Request) -> Response:
            request = ApiRequest(plain)
            number = f"{_PREFIX}-{next(_NUMBERS)}"
            error: RequestError | None = None
            try:
                response = await checked(request)
            except ClientGone:
                request.service.metrics.cancelled.inc()
                LOGGER.info({"event": "gone", "request": number, "route": self.path})
                return Response(status_code=499)  # nobody reads it
            except RequestError as refused:
                error = refused
            except RequestValidationError as refused:
                error = self._invalid(refused)
            except Sen2ProError as refused:
                error = RequestError("invalid", str(refused))  # of a text or an option: the work is done elsewhere
            except asyncio.CancelledError:  # the grace is over
                error = RequestError("stopping", "the server is stopping; try again later", retry_after=1)
            except Exception as failure:
                LOGGER.error({"event": "failed", "request": number, "route": self.path, **error_summary(failure)})
                error = RequestError("failed", _FAILED)
            finally:
                request.release_bytes()
            if error is not None:
                response = error_response(error, self.path)
                if not request.is_read and "expect" not in request.headers:
                    await request.drain()
            response.headers["x-request-id"] = number
            self._count(request, number, response.status_code, error)
            return response

        return answered

    def _count(self, request: ApiRequest, number: str, status: int, error: RequestError | None) -> None:
        seconds, metrics = time.perf_counter() - request.began, request.service.metrics
        metrics.count_request(self.path, status, seconds, request.text_count, request.token_count)
        if error is not None:
            metrics.count_error(self.path, error.kind)
        if request.method == "POST":
            LOGGER.info(
                {
                    "event": "call", "request": number, "route": self.path, "status": status,
                    "kind": error and error.kind, "texts": request.text_count, "tokens": request.token_count,
                    "milliseconds": round(1000 * seconds, 2),
                }
            )  # fmt: skip

    def _invalid(self, error: RequestValidationError) -> RequestError:
        """Return the first error of a body and its field; never the value of the field."""
        model: type[BaseModel] = get_type_hints(self.endpoint)["body"]
        first = error.errors()[0]
        places = [str(place) for place in first["loc"][1:]]  # without "body"
        if not places:
            return RequestError("invalid", "the body must be a JSON object")
        name = places[0]
        if first["type"] == "missing":
            return RequestError("invalid", f"'{'.'.join(places)}' is missing", name)
        if first["type"] == "extra_forbidden":
            return RequestError("invalid", f"unknown field; the fields are: {', '.join(model.model_fields)}")
        known = model.model_fields.get(name)
        if known is not None and len(places) > 1 and known.description and "text" in known.description:
            return RequestError("invalid", f"'{name}' must be {known.description}", name)
        message = first["msg"].replace("Input should be", "must be")
        return RequestError("invalid", f"'{'.'.join(places)}' {message[:1].lower()}{message[1:]}", name)
