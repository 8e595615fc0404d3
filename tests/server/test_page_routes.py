"""The routes of the page: explanations, maps, documents, examples, static files; and who may reach them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
import httpx
from labelled_texts import LABELS, TEXTS

import sen2pro
from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.search import Index
from sen2pro.search.index import MOST_HITS
from sen2pro.server import ApiKeys, Serving, schemas
from sen2pro.server.app import create_app
from sen2pro.server.engine import Engine
from sen2pro.server.routes import page

KEY = "correct-horse-battery-staple"
BASIC = "Basic " + base64.b64encode(f"anybody:{KEY}".encode()).decode()
TOPICS = {
    "rain": "Heavy rain fell all night. The rain stopped at noon. Rain and wind tomorrow. More rain to come.",
    "goal": "She scored a late goal. The goal came too late. A goal in extra time. His first goal this year.",
    "bank": "The bank raised its rates. My bank closed the account. A bank in London. The bank made a loss.",
}
DOCUMENTS = [
    "To reset your password, open Settings and choose Security.", "We ship to all of Europe within five days.",
    "Our office is in Lyon, next to the station.",
]  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return Sen2Pro(method="one-pass")


@pytest.fixture(scope="module")
def calls(model):
    """A function that sends requests to one application, in one event loop; the cache lives as long as the module."""
    app = create_app(Engine(model), page=True)
    loop = asyncio.new_event_loop()
    context = app.router.lifespan_context(app)
    loop.run_until_complete(context.__aenter__())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=60)

    async def send(method, path, **options):
        while app.state.service.phase != "ready":
            await asyncio.sleep(0.01)
        return await client.request(method, path, **options)

    def call(path, body=None, **options):
        return loop.run_until_complete(send("GET" if body is None else "POST", path, json=body, **options))

    call.service = app.state.service
    yield call
    loop.run_until_complete(context.__aexit__(None, None, None))
    loop.close()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A page of two files."""
    (tmp_path / "index.html").write_text("<title>sen2pro</title>")
    (tmp_path / "app.js").write_text("'use strict'")
    (tmp_path / "secret.py").write_text("")
    monkeypatch.setattr(page, "STATIC", tmp_path)
    return tmp_path


def test_explanations_are_those_of_the_library(calls, model):
    texts = ["The red house burned down.", "Fire!", "A man is playing a guitar."]
    rows = calls("/v1/explain", {"input": texts}).json()["data"]
    for row, text in zip(rows, texts, strict=True):
        ours = model.explain(text)
        assert row["words"] == list(ours.words)
        assert row["moves"] == pytest.approx(ours.moves.tolist(), abs=1e-5)
        assert row["share"] == pytest.approx(ours.share.tolist(), abs=1e-3)
    refused = calls("/v1/explain", {"input": ["a " * 201] * 2})
    assert refused.status_code == 413
    assert "400 words" in refused.json()["error"]["message"]


def test_a_map_names_its_groups_by_their_words(calls, model):
    texts = [f"{text}." for some in TOPICS.values() for text in some.rstrip(".").split(". ")]
    answer = calls("/v1/map", {"input": texts}).json()
    assert [row["index"] for row in answer["data"]] == list(range(12))
    assert [group["size"] for group in answer["groups"]] == [4, 4, 4]
    assert [row["group"] for row in answer["data"]] == [0] * 4 + [1] * 4 + [2] * 4
    assert all(word in group["name"].split(", ") for word, group in zip(TOPICS, answer["groups"], strict=True))
    assert [row["score"] for row in answer["data"]] == pytest.approx(model.specificity(texts).score.tolist(), abs=1e-3)
    points = np.array([[row["x"], row["y"]] for row in answer["data"]])
    assert np.abs(points.mean(axis=0)).max() < 1e-6
    assert all(row["rx"] >= row["ry"] > 0 for row in answer["data"])
    assert np.isclose([row["total"] for row in answer["data"]], model.encode(texts).total_variance).all()


def test_a_map_refuses_what_it_cannot_draw(calls):
    for texts in (["one"], ["one"] * 301, ["one", " "], "one", [1, 2]):
        assert calls("/v1/map", {"input": texts}).status_code in (400, 413), texts


