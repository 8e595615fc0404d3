"""What strangers may try with the page: files, other names, other sessions, and more than their share."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("gradio", reason="the page's packages are not installed: pip install 'sen2pro[page]'")
import httpx
import uvicorn
from fastapi import FastAPI
from gradio import processing_utils
from gradio.context import LocalContext
from gradio.exceptions import InvalidPathError
from server_process import running

from sen2pro.page.calls import Calls, NotOurs
from sen2pro.page.limits import Limits
from sen2pro.page.mounting import mount

pytestmark = pytest.mark.slow

COMPARE, MAP, OPEN, RECOLOUR, SEARCH = 4, 15, 14, 19, 23  # functions of the page; the first test holds their inputs
KEY = "correct-horse-battery-staple"
SECRET = "a very secret sentence"


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def server(tmp_path_factory, temporary):
    with running(tmp_path_factory.mktemp("gate"), "--page", environment={"TMPDIR": str(temporary)}) as started:
        yield started


@pytest.fixture(scope="module")
def kinds(server):
    """The kinds of the inputs of each function that goes through the queue."""
    with server.client() as client:
        config = client.get("/config").json()
    kinds = {component["id"]: component["type"] for component in config["components"]}
    return {
        part["id"]: [kinds[number] for number in part["inputs"]]
        for part in config["dependencies"] if part["queue"] is not False
    }  # fmt: skip


def call(number, data, session="abc", **more):
    return {"data": data, "fn_index": number, "session_hash": session, "trigger_id": None, **more}


def join(server, number, data, session="abc", **more):
    return server.post("/gradio_api/queue/join", call(number, data, session, **more))


def predict(server, number, **more):
    return server.post("/gradio_api/run/predict", call(number, [], **more))


def answers(server, session):
    """Read what the queue says, until it closes."""
    found = []
    with server.client() as client:
        with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                    if found[-1]["msg"] in ("close_stream", "unexpected_error"):
                        break
    return found


def is_well(server):
    with server.client() as client:
        return client.get("/health", timeout=5).status_code == 200


def whole_log(server):
    time.sleep(0.5)  # lines are written a moment later
    return server.log.read_text()


def get(server, path, host, more=""):
    answer = server.raw(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n".encode())
    return int(answer.split()[1])


# What a call may hold.


def test_the_functions_are_those_that_these_tests_mean(kinds):
    assert kinds[COMPARE] == ["textbox", "textbox"]
    assert kinds[MAP] == ["textbox", "radio"]
    assert kinds[RECOLOUR] == ["state", "radio"]
    assert kinds[SEARCH] == ["textbox", "textbox", "state"]
    assert OPEN not in kinds


def test_what_the_page_sends_is_taken_and_answered(server):
    assert join(server, COMPARE, ["It rains.", "It is raining."], "good").status_code == 200
    done = [message for message in answers(server, "good") if message["msg"] == "process_completed"]
    assert done[0]["success"]
    opened = predict(server, OPEN, event_data={"name": "a.txt", "content": "one\ntwo", "problem": ""})
    assert opened.json()["data"][0] == "one\ntwo"


def test_inputs_of_another_number_or_kind_are_refused(server, kinds):
    right = {"textbox": "a", "radio": "group", "state": None}
    wrong = {"textbox": [1, True, ["a"], {"a": 1}], "radio": ["colour", None, ["group"]], "state": ["a", {}, 0]}
    for number, inputs in kinds.items():
        data = [right[kind] for kind in inputs]
        refused = [data[:-1], [*data, None], *({"a": 1}, "a", None)]
        for place, kind in enumerate(inputs):
            refused += [[*data[:place], value, *data[place + 1 :]] for value in wrong[kind]]
        for each in refused:
            assert join(server, number, each).status_code == 400, (number, each)


@pytest.mark.parametrize(
    "more",
    [
        {"fn_index": 10**6}, {"fn_index": -1}, {"fn_index": True}, {"fn_index": "4"}, {"fn_index": None},
        {"fn_index": [4]}, {"event_data": {"name": "a"}}, {"trigger_id": {}}, {"simple_format": True},
        {"event_id": "a"}, {"request": {}}, {"data": ["a", "\ud800"]},
    ],
)  # fmt: skip
def test_a_call_has_the_parts_that_the_page_sends_and_no_others(server, more):
    body = json.dumps({**call(COMPARE, ["a", "b"]), **more})
    head = {"content-type": "application/json"}
    with server.client() as client:
        assert client.post("/gradio_api/queue/join", content=body, headers=head).status_code == 400


@pytest.mark.parametrize("body", ["{}", "[]", "null", "{" * 10, "[" * 100_000, "1" * 5000, '{"data": NaN}', "\udcff"])
def test_bodies_that_are_no_calls_are_refused(server, body):
    for path in ("queue/join", "run/predict"):
        with server.client() as client:
            content = body.encode("utf-8", "surrogateescape")
            answer = client.post(
                f"/gradio_api/{path}", content=content, headers={"content-type": "application/json"}
            )  # fmt: skip
            assert answer.status_code == 400
    with server.client() as client:  # what a form of another page could send
        body = json.dumps(call(COMPARE, ["a", "b"]))
        answer = client.post("/gradio_api/queue/join", content=body, headers={"content-type": "text/plain"})
        assert answer.status_code == 415


@pytest.mark.parametrize("event", [None, {}, {"name": "a", "content": "b"}, {"name": [], "content": {}, "problem": 1}])
def test_a_file_that_no_browser_opened_is_refused(server, event):
    assert predict(server, OPEN, event_data=event).status_code == 400
    assert "Traceback" not in whole_log(server)


def shapes(path):
    """Every place of a call where gradio might look for a file."""
    file = {"path": str(path), "meta": {"_type": "gradio.FileData"}}
    address = {"path": str(path), "url": str(path), "meta": {"_type": "gradio.FileData"}}
    yield COMPARE, [file, "b"], None
    yield COMPARE, ["a", [address]], None
    yield MAP, ["a\nb", file], None
    yield RECOLOUR, [file, "group"], None
    yield SEARCH, ["a", "b", {"a": address}], None
    yield COMPARE, ["a", "b"], file


def test_a_file_that_a_call_names_is_neither_opened_nor_copied(server, temporary, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("only the test's own")
    endless = tmp_path / "endless"
    os.mkfifo(endless)  # whoever opens it to read waits for ever
    for path in (mine, endless):
        for number, data, event in shapes(path):
            assert join(server, number, data, event_data=event).status_code == 400
            assert predict(server, OPEN, event_data=event or {"name": data}).status_code == 400
    time.sleep(1)
    assert is_well(server)
    assert not [path for path in temporary.rglob("*") if path.is_file()]


def test_an_address_that_a_call_names_is_not_asked(server):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(2)
        for number, data, event in shapes(f"http://127.0.0.1:{listening.getsockname()[1]}/a"):
            assert join(server, number, data, event_data=event).status_code == 400
        with pytest.raises(TimeoutError):
            listening.accept()


def test_gradio_too_refuses_files_that_nobody_uploaded(tiny, tmp_path):
    """The second wall, behind the gate."""
    mine = tmp_path / "mine.txt"
    mine.write_text("only the test's own")
    blocks = mount(FastAPI(), tiny, Limits(), lambda _: True, is_local=True)._page.get_blocks()
    file = {"path": str(mine), "meta": {"_type": "gradio.FileData"}}
    LocalContext.blocks.set(blocks)
    try:
        box = next(block for block in blocks.blocks.values() if block.get_block_name() == "textbox")
        with pytest.raises(InvalidPathError):
            asyncio.run(processing_utils.async_move_files_to_cache(file, box, check_in_upload_folder=True))
    finally:
        LocalContext.blocks.set(None)


def test_a_new_kind_of_input_must_be_declared():
    import gradio as gr

    with gr.Blocks() as blocks:
        gr.Button().click(print, inputs=[gr.Image()])
    with pytest.raises(TypeError, match=r"page/calls.py .* image"):
        Calls(blocks)
    with pytest.raises(NotOurs):
        Calls(gr.Blocks()).read(b"{}", is_queued=True)


# Who asks.


@pytest.mark.parametrize("path", ["/", "/config", "/theme.css", "/gradio_api/heartbeat/abc"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost:1@evil.example", "[::2]", ""])
def test_a_page_of_this_machine_has_no_other_name(server, path, host):
    """Otherwise a web page whose name is made to mean 127.0.0.1 could read and use it: DNS rebinding."""
    assert get(server, path, host) == 403


def test_a_call_under_another_name_is_refused_also_from_there(server):
    headers = {"host": "evil.example", "origin": "http://evil.example"}
    answer = server.post("/gradio_api/queue/join", call(COMPARE, ["a", "b"]), headers=headers)
    assert answer.status_code == 403
    assert "127.0.0.1 or localhost" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:1", "127.0.0.2:80"])
def test_the_names_of_this_machine_are_taken(server, host):
    assert get(server, "/", host) == 200


def test_with_keys_a_proxy_may_give_it_a_name(tmp_path):
    with running(tmp_path, "--page", environment={"SEN2PRO_API_KEYS": KEY}) as server:
        key = f"authorization: Bearer {KEY}\r\n"
        assert get(server, "/", "texts.example", key + "origin: https://texts.example\r\n") == 200
        assert get(server, "/", "texts.example", key + "origin: https://evil.example\r\n") == 403
        assert get(server, "/", "texts.example") == 401


@pytest.mark.parametrize("origin", ["http://[", "null", "", "http://[::1", "file://"])
def test_an_origin_that_makes_no_sense_is_another_one(server, origin):
    assert get(server, "/", "localhost", f"origin: {origin}\r\n") == 403


BAD_SESSIONS = ["", "\ud800", "a b", "a/b", "ä", "a" * 65, ["a"], {"a": 1}, None, 7, "a\n"]


@pytest.mark.parametrize("session", BAD_SESSIONS)
def test_a_session_that_no_browser_has_is_refused(server, session):
    before = len(whole_log(server))
    body = json.dumps(call(COMPARE, ["a", "b"], session))
    head = {"content-type": "application/json"}
    with server.client() as client:
        assert client.post("/gradio_api/queue/join", content=body, headers=head).status_code == 400
        quoted = "%ED%A0%80" if session == "\ud800" else str(session)
        if session not in (None, 7):  # in an address all is text
            params = "session_hash=" + (quoted if "%" in quoted else str(httpx.QueryParams({"a": quoted}))[2:])
            assert client.get(f"/gradio_api/queue/data?{params}").status_code == 400
            place = params.removeprefix("session_hash=").replace("+", "%20")
            assert client.get(f"/gradio_api/heartbeat/{place}").status_code in (400, 404)
    assert len(whole_log(server)) == before


@pytest.mark.parametrize("path", ["cancel", "reset"])
def test_nobody_can_end_what_others_have_begun(server, path):
    assert server.post(f"/gradio_api/{path}", {"session_hash": "a", "fn_index": 4, "event_id": "b"}).status_code == 404


# The log.


def test_the_log_holds_no_text_of_calls_that_go_wrong(server):
    join(server, COMPARE, [SECRET])
    join(server, COMPARE, [SECRET, SECRET, SECRET])
    join(server, MAP, [SECRET, SECRET])
    join(server, COMPARE, [{SECRET: 1}, [SECRET]])
    join(server, COMPARE, [SECRET, "\0"], "wrong")
    answers(server, "wrong")
    for name in ("a.csv", "a.jsonl", SECRET, "\0"):
        predict(server, OPEN, event_data={"name": name, "content": f'"{SECRET}\n[[{SECRET}', "problem": ""})
    found = whole_log(server)
    assert "secret" not in found
    assert "Traceback" not in found


def test_answers_that_are_not_there_leave_no_traceback(server):
    before = whole_log(server)
    assert answers(server, "nobody")[-1]["msg"] == "unexpected_error"
    assert "Traceback" not in whole_log(server).removeprefix(before)


# More than one's share.


def test_heartbeats_leave_room_for_others(server):
    head = "GET /gradio_api/heartbeat/h{} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    held = []
    try:
        for number in range(140):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            held[-1].sendall(head.format(number).encode())
        told = [connection.recv(12)[9:] for connection in held]
        assert told.count(b"200") == 128
        assert told.count(b"503") == 12
        assert len(server.post("/embed", {"inputs": "It rains."}).json()[0]) == 384
        assert join(server, COMPARE, ["", ""], "beside").status_code == 200
        assert answers(server, "beside")[-1]["msg"] == "close_stream"
    finally:
        for connection in held:
            connection.close()
    until = time.monotonic() + 30
    while get_stream(server) != b"200":  # those who have gone leave their places
        assert time.monotonic() < until
        time.sleep(0.2)


def get_stream(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET /gradio_api/heartbeat/last HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return connection.recv(12)[9:]


def test_who_does_not_read_may_not_ask_on(server):
    told = [join(server, COMPARE, ["", ""], "lazy").status_code for _ in range(20)]
    assert told == [200] * 8 + [429] * 12
    assert sum(message["msg"] == "process_completed" for message in answers(server, "lazy")) == 8
    assert join(server, COMPARE, ["", ""], "lazy").status_code == 200
    answers(server, "lazy")


def test_answers_of_many_who_do_not_read_are_dropped_oldest_first(server):
    assert all(join(server, COMPARE, ["", ""], f"lazy{number}").status_code == 200 for number in range(40))
    assert answers(server, "lazy0")[-1]["msg"] == "unexpected_error"
    assert answers(server, "lazy39")[-1]["msg"] == "close_stream"


def test_who_leaves_and_comes_back_is_not_shut_out(server):
    documents = "\n".join(f"Document {number} has some words." for number in range(200))
    for _ in range(12):
        assert join(server, SEARCH, [documents, "what?", None], "back").status_code == 200
        with server.client() as client:
            with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": "back"}) as stream:
                next(stream.iter_lines())
        time.sleep(0.3)


def test_slow_bodies_take_nobodys_place(server):
    head = b"POST /gradio_api/queue/join HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    held = []
    try:
        for _ in range(60):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            held[-1].sendall(head + b"content-length: 1000\r\n\r\n{")
        time.sleep(0.5)
        assert join(server, COMPARE, ["", ""], "quick").status_code == 200
        answers(server, "quick")
        assert held[0].recv(12)[9:] == b"408"
    finally:
        for connection in held:
            connection.close()


def test_bodies_that_do_not_end_fill_no_memory(server):
    """Forty visitors send all but the last byte: those for whom there is no room are told, and the rest wait."""
    body = b"a" * ((2 << 20) - 1)
    head = b"POST /gradio_api/queue/join HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    held = []
    try:
        for _ in range(40):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            held[-1].sendall(head + f"content-length: {len(body) + 1}\r\n\r\n".encode() + body)
        told = [connection.recv(12)[9:] for connection in held]
        assert set(told) == {b"408", b"503"}
        assert told.count(b"503") >= 8
    finally:
        for connection in held:
            connection.close()
    assert is_well(server)


# How long texts are kept.


@contextmanager
def serving(app):
    """Serve an application in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.05)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


def test_texts_are_forgotten_some_time_after_the_last_call(tiny):
    app = FastAPI()
    gate = mount(app, tiny, Limits(seconds=2), lambda _: True, is_local=True)
    states = gate._page.get_blocks().state_holder
    with serving(app) as url:
        held = call(MAP, [f"{SECRET}\nanother", "group"], "visitor")
        assert httpx.post(f"{url}/gradio_api/queue/join", json=held, trust_env=False).status_code == 200
        until = time.monotonic() + 30
        while "visitor" not in states.session_data or SECRET not in str(states["visitor"].config_values):
            assert time.monotonic() < until
            time.sleep(0.05)
        while states.session_data:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert not states.time_last_used
        while gate._page.get_blocks()._queue.pending_messages_per_session:  # answers that nobody read
            assert time.monotonic() < until
            time.sleep(0.1)
        gate.close()
