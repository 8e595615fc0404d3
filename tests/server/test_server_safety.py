"""What a client cannot do to the server: real processes with tight limits, where a distribution takes a second."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
import httpx
from server_process import running, wait_until

from sen2pro.cli.app import app
from sen2pro.encoder.find import resolve
from sen2pro.errors import Sen2ProError
from sen2pro.server import ApiKeys, Serving

FIRST, SECOND, THIRD = "first-key-0123456789", "second-key-0123456789", "third-key-0123456789"
TEXT = "the man plays the guitar"
SLOW = {"input": [TEXT]}  # as distributions, by hundreds of samples
GUARDED = (
    "--pooling", "cls", "--samples", "60", "--texts", "8", "--characters", "300", "--body-bytes", "8192",
    "--queue", "6", "--time-limit", "3", "--connections", "64",
)  # fmt: skip


@pytest.fixture(scope="module")
def model_folder():
    """The folder of the default model: our own code runs it, so a server starts without transformers."""
    return resolve("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def guarded(model_folder, tmp_path_factory):
    """A server with keys from a file and from the environment, and tight limits."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(f"# two keys\n{FIRST}\n\n{SECOND}\n")
    options = ("--model", model_folder, "--key-file", folder / "keys", *GUARDED)
    with running(folder, *options, environment={"SEN2PRO_API_KEYS": THIRD}) as server:
        yield server


@pytest.fixture
def client(guarded):
    with guarded.client(headers={"authorization": f"Bearer {FIRST}"}) as client:
        yield client


def idle(client):
    """Wait until the queue is empty and the worker is idle."""
    wait_until(lambda: "sen2pro_queue_texts 0.0" in client.get("/metrics").text)
    wait_until(lambda: client.post("/embed", json={"inputs": TEXT}).status_code == 200)


# ApiKeys.


