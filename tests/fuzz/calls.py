"""Bodies of calls to the server: each gets a right answer, or an error in its dialect that shows no path."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz import originals
from fuzz.engine import Case, Family, Wrong
from fuzz.strategies import Draw, chance, odd_json, spoiled
from sen2pro import Sen2ProError

BODIES: dict[str, list[Any]] = {
    "/v1/embeddings": [{"input": ["the dog runs", "a cat"], "encoding_format": "float"}, {"input": [4, 5, 6]}],
    "/embed": [{"inputs": "the dog runs", "normalize": True, "truncate": True}, {"inputs": ["a", "b"]}],
    "/similarity": [{"inputs": {"source_sentence": "a dog", "sentences": ["a cat", "rain"]}, "parameters": {}}],
    "/tokenize": [{"inputs": ["the dog runs"], "add_special_tokens": False}],
    "/v1/distributions": [{"input": ["the dog runs", "a cat"], "model": "BertModel"}],
    "/v1/search": [
        {"queries": ["a dog"], "k": 2, "where": {"n": [1, 2]}},
        {"queries": ["a dog"], "precision": 0.9, "certainty": 0.9},
    ],
    "/v1/classify": [{"input": ["the dog runs"]}],
}


@cache
def client() -> Any:
    """Return a client of the application on the tiny model, with an index and a classifier, ready."""
    from starlette.testclient import TestClient

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
    return TestClient(app, "http://127.0.0.1")


@st.composite
def calls(draw: Draw) -> Case:
    """Give a body of one of the routes, with some of its values or bytes spoiled."""
    client()  # it is made before the time of a case is taken
    path = draw(st.sampled_from(sorted(BODIES)))
    body = draw(st.sampled_from(BODIES[path]))
    return Case(path=path, data=draw(odd_json(body) if draw(chance(7)) else spoiled(json.dumps(body).encode())))


def post(case: Case, folder: Path) -> None:
    """Post a body; an error must be of the dialect, and an answer what the library gives."""
    answer = client().post(case.path, content=case.data, headers={"content-type": "application/json"})
    body = answer.json()
    if answer.status_code != 200:
        if not 400 <= answer.status_code < 500:
            raise Wrong(f"status {answer.status_code}")
        if str(originals.place()) in answer.text or "Traceback" in answer.text:
            raise Wrong("an error shows something of the server")
        raise Sen2ProError(body["error"]["message"] if case.path.startswith("/v1") else body["error"])
    if "NaN" in answer.text:
        raise Wrong("an answer holds NaN")
    if case.path == "/embed":
        asked = json.loads(case.data)
        texts = [asked["inputs"]] if isinstance(asked["inputs"], str) else asked["inputs"]
        if isinstance(texts[0], str) and not asked.get("prompt_name"):
            expected = originals.tiny().encode_plain(texts)
            if asked.get("normalize"):
                expected /= np.linalg.norm(expected, axis=1, keepdims=True)
            if np.abs(np.array(body) - expected).max() > 1e-5:
                raise Wrong("a vector is not that of the library")


FAMILIES = (Family("calls of the server", 10, calls(), post),) if find_spec("fastapi") else ()
