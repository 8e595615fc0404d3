"""Run the application on uvicorn: connections that cannot be held open for nothing, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io.atomic import write_text
from sen2pro.model import Sen2Pro
from sen2pro.server import logs
from sen2pro.server.app import create_app
from sen2pro.server.batching import FAREWELLS, Farewells
from sen2pro.server.engine import Engine
from sen2pro.server.keys import Keys
from sen2pro.server.logs import LOGGER
from sen2pro.server.serving import Serving
from sen2pro.server.state import State

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

_MOST_HEADERS = 64 << 10  # bytes of the headers of a call, or of its trailers
_BACKLOG = 2048  # connections that wait to be accepted
_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_HEADERS = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def connection_class(limit: float) -> type[HttpToolsProtocol]:
    """Return the class of connections on which a call must arrive whole, and its answer be read, within a time."""

    class Connection(HttpToolsProtocol):
        """A connection that is closed when its client dawdles: uvicorn itself would wait for ever."""

        _timer: asyncio.TimerHandle | None = None  # until which a call must have arrived
        _unread: asyncio.TimerHandle | None = None  # until which an answer must be read
        _ending: asyncio.TimerHandle | None = None  # until which the last bytes before the close must be read
        _idle = 0  # bytes since the last progress: headers so far, trailers, what else is around chunks of a body

        def _wait(self) -> None:
            self._stop_waiting()
            self._timer = self.loop.call_later(limit, self._close, _SLOW)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _close(self, farewell: bytes) -> None:
            if self.transport.is_closing():
                return
            is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
            if is_answering or self.pipeline:  # an answer to an earlier call may be on its way
                self.transport.abort()
                return
            self.transport.write(farewell)
            self.transport.close()
            self._end()

        def _end(self) -> None:
            """Give the client some time to read the last bytes of a connection that is being closed."""
            if self._ending is None and self.transport.is_closing():
                self._ending = self.loop.call_later(limit, self.transport.abort)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._farewells: Farewells = set()
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            for timer in (self._unread, self._ending):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)
            for farewell in list(self._farewells):
                farewell()

        def data_received(self, data: bytes) -> None:
            self._idle += len(data)
            super().data_received(data)
            if self._idle > _MOST_HEADERS:
                self._close(_HEADERS)
            elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
                self._wait()  # a blank line ends uvicorn's own waiting, and begins no call

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = {FAREWELLS: self._farewells}  # type: ignore[dict-item]
            self._wait()

        def on_headers_complete(self) -> None:
            self._idle = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._idle = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._stop_waiting()
            self._idle = 0

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._end()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._end()

        def pause_writing(self) -> None:  # the client does not read its answer
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(limit, self.transport.abort)

        def resume_writing(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None
            super().resume_writing()

    return Connection


class Server(uvicorn.Server):
    """uvicorn's server, which on SIGTERM first finishes what it has in hand and refuses what is new, then exits 0."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self._state = state

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT; unlike uvicorn's own, do not raise them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second signal stops at once."""
        if self.should_exit:
            self.force_exit = True
        self._state.stop()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the calls in hand, while new ones get 503; then close."""
        LOGGER.info({"event": "stopping", "waiting": self._state.waiting})
        loop = asyncio.get_running_loop()
        until = loop.time() + self._state.serving.grace
        while not self._state.is_idle and loop.time() < until and not self.force_exit:
            await asyncio.sleep(0.02)
        for farewell in self._state.farewells:
            farewell()
        self._state.until = time.monotonic() + until - loop.time()
        self.config.timeout_graceful_shutdown = max(1, round(until - loop.time()))
        await super().shutdown(sockets)
        LOGGER.info({"event": "stopped"})


def serve(
    model: Sen2Pro,
    serving: Serving | None = None,
    keys: Keys | None = None,
    *,
    index: Index | None = None,
    classifier: Sen2ProClassifier | None = None,
    port_file: str | Path | None = None,
    page: bool = False,
    level: int = logging.INFO,
    started: Callable[[str], Any] = lambda address: None,
) -> bool:
    """Serve a model until SIGTERM or Ctrl-C; return whether the last batch was done before the grace was over.

    Parameters
    ----------
    model
        What encodes; with the method `one-pass` a distribution costs as much as a plain vector.
    serving
        Where to listen, and how much a client may ask.
    keys
        Who may call; without keys everybody who can reach the server.
    index, classifier
        What `/v1/search` and `/v1/classify` use.
    port_file
        A file that the port is written to once the server listens, for programs that start it with port 0.
    page
        Whether the page for people is at `/`.
    level
        What the log holds: from which level of `logging` on.
    started
        Called with the address once the server listens.
    """
    serving = serving or Serving()
    logs.start(level)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # short texts are no work for a pool of threads
    warnings.simplefilter("ignore", Sen2ProWarning)  # texts that are cut are counted; a log holds no text
    app = create_app(Engine(model, index, classifier), serving, keys, page=page)
    listening = _listen(serving)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        app, http=connection_class(serving.time_limit), loop="auto", ws="none", log_config=None, access_log=False,
        server_header=False, date_header=True, lifespan="on", limit_concurrency=serving.connections + 1,
        timeout_keep_alive=75, timeout_graceful_shutdown=max(1, round(serving.grace)), backlog=_BACKLOG,
        proxy_headers=False,
    )  # fmt: skip
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if port_file is not None:
        write_text(port_file, f"{port}\n")
    started(address)
    LOGGER.info({"event": "listening", "address": address, "keys": len(keys or ()), "local": serving.is_local})
    state: State = app.state.server
    frozen = gc.get_freeze_count()
    gc.freeze()  # what is loaded by now stays: to look through it again and again takes 0.15 s each time
    try:
        Server(config, state).run(sockets=[listening])
    finally:
        if not frozen:  # by who calls this
            gc.unfreeze()
    return all(worker.close(0) for worker in state.workers)


def _listen(serving: Serving) -> socket.socket:
    """Open the socket, so that a port that is taken is told before anything else."""
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((serving.host, serving.port))
        listening.listen(_BACKLOG)  # from here on a client can connect, and whoever reads the port file may
    except OSError as error:
        listening.close()
        raise Sen2ProError(f"cannot listen on {serving.host}, port {serving.port}: {error.strerror}") from None
    return listening
