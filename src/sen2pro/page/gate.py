"""The door of the page: which of gradio's routes can be reached, by whom, and with how many bytes.

gradio has routes that the page does not need: files, proxies, uploads, monitoring. They cannot be reached.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import Match, Mount

LOGGER = logging.getLogger("sen2pro.server")
# What a browser may fetch without a key: nothing of it depends on a visitor.
_OPEN = ("/assets/", "/static/", "/theme.css", "/manifest.json", "/favicon.ico")
_READ = ("/", "/config", "/gradio_api/heartbeat/", "/gradio_api/queue/data")
_SENT = ("/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/cancel", "/gradio_api/reset")
_MOST_SENT = 32  # calls with a body that are in hand
_REALM = b'Basic realm="sen2pro: any name, and an API key as the password", charset="UTF-8"'
# A browser refuses whatever the page would load from elsewhere.
_POLICY = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY), (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")
]  # fmt: skip


def takes(method: str, path: str) -> bool:
    """Tell whether the page answers a call.

    >>> takes("GET", "/"), takes("GET", "/gradio_api/file=/etc/passwd"), takes("POST", "/gradio_api/upload")
    (True, False, False)
    """
    if method in ("GET", "HEAD"):
        return _among(path, _OPEN) or _among(path, _READ)
    return method == "POST" and _among(path, _SENT)


def _among(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or (len(place) > 1 and place.endswith("/") and path.startswith(place)) for place in places)


class Gate:
    """The page, for those who may see it.

    Parameters
    ----------
    page
        The ASGI application behind it.
    allow
        Whether an `Authorization: Bearer ...` header opens the server. A browser asks for the key as a password.
    body_bytes
        What a call may send.
    """

    def __init__(self, page: Any, allow: Callable[[str | None], bool], body_bytes: int) -> None:
        self._page, self._allow, self._most = page, allow, body_bytes
        self._running: set[asyncio.Task[None]] = set()
        self._sent = 0  # calls with a body that are in hand

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call, or say why not."""
        refusal = self._refusal(scope)
        if refusal is not None:
            await _tell(send, *refusal)
            return

        has_begun = is_open = False  # whether an answer has begun, and is not whole yet

        async def send_guarded(message: Any) -> None:
            nonlocal has_begun, is_open
            has_begun = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        task = asyncio.create_task(self._page(scope, receive, send_guarded))
        self._running.add(task)
        self._sent += scope["method"] == "POST"
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():  # it is the call that was cancelled, and not the page
                task.cancel()
                raise
            if is_open:
                await send({"type": "http.response.body", "body": b""})
        except Exception as error:  # a call that no browser with this page would make
            LOGGER.warning({"event": "a call that the page does not understand", "error": type(error).__name__})
            if not has_begun:
                await _tell(send, 400, "The page does not understand this call.", [])
            elif is_open:
                raise
        finally:
            self._running.discard(task)
            self._sent -= scope["method"] == "POST"

    def close(self) -> None:
        """End what would go on for ever: browsers hold a connection open, to hear that the server is there."""
        for task in self._running:
            task.cancel()

    def _refusal(self, scope: Any) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        headers = dict(scope["headers"])
        path = scope["path"]
        if not _among(path, _OPEN) and not self._allow(as_bearer(headers.get(b"authorization"))):
            return 401, "This page needs an API key: give any name, and the key as the password.", [
                (b"www-authenticate", _REALM)
            ]  # fmt: skip
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") != headers.get(b"host"):
            return 403, "Pages of other addresses may not use this one.", []
        if scope["method"] == "POST":
            said = headers.get(b"content-length")
            if said is None:
                return 411, "Say how many bytes you send: Content-Length.", []
            if len(said) > 15 or int(said) > self._most:
                return 413, f"That is too much at once: the page takes {self._most:,} bytes.", []
            if self._sent >= _MOST_SENT:
                return 503, "Too many visitors send something at once; try again.", []
        return None


def as_bearer(authorization: bytes | None) -> str | None:
    """Return the header of a browser, which knows names and passwords, as one with a key.

    >>> as_bearer(b"Basic " + base64.b64encode(b"me:a-key"))
    'Bearer a-key'
    """
    given = (authorization or b"").decode("latin-1")
    scheme, _, held = given.partition(" ")
    if scheme.lower() != "basic":
        return given or None
    with contextlib.suppress(binascii.Error, UnicodeDecodeError):
        return f"Bearer {base64.b64decode(held, validate=True).decode().partition(':')[2]}"
    return None


async def _tell(send: Any, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps({"detail": text}).encode()
    sent = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status in (411, 413):
        sent.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": [*sent, *headers]})
    await send({"type": "http.response.body", "body": body})


class PageRoute(Mount):
    """The page at `/`, where it does not stand in the way of other routes and their errors."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match only what the page answers."""
        if scope["type"] != "http" or not takes(scope["method"], scope["path"]):
            return Match.NONE, {}
        return super().matches(scope)
