"""Error responses in the dialect of the route: OpenAI's below /v1, text-embeddings-inference's elsewhere.

No message names a file of the server or quotes a text of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from fastapi.responses import Response
from pydantic import BaseModel


def to_json(content: object) -> bytes:
    """Return JSON. Numpy arrays become lists; a float32 gets only as many digits as it needs."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with JSON."""
    return Response(to_json(content), status, headers, "application/json")


class RequestError(Exception):
    """A request that is refused or fails: the kind of error, a message, and the field of the body that is wrong."""

    def __init__(self, kind: str, message: str, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.field, self.retry_after = kind, message, field, retry_after


class ClientGone(Exception):
    """The client closed its connection, so no response is needed."""


@dataclass(frozen=True)
class _Codes:
    """A kind of error in both dialects: status, type and code of OpenAI; status and type of TEI."""

    status: int
    type: str
    code: str | None
    tei_status: int
    tei_type: str


_KINDS: Mapping[str, _Codes] = {
    "invalid": _Codes(400, "invalid_request_error", None, 422, "Validation"),
    "empty": _Codes(400, "invalid_request_error", None, 400, "Empty"),
    "key": _Codes(401, "invalid_request_error", "invalid_api_key", 401, "Validation"),
    "model": _Codes(404, "invalid_request_error", "model_not_found", 404, "Validation"),
    "path": _Codes(404, "invalid_request_error", "unknown_url", 404, "Validation"),
    "method": _Codes(405, "invalid_request_error", "method_not_supported", 405, "Validation"),
    "slow": _Codes(408, "invalid_request_error", "timeout", 408, "Validation"),
    "large": _Codes(413, "invalid_request_error", "request_too_large", 413, "Validation"),
    "long": _Codes(400, "invalid_request_error", "context_length_exceeded", 413, "Validation"),
    "content": _Codes(415, "invalid_request_error", "unsupported_media_type", 415, "Validation"),
    "busy": _Codes(429, "rate_limit_error", "rate_limit_exceeded", 429, "Overloaded"),
    "failed": _Codes(500, "server_error", "internal_error", 424, "Backend"),
    "missing": _Codes(501, "invalid_request_error", "not_served", 501, "Backend"),
    "stopping": _Codes(503, "server_error", "service_unavailable", 503, "Unhealthy"),
    "late": _Codes(504, "server_error", "timeout", 504, "Backend"),
}
_CLOSES = {"key", "slow", "large", "content", "stopping"}  # kinds after which the connection is closed


def error_response(error: RequestError, path: str) -> Response:
    """Return the response to a request that is refused, in the dialect of its path.

    >>> error = RequestError("invalid", "the body must be a JSON object")
    >>> error_response(error, "/v1/embeddings").status_code, error_response(error, "/embed").status_code
    (400, 422)
    >>> error_response(error, "/embed").body
    b'{"error":"the body must be a JSON object","error_type":"Validation"}'
    """
    codes = _KINDS[error.kind]
    headers = {"connection": "close"} if error.kind in _CLOSES else {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.kind == "key":
        headers["www-authenticate"] = "Bearer"
    if path.startswith("/v1"):
        body = {"message": error.message, "type": codes.type, "param": error.field, "code": codes.code}
        return json_response({"error": body}, codes.status, headers)
    return json_response({"error": error.message, "error_type": codes.tei_type}, codes.tei_status, headers)


def error_docs(path: str, body: type[BaseModel]) -> dict[int | str, dict[str, object]]:
    """Return the error responses of the routes below a path, for the OpenAPI document."""
    codes = {each.status if path.startswith("/v1") else each.tei_status for each in _KINDS.values()}
    return {status: {"description": HTTPStatus(status).phrase, "model": body} for status in sorted(codes)}