@pytest.mark.slow
def test_every_key_opens_and_without_one_there_is_only_health(guarded):
    for key, status in ((FIRST, 200), (SECOND, 200), (THIRD, 200), ("wrong-key-0123456789", 401)):
        answer = guarded.post("/v1/embeddings", {"input": TEXT}, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == status
    paths = guarded.client().get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            answer = guarded.client().request(method, path, json={} if method == "post" else None)
            assert (answer.status_code == 401) == (path != "/health"), path
    assert {401, 200} <= {line["status"] for line in guarded.lines() if line["event"] == "call"}
    assert "key-0123456789" not in guarded.log.read_text()


def test_keys_are_not_shown_and_short_ones_are_refused(tmp_path):
    assert FIRST not in repr(ApiKeys([FIRST])) + str(vars(ApiKeys([FIRST])))
    for wrong in ("short", "has a blank in the middle", "ümlaut-0123456789012"):
        with pytest.raises(Sen2ProError, match="API key 1") as refused:
            ApiKeys([wrong])
        assert wrong not in str(refused.value)


def test_a_server_that_was_meant_to_have_keys_is_never_open(tmp_path):
    assert "--key " not in CliRunner().invoke(app, ["serve", "--help"]).output  # a process list would show it
    (tmp_path / "keys").write_text("# none yet\n")
    with pytest.raises(Sen2ProError, match="no key in"):
        ApiKeys.read(tmp_path / "keys", {})
    with pytest.raises(Sen2ProError, match="holds no key"):
        ApiKeys.read(None, {"SEN2PRO_API_KEYS": " , "})
    assert len(ApiKeys.read(None, {})) == 0


# What comes in.

MALFORMED = {
    "not JSON": b"{", "empty": b"", "no UTF-8": b'{"input": "\xff\xfe", "inputs": "\xff"}',
    "deep": b'{"input": ' + b"[" * 4000, "deep and closed": b'{"input": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "NaN": b'{"input": NaN, "inputs": NaN}', "infinite": b'{"input": [Infinity], "inputs": [1e999]}',
    "half a pair": b'{"input": "\\ud800", "inputs": "\\ud800"}', "a number": b"5", "null": b"null",
    "null inside": b'{"input": null, "inputs": null}', "an object": b'{"input": {"a": 1}, "inputs": {"a": 1}}',
    "mixed": b'{"input": ["a", 1], "inputs": ["a", 1]}', "negative": b'{"input": [-1], "inputs": [-1]}',
    "huge number": b'{"input": [' + b"9" * 400 + b'], "inputs": [' + b"9" * 400 + b"]}",
    "true": b'{"input": [true], "inputs": [true]}', "blank": '{"input": "\u200b", "inputs": "\u200b"}'.encode(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed"])
def test_malformed_bodies_get_a_clean_answer(client, path):
    """Errors have the dialect of their path, and show nothing of the server."""
    for name, content in MALFORMED.items():
        answer = client.post(path, content=content, headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500, name
        body = answer.json()
        fields = {"error", "error_type"} if path == "/embed" else {"message", "type", "param", "code"}
        assert set(body if path == "/embed" else body["error"]) == fields, name
        assert not [part for part in ("/tmp", "Traceback", ".py") if part in answer.text], name


@pytest.mark.slow
def test_a_body_without_a_length_is_cut_off_at_the_limit(client):
    sent = 0

    def endless():
        nonlocal sent
        yield b'{"inputs": "'
        for _ in range(10_000):
            sent += 1024
            yield b"a" * 1024

    try:
        answer = client.post("/embed", content=endless(), headers={"content-type": "application/json"})
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        pass  # the server has closed the connection while we were still sending, which is as good
    assert sent < 10_000 * 1024


# Who may reach it.


@pytest.mark.slow
def test_it_listens_on_this_machine_only_and_web_pages_may_not_call(guarded, client):
    sockets = psutil.Process(guarded.process.pid).net_connections()
    assert {each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    answer = client.post("/embed", json={"inputs": TEXT}, headers={"origin": "https://example.org"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    with pytest.raises(Sen2ProError, match="name the origins"):
        Serving(cors=["*"])


# Time.


@pytest.mark.slow
def test_a_client_that_goes_away_leaves_the_queue(guarded, client):
    idle(client)
    headers = {"authorization": f"Bearer {FIRST}"}
    before = guarded.metric("sen2pro_cancelled_total", headers)
    with ThreadPoolExecutor(1) as pool:
        running_one = pool.submit(client.post, "/v1/distributions", json=SLOW)  # occupies the worker
        time.sleep(0.2)
        with guarded.client(headers=headers) as impatient, pytest.raises(httpx.ReadTimeout):
            impatient.post("/v1/distributions", json={"input": [TEXT + " c"] * 3}, timeout=0.2)
        wait_until(lambda: guarded.metric("sen2pro_cancelled_total", headers) == before + 1)
        assert guarded.metric("sen2pro_queue_texts", headers) == 0
        assert running_one.result().status_code in (200, 504)


@pytest.mark.slow
def test_a_body_that_never_comes_whole_is_given_up(guarded):
    """Half a body, and a body that trickles: each gets 408 after the time limit of 3 seconds."""
    head = f"POST /embed HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {FIRST}\r\nContent-Type: application/json\r\n"

    def trickle():
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=20) as connection:
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(400):
                try:
                    connection.sendall(b"1\r\n \r\n")
                except OSError:
                    return True
                time.sleep(0.05)
        return False

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(trickle)
        assert b"HTTP/1.1 408 " in guarded.raw(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert slow.result()
    assert guarded.health() == 200


@pytest.mark.slow
def test_more_connections_than_allowed_are_refused_and_the_others_work(guarded):
    assert guarded.health() == 200
    idle_ones = [socket.create_connection(("127.0.0.1", guarded.port)) for _ in range(70)]
    try:
        wait_until(lambda: guarded.health() == 503)
    finally:
        for connection in idle_ones:
            connection.close()
    wait_until(lambda: guarded.health() == 200)


# The end, and the beginning.


@pytest.mark.slow
def test_sigterm_finishes_what_is_in_hand_refuses_what_is_new_and_exits_0(model_folder, tmp_path):
    with running(tmp_path / "server", "--model", model_folder, "--samples", "60") as server:
        answers, late = [], []

        def ask(number):
            answers.append(server.post("/v1/distributions", {"input": f"{TEXT} {'a ' * number}"}).status_code)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.metric("sen2pro_queue_texts") + len(answers) >= 4)  # all of them run or wait
        server.process.terminate()
        while server.process.poll() is None:
            with suppress(httpx.TransportError):
                late.append(server.post("/embed", {"inputs": TEXT}).status_code)
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        assert answers == [200] * 5
        assert server.process.wait() == 0
        after = late[late.index(503) :] if 503 in late else []
        assert set(after) <= {503}
        assert server.lines()[-1]["event"] == "stopped"
    assert server.first_health in (200, 503)


@pytest.mark.slow
def test_work_that_takes_longer_than_the_grace_is_left_and_the_exit_is_0_all_the_same(model_folder, tmp_path):
    options = ("--model", model_folder, "--samples", "200", "--grace", "0.1", "--pooling", "cls")
    with running(tmp_path / "server", *options) as server, ThreadPoolExecutor(1) as pool:
        long = {"input": [f"{TEXT} " * 40] * 16}
        asked = pool.submit(server.post, "/v1/distributions", long)
        wait_until(lambda: server.metric("sen2pro_queue_texts"))  # the first of its texts runs, the others wait
        assert server.stop() == 0
        assert "the last batch was not done in time" in [line["event"] for line in server.lines()]
        with suppress(httpx.TransportError):
            assert asked.result().status_code >= 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vectors", "means"], "did you mean 'mean'"), (["--port", "70000"], "between 0 and 65535"),
        (["--window", "-1"], "window must be"), (["--key-file", "nothing"], "nothing"),
        (["--texts", "0"], "texts must be"),
    ],
)  # fmt: skip
def test_wrong_options_are_told_before_anything_is_loaded(options, message):
    result = CliRunner().invoke(app, ["serve", *options])
    assert result.exit_code in (1, 2)
    assert message in result.output
