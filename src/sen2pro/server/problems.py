"""What is told to a client whose call cannot be answered, in the dialect that it speaks.

No message here names a file of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Problem(Exception):
    """A call that gets no answer: what is wrong, in one of a few kinds, and which field of the call it is about.

    >>> problem = Problem("invalid", "'input' is missing", "input")
    >>> openai(problem)
    (400, {'error': {'message': "'input' is missing", 'type': 'invalid_request_error', 'param': 'input', 'code': None}})
    >>> tei(problem)
    (422, {'error': "'input' is missing", 'error_type': 'Validation'})
    """

    def __init__(self, kind: str, message: str, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.field, self.retry_after = kind, message, field, retry_after


class Gone(Exception):
    """The client has gone away; nobody waits for an answer."""


@dataclass(frozen=True)
class _Told:
    """How a kind of problem is told: status, type and code of OpenAI; status and type of text-embeddings-inference."""

    status: int
    type: str
    code: str | None
    tei_status: int
    tei_type: str


_KINDS: Mapping[str, _Told] = {
    "invalid": _Told(400, "invalid_request_error", None, 422, "Validation"),
    "empty": _Told(400, "invalid_request_error", None, 400, "Empty"),
    "key": _Told(401, "invalid_request_error", "invalid_api_key", 401, "Validation"),
    "model": _Told(404, "invalid_request_error", "model_not_found", 404, "Validation"),
    "path": _Told(404, "invalid_request_error", "unknown_url", 404, "Validation"),
    "method": _Told(405, "invalid_request_error", "method_not_supported", 405, "Validation"),
    "large": _Told(413, "invalid_request_error", "request_too_large", 413, "Validation"),
    "long": _Told(400, "invalid_request_error", "context_length_exceeded", 413, "Validation"),
    "content": _Told(415, "invalid_request_error", "unsupported_media_type", 415, "Validation"),
    "busy": _Told(429, "rate_limit_error", "rate_limit_exceeded", 429, "Overloaded"),
    "failed": _Told(500, "server_error", "internal_error", 424, "Backend"),
    "missing": _Told(501, "invalid_request_error", "not_served", 501, "Backend"),
    "stopping": _Told(503, "server_error", "service_unavailable", 503, "Unhealthy"),
    "late": _Told(504, "server_error", "timeout", 504, "Backend"),
}

Dialect = Callable[[Problem], "tuple[int, dict[str, Any]]"]


def openai(problem: Problem) -> tuple[int, dict[str, Any]]:
    """Return status and body as OpenAI has them; our own routes below /v1 do the same."""
    told = _KINDS[problem.kind]
    error = {"message": problem.message, "type": told.type, "param": problem.field, "code": told.code}
    return told.status, {"error": error}


def tei(problem: Problem) -> tuple[int, dict[str, Any]]:
    """Return status and body as text-embeddings-inference has them."""
    told = _KINDS[problem.kind]
    return told.tei_status, {"error": problem.message, "error_type": told.tei_type}


def dialect_of(path: str) -> Dialect:
    """Return the dialect of a path that may not exist.

    >>> dialect_of("/v1/nothing") is openai, dialect_of("/embed_all") is tei
    (True, True)
    """
    return openai if path.startswith("/v1") else tei
