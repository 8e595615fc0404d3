"""Run the application on uvicorn until SIGTERM or Ctrl-C."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.io.atomic import write_text
from sen2pro.model import Sen2Pro
from sen2pro.server.app import create_app
from sen2pro.server.auth import ApiKeys
from sen2pro.server.engine import Engine
from sen2pro.server.observability import LOGGER, start_logging
from sen2pro.server.service import Service
from sen2pro.server.serving import Serving

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.search import Index

_BACKLOG = 2048  # connections that wait to be accepted
_KEEP_ALIVE = 75  # seconds until an idle connection is closed


def serve(
    model: Sen2Pro,
    serving: Serving | None = None,
    keys: ApiKeys | None = None,
    *,
    index: Index | None = None,
    classifier: Sen2ProClassifier | None = None,
    port_file: str | Path | None = None,
    page: bool = False,
    level: int = logging.INFO,
    started: Callable[[str], object] = lambda address: None,
    ready: Callable[[str], object] = lambda address: None,
) -> bool:
    """Serve a model until SIGTERM or Ctrl-C; return whether the last batch was done in time.

    Parameters
    ----------
    model
        The model that encodes; with the method `one-pass` a distribution costs as much as a plain vector.
    serving
        Where to listen, and the limits of a request.
    keys
        The API keys; without keys everybody who can reach the server may use it.
    index, classifier
        What `/v1/search` and `/v1/classify` use.
    port_file
        A file that the port is written to once the server listens, for programs that start it with port 0.
    page
        Whether the page for people is at `/`.
    level
        The lowest level of the log, as in `logging`.
    started, ready
        Called with the address once the server listens, and once the model has warmed up.
    """
    serving, keys = serving or Serving(), keys or ApiKeys([])
    start_logging(level)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # short texts are no work for a pool of threads
    warnings.simplefilter("ignore", Sen2ProWarning)  # texts that are cut are counted; a log holds no text
    listening = _listen(serving)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    app = create_app(Engine(model, index, classifier), serving, keys, page=page, on_ready=lambda: ready(address))
    config = uvicorn.Config(
        app, ws="none", log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="on",
        limit_concurrency=serving.connections + 1, timeout_keep_alive=_KEEP_ALIVE, backlog=_BACKLOG,
        timeout_graceful_shutdown=max(1, round(serving.grace)),
    )  # fmt: skip
    if port_file is not None:
        write_text(port_file, f"{port}\n")
    started(address)
    LOGGER.info({"event": "listening", "address": address, "keys": len(keys), "local": serving.is_local})
    gc.freeze()  # all that is loaded by now stays: looking through it again would take 0.15 s each time
    try:
        with _signals_end_here():
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        gc.unfreeze()
    service: Service = app.state.service
    return all(worker.close(0) for worker in service.workers)


@contextmanager
def _signals_end_here() -> Iterator[None]:
    """Ignore the signals that uvicorn raises again after it has stopped, so that the process exits with 0."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(serving: Serving) -> socket.socket:
    """Open the socket, so that an error about the port comes before anything else."""
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    try:
        return socket.create_server((serving.host, serving.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Sen2ProError(f"cannot listen on {serving.host}, port {serving.port}: {error.strerror}") from None
