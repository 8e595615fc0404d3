"""The door of the page: which of gradio's routes can be reached, by whom, how many at once, and with how many bytes.

gradio has routes that the page does not need: files, proxies, uploads, monitoring. They cannot be reached. What a call
may hold is in `calls.py`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import Match, Mount

from sen2pro.page.calls import Calls, NotOurs, check_session, session_of
from sen2pro.page.visitors import TooMany, Visitors

LOGGER = logging.getLogger("sen2pro.server")
# What a browser may fetch without a key: nothing of it depends on a visitor.
_OPEN = ("/assets/", "/static/", "/theme.css", "/manifest.json", "/favicon.ico")
_HEARTBEAT, _ANSWERS = "/gradio_api/heartbeat/", "/gradio_api/queue/data"
_READ = ("/", "/config", _HEARTBEAT, _ANSWERS)
_JOIN = "/gradio_api/queue/join"
_SENT = (_JOIN, "/gradio_api/run/predict")
# How many of each may be in hand; the rest of the server's connections stays free for its other routes.
_MOST = {"call": 32, _HEARTBEAT: 128, _ANSWERS: 128}
_MOST_HELD = 64 << 20  # bytes of bodies that have not arrived whole
_SECONDS = 10.0  # in which a body must arrive
# Names that mean this machine, whoever answers for them. Any other name can be made to mean it: DNS rebinding.
_THIS_MACHINE = re.compile(rb"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
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


class Refused(Exception):
    """A call that is not let in: the status, and why."""

    def __init__(self, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


class Gate:
    """The page, for those who may see it.

    Parameters
    ----------
    page
        The ASGI application behind it.
    calls, visitors
        What a call may hold, and what is kept of those who make one.
    allow
        Whether an `Authorization: Bearer ...` header opens the server. A browser asks for the key as a password.
    body_bytes
        What a call may send.
    is_local
        Whether the page is for browsers on this machine alone: then it has no other names than this machine's own.
    """

    def __init__(
        self,
        page: Any,
        calls: Calls,
        visitors: Visitors,
        allow: Callable[[str | None], bool],
        body_bytes: int,
        is_local: bool,
    ) -> None:
        self._page, self._calls, self._visitors = page, calls, visitors
        self._allow, self._most, self._is_local = allow, body_bytes, is_local
        self._running: set[asyncio.Task[None]] = set()
        self._in_hand: Counter[str] = Counter()
        self._held = 0  # bytes of bodies that have not arrived whole
        self._forgetting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call, or say why not."""
        if self._forgetting is None:
            self._forgetting = asyncio.create_task(self._visitors.forget_for_ever())
        try:
            self._check(scope)
            if scope["method"] == "POST":
                await self._take(scope, receive, send)
            else:
                await self._show(scope, receive, send)
        except Refused as refused:
            await _tell(send, refused)
        except NotOurs:
            await _tell(send, Refused(400, "The page does not understand this call."))
        except TooMany:
            await _tell(send, Refused(429, "Too much of yours is under way; wait for its end."))

    def close(self) -> None:
        """End what would go on for ever: browsers hold a connection open, to hear that the server is there."""
        for task in (*self._running, self._forgetting):
            if task is not None:
                task.cancel()

    async def _take(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call that sends something; until it is whole and checked, it takes nobody's place."""
        try:
            body = await asyncio.wait_for(self._body(receive), _SECONDS)
        except asyncio.TimeoutError:
            raise Refused(408, "What you send takes too long to arrive; try again.") from None
        if body is None:
            return
        is_queued = scope["path"] == _JOIN
        call = self._calls.read(body, is_queued)
        scope["headers"] = [
            *(header for header in scope["headers"] if header[0] != b"content-length"),
            (b"content-length", str(len(call.body)).encode()),
        ]
        with self._place("call"):
            async with self._visitors.joining(call.session) if is_queued else contextlib.nullcontext():
                await self._run(scope, _again(call.body, receive), send)

    async def _show(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call that only reads; answers and heartbeats go on for long."""
        path = scope["path"]
        if path == _ANSWERS:
            session = session_of(scope["query_string"])
            scope["query_string"] = f"session_hash={session}".encode()
            with self._place(_ANSWERS), self._visitors.reading(session):
                await self._run(scope, receive, send)
            return
        scope["query_string"] = b""
        if not path.startswith(_HEARTBEAT):
            await self._run(scope, receive, send)
            return
        check_session(path.removeprefix(_HEARTBEAT))
        with self._place(_HEARTBEAT):
            await self._run(scope, receive, send)

    @contextlib.contextmanager
    def _place(self, kind: str) -> Any:
        if self._in_hand[kind] >= _MOST[kind]:
            raise Refused(503, "Too many visitors are here at once; try again.")
        self._in_hand[kind] += 1
        try:
            yield
        finally:
            self._in_hand[kind] -= 1

    async def _body(self, receive: Any) -> bytes | None:
        """Return what a call sends, or None if its visitor has gone."""
        parts, size = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._held += len(parts[-1])
                if size > self._most:
                    raise self._too_much()
                if self._held > _MOST_HELD:
                    raise Refused(503, "Too many visitors send something at once; try again.")
                if not message.get("more_body", False):
                    return b"".join(parts)
        finally:
            self._held -= size

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
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
                raise NotOurs from None
            if is_open:
                raise
        finally:
            self._running.discard(task)

    def _check(self, scope: Any) -> None:
        """Refuse those who may not come in, by what their headers say."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"")
        if self._is_local and not _THIS_MACHINE.fullmatch(host):
            raise Refused(403, "Open this page as 127.0.0.1 or localhost; under other names a server needs API keys.")
        if not _among(scope["path"], _OPEN) and not self._allow(as_bearer(headers.get(b"authorization"))):
            realm = (b"www-authenticate", _REALM)
            raise Refused(401, "This page needs an API key: give any name, and the key as the password.", realm)
        origin = headers.get(b"origin")
        if origin is not None and _place_of(origin) != host:
            raise Refused(403, "Pages of other addresses may not use this one.")
        if scope["method"] == "POST":
            if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
                raise Refused(415, "Send application/json.")
            said = headers.get(b"content-length")
            if said is None:
                raise Refused(411, "Say how many bytes you send: Content-Length.")
            if len(said) > 15 or int(said) > self._most:
                raise self._too_much()

    def _too_much(self) -> Refused:
        return Refused(413, f"That is too much at once: the page takes {self._most:,} bytes.")


def _place_of(origin: bytes) -> bytes | None:
    """Return host and port of an origin."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1")
    except ValueError:
        return None


def _again(body: bytes, receive: Any) -> Any:
    """Return what gives a body that was read already, and then what comes after it."""
    is_given = False

    async def receive_again() -> Any:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


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


async def _tell(send: Any, refused: Refused) -> None:
    body = json.dumps({"detail": refused.text}).encode()
    sent = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status in (408, 411, 413):
        sent.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": [*sent, *refused.headers]})
    await send({"type": "http.response.body", "body": body})


class PageRoute(Mount):
    """The page at `/`, where it does not stand in the way of other routes and their errors."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match only what the page answers."""
        if scope["type"] != "http" or not takes(scope["method"], scope["path"]):
            return Match.NONE, {}
        return super().matches(scope)