def test_a_map_of_equal_or_wordless_texts_is_drawn_too(calls):
    for texts in (["It rains."] * 2, ["It rains."] * 8, ["雨が降る。", "お茶が好き。"], ["1", "2", "3"]):
        answer = calls("/v1/map", {"input": texts})
        assert answer.status_code == 200, texts
        assert all(group["name"] for group in answer.json()["groups"])
        assert "NaN" not in answer.text
        assert "null" not in answer.text


def test_documents_of_a_request_are_searched_like_an_index_and_encoded_once(calls, model):
    index = Index.build(model, DOCUMENTS)
    for query in ("how do I reset my password?", "who won the cup in 1998?"):
        row = calls("/v1/search", {"queries": query, "documents": DOCUMENTS, "k": 2}).json()["data"][0]
        ours = index.search(query, k=2).to_json()
        assert [hit["id"] for hit in row["hits"]] == [hit["id"] for hit in ours["hits"]]
        assert row["answer"] == ours["answer"]
        assert row["hits"][0]["probability"] == pytest.approx(ours["hits"][0]["probability"], abs=1e-5)
    again = calls("/v1/search", {"queries": "x", "documents": DOCUMENTS}).json()
    assert again["usage"]["total_tokens"] == len(model.encoder.tokenize(["x"]).ids[0])
    assert calls("/v1/search", {"queries": "x", "documents": DOCUMENTS[::-1]}).json()["usage"]["total_tokens"] > 20


def test_a_search_that_ran_out_of_time_goes_on_when_it_is_repeated(calls, monkeypatch):
    texts = [f"Paragraph {number} of a long text about the weather in the north." for number in range(100)]
    body = {"queries": "weather", "documents": texts}
    with monkeypatch.context() as patch:
        patch.setattr(calls.service.batcher, "budget", 64)
        object.__setattr__(calls.service.serving, "time_limit", 0.5)
        status, tries = 504, 0
        while status == 504:
            answer = calls("/v1/search", body)
            status, tries = answer.status_code, tries + 1
            assert tries < 100
    object.__setattr__(calls.service.serving, "time_limit", 60.0)
    assert status == 200
    assert calls("/v1/search", {**body, "k": 200}).json()["data"][0]["hits"][99]


def test_examples_of_a_request_train_a_classifier_once(calls, model):
    body = {"input": TEXTS[:3], "examples": [{"text": t, "label": str(n)} for t, n in zip(TEXTS, LABELS, strict=True)]}
    first, again = calls("/v1/classify", body).json(), calls("/v1/classify", body).json()
    assert first["data"] == again["data"]
    assert again["usage"]["total_tokens"] < first["usage"]["total_tokens"]
    ours = Sen2ProClassifier(model, features="mean", head="expected").fit(TEXTS, [str(label) for label in LABELS])
    assert [row["label"] for row in first["data"]] == ours.predict(TEXTS[:3]).tolist()
    rows = [list(row["probabilities"].values()) for row in first["data"]]
    assert np.abs(np.array(rows) - ours.predict_proba(TEXTS[:3])).max() < 1e-4


def test_wrong_examples_and_documents_are_refused(calls):
    for examples, status in (
        ([], 400), ([{"text": "a", "label": "x"}], 400), ([{"text": "a", "label": ""}], 400),
        ([{"text": "a", "label": "x" * 61}], 400), ([{"text": " ", "label": "x"}] * 2, 400),
        ([{"text": f"a {n}", "label": str(n)} for n in range(21)], 413),
        ([{"text": f"a {n}", "label": str(n % 2)} for n in range(201)], 413),
    ):  # fmt: skip
        answer = calls("/v1/classify", {"input": "a", "examples": examples})
        assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True)
    for documents, status in (([], 400), (["a"] * 2001, 413), (["a" * 50_001], 413), ([""], 400), (None, 501)):
        assert calls("/v1/search", {"queries": "x", "documents": documents}).status_code == status


def test_the_caches_are_bounded(calls):
    for number in range(40):
        calls("/v1/search", {"queries": "x", "documents": [f"number {number}"]})
    assert len(calls.service.indexes) == 32


def test_the_limit_of_hits_is_that_of_the_library():
    field = schemas.SearchRequest.model_json_schema()["properties"]["k"]
    assert (field["maximum"], field["default"]) == (MOST_HITS, 5)


