"""What the server does outside its event loop, and for whom: the application, called as ASGI, with a real model."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from labelled_texts import LABELS, TEXTS

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")

from sen2pro import Sen2Pro
from sen2pro.classification import Sen2ProClassifier
from sen2pro.search import Index
from sen2pro.server import Keys, Serving, doors, own_routes
from sen2pro.server import state as server_state
from sen2pro.server.app import create_app
from sen2pro.server.batching import FAREWELLS
from sen2pro.server.engine import Engine

LONG = "the man plays the guitar " * 100


class Noting(Engine):
    """An engine that notes which thread does what, and can be held up."""

    def __init__(self, model):
        super().__init__(model)
        self.threads, self.go = {}, threading.Event()
        self.go.set()

    def _note(self, what):
        self.threads.setdefault(what, set()).add(threading.current_thread().name)

    def written(self, given):
        self._note("written")
        self.go.wait(30)
        return super().written(given)

    def checked(self, texts):
        self._note("checked")
        return super().checked(texts)

    def tokenized(self, texts, special):
        self._note("tokenized")
        return super().tokenized(texts, special)


@pytest.fixture(scope="module")
def model():
    return Sen2Pro(method="one-pass")


@pytest.fixture
def app(model):
    return create_app(Noting(model))


async def ask(app, path, body, farewells=None, more=()):
    """Call a route; return status and body of its answer. What the server reads is taken from the list `more`."""
    sent = []
    messages = more or [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive():
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "root_path": "", "scheme": "http", "http_version": "1.1",
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "extensions": {} if farewells is None else {FAREWELLS: farewells},
    }  # fmt: skip
    await app(scope, receive, send)
    return (sent[0]["status"], sent[1]["body"]) if sent else None


def served(app, use):
    """Run the application while `use(state)` does something with it."""

    async def run():
        async with app.router.lifespan_context(app):
            state = app.state.server
            while state.phase != "ready":
                await asyncio.sleep(0.01)
            return await use(state)

    return asyncio.run(run())


def test_long_texts_and_token_ids_are_worked_on_beside_the_event_loop(app, model):
    async def use(state):
        ids = [model.encoder.tokens([LONG])[0][:200]] * 60
        assert (await ask(app, "/v1/embeddings", {"input": ids}))[0] == 200
        status, body = await ask(app, "/tokenize", {"inputs": [LONG] * 8})
        assert status == 200
        assert [len(row) for row in json.loads(body)] == [502] * 8
        return state.engine.threads

    threads = served(app, use)
    assert set(threads) == {"written", "checked", "tokenized"}
    assert all(name.startswith("sen2pro-tokens") for names in threads.values() for name in names)


def test_the_answer_of_tokenize_is_limited_by_the_characters_of_the_call(app):
    async def use(state):
        return await ask(app, "/tokenize", {"inputs": ["a " * 10_000] * 51})

    status, body = served(app, use)
    assert status == 413
    assert "1000000 characters in sum" in json.loads(body)["error"]


def test_a_client_that_goes_while_its_tokens_are_found_is_not_worked_for(app):
    async def use(state):
        submitted, submit = [], state.batcher.submit
        state.batcher.submit = lambda *arguments: submitted.append(arguments) or submit(*arguments)
        farewells = set()
        state.engine.go.clear()
        asked = asyncio.create_task(ask(app, "/v1/embeddings", {"input": [LONG] * 20}, farewells))
        while "written" not in state.engine.threads:
            await asyncio.sleep(0.01)
        for farewell in list(farewells):  # the connection is lost
            farewell()
        state.engine.go.set()
        assert await asked is None
        assert submitted == []
        assert farewells == set()

    served(app, use)


def test_a_search_for_very_many_hits_is_refused(model):
    app = create_app(Engine(model, Index.build(model, ["It rains.", "I like tea."])))

    async def use(state):
        assert (await ask(app, "/v1/search", {"queries": ["rain"] * 3, "k": 10_000}))[0] == 200
        return await ask(app, "/v1/search", {"queries": ["rain"] * 11, "k": 10_000})

    status, body = served(app, use)
    assert status == 413
    assert "100000 hits" in json.loads(body)["error"]["message"]


def test_the_texts_of_hits_and_the_probabilities_of_classes_are_limited(model, monkeypatch):
    index = Index.build(model, ["It rains.", "I like tea."])
    classifier = Sen2ProClassifier(model).fit(TEXTS, LABELS)
    app = create_app(Engine(model, index, classifier))
    monkeypatch.setattr(own_routes, "_MOST_LETTERS", 100)
    monkeypatch.setattr(own_routes, "_MOST_SHARES", 3 * len(set(LABELS)))

    async def use(state):
        return [
            await ask(app, *call)
            for call in (
                ("/v1/search", {"queries": ["rain"] * 5}), ("/v1/search", {"queries": ["rain"] * 6}),
                ("/v1/classify", {"input": ["rain"] * 3}), ("/v1/classify", {"input": ["rain"] * 4}),
            )
        ]  # fmt: skip

    answers = served(app, use)
    assert [status for status, _ in answers] == [200, 413, 200, 413]
    assert "the hits of a call may have 100 characters" in json.loads(answers[1][1])["error"]["message"]
    assert "a call may have 3 texts, not 4" in json.loads(answers[3][1])["error"]["message"]


@pytest.mark.parametrize("body", [{"input": [LONG] * 20}, {"input": "a " * 20_000, "user": "a" * (300 << 10)}])
def test_a_call_that_waits_for_its_tokens_is_given_up_when_its_time_is_up(model, body):
    """The thread that finds tokens is held up by another call until both have been answered."""
    app = create_app(Noting(model), Serving(time_limit=0.5))

    async def use(state):
        state.engine.go.clear()
        first = asyncio.create_task(ask(app, "/v1/embeddings", {"input": [LONG] * 20}))
        while "written" not in state.engine.threads:
            await asyncio.sleep(0.01)
        try:
            second = await asyncio.wait_for(ask(app, "/v1/embeddings", body), 20)
            return await first, second
        finally:
            state.engine.go.set()

    assert [status for status, _ in served(app, use)] == [504, 504]


def test_bodies_of_all_calls_together_are_limited(app, monkeypatch):
    monkeypatch.setattr(server_state, "_MOST_IN_HAND", 0)  # then one body of the largest size may be in hand

    async def use(state):
        half = {"type": "http.request", "body": b" " * (state.serving.body_bytes // 2 + 1), "more_body": True}
        first = asyncio.create_task(ask(app, "/embed", None, more=[half]))
        while not state._in_hand:
            await asyncio.sleep(0.01)
        second = await ask(app, "/embed", None, more=[half, {**half, "body": b"", "more_body": False}])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert state._in_hand == 0
        return second, await ask(app, "/embed", {"inputs": "a"})

    (refused, _), (status, _) = served(app, use)
    assert refused == 429
    assert status == 200


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_refused_call_is_read_on_for_a_moment_so_that_its_client_sees_why(model, monkeypatch, is_whole):
    monkeypatch.setattr(doors, "_PATIENCE", 5 if is_whole else 0.05)
    app = create_app(Noting(model), keys=Keys(["a-key-0123456789abcdef"]))
    parts = [{"type": "http.request", "body": b" " * 1000, "more_body": not is_whole or n < 4} for n in range(5)]

    async def use(state):
        return await ask(app, "/embed", None, more=parts)

    assert served(app, use)[0] == 401
    assert parts == []


def test_middleware_that_is_added_to_the_application_sees_every_call(model):
    seen = []

    class Watch:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append(scope.get("path"))
            await self.app(scope, receive, send)

    def statuses(app):
        async def use(state):
            return [(await ask(app, path, {"inputs": "It rains."}))[0] for path in ("/embed", "/nowhere", "/health")]

        return served(app, use)

    plain, watched = create_app(Noting(model)), create_app(Noting(model))
    watched.add_middleware(Watch)
    assert statuses(plain) == statuses(watched) == [200, 404, 405]
    assert seen == ["/embed", "/nowhere", "/health"]


def test_who_wraps_the_layers_of_the_application_sees_every_call(model):
    """As tools for tracing do."""
    app, seen = create_app(Noting(model)), []
    build = app.build_middleware_stack

    def wrapped():
        layers = build()

        async def watch(scope, receive, send):
            seen.append(scope.get("path"))
            await layers(scope, receive, send)

        return watch

    app.build_middleware_stack = wrapped

    async def use(state):
        return [(await ask(app, path, {"inputs": "It rains."}))[0] for path in ("/embed", "/nowhere")]

    assert served(app, use) == [200, 404]
    assert seen == ["/embed", "/nowhere"]


def test_a_route_that_is_taken_out_is_gone(model):
    app = create_app(Noting(model))
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != "/embed"]

    async def use(state):
        return (await ask(app, "/embed", {"inputs": "It rains."}))[0]

    assert served(app, use) == 404
