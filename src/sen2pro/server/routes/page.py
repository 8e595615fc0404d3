"""The page for people: its static files, under a policy that lets the browser load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response

from sen2pro.server.auth import BROWSER_CHALLENGE
from sen2pro.server.http_errors import RequestError, error_response
from sen2pro.server.service import Service

STATIC = Path(__file__).parents[1] / "static"
_TYPES = {
    ".css": "text/css", ".html": "text/html", ".ico": "image/x-icon", ".js": "text/javascript",
    ".json": "application/json", ".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain",
    ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}  # fmt: skip
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> Response:
    """Return the page."""
    return _file(request, "index.html")


@router.get("/static/{name:path}")
def static(name: str, request: Request) -> Response:
    """Return a file of the page."""
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    """Return a file of the folder by its name in a list of the folder, so no name leads out of it."""
    service: Service = request.app.state.service
    path = "/static" if name != "index.html" else "/"
    if not service.keys.allow(request.headers.get("authorization")):
        response = error_response(RequestError("key", "give an API key"), path)
        response.headers["www-authenticate"] = BROWSER_CHALLENGE
        return response
    files = {file.relative_to(STATIC).as_posix(): file for file in STATIC.rglob("*") if file.suffix in _TYPES}
    if name not in files:
        return error_response(RequestError("path", "there is no such file"), path)
    file = files[name]
    return Response(file.read_bytes(), headers=_HEADERS, media_type=_TYPES[file.suffix])
