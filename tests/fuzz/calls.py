"""Bodies of calls to the server: each gets a right answer, or an error in its dialect that shows no path."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.mutations import rewritten, spelled, spoiled
from sen2pro import Sen2ProError

BODIES: dict[str, list[Any]] = {
    "/v1/embeddings": [{"input": ["the dog runs", "a cat"], "encoding_format": "float"}, {"input": [4, 5, 6]}],
    "/embed": [{"inputs": "the dog runs", "normalize": True, "truncate": True}, {"inputs": ["a", "b"]}],
    "/similarity": [{"inputs": {"source_sentence": "a dog", "sentences": ["a cat", "rain"]}, "parameters": {}}],
    "/tokenize": [{"inputs": ["the dog runs"], "add_special_tokens": False}],
    "/v1/distributions": [{"input": ["the dog runs", "a cat"], "model": "BertModel"}],
    "/v1/search": [{"queries": ["a dog"], "k": 2, "where": {"n": [1, 2]}, "precision": 0.9, "certainty": 0.9}],
    "/v1/classify": [{"input": ["the dog runs"]}],
}


@cache
def application() -> Any:
    """Return the application on the tiny model, with an index and a classifier, ready."""
    from sen2pro.search import Index
    from sen2pro.server.app import create_app
    from sen2pro.server.engine import Engine

    model = originals.tiny()
    index = Index.build(model, ["a dog", "a cat", "rain"], metadata=[{"n": n} for n in range(3)])
    classifier = originals.Sen2ProClassifier(model).fit(originals.TEXTS, originals.LABELS)
    app = create_app(Engine(model, index, classifier))
    for worker in app.state.service.workers:
        worker.start()
    app.state.service.phase = "ready"
    return app


async def post(path: str, body: bytes) -> tuple[int, bytes]:
    """Post a body to the application; return status and body of its answer."""
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http", "server": ("test", 80),
        "client": ("test", 1), "headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")],
    }  # fmt: skip
    await application()(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


class Calls(Family):
    """A body of one of the routes, with some of its values or bytes spoiled."""

    name, weight = "calls of the server", 10

    def make(self, rng: Random) -> Case:
        """Return a body and a path."""
        path = rng.choice(sorted(BODIES))
        body = rng.choice(BODIES[path])
        data = spelled(rewritten(body, rng), rng) if rng.random() < 0.7 else spoiled(json.dumps(body).encode(), rng)
        return Case(data, {"path": path})

    def run(self, case: Case, folder: Path) -> Any:
        """Post it; an error must be of the dialect, and an answer what the library gives."""
        path = case.options["path"]
        status, body = asyncio.run(post(path, case.data))
        answer = json.loads(body)
        if status != 200:
            if not 400 <= status < 500:
                raise Wrong(f"status {status}")
            if str(originals.place()) in body.decode() or "Traceback" in body.decode():
                raise Wrong("an error shows something of the server")
            message = answer["error"]["message"] if path.startswith("/v1") else answer["error"]
            raise Sen2ProError(message)
        if b"NaN" in body:
            raise Wrong("an answer holds NaN")
        if path == "/embed":
            asked = json.loads(case.data)
            texts = [asked["inputs"]] if isinstance(asked["inputs"], str) else asked["inputs"]
            if isinstance(texts[0], str) and not asked.get("prompt_name"):
                expected = originals.tiny().encode_plain(texts)
                if asked.get("normalize"):
                    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
                if np.abs(np.array(answer) - expected).max() > 1e-5:
                    raise Wrong("a vector is not that of the library")
        return None


FAMILIES = (Calls(),) if find_spec("fastapi") else ()
