"""The class of our routes: the API key before the handler, errors in the dialect of the path, metrics and log after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from inspect import signature
from itertools import count
from typing import get_type_hints
from uuid import uuid4

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from sen2pro.errors import Sen2ProError
from sen2pro.server.http_errors import ClientGone, RequestError, error_response
from sen2pro.server.observability import LOGGER, error_summary
from sen2pro.server.requests import ApiRequest

_NUMBERS, _PREFIX = count(1), uuid4().hex[:8]
_WITHOUT_KEY = {"/health"}
_FAILED = "an internal error occurred; the server's log has details"


class ApiRoute(APIRoute):
    """A route with keys and limits, whose errors have the dialect of its path."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
        """Return the handler: FastAPI's own between our checks and our metrics."""
        handle = super().get_route_handler()
        has_body = "body" in signature(self.endpoint).parameters

        async def checked(request: ApiRequest) -> Response:
            service = request.service
            if self.path not in _WITHOUT_KEY and not service.keys.allow(request.headers.get("authorization")):
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
                return Response(status_code=499)  # the client is gone
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
            metrics.errors.labels(self.path, error.kind).inc()
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