# The page and its files.


def test_the_page_may_load_nothing_from_elsewhere(calls, files):
    answer = calls("/")
    assert answer.text == "<title>sen2pro</title>"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    script = calls("/static/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["content-security-policy"] == answer.headers["content-security-policy"]
    assert len(calls("/", {"inputs": "It rains."}).json()[0]) == 384  # as text-embeddings-inference has it


def test_static_files_lead_to_no_other_file(calls, files):
    for name in ("", "nothing.js", "secret.py", "../app.py", "..%2fapp.py", "%2e%2e/%2e%2e/app.py", "/etc/passwd"):
        answer = calls(f"/static/{name}")
        assert answer.status_code == 404
        assert str(files) not in answer.text


def responses(app, *requests):
    """Send requests (method, path, headers) to an application that is not started."""

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [await client.request(method, path, headers=headers) for method, path, headers in requests]

    return asyncio.run(run())


def test_without_page_there_is_none(model):
    found = responses(create_app(Engine(model)), ("GET", "/", {}), ("GET", "/static/app.js", {}))
    assert [each.status_code for each in found] == [405, 404]


def test_with_keys_the_browser_asks_for_one_and_sends_it_as_a_password(model, files):
    app = create_app(Engine(model), keys=ApiKeys([KEY]), page=True)
    for path in ("/", "/static/app.js"):
        (refused,) = responses(app, ("GET", path, {}))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
    headers = [{"authorization": value} for value in (BASIC, f"Bearer {KEY}", BASIC[:-6] + "aaaa==", "Basic ???")]
    found = responses(app, *(("GET", path, each) for path in ("/", "/info") for each in headers))
    assert [each.status_code for each in found] == [200, 200, 401, 401] * 2


def test_a_web_page_cannot_reach_a_local_server_by_another_name(model, files):
    """DNS rebinding: the page's own name gets the address of this machine, so the browser sees one origin."""
    app = create_app(Engine(model), page=True)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]"):
        paths = ("GET", "/"), ("POST", "/v1/search"), ("GET", "/metrics"), ("GET", "/openapi.json")
        assert {each.status_code for each in responses(app, *((*path, {"host": host}) for path in paths))} == {400}
    for name in ("localhost:8080", "127.0.0.1", "[::1]:80"):
        assert responses(app, ("GET", "/v1/models", {"host": name}))[0].status_code == 200


def test_a_web_page_of_another_origin_cannot_post(calls):
    """A browser sends only these kinds of content without asking first, and asking first is refused."""
    body, origin = json.dumps({"input": "It rains."}), {"origin": "https://evil.example", "sec-fetch-mode": "no-cors"}
    others = "text/plain application/x-www-form-urlencoded multipart/form-data text/plain;application/json"
    for kind in others.split():
        answer = calls("/v1/embeddings", {}, headers={**origin, "content-type": kind})
        assert answer.status_code == 415, body
    app = create_app(Engine(calls.service.engine.model), page=True)
    asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    (answer,) = responses(app, ("OPTIONS", "/v1/embeddings", asked))
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_other_names_are_the_operators_choice(model):
    for serving, keys, host, status in (
        (Serving(allowed_host=["sen2pro.example"]), None, "sen2pro.example", 200),
        (Serving(allowed_host=["sen2pro.example"]), None, "localhost", 400),
        (Serving(host="0.0.0.0"), None, "anything.example", 200), (Serving(), ApiKeys([KEY]), "anything.example", 401),
    ):  # fmt: skip
        app = create_app(Engine(model), serving, keys)
        assert responses(app, ("GET", "/v1/models", {"host": host}))[0].status_code == status


@pytest.mark.slow
def test_the_command_says_at_once_what_it_does_and_stops_with_0():
    environment = {**os.environ, "PYTHONPATH": str(Path(sen2pro.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "sen2pro", "page", "--no-open", "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr.readline() == "Loading the model all-MiniLM-L6-v2 ...\n"
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())[0]
        assert httpx.get(f"{address}/health", trust_env=False).status_code == 200
        with httpx.Client(trust_env=False) as client:
            assert client.get(f"{address}/health").status_code == 200  # its connection stays open
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        assert process.stderr.read().split() == ["stopped"]  # no log of JSON for a person, and no traceback
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
