"""The page for people: its static files, under a policy that lets the browser load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response

from sen2pro.server.auth import BROWSER_CHALLENGE
from sen2pro.server.http_errors import RequestError, error_response
from sen2pro.server.service import Service

STATIC = Path(__file__).parents[1] / "static"
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/static/{name:path}")
def static(request: Request, name: str = "index.html") -> Response:
    """Return a file of the page by its name in a list of the folder, so no name leads out of it."""
    service: Service = request.app.state.service
    if not service.keys.allow(request.headers.get("authorization")):
        response = error_response(RequestError("key", "give an API key"), "/")
        response.headers["www-authenticate"] = BROWSER_CHALLENGE
        return response
    file = {file.name: file for file in STATIC.iterdir() if file.suffix in _TYPES}.get(name)
    if file is None:
        return error_response(RequestError("path", "there is no such file"), "/")
    return Response(file.read_bytes(), headers=_HEADERS, media_type=_TYPES[file.suffix])
