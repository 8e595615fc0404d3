"""The application, called as ASGI with a real model: what runs where, for whom, and how often."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled_texts import LABELS, TEXTS

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.encoder.encoder import Encoder
from sen2pro.search import Index
from sen2pro.server import ApiKeys, Serving, requests
from sen2pro.server.app import create_app
from sen2pro.server.engine import Engine
from sen2pro.server.http_errors import RequestError
from sen2pro.server.routes import own

pytestmark = pytest.mark.anyio
LONG = "the man plays the guitar " * 100
FITS = "the man plays the guitar " * 40  # into the network
MANY = 5000


class NotingEngine(Engine):
    """An engine that notes which thread does what and how many texts, and can be held up."""

    def __init__(self, model, *more):
        super().__init__(model, *more)
        self.threads, self.texts, self.go = {}, Counter(), threading.Event()
        self.go.set()

    def _note(self, what, texts):
        self.threads.setdefault(what, set()).add(threading.current_thread().name)
        self.texts[what] += len(texts)

    def decode(self, given):
        self._note("decode", given)
        self.go.wait(30)
        return super().decode(given)

    def tokenize(self, texts, prompt=""):
        self._note("tokenize", texts)
        return super().tokenize(texts, prompt)

    def list_tokens(self, texts, special):
        self._note("list_tokens", texts)
        return super().list_tokens(texts, special)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def model():
    return Sen2Pro(method="one-pass")


@pytest.fixture
def app(model):
    return create_app(NotingEngine(model))


async def ask(app, path, body=None, receive=None, more=(), method="POST"):
    """Send a request; return status and body of the response. The list `more` has what the server is to read."""
    sent = []
    messages = more or [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def next_message():
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive or next_message, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@asynccontextmanager
async def serving(app):
    """Run the application; give its service."""
    async with app.router.lifespan_context(app):
        service = app.state.service
        while service.phase != "ready":
            await asyncio.sleep(0.01)
        if isinstance(service.engine, NotingEngine):
            service.engine.threads.clear()
            service.engine.texts.clear()
        yield service


async def test_long_texts_and_token_ids_are_worked_on_beside_the_event_loop(app, model):
    async with serving(app) as service:
        ids = [model.encoder.tokenize([LONG]).ids[0][:200]] * 60
        assert (await ask(app, "/v1/embeddings", {"input": ids}))[0] == 200
        status, body = await ask(app, "/tokenize", {"inputs": [LONG] * 8})
        assert (status, [len(row) for row in json.loads(body)]) == (200, [502] * 8)
        # Each word takes a copy of the text: 400 words of 120 letters would be 20 MB to tokenize.
        status, body = await ask(app, "/v1/explain", {"input": " ".join(["x" * 120] * 400)})
        assert (status, "20000 characters in sum" in json.loads(body)["error"]["message"]) == (413, True)
        assert (await ask(app, "/v1/explain", {"input": " ".join(["y" * 400] * 30)}))[0] == 200
        assert set(service.engine.threads) == {"decode", "tokenize", "list_tokens"}
        assert all(name.startswith("sen2pro-tokens") for each in service.engine.threads.values() for name in each)


PARTNERS = [f"sentence {n}" for n in range(10)]
EXAMPLES = [{"text": text, "label": str(label)} for text, label in zip(TEXTS, LABELS, strict=True)]


BODIES = {
    "/v1/embeddings": lambda texts: {"input": texts}, "/embed": lambda texts: {"inputs": texts},
    "/v1/distributions": lambda texts: {"input": texts}, "/v1/specificity": lambda texts: {"input": texts},
    "/v1/compare": lambda texts: {"first": texts, "second": PARTNERS[: len(texts)]},
    "/v1/map": lambda texts: {"input": [*texts, TEXTS[0]]},
    "/v1/search": lambda texts: {"queries": texts, "documents": TEXTS},
    "/v1/classify": lambda texts: {"input": texts, "examples": EXAMPLES},
}  # fmt: skip


async def test_each_text_of_a_request_is_tokenized_once(app, monkeypatch):
    tokenize, seen = Encoder.tokenize, Counter()

    def counted(self, texts, prompt=""):
        seen.update(texts)
        return tokenize(self, texts, prompt)

    async with serving(app):
        monkeypatch.setattr(Encoder, "tokenize", counted)
        for texts in (["It rains."], [f"{FITS} {n}" for n in range(4)]):  # in the event loop, and in a thread
            for path, body in BODIES.items():
                seen.clear()
                assert (await ask(app, path, body(texts)))[0] == 200, path
                assert set(texts) <= set(seen) <= {*texts, *PARTNERS, *TEXTS}, path
                assert set(seen.values()) == {1}, path


async def test_an_explanation_of_many_copies_is_given_up_at_its_deadline(model, monkeypatch):
    app = create_app(NotingEngine(model), Serving(time_limit=0.3))
    slow = Encoder.tokenize
    async with serving(app) as service:
        monkeypatch.setattr(Encoder, "tokenize", lambda *texts: time.sleep(0.02) or slow(*texts))
        status, _ = await ask(app, "/v1/explain", {"input": " ".join(["y" * 90] * 200)})
        done = service.engine.texts["tokenize"]
        await asyncio.sleep(0.1)
        assert status == 504
        assert service.engine.texts["tokenize"] - done <= 1  # the part that ran


async def test_a_client_that_goes_away_while_its_texts_are_tokenized_is_not_worked_for(app):
    async with serving(app) as service:
        submitted, submit = [], service.batcher.submit
        service.batcher.submit = lambda *arguments: submitted.append(arguments) or submit(*arguments)
        service.engine.go.clear()
        body = [{"type": "http.request", "body": json.dumps({"input": [LONG] * 20}).encode(), "more_body": False}]

        async def receive():  # the connection is lost while the first texts are worked on
            if body:
                return body.pop()
            if "decode" not in service.engine.threads:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        asked = asyncio.create_task(ask(app, "/v1/embeddings", receive=receive))
        while "decode" not in service.engine.threads:
            await asyncio.sleep(0.01)
        service.engine.go.set()
        await asked
        assert submitted == []
        assert "tokenize" not in service.engine.threads


async def test_limits_of_responses(model, monkeypatch):
    """Of the texts of /tokenize, of hits, of the characters of hits, and of the probabilities of classes."""
    index = Index.build(model, ["It rains.", "I like tea."])
    app = create_app(Engine(model, index, Sen2ProClassifier(model).fit(TEXTS, LABELS)))
    monkeypatch.setattr(own, "_MOST_CHARACTERS", 100)
    monkeypatch.setattr(own, "_MOST_PROBABILITIES", 3 * len(set(LABELS)))
    async with serving(app):
        for path, body, message in (
            ("/tokenize", {"inputs": ["a " * 10_000] * 51}, "1000000 characters in sum"),
            ("/v1/search", {"queries": ["rain"] * 3, "k": 10_000}, None),
            ("/v1/search", {"queries": ["rain"] * 11, "k": 10_000}, "100000 hits"),
            ("/v1/search", {"queries": ["rain"] * 5}, None),
            ("/v1/search", {"queries": ["rain"] * 6}, "100 characters"),
            ("/v1/classify", {"input": ["rain"] * 3}, None),
            ("/v1/classify", {"input": ["rain"] * 4}, "3 texts, not 4"),
        ):
            status, answer = await ask(app, path, body)
            assert (status, (message or "").encode() in answer) == (413 if message else 200, True), (path, answer)


@pytest.mark.parametrize("body", [{"input": [LONG] * 20}, {"input": "a " * 20_000, "user": "a" * (300 << 10)}])
async def test_a_request_that_waits_for_its_tokens_is_given_up_at_its_deadline(model, body):
    """Another request holds up the thread that tokenizes until both have been answered."""
    app = create_app(NotingEngine(model), Serving(time_limit=0.5))
    async with serving(app) as service:
        service.engine.go.clear()
        first = asyncio.create_task(ask(app, "/v1/embeddings", {"input": [LONG] * 20}))
        while "decode" not in service.engine.threads:
            await asyncio.sleep(0.01)
        try:
            second = await asyncio.wait_for(ask(app, "/v1/embeddings", body), 20)
            assert [(await first)[0], second[0]] == [504, 504]
        finally:
            service.engine.go.set()


@given(st.lists(st.text('",:[]{}\\a'), min_size=2, max_size=30))
def test_only_values_outside_of_texts_are_counted(texts):
    body = json.dumps({"input": texts}).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "MOST_PARTS", 0)
        patch.setattr(requests, "MOST_VALUES", len(texts))
        requests.check_amount(body, 3)  # the object, its field and its list
        with pytest.raises(RequestError, match="2 lists and fields, not 3"):
            requests.check_amount(body, 2)
        patch.setattr(requests, "MOST_VALUES", len(texts) - 1)
        with pytest.raises(RequestError, match=f"{len(texts) - 1} values, not {len(texts)}"):
            requests.check_amount(body, 3)


async def test_bodies_of_all_requests_together_are_limited(app):
    async with serving(app) as service:
        service.most_bytes_in_flight = service.serving.body_bytes
        half = {"type": "http.request", "body": b" " * (service.serving.body_bytes // 2 + 1), "more_body": True}
        first = asyncio.create_task(ask(app, "/embed", more=[half]))
        while not service.bytes_in_flight:
            await asyncio.sleep(0.01)
        assert (await ask(app, "/embed", more=[half, {**half, "body": b"", "more_body": False}]))[0] == 429
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert service.bytes_in_flight == 0
        assert (await ask(app, "/embed", {"inputs": "a"}))[0] == 200


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_refused_body_is_read_on_for_a_moment_so_that_the_client_sees_why(model, monkeypatch, is_whole):
    monkeypatch.setattr(requests, "_PATIENCE", 5 if is_whole else 0.05)
    app = create_app(Engine(model), keys=ApiKeys(["a-key-0123456789abcdef"]))
    parts = [{"type": "http.request", "body": b" " * 1000, "more_body": not is_whole or n < 4} for n in range(5)]
    assert (await ask(app, "/embed", more=parts))[0] == 401
    assert parts == []


async def test_a_body_that_does_not_arrive_in_time_gives_its_bytes_back(model):
    app = create_app(Engine(model), Serving(time_limit=0.2))
    async with serving(app) as service:
        more = [{"type": "http.request", "body": b"{", "more_body": True}]
        assert (await ask(app, "/embed", more=more))[0] == 408
        assert service.bytes_in_flight == 0


async def test_a_body_with_many_errors_is_refused_with_one_short_sentence(app):
    async with serving(app):
        for path, body in (
            ("/v1/embeddings", {"input": [*[1] * MANY, ""]}), ("/v1/embeddings", {"input": [-1] * MANY}),
            ("/v1/embeddings", {"input": [[-1] * MANY] * 3}), ("/v1/embeddings", {"input": [[""]] * MANY}),
            ("/embed", {"inputs": [None] * MANY}), ("/v1/compare", {"first": [1] * MANY, "second": "a"}),
            ("/similarity", {"inputs": {"source_sentence": "a", "sentences": [1] * MANY}}),
            ("/v1/search", {"queries": [1] * MANY}), ("/v1/search", {"queries": "a", "documents": [1] * MANY}),
            ("/v1/classify", {"input": "a", "examples": [{str(n): n for n in range(MANY)}] * 3}),
            ("/v1/compare", {f"field {n}": n for n in range(MANY)}),
        ):  # fmt: skip
            status, answer = await ask(app, path, body)
            assert 400 <= status < 500
            assert len(answer) < 300


async def test_middleware_sees_every_request_and_a_removed_route_is_gone(model):
    seen, app = [], create_app(Engine(model))

    class Watch:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append(scope.get("path"))
            await self.app(scope, receive, send)

    app.add_middleware(Watch)
    async with serving(app):
        paths = ("/embed", "/nowhere", "/health")
        assert [(await ask(app, path, {"inputs": "It rains."}))[0] for path in paths] == [200, 404, 405]
    assert seen[-3:] == ["/embed", "/nowhere", "/health"]
