"""A real server in a separate process, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

import sen2pro

_PATIENCE = 120  # seconds; a busy machine takes its time to import torch


def wait_until(condition, say=lambda: "it never came true"):
    until = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < until, say()
        time.sleep(0.03)


class RunningServer:
    """A server that was started; `url` is where it is."""

    def __init__(self, process, folder):
        self.process, self.log = process, folder / "log"
        wait_until(lambda: (folder / "port").exists() or process.poll() is not None, self.log.read_text)
        assert process.poll() is None, self.log.read_text()
        self.port = int((folder / "port").read_text())
        self.url = f"http://127.0.0.1:{self.port}"
        self.first_health = self.health()
        wait_until(lambda: self.health() == 200, self.log.read_text)

    def health(self):
        return httpx.get(f"{self.url}/health", trust_env=False).status_code

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, **options)

    def post(self, path, body, **options):
        with self.client() as client:
            return client.post(path, json=body, **options)

    def metric(self, name, headers=None):
        with self.client() as client:
            page = client.get("/metrics", headers=headers).text
        return sum(
            float(line.rpartition(" ")[2]) for line in page.splitlines() if line.split("{")[0].split()[0] == name
        )

    def raw(self, data, seconds=20.0):
        """Send bytes as they are, and return all that comes back until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts)

    def lines(self):
        """Return what the log says, line by line; lines of calls are written a moment later."""
        time.sleep(0.3)
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def stop(self):
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE)


@contextmanager
def running(folder: Path, *arguments, environment=None):
    """Start `sen2pro serve`, and stop it in the end, whatever happened."""
    folder.mkdir(exist_ok=True)
    source = {"PYTHONPATH": str(Path(sen2pro.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **source, **(environment or {})}
    command = [sys.executable, "-m", "sen2pro", "serve", "--port", "0", "--port-file", str(folder / "port")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *map(str, arguments)], stdout=log, stderr=log, env=environment, cwd=folder
        )
    try:
        yield RunningServer(process, folder)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
