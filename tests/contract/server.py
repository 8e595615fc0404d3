"""A real server in a process of its own, and what its answers look like in a golden."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from server_process import running

_KEPT = ("content-type", "www-authenticate", "allow", "access-control-allow-origin")  # headers
_PROSE = {"message", "error"}  # of errors: only its type is compared
_ROUNDED_AWAY = {"created", "version", "max_batch_tokens"}  # what a machine, a moment or a release decides


@contextmanager
def serving(folder, *arguments):
    """Start `sen2pro serve`; give a client, and stop the server in the end: its exit code is 0 then."""
    with running(folder, *arguments) as server, server.client() as client:
        client.log = server.log
        yield client
        assert server.stop() == 0


def seen(answer):
    """Return status, headers and body of an answer, without prose."""
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    if "content-type" in headers:
        headers["content-type"] = headers["content-type"].partition(";")[0]
    if "retry-after" in answer.headers:
        headers["retry-after"] = answer.headers["retry-after"].isdigit()
    assert "x-request-id" in answer.headers or answer.status_code in (404, 405)  # no route is known
    found = {"status": answer.status_code, "headers": headers}
    if headers.get("content-type") == "application/json":
        found["body"] = _shown(answer.json(), answer.is_error)
    elif not answer.content:
        found["body"] = "empty"
    return found


def _shown(value, is_error=False):
    """Return JSON with vectors that a golden abbreviates, and with the type of what is not compared."""
    if isinstance(value, dict):
        return {
            name: type(each).__name__
            if name in _ROUNDED_AWAY or (is_error and name in _PROSE and isinstance(each, str))
            else _shown(each, is_error)
            for name, each in value.items()
        }  # fmt: skip
    if isinstance(value, list) and len(value) > 8 and all(isinstance(each, float | int) for each in value):
        return np.array(value, np.float64)
    return [_shown(each, is_error) for each in value] if isinstance(value, list) else value
