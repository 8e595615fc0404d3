"""The page over HTTP, without a browser: what can be reached, by whom, and how it starts and stops."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("gradio", reason="the page's packages are not installed: pip install 'sen2pro[page]'")
import httpx
from server_process import running
from typer.testing import CliRunner

import sen2pro
from sen2pro.cli import page as command
from sen2pro.cli.app import app
from sen2pro.page.gate import as_bearer, takes
from sen2pro.server.keys import Keys

pytestmark = pytest.mark.slow

KEY = "correct-horse-battery-staple"
BASIC = "Basic " + base64.b64encode(f"anybody:{KEY}".encode()).decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("page"), "--page") as started:
        yield started


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with running(tmp_path_factory.mktemp("locked"), "--page", environment={"SEN2PRO_API_KEYS": KEY}) as started:
        yield started


def test_the_page_is_at_the_root_and_nothing_of_it_lies_elsewhere(server):
    with server.client() as client:
        answer = client.get("/")
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", answer.text)
        assert loaded
        assert all(not urlsplit(address).netloc for address in loaded)
        for address in loaded:
            assert client.get("/" + address.lstrip("./")).status_code == 200, address
        assert "fonts.googleapis" not in client.get("/theme.css").text + answer.text


def test_the_routes_of_the_server_stay_as_they_are(server):
    assert len(server.post("/", {"inputs": "It rains."}).json()[0]) == 384  # as text-embeddings-inference has it
    with server.client() as client:
        assert client.get("/health").status_code == 200
        unknown = client.get("/v1/nothing")
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"]
        assert client.get("/embed").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=/etc/passwd", "/gradio_api/file=setup.py", "/gradio_api/proxy=http://127.0.0.1:1/",
        "/file=/etc/passwd", "/gradio_api/info", "/gradio_api/startup-events", "/monitoring", "/gradio_api/dev/reload",
        "/login", "/gradio_api/token", "/gradio_api/openapi.json", "/gradio_api/runs", "/gradio_api/vibe-code",
        "/gradio_api/upload_progress?upload_id=1",
    ],
)  # fmt: skip
def test_routes_of_gradio_that_the_page_does_not_need_are_not_there(server, path):
    with server.client() as client:
        assert client.get(path).status_code == 404
        assert client.post(path, json={}).status_code == 404


@pytest.mark.parametrize("path", ["upload", "call/guarded", "process_recording", "component_server", "api/predict"])
def test_nothing_can_be_uploaded_or_called_by_name(server, path):
    with server.client() as client:
        answer = client.post(f"/gradio_api/{path}", files={"files": ("a.txt", b"text")})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/static/../../../../etc/passwd", "/assets/..%2f..%2f..%2f..%2fetc/passwd", "/static/%2e%2e/%2e%2e/server.py"],
)
def test_static_files_lead_to_no_other_file(server, path):
    answer = server.raw(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    status = int(answer.split()[1])
    assert status >= 400
    assert b"root:" not in answer


def join(server, number=0, data=(), **options):
    body = {"data": list(data), "fn_index": number, "session_hash": "abc", "event_data": None, "trigger_id": None}
    return server.post("/gradio_api/queue/join", body, **options)


def test_a_page_of_another_address_may_not_use_it(server):
    assert join(server, headers={"origin": "https://evil.example"}).status_code == 403
    assert join(server, headers={"origin": server.url}).status_code != 403


def test_a_call_that_is_too_large_or_has_no_length_is_refused(server):
    assert join(server, data=["a" * (3 << 20)]).status_code == 413
    head = b"POST /gradio_api/queue/join HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    assert server.raw(head + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n").split()[1] == b"411"


def test_calls_that_make_no_sense_break_nothing(server):
    for number, data in ((4, []), (10**6, ["a"]), (-1, []), (4, [None] * 50), (0, ["a"])):
        assert join(server, number, data).status_code == 400
    with server.client() as client:
        assert client.get("/").status_code == 200
        assert client.get("/health").status_code == 200


def test_work_goes_through_the_queue_and_not_round_it(server):
    with server.client() as client:
        parts = client.get("/config").json()["dependencies"]
        queued = [part["id"] for part in parts if part["queue"] is not False and part["inputs"]]
        assert len(queued) > 4
        for number in queued:
            body = {"data": ["a", "b", None], "fn_index": number, "session_hash": "round"}
            assert client.post("/gradio_api/run/predict", json=body).status_code >= 400


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/queue/data?session_hash=a", "/gradio_api/heartbeat/a"])
def test_with_keys_the_page_is_no_way_round_them(locked, path):
    with locked.client() as client:
        answer = client.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert client.get(path, headers={"authorization": BASIC[:-6] + "aaaa=="}).status_code == 401


def test_with_keys_no_work_is_begun_without_one(locked):
    assert join(locked).status_code == 401
    assert join(locked, headers={"authorization": BASIC}).status_code != 401


def test_a_key_opens_the_page_as_the_password_of_a_browser(locked):
    with locked.client() as client:
        assert client.get("/", headers={"authorization": BASIC}).status_code == 200
        assert client.get("/", headers={"authorization": f"Bearer {KEY}"}).status_code == 200
    assert KEY not in locked.log.read_text()


@pytest.mark.parametrize("header", [b"Basic ???", b"Basic /w==", b"Basic", b"", b"Digest a"])
def test_a_header_that_makes_no_sense_holds_no_key(header):
    assert not Keys([KEY]).allow(as_bearer(header))


def test_only_the_routes_of_the_list_are_taken():
    assert takes("GET", "/assets/index.js")
    assert not takes("GET", "/assetsx")
    assert not takes("PUT", "/")
    assert not takes("POST", "/")


def test_the_page_stops_at_once_while_browsers_hold_connections_open(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(sen2pro.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "sen2pro", "page", "--port", "0", "--port-file", str(tmp_path / "port")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())[0]
        until = time.monotonic() + 60
        while httpx.get(f"{address}/health", trust_env=False).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        with httpx.stream("GET", f"{address}/gradio_api/heartbeat/abc", trust_env=False, timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "data: ALIVE"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0  # the grace of calls in hand is 30 seconds
        assert process.stderr.read().split() == ["stopped"]  # no log of JSON for a person, and no traceback
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_port_that_is_taken_is_told(server):
    result = CliRunner().invoke(app, ["page", "--port", str(server.port)])
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1, port {server.port}" in result.output


_ALONE = """
import socket, threading, time
asked = []
def refuse(*given, **options):
    asked.append(given[-1])
    raise OSError("no network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from sen2pro import Sen2Pro
from sen2pro.server.app import create_app
from sen2pro.server.engine import Engine
create_app(Engine(Sen2Pro(method="one-pass")), page=True)
time.sleep(1)
print(asked)
"""


def test_the_server_asks_nobody_when_it_makes_the_page():
    environment = {**os.environ, "PYTHONPATH": str(Path(sen2pro.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    environment.pop("GRADIO_ANALYTICS_ENABLED", None)
    done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["page"], ["serve", "--page"]])
def test_a_missing_extra_is_told_before_the_model_is_loaded(monkeypatch, arguments):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "pip install 'sen2pro[page]'" in result.output.replace("\n", "")


def test_the_log_of_the_page_holds_no_text(server):
    assert join(server, 4, ["a very secret sentence", "another one"]).status_code == 200
    assert join(server, 4, ["a very secret sentence"]).status_code == 400  # gradio would print it in a traceback
    server.lines()  # waits for the last of them
    assert "secret" not in server.log.read_text()  # whatever wrote it
